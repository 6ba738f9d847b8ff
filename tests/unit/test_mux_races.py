"""One test for each race of requests in src/headrace/README.md, without an event loop."""

import asyncio
import datetime
import json

import pytest
from mux_support import Bench, RecordingGate, raw

from headrace.mux import FrameSink, Mux


def test_cancelled_then_completed():
    bench = Bench()
    bench.request(1, "wait", _meta={"progressToken": 5})
    ex = bench.exchanges[1]

    async def stubborn(ex):
        try:
            await ex.mux.runtime.create_future()
        except asyncio.CancelledError:
            ex.progress(1)
            ex.notify(b"x")
            return b"{}"

    bench.method("stubborn", stubborn)
    bench.request(2, "stubborn", _meta={"progressToken": 6})
    bench.cancel(1)
    bench.cancel(2)
    bench.cancel(2)
    assert ex.cancelled and not ex.open
    assert bench.mux.debug_counts()["counted"] == 2  # until the handlers have ended
    bench.loop.turn()
    assert bench.log == [("ended", 1)]
    assert bench.frames == []
    assert bench.at_rest()


def test_completed_then_cancelled():
    bench = Bench()
    bench.request(1, "wait")
    ex = bench.exchanges[1]
    bench.waits[1].set_result(b"{}")
    bench.cancel(1)  # in the same turn: the result is there, but not sent
    bench.loop.turn()
    assert bench.frames == []
    bench.request(2, "wait")
    bench.done(2)
    bench.cancel(2)
    ex.cancel()
    assert bench.answers == {2: {}}
    assert bench.gate.notes == ["notifications/cancelled"]
    assert bench.at_rest()


@pytest.mark.parametrize("how", ["note", "mux", "exchange"])
@pytest.mark.parametrize("method", ["coroutine", "hold", "answer"])
def test_cancel_before_the_first_step_ended(how, method):
    """The handler's own first step causes the cancel, as with two muxes joined by plain calls."""
    bench = Bench()

    def give_up(ex):
        if how == "note":
            bench.cancel(1)
        elif how == "mux":
            bench.mux.cancel_all()
        else:
            ex.cancel()

    async def coroutine(ex):
        give_up(ex)
        try:
            await bench.loop.create_future()
        finally:
            bench.log.append("ended")

    held = bench.loop.create_future()

    def hold(ex):
        give_up(ex)
        ex.hold(held)

    def answer(ex):
        give_up(ex)
        return b"{}"

    bench.method("x", {"coroutine": coroutine, "hold": hold, "answer": answer}[method])
    bench.request(1, "x")
    bench.loop.turn()
    assert bench.frames == []
    assert method != "coroutine" or bench.log == ["ended"]
    assert method != "hold" or held.cancelled()
    assert bench.at_rest()


def test_cancel_of_a_parked_request():
    bench = Bench(max_in_flight=1)
    ran = []
    bench.request(1, "wait")
    bench.method("late", lambda ex: ran.append(ex.request_id) or b"{}")
    for id in (2, 3, 4):
        bench.request(id, "late")
    bench.cancel(3)
    bench.done(1)
    assert ran == [2, 4]
    assert set(bench.answers) == {1, 2, 4}
    assert bench.at_rest()


def test_cancel_of_the_last_parked_request_lets_waiters_for_idle_go_on():
    bench = Bench(max_in_flight_total=1)
    other = Mux(bench.runtime, RecordingGate(bench.revision), bench.limits)
    other.receive_frame(raw(1, "wait"), bench.sink)
    bench.request(2)
    waiter = bench.mux.wait_idle()
    bench.cancel(2)
    assert waiter.done()
    bench.done(1)
    assert bench.at_rest()


def test_vn06_some_requests_cannot_be_cancelled():
    bench = Bench()
    bench.method("initialize", bench.hold, cancellable=False)
    bench.request(1, "initialize")
    bench.cancel(1)
    bench.done(1)
    assert bench.answers == {1: {}}


def test_jr06_duplicate_id_in_flight():
    bench = Bench()
    bench.request(1, "wait")
    ex = bench.exchanges[1]
    bench.request(1, "wait")
    bench.request(1, "ping")
    assert [a["error"]["code"] for a in bench.sent] == [-32600, -32600]
    assert bench.mux.inflight[b"1"] is ex
    bench.frames.clear()
    bench.done(1)
    assert bench.answers == {1: {}}
    assert bench.at_rest()


