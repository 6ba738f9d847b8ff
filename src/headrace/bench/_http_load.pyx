"""The HTTP side of a load run: each connection of a plan is one lane that sends prepared bytes and checks every answer.

Strategy: requests are put together once; a call copies them, patches its id in and sends them on the socket itself,
beside the transport (whatever the socket does not take at once goes through the transport). Answers are parsed where
they arrive: head, chunks, events and the JSON-RPC envelope as spans, without a Python object each. Ids have a fixed
width, so that Content-Length is a constant. An answer is right only when status, content type, framing, JSON, id,
`isError` and the expected text are.

A server that ends a connection costs its call (`closed`) unless the connection had been silent for a while, when the
request may have met the end halfway: it goes out once more. Connections that end between calls are only counted.
"""

import asyncio
import ssl as tls

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from headrace._version import __version__
from headrace.errors import HeadraceError
from headrace.limits import DEFAULT

from headrace.bench._load cimport LOAD_RUNNING, Lane, Load, now_ns
from headrace.bench._tally cimport Tally
from headrace.wire._chttp cimport *
from headrace.wire._cjson cimport *
from headrace.wire._http1 cimport head_limits, json_type, sse_type
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer

from headrace.transports.address import why_not_connected
from headrace.wire._http1 import header_line

__all__ = ("HttpSide", "fault_of")

include "_http_check.pxi"
include "_result_check.pxi"

cdef enum:
    ID_WIDTH = 10
    EXCERPT = 4096           # bytes kept of a body that is only quoted
    IGNORE = 64 * 1024       # bytes read of a body nobody wants, to keep its connection
    MAX_INTERIM = 32         # 1xx heads before an answer
    # of a lane
    IDLE = 0
    CONNECTING = 1
    WAITING = 2              # a request is out
    TAIL = 3                 # the answer came, its event stream has not ended
    HELD = 4                 # an acknowledged listen
    # of reading
    AT_HEAD = 0
    AT_LENGTH = 1
    AT_CHUNKS = 2
    AT_CLOSE = 3
    # what the body is
    BODY_JSON = 0
    BODY_EVENTS = 1
    BODY_REFUSED = 2         # of a status that is no answer: quoted
    BODY_IGNORED = 3
    # what a step waits for
    A_RESULT = 0
    A_STREAM = 1
    A_ACCEPTED = 2
    A_ENDED = 3
    A_LISTEN = 4

cdef unsigned int DEPTH = <unsigned int>DEFAULT.max_depth
cdef int64_t FIRST_ID = 1_000_000_000
cdef int64_t SILENCE = 500_000_000       # ns; after it a server may be closing the connection as we send
cdef int64_t TAIL_TIME = 250_000_000     # ns; that an event stream may go on after its answer
cdef int64_t GIVE_UP = 5_000_000_000     # ns; without a connection (or the plan's timeout, if that is longer)
cdef double RETRY = 0.05                 # s; between two attempts to connect
cdef double ENDING = 1.0                 # s; that a server gets to end the sessions of a run
cdef dict ANSWERS = {"result": A_RESULT, "stream": A_STREAM, "accepted": A_ACCEPTED, "ended": A_ENDED,
                     "listen": A_LISTEN}

include "_http_shot.pxi"
include "_http_lane.pxi"


def fault_of(bytes text not None, bytes expects=None, bytes member=None):
    """What a load run would find wrong with the result object in ``text``: a kind of error, or None when it is right.

    ``expects`` is text that it must hold, as this server writes it in JSON; ``member`` a list that it must have.
    Raises ValueError when ``text`` is no JSON object.
    """
    cdef hr_token result
    cdef const char *p = PyBytes_AS_STRING(text)
    cdef const char *e = p + PyBytes_GET_SIZE(text)
    p = hr_json_ws(p, e)
    if p == e or p[0] != c'{' or hr_json_skip(p, e, 0, DEPTH, &result) != HR_OK:
        raise ValueError("no JSON object")
    return result_fault(&result, DEPTH, expects, member)


