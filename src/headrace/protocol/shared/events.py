"""Events of sessions that any process can read: logs in the backplane (HO-20, HO-21, B95).

Strategy: a process writes what the streams of a session send there into logs, behind its back, and goes on; nothing
is read unless a client comes back. A session has one log for its GET streams, which the process writes that owns
them (numbers begin with its claim, so nothing that a former owner still writes gets in between), and one for the
POST streams of each process that works for it. An entry names its stream and the request it answers: so whoever
reads it can answer in place of a process that is dead.

An event id is ``TAG.STREAM.NUMBER``: TAG comes from the session id, STREAM ends with the name of the store that made
it, ``p2-WORKER-7``, NUMBER is the entry's in its log.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.protocol.event_store import EventStore, Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.limits import Limits
    from headrace.mux import Runtime
    from headrace.protocol.backplane import Backplane

__all__ = (
    "ANSWERED", "CLAIM", "GIVEN_UP", "Entry", "EventId", "Ledger", "SharedEventStore", "pack", "tag_of", "unpack",
)  # fmt: skip

CLAIM = 32
"""Bits of a number behind the claim of the process that owns a session's GET streams."""

ANSWERED = b"-"
"""Data of the entry that ends a POST stream whose request was answered."""
GIVEN_UP = b"!"
"""The same where it was cancelled."""

_OVERHEAD = 200  # bytes that an entry costs beside its data
_CANCELLED = 2  # Exchange.state

_ID = re.compile(r"([0-9a-f]{18})\.((g|p)\d{1,12}-(\w{1,64})-(\d{1,12}))\.(\d{1,18})", re.ASCII)


def tag_of(session_id: str) -> str:
    """What stands for a session in event ids, in keys and in messages: whoever reads it cannot act as the client."""
    return blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=9, person=b"headrace-events").hexdigest()


class EventId(NamedTuple):
    """An event id taken apart."""

    tag: str
    stream: str
    get: bool
    """It names a GET stream."""
    worker: str
    """The process that opened the stream."""
    number: int

    @classmethod
    def read(cls, text: str) -> EventId | None:
        """None for what cannot be one."""
        found = _ID.fullmatch(text)
        return cls(found[1], found[2], found[3] == "g", found[4], int(found[6])) if found else None

    @property
    def store(self) -> str:
        """Name of the store that opened the stream."""
        return self.stream.partition("-")[2]

    @property
    def local(self) -> str:
        """The stream's name in that store."""
        return self.stream.partition("-")[0]

    @property
    def log(self) -> str:
        """Key of the log with its events."""
        return f"events:{self.tag}:{'g' if self.get else self.store}"


class Entry(NamedTuple):
    """One entry of a log."""

    number: int
    stream: str
    request: bytes
    """Raw id of the request that the stream answers; empty while it is not known, and for GET streams."""
    data: bytes
    """The JSON text; empty: an event that only carries an id; or ANSWERED or GIVEN_UP."""


def pack(stream: str, request: bytes, data: bytes) -> bytes:
    """The bytes of an entry."""
    return b"%b %b\n%b" % (stream.encode("ascii"), request, data)


def unpack(number: int, raw: bytes) -> Entry:
    """The entry that :func:`pack` made."""
    head, _, data = raw.partition(b"\n")
    stream, _, request = head.partition(b" ")
    return Entry(number, stream.decode("ascii", "replace"), request, data)


class _Log:
    __slots__ = ("at", "bytes", "cut", "sizes")

    def __init__(self) -> None:
        self.sizes: deque[int] = deque()
        self.bytes = 0
        self.at = 0.0
        self.cut = False
        """It was too large once: as many are left as there are sizes here."""


