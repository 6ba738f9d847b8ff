"""Requests of ours through the multiplexer: correlation, time limits, cancel, the end (no event loop)."""

import asyncio
import json

import pytest
from mux_support import Bench

from headrace.errors import (
    ConnectionClosed,
    LocalProtocolError,
    OverloadedError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from headrace.mux import FrameSink, FunctionHandler, Sink


def call(bench, method="tools/list", params=None, **options):
    return bench.mux.call(method, params, bench.sink, **options)


def cancelled_ids(bench):
    return [f["params"]["requestId"] for f in bench.sent if f.get("method") == "notifications/cancelled"]


def test_mx01_answers_come_in_any_order():
    bench = Bench()
    calls = [call(bench, params=b'{"n":%d}' % n) for n in range(20)]
    assert [f["id"] for f in bench.sent] == [c.id for c in calls]
    for c in reversed(calls):
        bench.answer(c.id, {"n": c.id})
    assert [json.loads(c.future.result())["n"] for c in calls] == [c.id for c in calls]
    assert bench.at_rest()


def test_jr05_ids_are_never_reused():
    bench = Bench()
    seen = set()
    for _ in range(100):
        assert bench.mux.next_call_id not in seen
        c = call(bench)
        seen.add(c.id)
        bench.answer(c.id)
    assert len(seen) == 100


@pytest.mark.parametrize("id", ['"1"', "1.0", "01", "1e0", "-1", "null", "[1]", "true", "1" * 30, "2", '""'])
def test_b71_an_answer_with_another_id_is_nobodys(id):
    bench = Bench(client=True)
    c = call(bench)
    assert c.id == 1
    bench.feed(f'{{"jsonrpc":"2.0","id":{id},"result":{{}}}}'.encode())
    assert not c.future.done()
    assert len(bench.frames) == 1
    bench.answer(1)
    assert c.future.result() == b"{}"


def test_late_and_repeated_answers_are_dropped_and_counted():
    bench = Bench()
    c = call(bench)
    bench.answer(c.id, {"n": 1})
    bench.answer(c.id, {"n": 2})
    bench.answer(c.id, error={"code": 1, "message": "x"})
    assert c.future.result() == b'{"n": 1}'
    assert bench.mux.stray == 2
    assert bench.gate.strays == [None, b'{"code": 1, "message": "x"}']


def test_errors_of_the_peer():
    bench = Bench()
    cases = [
        ({"code": -32601, "message": "m", "data": [1]}, RpcError),
        ({"code": 5}, RpcError),
        ({"message": "m"}, RemoteProtocolError),
        ({"code": "5", "message": "m"}, RemoteProtocolError),
        ({}, RemoteProtocolError),
    ]
    for error, kind in cases:
        c = call(bench)
        bench.answer(c.id, error=error)
        assert type(c.future.exception()) is kind
    c = call(bench)
    bench.answer(c.id, error=cases[0][0])
    exc = c.future.exception()
    assert (exc.code, exc.message, exc.data) == (-32601, "m", [1])


@pytest.mark.parametrize(
    "frame",
    [
        '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}',
        '{"jsonrpc":"2.0","id":1,"result":5}',
        '{"jsonrpc":"2.0","id":1,"error":5}',
        '{"jsonrpc":"1.0","id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":nul}}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":' + "[" * 2000,
    ],
)
def test_jr08_a_malformed_answer_fails_its_call(frame):
    bench = Bench(client=True)
    c = call(bench)
    bench.feed(frame.encode())
    assert isinstance(c.future.exception(), RemoteProtocolError)
    assert len(bench.frames) == 1
    assert bench.at_rest()


def test_b04_a_bad_byte_in_an_answer_fails_that_call_alone():
    bench = Bench(client=True)
    a, b, c = call(bench), call(bench), call(bench)
    bench.answer(a.id)
    bench.feed(b'{"jsonrpc":"2.0","id":2,"result":{"t":"\xed\xa0\x80"}}')
    bench.answer(c.id)
    assert a.future.result() == c.future.result() == b"{}"
    assert isinstance(b.future.exception(), RemoteProtocolError)


def test_an_answer_that_does_not_decode():
    bench = Bench()

    def decode(data):
        raise ValueError("no such member")

    c = call(bench, decode=decode)
    bench.answer(c.id)
    assert isinstance(c.future.exception(), RemoteProtocolError)
    good = call(bench, decode=json.loads)
    bench.answer(good.id, {"a": [1]})
    assert good.future.result() == {"a": [1]}


def test_st01_params_are_one_line():
    bench = Bench()
    call(bench, params=b'{\n"a":\n1}')
    bench.mux.notify(b"x", b'{\n"a": "b\\n"}', bench.sink)
    assert all(b"\n" not in frame for frame in bench.frames)
    assert [f["params"] for f in bench.sent] == [{"a": 1}, {"a": "b\n"}]


# --- time -----------------------------------------------------------------------------------------


def test_mx13_timeout():
    bench = Bench()
    c = call(bench, timeout=2)
    bench.loop.advance(1.9)
    assert not c.future.done()
    bench.loop.advance(0.2)
    exc = c.future.exception()
    assert isinstance(exc, RequestTimeout) and isinstance(exc, TimeoutError)
    assert str(exc) == "tools/list: no answer within 2 s"
    assert cancelled_ids(bench) == [c.id]
    assert bench.at_rest()


def test_vn06_initialize_is_never_cancelled_by_a_note():
    bench = Bench()
    a, b = call(bench, "initialize", timeout=1), call(bench, "initialize")
    b.cancel()
    bench.loop.advance(2)
    assert isinstance(a.future.exception(), RequestTimeout)
    assert cancelled_ids(bench) == []


def test_response_to_a_call_that_timed_out_or_was_cancelled():
    bench = Bench()
    a, b = call(bench, timeout=1), call(bench)
    bench.loop.advance(1.1)
    b.cancel("changed my mind")
    bench.answer(a.id)
    bench.answer(b.id)
    assert isinstance(a.future.exception(), RequestTimeout)
    assert b.future.cancelled()
    assert bench.mux.stray == 2
    assert bench.sent[-1]["params"] == {"requestId": b.id, "reason": "changed my mind"}


@pytest.mark.parametrize("first", ["answer", "timer"])
def test_timeout_and_response_in_the_same_turn(first):
    bench = Bench()
    c = call(bench, timeout=1)
    bench.loop.now += 1
    if first == "answer":
        bench.answer(c.id)
        bench.loop.turn()
        assert c.future.result() == b"{}"
        assert cancelled_ids(bench) == []
    else:
        bench.loop.turn()
        bench.answer(c.id)
        assert isinstance(c.future.exception(), RequestTimeout)
        assert cancelled_ids(bench) == [c.id]
    assert bench.at_rest()


def progress(bench, token, value):
    bench.feed({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": value}})


def test_b80_progress_restarts_the_clock_without_a_callback():
    bench = Bench()
    a = call(bench, timeout=0.3, extend=True)
    b = call(bench, timeout=0.3, extend=True, latest=1)
    plain = call(bench, timeout=0.3)
    for n in range(20):
        bench.loop.advance(0.1)
        progress(bench, a.id, n)
        progress(bench, b.id, n)
        progress(bench, plain.id, n)
    assert not a.future.done()
    assert "absolute limit" in str(b.future.exception())
    assert isinstance(plain.future.exception(), RequestTimeout)
    assert cancelled_ids(bench) == [plain.id, b.id]
    bench.answer(a.id)
    assert a.future.result() == b"{}"
    assert bench.at_rest()


@pytest.mark.parametrize("first", ["progress", "timer"])
def test_progress_at_the_instant_of_expiry(first):
    bench = Bench()
    c = call(bench, timeout=1, extend=True)
    bench.loop.now += 1
    if first == "progress":
        progress(bench, c.id, 1)
        bench.loop.turn()
        assert not c.future.done()
        bench.loop.advance(1.1)
    else:
        bench.loop.turn()
        progress(bench, c.id, 1)
    assert isinstance(c.future.exception(), RequestTimeout)
    assert bench.at_rest()


def test_an_absolute_limit_alone_is_not_moved_by_progress():
    bench = Bench()
    c = call(bench, extend=True, latest=1)
    progress(bench, c.id, 1)
    bench.loop.turn()
    assert not c.future.done()
    bench.loop.advance(1.1)
    assert isinstance(c.future.exception(), RequestTimeout)


def test_one_timer_serves_thousands_of_deadlines():
    bench = Bench()
    calls = [call(bench, timeout=1 + n / 1000) for n in range(3000)]
    early = call(bench, timeout=0.5)
    assert len([h for _, _, h in bench.loop.timers if h.callback]) == 1
    bench.loop.advance(0.6)
    assert isinstance(early.future.exception(), RequestTimeout)
    bench.loop.advance(5)
    assert all(isinstance(c.future.exception(), RequestTimeout) for c in calls)
    assert bench.at_rest()


def test_a_sink_that_fails_to_cancel_does_not_keep_others_from_expiring():
    bench = Bench()

    def broken(frame):
        if b"cancelled" in frame:
            raise OSError

    sink = FrameSink(broken)
    calls = [bench.mux.call("x", None, sink, timeout=1) for _ in range(3)]
    bench.loop.advance(2)
    assert all(isinstance(c.future.exception(), RequestTimeout) for c in calls)
    assert len(bench.faults) == 3
    given_up = bench.mux.call("x", None, sink)
    with pytest.raises(OSError):
        given_up.cancel()
    assert given_up.future.cancelled()
    assert bench.at_rest()


# --- giving up ------------------------------------------------------------------------------------


def test_b75_cancelling_the_waiting_task_tells_the_peer():
    bench = Bench()
    calls = []

    async def wait():
        calls.append(call(bench))
        return await calls[-1]

    tasks = [bench.loop.spawn(wait()) for _ in range(50)]
    for task in tasks:
        task.cancel()
    bench.loop.turn()
    assert all(task.cancelled() for task in tasks)
    assert cancelled_ids(bench) == [c.id for c in calls]
    assert bench.at_rest()


def test_awaiting_a_call_gives_its_value_or_its_error():
    bench = Bench()

    async def wait(c):
        return await c

    a, b = call(bench), call(bench)
    tasks = [bench.loop.spawn(wait(a)), bench.loop.spawn(wait(b))]
    bench.answer(a.id, {"a": 1})
    bench.answer(b.id, error={"code": 3, "message": "m"})
    bench.loop.turn()
    assert tasks[0].result() == b'{"a": 1}'
    assert tasks[1].exception().code == 3
    assert cancelled_ids(bench) == []


def test_future_cancelled_while_resolving():
    bench = Bench()
    calls = []

    def decode(data):
        calls[0].future.cancel()
        return data

    calls.append(call(bench, decode=decode))
    bench.answer(calls[0].id)
    assert calls[0].future.cancelled()
    gone = call(bench)
    gone.future.cancel()
    bench.answer(gone.id)
    gone = call(bench)
    gone.future.cancel()
    bench.answer(gone.id, error={"code": 1, "message": ""})
    assert bench.at_rest()


def test_cancel_after_the_end_does_nothing():
    bench = Bench()
    c = call(bench)
    bench.answer(c.id)
    c.cancel()
    c.fail(ValueError())
    assert c.future.result() == b"{}"
    assert cancelled_ids(bench) == []
    d = call(bench)
    d.cancel("\ud800 a \" reason")
    d.cancel()
    assert cancelled_ids(bench) == [d.id]


# --- progress -------------------------------------------------------------------------------------


def test_progress_callbacks_come_in_order_and_before_the_answer():
    bench = Bench()
    seen = []
    c = call(bench, on_progress=lambda *note: seen.append(note))
    for n in range(5):
        progress(bench, c.id, n)
    bench.feed({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": c.id, "progress": 9.5, "total": 10, "message": "m"}})
    bench.answer(c.id)
    assert seen == [*((n, None, None) for n in range(5)), (9.5, 10, "m")]


@pytest.mark.parametrize("token", ['"1"', "1.0", "2", "-1", "null", "[]", "9" * 40, "01"])
def test_b81_progress_for_other_tokens_is_ignored(token):
    bench = Bench()
    seen = []
    c = call(bench, on_progress=seen.append)
    note = f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}'
    bench.feed(note.encode())
    assert seen == []
    assert not c.future.done()
    c.cancel()


def test_b81_malformed_progress_is_ignored():
    bench = Bench()
    seen = []
    c = call(bench, on_progress=lambda *note: seen.append(note))
    for value in ('"1"', "null", "1e400", "{}", "[]"):
        bench.feed(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%b}}'
                   % (c.id, value.encode()))
    assert seen == [] and bench.frames[1:] == []
    c.cancel()


@pytest.mark.parametrize("exc", [ValueError(), asyncio.CancelledError(), type("Odd", (BaseException,), {})()])
def test_a_progress_callback_that_raises_does_not_end_the_call(exc):
    bench = Bench()

    def broken(*note):
        raise exc

    c = call(bench, on_progress=broken)
    progress(bench, c.id, 1)
    assert bench.gate.failed == [exc]
    exc.__traceback__ = None  # it outlives the test
    bench.answer(c.id)
    assert c.future.result() == b"{}"


def test_a_progress_callback_may_give_up_or_close():
    bench = Bench()
    c = call(bench, on_progress=lambda *note: c.cancel())
    progress(bench, c.id, 1)
    progress(bench, c.id, 2)
    assert c.future.cancelled() and cancelled_ids(bench) == [c.id]
    d = call(bench, on_progress=lambda *note: bench.mux.close("enough"))
    progress(bench, d.id, 1)
    assert isinstance(d.future.exception(), ConnectionClosed)
    assert bench.at_rest()


# --- sending and the end --------------------------------------------------------------------------


def test_send_fails():
    bench = Bench()

    def broken(frame):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        bench.mux.call("x", None, FrameSink(broken), timeout=1)
    with pytest.raises(LocalProtocolError):
        bench.mux.call("x", None, Sink())
    assert bench.at_rest()


def test_an_answer_that_comes_while_the_request_is_sent():
    """Two muxes joined by plain calls: the answer is there before call() returns."""
    server, client = Bench(), Bench(client=True)
    back = FrameSink(lambda frame: client.mux.receive_frame(frame, client.sink))
    there = FrameSink(lambda frame: server.mux.receive_frame(frame, back))
    seen = []

    def work(ex):
        ex.progress(1)
        ex.progress(2)
        return b'{"ok":true}'

    server.revision.requests[b"work"] = FunctionHandler(work)
    c = client.mux.call("work", b'{"_meta":{"progressToken":1}}', there, timeout=5, on_progress=lambda *n: seen.append(n[0]))
    assert c.future.result() == b'{"ok":true}'
    assert seen == [1, 2]
    # the caller gives up at the first progress, which the handler sends in its first step
    async def long(ex):
        ex.progress(1)
        await ex.mux.runtime.create_future()

    server.revision.requests[b"work"] = FunctionHandler(long)
    server.revision.changed()
    c = client.mux.call("work", b'{"_meta":{"progressToken":2}}', there,
                        on_progress=lambda *n: client.mux.pending[2].cancel("enough"))
    assert c.future.cancelled()
    server.loop.turn()
    assert server.at_rest() and client.at_rest()


def test_connection_lost_with_thousands_pending():
    bench = Bench()
    calls = [call(bench, timeout=60) for _ in range(5000)]
    bench.mux.close(ConnectionClosed("exited with status 3", exit_code=3))
    errors = [c.future.exception() for c in calls]
    assert all(type(e) is ConnectionClosed and e.exit_code == 3 and str(e) == "exited with status 3" for e in errors)
    assert len(set(map(id, errors))) == 5000  # one each: a shared one would collect tracebacks
    assert bench.loop.timers == [] or all(h.callback is None for _, _, h in bench.loop.timers)
    with pytest.raises(ConnectionClosed, match="exited with status 3"):
        call(bench)
    assert bench.mux.notify(b"x", None, bench.sink) is False
    assert bench.at_rest()


def test_max_pending():
    bench = Bench(max_pending=2)
    a = call(bench)
    call(bench)
    with pytest.raises(OverloadedError, match="max_pending"):
        call(bench)
    bench.answer(a.id)
    call(bench)
    assert len(bench.frames) == 3
    bench.mux.close()
    for f in bench.mux.pending.values():
        f.future.exception()