@cython.final
cdef class HttpLink:
    """The protocol of one socket. What comes after its lane let it go is nobody's."""

    def connection_made(self, transport):
        self.transport = transport
        self.fd = -1
        if self.lane is None:
            transport.abort()
            return
        sock = transport.get_extra_info("socket")
        if sock is not None and transport.get_extra_info("sslcontext") is None:
            self.fd = sock.fileno()
        self.lane.link = self
        try:
            self.lane.connected()
        except Exception as exc:
            self.lane.broke(exc)

    def data_received(self, data):
        cdef HttpLane lane = self.lane
        cdef bytes chunk
        cdef const char *p
        if lane is None:
            return
        chunk = data if type(data) is bytes else bytes(data)
        p = PyBytes_AS_STRING(chunk)
        lane.load.tally.bytes_in += <uint64_t>PyBytes_GET_SIZE(chunk)
        try:
            lane.consume(p, p + PyBytes_GET_SIZE(chunk))
        except Exception as exc:
            lane.broke(exc)

    def eof_received(self):
        self.connection_lost(None)
        return False

    def connection_lost(self, exc):
        cdef HttpLane lane = self.lane
        if lane is None:
            return
        try:
            lane.lost(exc)
        except Exception as problem:
            lane.broke(problem)

    def pause_writing(self):
        """What a server does not take is bounded: one request, until its timeout."""

    def resume_writing(self):
        """Nothing waits for it."""