def test_jr06_duplicate_of_a_parked_id():
    bench = Bench(max_in_flight=1)
    bench.request(1, "wait")
    bench.request(2)
    bench.request(2)
    bench.request(2, "ping")
    assert [a["error"]["code"] for a in bench.sent] == [-32600, -32600]
    bench.frames.clear()
    bench.done(1)
    assert set(bench.answers) == {1, 2}
    assert bench.at_rest()


def test_jr06_duplicate_of_an_id_whose_handler_is_starting():
    bench = Bench()

    def again(ex):
        bench.request(1, "echo")
        bench.request(2, "echo")
        return b'{"first":1}'

    bench.method("again", again)
    bench.request(1, "again")
    assert [("error" in a, a["id"]) for a in bench.sent] == [(True, 1), (False, 2), (False, 1)]
    assert bench.at_rest()


def test_id_reused_after_the_answer():
    bench = Bench()
    for _ in range(3):
        bench.request(1, "wait")
        bench.done(1)
    # also from inside the sending of the answer, and while the handler still runs
    frames = []

    def reuse(frame):
        frames.append(json.loads(frame))
        if len(frames) == 1:
            bench.mux.receive_frame(raw(7, "echo"), sink)

    sink = FrameSink(reuse)
    exchanges = []

    async def early(ex):
        exchanges.append(ex)
        await bench.waits[1]

    bench.waits[1] = bench.loop.create_future()
    bench.method("early", early)
    bench.mux.receive_frame(raw(7, "early"), sink)
    exchanges[0].answer(b'{"early":1}')
    assert [f["result"] for f in frames] == [{"early": 1}, {"text": "hi"}]
    bench.done(1)
    assert len(frames) == 2
    assert bench.at_rest()


def test_id_reused_after_cancel_while_the_handler_winds_down():
    bench = Bench()
    bench.request(1, "wait")
    first = bench.waits[1]
    bench.cancel(1)
    bench.request(1, "wait")
    second = bench.exchanges[1]
    bench.loop.turn()  # the first handler ends now
    assert first.cancelled()
    assert bench.mux.inflight[b"1"] is second
    bench.cancel(1)
    bench.request(1, "wait")
    bench.loop.turn()
    bench.done(1)
    assert bench.answers == {1: {}}
    assert bench.at_rest()


def test_a_handler_answers_twice():
    bench = Bench()

    def twice(ex):
        ex.answer(b'{"n":1}')
        ex.answer(b'{"n":2}')
        ex.answer_error(ValueError())
        assert not ex.open
        return b'{"n":3}'

    def held(ex):
        ex.hold(bench.loop.create_future())
        with pytest.raises(Exception, match="waits for a future"):
            ex.hold(bench.loop.create_future())
        ex.answer(b'{"n":1}')
        ex.task.set_result(b'{"n":2}')

    bench.method("twice", twice)
    bench.method("held", held)
    bench.request(1, "twice")
    bench.request(2, "held")
    bench.loop.turn()
    assert bench.answers == {1: {"n": 1}, 2: {"n": 1}}
    assert bench.at_rest()


@pytest.mark.parametrize("deed", ["cancel", "close", "finish", "answer", "notify", "request", "note"])
def test_code_of_the_application_runs_while_a_result_is_made(deed):
    """What an encoder calls may do anything; the frame is never torn, its own exchange is past all of it."""
    bench = Bench()
    seen = []

    class Zone(datetime.tzinfo):
        def utcoffset(self, when):
            ex = seen[0]
            if deed == "cancel":
                bench.cancel(1)
            elif deed == "close":
                bench.mux.close()
            elif deed == "finish":
                bench.sink.finish()
            elif deed == "answer":
                ex.answer(b"{}")
            elif deed == "notify":
                ex.notify(b"x")
                ex.progress(1)
            elif deed == "request":
                bench.request(2)
            else:
                bench.mux.notify(b"x", None, bench.sink)
            return datetime.timedelta(0)

    def work(ex):
        seen.append(ex)
        return {"a": datetime.datetime(2026, 1, 1, tzinfo=Zone())}

    bench.method("work", work)
    bench.request(1, "work", _meta={"progressToken": 1})
    if deed == "finish":
        assert bench.frames == []
    else:
        assert bench.answers[1] == {"a": "2026-01-01T00:00:00Z"}
        assert len(bench.frames) == (2 if deed in ("request", "note") else 1)
    assert bench.at_rest()