class Ledger:
    """What this process has written to logs, so that they stay within the bounds.

    ``limits.max_resume_events`` and ``max_resume_bytes`` bound each log, ``max_resume_total_bytes`` all that this
    process writes: beyond, the log that was written to longest ago is dropped.
    """

    def __init__(self, backplane: Backplane, runtime: Runtime, limits: Limits) -> None:
        self._backplane = backplane
        self._runtime = runtime
        self._limits = limits
        self._logs: dict[str, _Log] = {}
        """By key, those written to longest ago first."""
        self.size = 0

    def __len__(self) -> int:
        return len(self._logs)

    def append(self, key: str, number: int, raw: bytes) -> None:
        """Writes an entry."""
        limits = self._limits
        log = self._logs.pop(key, None) or _Log()
        self._logs[key] = log
        size = len(raw) + _OVERHEAD
        log.sizes.append(size)
        log.bytes += size
        log.at = self._runtime.time()
        self.size += size
        most = limits.max_resume_events
        while len(log.sizes) > 1 and (len(log.sizes) > most or log.bytes > limits.max_resume_bytes):
            if log.bytes > limits.max_resume_bytes:
                log.cut = True
            gone = log.sizes.popleft()
            log.bytes -= gone
            self.size -= gone
        # Before that it may hold what another process has written.
        most = len(log.sizes) if log.cut else most
        self._backplane.append(key, number, raw, most=most, seconds=limits.resume_age)
        while self.size > limits.max_resume_total_bytes and len(self._logs) > 1:
            self.drop(next(iter(self._logs)))

    def forget(self, key: str) -> None:
        """Another process writes this log from now on."""
        log = self._logs.pop(key, None)
        if log is not None:
            self.size -= log.bytes

    def drop(self, key: str) -> None:
        """Forgets a log everywhere."""
        self.forget(key)
        self._runtime.spawn(self._drop(key))

    async def _drop(self, key: str) -> None:
        with contextlib.suppress(OSError):  # else it ends with its time
            await self._backplane.drop(key)

    def sweep(self) -> None:
        """Forgets logs whose time is over; to be called now and then."""
        until = self._runtime.time() - self._limits.resume_age
        for key in list(self._logs):
            if self._logs[key].at > until:
                return
            self.forget(key)

    def clear(self) -> None:
        """All logs are gone."""
        self._logs.clear()
        self.size = 0


class SharedEventStore(EventStore):
    """What one process writes of one session. ``session`` has ``epoch``, ``count``, ``owned`` and ``keeper``.

    ``told(stream)`` is called when something was added to a POST stream that another connection follows.
    """

    def __init__(self, session: Any, tag: str, name: str, ledger: Ledger, told: Callable[[str], None]) -> None:
        self.tag = tag
        self.name = name
        self.followed: dict[str, Any] = {}
        """POST streams that another connection follows: local name -> who."""
        self.last = 0
        """Number of the newest entry of the POST streams."""
        self._session = session
        self._ledger = ledger
        self._told = told
        self._requests: dict[str, Any] = {}
        self._get_log = f"events:{tag}:g"
        self._post_log = f"events:{tag}:{name}"

    def append(self, stream: str, data: bytes) -> str:
        """See EventStore.append."""
        if stream.startswith("g"):
            session = self._session
            session.count += 1
            wire = stream if "-" in stream else f"{stream}-{self.name}"
            number = (session.epoch << CLAIM) + session.count
            if session.owned:
                self._ledger.append(self._get_log, number, pack(wire, b"", data))
        else:
            wire = f"{stream}-{self.name}"
            number = self._write(stream, wire, data)
        return f"{self.tag}.{wire}.{number}"

    def _write(self, stream: str, wire: str, data: bytes) -> int:
        request = self._requests.get(stream) or self._find_request(stream)
        self.last += 1
        self._ledger.append(self._post_log, self.last, pack(wire, request.id if request is not None else b"", data))
        if stream in self.followed:
            self._told(stream)
        return self.last

    def _find_request(self, stream: str) -> Any:
        """The request that a stream answers. While its handler's first step runs, nobody knows: then that is
        written down behind it."""
        keeper = self._session.keeper
        sink = keeper.posts.get(stream) if keeper is not None else None
        request = getattr(sink, "running", None)
        if request is not None:
            self._requests[stream] = request
        elif stream not in self._requests:
            self._requests[stream] = None
            self._session.server.runtime.call_soon(lambda: self._name_request(stream))
        return request

    def _name_request(self, stream: str) -> None:
        if stream in self._requests and self._find_request(stream) is not None:
            self._write(stream, f"{stream}-{self.name}", b"")

    def replay(self, last_id: str) -> Replay | None:
        """Not here: what is kept elsewhere takes its time. See SharedStreams.open."""
        return None

    def end(self, stream: str) -> None:
        """See EventStore.end: the end of a POST stream is an entry too."""
        if stream.startswith("p"):
            request = self._requests.get(stream)
            given_up = request is not None and request.state == _CANCELLED
            self._write(stream, f"{stream}-{self.name}", GIVEN_UP if given_up else ANSWERED)
            self._requests.pop(stream, None)
            self.followed.pop(stream, None)

    def close(self) -> None:
        """See EventStore.close. The log of the GET streams goes with the session's record."""
        self._ledger.drop(self._post_log)
        if self._session.owned:
            self._ledger.drop(self._get_log)

    def lost_ownership(self) -> None:
        """Another process writes the GET streams' log from now on."""
        self._ledger.forget(self._get_log)