@cython.final
cdef class HttpSide:
    """The connections of a load run over HTTP.

    Parameters: ``load`` is the :class:`Load` of a plan whose target is an ``HttpTarget``; ``limits`` bounds heads,
    depth, one answer (``max_message_bytes``) and all unfinished ones (``max_buffered_bytes``); ``ssl`` is the context
    for a target with ``tls`` (the system's authorities when None). Raises ValueError or LocalProtocolError for headers
    or a path that HTTP cannot carry.

    To be driven: :meth:`open`, ``load.begin()``, ``load.sweep()`` a few times a second, ``load.drain()``,
    ``await load.wait()``, :meth:`close`.
    """

    def __init__(self, Load load not None, *, limits=DEFAULT, ssl=None):
        cdef HttpLane lane
        plan = load.plan
        target = plan.target
        default = 443 if target.tls else 80
        name = f"[{target.host}]" if ":" in target.host else target.host
        host = (name if target.unix is None and target.port == default or target.unix is not None
                else f"{name}:{target.port}").encode("idna" if not name.isascii() else "ascii") or b"localhost"
        self.load = load
        self.plan = plan
        self.limits = limits
        self.head_limits = head_limits(limits)
        self.max_depth = limits.max_depth
        self.max_body = limits.max_message_bytes
        self.max_kept = limits.max_buffered_bytes
        self.ssl = (ssl or tls.create_default_context()) if target.tls else None
        self.fixed_id = plan.fixed_id
        self.opening = tuple([make_shot(step, target, host, plan.fixed_id) for step in plan.opening])
        self.closing = tuple([make_shot(step, target, host, plan.fixed_id) for step in plan.closing])
        self.operations = tuple([tuple([make_shot(step, target, host, plan.fixed_id) for step in op.steps])
                                 for op in plan.operations])
        for op in plan.operations:
            if not op.steps:
                raise ValueError(f"operation {op.name!r} has no steps")
        self.lanes = []
        for _ in range(plan.connections):
            lane = HttpLane.__new__(HttpLane)
            lane.side = self
            lane.opened = not self.opening
            self.lanes.append(lane)
            load.add(lane)
        self.alive = plan.connections

    def __dealloc__(self):
        PyMem_Free(self.scratch)

    cdef int reserve(self, size_t n) except -1:
        cdef char *grown
        if n > self.room:
            grown = <char *>PyMem_Realloc(self.scratch, n + n // 4 + 1024)
            if grown == NULL:
                raise MemoryError
            self.scratch = grown
            self.room = n + n // 4 + 1024
        return 0

    async def open(self):
        """Connects all connections and runs the opening of the plan on each; returns when each is ready or failed.

        A failure is counted and its connection tried again when it is to be used.
        """
        cdef HttpLane lane
        gate = asyncio.Semaphore(64)
        lost = await asyncio.gather(*[self.prepare(lane, gate) for lane in self.lanes])
        for lane, failure in zip(self.lanes, lost, strict=True):
            if failure is not None:
                self.load.tally.stray(0, failure[0], failure[1])
            self.load.ready(lane)

    async def prepare(self, HttpLane lane, gate):
        async with gate:
            if not self.opening:
                return await self.connect(lane)
            # Steps have their own time; nobody sweeps yet.
            return await self.aside(lane, self.opening, None, self.plan.timeout_s * (1 + len(self.opening)))

    async def aside(self, HttpLane lane, tuple script, bytes session, double seconds):
        """Runs steps on an idle lane that are not measured. The failure, or None."""
        waiter = lane.waiter = self.load.loop.create_future()
        lane.opening = True
        lane.script = script
        lane.step = 0
        lane.session = session
        lane.send()
        try:
            async with asyncio.timeout(seconds):
                return await waiter
        except TimeoutError:
            lane.waiter = None
            lane.opening = False
            self.hush(lane)
            return ("timeout", f"no answer to {(<Shot>script[lane.step]).method}")

    cdef object hush(self, HttpLane lane):
        """Ends whatever a lane does, and its connection. What is to be waited for, or None."""
        cdef object task = lane.task
        lane.deadline = 0
        if lane.pause is not None:
            lane.pause.cancel()
            lane.pause = None
        if task is not None:
            task.cancel()
            lane.task = None
        lane.state = IDLE
        lane.drop()
        return task

    async def connect(self, HttpLane lane):
        """Opens the socket of a lane. The lane goes on in HttpLink.connection_made; for a lane that waits for nothing
        the failure is the result."""
        cdef HttpLink link = HttpLink.__new__(HttpLink)
        loop = self.load.loop
        target = self.plan.target
        where = target.unix or f"{target.host}:{target.port}"
        link.lane = lane
        try:
            async with asyncio.timeout(self.plan.timeout_s):
                if target.unix is not None:
                    await loop.create_unix_connection(lambda: link, target.unix, ssl=self.ssl,
                                                      server_hostname=target.host if self.ssl else None)
                else:
                    await self.reach(loop, target, lambda: link)
            return None
        except asyncio.CancelledError:
            link.lane = None
            raise
        except TimeoutError:
            failure = ConnectionError(f"{where}: no connection within {self.plan.timeout_s:g} s")
        except OSError as exc:
            failure = ConnectionError(f"{where}: {why_not_connected(exc)}")
        except Exception as exc:
            failure = ConnectionError(f"{where}: {type(exc).__name__}: {exc}")
        link.lane = None
        if lane.state == CONNECTING:
            lane.not_connected(failure)
        return ("connect", str(failure))

    async def reach(self, loop, target, factory):
        """Tries the addresses of the host; the one that answers is the first the next time."""
        if self.addresses is None:
            infos = await loop.getaddrinfo(target.host, target.port, type=1)
            self.addresses = list(dict.fromkeys(info[4][0] for info in infos))
        problem = OSError(f"no address for {target.host}")
        for address in list(self.addresses):
            try:
                await loop.create_connection(factory, address, target.port, ssl=self.ssl,
                                             server_hostname=target.host if self.ssl else None)
            except OSError as exc:
                problem = exc
                continue
            if address != self.addresses[0]:
                self.addresses.remove(address)
                self.addresses.insert(0, address)
            return
        raise problem

    def gone(self, HttpLane lane):
        """A connection that was given up."""
        self.alive -= 1
        if self.alive == 0:
            self.load.drain()

    async def close(self):
        """Ends the sessions of connections at the server, then closes all of them. Safe to repeat."""
        cdef HttpLane lane
        self.closed = True
        if self.closing:
            await asyncio.gather(*[self.part(lane) for lane in self.lanes])
        tasks = [task for task in [self.hush(lane) for lane in self.lanes] if task is not None]
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(0)

    async def part(self, HttpLane lane):
        """A session that this run has opened is no burden on the server after it. One try, in bounded time."""
        cdef bytes session = lane.base
        if session is None or lane.given_up:
            return
        if lane.state != IDLE or lane.task is not None:
            task = self.hush(lane)
            if task is not None:
                await asyncio.wait([task])
        lane.base = None
        await self.aside(lane, self.closing, session, ENDING)