def test_b81_progress_after_the_end():
    bench = Bench()
    bench.request(1, "wait", _meta={"progressToken": 1})
    ex = bench.exchanges[1]
    bench.done(1)
    assert ex.progress(1) is None and ex.notify(b"x") is None
    bench.loop.call_soon(ex.progress, 5)  # as a worker thread would
    bench.loop.turn()
    assert len(bench.frames) == 1
    assert bench.at_rest()


def test_b78_notifications_come_before_the_answer():
    bench = Bench()

    async def work(ex):
        for n in range(1000):
            ex.progress(n)
            if n % 100 == 0:
                future = bench.loop.create_future()
                bench.loop.call_soon(future.set_result, None)
                await future
        return b"{}"

    bench.method("work", work)
    bench.request(1, "work", _meta={"progressToken": 1})
    bench.loop.turn()
    assert [f.get("params", {}).get("progress") for f in bench.sent] == [*range(1000), None]


def test_close_while_handlers_run():
    bench = Bench(max_in_flight=3)
    for id in range(5):
        bench.request(id, "wait" if id % 2 else "hold")
    assert bench.mux.debug_counts()["parked"] == 2
    bench.mux.close("gone")
    bench.mux.close("again")
    assert bench.mux.debug_counts()["parked"] == 0
    bench.loop.turn()
    assert bench.frames == []
    assert bench.log == [("ended", 1)]
    assert len(bench.gate.ends) == 1
    assert bench.at_rest()


@pytest.mark.parametrize("method", ["call", "coroutine"])
def test_close_from_inside_a_handler(method):
    bench = Bench()
    call = bench.mux.call("x", None, bench.sink)

    async def coroutine(ex):
        bench.mux.close("from inside")
        await bench.loop.create_future()

    def plain(ex):
        bench.mux.close("from inside")
        return b"{}"

    bench.method("work", plain if method == "call" else coroutine)
    bench.request(1, "work")
    bench.loop.turn()
    assert len(bench.frames) == 1  # our own request
    assert str(call.future.exception()) == "from inside"
    assert bench.at_rest()


def test_close_from_the_gate_that_is_told_of_a_close():
    bench = Bench()
    bench.gate.lost = lambda reason: bench.mux.close()
    bench.request(1, "wait")
    bench.mux.close()
    assert bench.at_rest()


def test_a_handler_that_feeds_more_frames():
    """Frames come in while the frame before is being handled, deep and in any order."""
    bench = Bench()

    def nest(ex):
        if ex.request_id < 50:
            bench.request(ex.request_id + 1, "nest")
            bench.cancel(ex.request_id + 1)
        return json.dumps({"n": ex.request_id}).encode()

    bench.method("nest", nest)
    bench.request(0, "nest")
    assert bench.answers == {n: {"n": n} for n in range(51)}
    assert bench.at_rest()


def test_drain_refuses_new_requests_and_answers_old_ones():
    bench = Bench(max_in_flight=1)
    bench.request(1, "wait")
    bench.request(2, "echo")  # parked: it came in time
    bench.mux.draining = True
    waiter = bench.mux.wait_idle()
    bench.request(3, "echo")
    bench.request(4, "ping")
    assert bench.answers[3]["message"] == "the server is shutting down"
    assert bench.answers[4] == {}
    bench.mux.draining = False  # what is parked is served either way, see the link
    bench.done(1)
    assert bench.answers[2] == {"text": "hi"}
    assert waiter.done()
    assert bench.mux.wait_idle() is None


def test_a_list_changes_during_a_call():
    bench = Bench()
    bench.request(1, "wait")
    bench.revision.requests.clear()
    bench.revision.changed()
    bench.done(1)
    assert bench.answers == {1: {}}


def test_a_sink_that_fails_is_one_fault():
    bench = Bench()

    def broken(frame):
        raise OSError("disk full")

    sink = FrameSink(broken)
    bench.mux.receive_frame(raw(1, "echo"), sink)
    bench.mux.receive_frame(b"junk", sink)
    assert [str(exc) for _, exc in bench.faults] == ["disk full"] * 2
    bench.mux.receive_frame(raw(2, "wait"), sink)
    bench.waits[2].set_result(b"{}")
    with pytest.raises(OSError, match="disk full"):
        bench.loop.turn()
    assert bench.at_rest()
