"""A multiplexer without an event loop: a queue of callbacks, a clock that tests move, and one sink."""

import asyncio
import heapq
import itertools
import json
import re

from headrace.errors import RpcError
from headrace.limits import Limits
from headrace.mux import FrameSink, FunctionHandler, Gate, Mux, Revision, Runtime


class Handle:
    def __init__(self, callback):
        self.callback = callback

    def cancel(self):
        self.callback = None


class StubLoop:
    """Just what futures, tasks and the Runtime ask of a loop; nothing runs until a test says so."""

    def __init__(self):
        self.now = 1000.0
        self.queue = []
        self.timers = []
        self.count = itertools.count()
        self.errors = []

    def get_debug(self):
        return False

    def time(self):
        return self.now

    def call_soon(self, callback, *args, context=None):
        self.queue.append((callback, args, context))

    def call_at(self, when, callback):
        handle = Handle(callback)
        heapq.heappush(self.timers, (when, next(self.count), handle))
        return handle

    def call_exception_handler(self, context):
        self.errors.append(context)

    def create_future(self):
        return asyncio.Future(loop=self)

    def spawn(self, coro):
        before = len(self.queue)
        task = asyncio.Task(coro, loop=self)
        callback, args, context = self.queue.pop(before)
        try:
            context.run(callback, *args)
        except BaseException:
            task.exception()  # it goes out this way
            raise
        return task

    def turn(self, most=10_000):
        """Runs callbacks until none is due."""
        for _ in range(most):
            while self.timers and self.timers[0][0] <= self.now:
                handle = heapq.heappop(self.timers)[2]
                if handle.callback is not None:
                    handle.callback()
            if not self.queue:
                return
            callback, args, context = self.queue.pop(0)
            if context is not None:
                context.run(callback, *args)
            else:
                callback(*args)
        raise AssertionError("the queue does not run dry")

    def advance(self, seconds):
        """Moves the clock from timer to timer."""
        end = self.now + seconds
        self.turn()
        while self.timers and self.timers[0][0] <= end:
            self.now = max(self.now, self.timers[0][0])
            self.turn()
        self.now = end
        self.turn()


class RecordingGate(Gate):
    """Serves every request under `revision`; writes down what it is told."""

    def __init__(self, revision):
        self.revision = revision
        self.notes = []
        self.strays = []
        self.bad = []
        self.failed = []
        self.ends = []

    def classify(self, envelope, sink):
        return self.revision

    def notify(self, envelope, sink):
        self.notes.append(envelope.method)

    def stray(self, error, sink):
        self.strays.append(error)

    def bad_input(self, code, message, sink):
        self.bad.append(code)

    def progress_failed(self, exc):
        self.failed.append(exc)

    def lost(self, reason):
        self.ends.append(reason)


class Bench:
    """One mux with a few methods: echo, wait, hold, fail, and any that a test adds."""

    def __init__(self, *, max_in_flight_total=65536, scoped=True, client=False, loop=None, runtime=None, max_unsent=1 << 29,
                 **limits):
        self.loop = loop or StubLoop()
        self.faults = []
        self.threads = []
        self.waits = {}
        self.exchanges = {}
        self.log = []
        self.runtime = runtime or Runtime(
            create_future=self.loop.create_future,
            call_soon=self.loop.call_soon,
            call_at=self.loop.call_at,
            time=self.loop.time,
            spawn=self.loop.spawn,
            run_thread=self.run_thread,
            post=lambda fn, *args: self.loop.call_soon(fn, *args),
            report=lambda message, exc: self.faults.append((message, exc)),
            max_in_flight=max_in_flight_total,
            max_unsent=max_unsent,
        )
        self.revision = Revision("2026-07-28", modern=True, requests={})
        self.gate = RecordingGate(self.revision)
        self.gate.answers_bad_input = not client
        self.limits = Limits(**limits)
        self.mux = Mux(self.runtime, self.gate, self.limits, scoped=scoped)
        self.frames = []
        self.sink = FrameSink(self.frames.append)
        self.method("echo", lambda ex: b'{"text":"hi"}')
        self.method("ping", lambda ex: b"{}", urgent=True)
        self.method("wait", self.wait)
        self.method("hold", self.hold)
        self.method("fail", self.fail)

    def run_thread(self, fn, *args):
        future = self.loop.create_future()
        self.threads.append((future, fn, args))
        return future

    def method(self, name, function, **options):
        self.revision.requests[name.encode()] = FunctionHandler(function, **options)
        self.revision.changed()

    async def wait(self, ex):
        """Waits until the test sets the future under this id."""
        self.exchanges[ex.request_id] = ex
        future = self.waits[ex.request_id] = self.loop.create_future()
        try:
            return await future
        finally:
            self.log.append(("ended", ex.request_id))

    def hold(self, ex):
        self.exchanges[ex.request_id] = ex
        future = self.waits[ex.request_id] = self.loop.create_future()
        ex.hold(future)

    def fail(self, ex):
        raise RpcError(-32050, "no", {"why": 1})

    # --- the peer -----------------------------------------------------------------------------------

    def feed(self, frame):
        self.mux.receive_frame(frame if isinstance(frame, bytes) else json.dumps(frame).encode(), self.sink)

    def request(self, id, method="echo", **params):
        self.feed({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def cancel(self, id):
        self.feed({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    def answer(self, id, result=None, error=None):
        frame = {"jsonrpc": "2.0", "id": id}
        frame.update({"error": error} if error is not None else {"result": {} if result is None else result})
        self.feed(frame)

    def done(self, id, result=b"{}"):
        """Ends the handler of a "wait" or "hold" request."""
        self.waits[id].set_result(result)
        self.loop.turn()

    @property
    def sent(self):
        """What was sent so far, decoded."""
        return [json.loads(frame) for frame in self.frames]

    @property
    def answers(self):
        """id -> what kind of answer it got; an id that was answered twice is an error."""
        found = {}
        for frame in self.sent:
            if "method" not in frame:
                key = frame.get("id")
                assert (type(key), key) not in found, f"{key!r} was answered twice"
                found[type(key), key] = frame.get("result", frame.get("error"))
        return {key: value for (_, key), value in found.items()}

    def at_rest(self):
        """Nothing is left of anything."""
        self.loop.turn()
        assert set(self.mux.debug_counts().values()) == {0}, self.mux.debug_counts()
        assert self.loop.errors == []
        return True


def raw(id, method="echo", params="{}"):
    """A request whose id is written as it is given."""
    return f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}'.encode()


def stable_id(value):
    """A name for a parametrised test that is the same in every process (test workers compare them)."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
