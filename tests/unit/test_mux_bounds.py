"""Bounds of the multiplexer: requests in flight, parked ones, the share of each connection (4.8, B70)."""

import json

from mux_support import Bench, RecordingGate, raw

from headrace.mux import FrameSink, FunctionHandler, Mux


def second(bench, **options):
    """Another connection of the same runtime."""
    other = Bench(loop=bench.loop, runtime=bench.runtime, **options)
    other.mux = Mux(bench.runtime, other.gate, other.limits)
    return other


def test_b70_over_the_limit_requests_wait_in_order():
    bench = Bench(max_in_flight=2, max_parked=100)
    order = []

    async def work(ex):
        order.append(ex.request_id)
        return await bench.wait(ex)

    bench.method("work", work)
    for id in range(10):
        bench.request(id, "work")
    assert bench.mux.debug_counts()["counted"] == 2
    assert bench.mux.debug_counts()["parked"] == 8
    for id in range(10):
        bench.done(id)
    assert order == list(range(10))
    assert list(bench.answers) == list(range(10))
    assert bench.at_rest()


def test_a_new_request_does_not_overtake_parked_ones():
    bench = Bench(max_in_flight=1)
    bench.request(1, "wait")
    bench.request(2, "echo")
    bench.request(3, "echo")
    bench.done(1)
    assert list(bench.answers) == [1, 2, 3]


def test_b70_urgent_requests_and_notes_and_answers_get_through():
    bench = Bench(max_in_flight=1)
    bench.request(1, "wait")
    bench.request(2, "echo")
    call = bench.mux.call("x", None, bench.sink)
    bench.request("p", "ping")
    bench.answer(call.id, {"a": 1})
    bench.feed({"jsonrpc": "2.0", "method": "note"})
    assert bench.answers == {"p": {}}
    assert json.loads(call.future.result()) == {"a": 1}
    assert bench.gate.notes == ["note"]
    bench.cancel(1)
    bench.loop.turn()
    assert bench.answers == {"p": {}, 2: {"text": "hi"}}
    assert bench.at_rest()


def test_a_sink_that_cannot_pause_is_refused_beyond_the_bound():
    bench = Bench(max_in_flight=1, max_parked=3)
    for id in range(10):
        bench.request(id, "wait")
    assert bench.mux.debug_counts()["parked"] == 3
    assert {a["code"] for a in bench.answers.values()} == {-32603}
    assert set(bench.answers) == set(range(4, 10))
    for id in range(4):
        bench.done(id)
    assert bench.at_rest()


def test_parked_requests_are_bounded_in_bytes():
    bench = Bench(max_in_flight=1, max_parked=1000)
    bench.request(0, "wait")
    for id in range(1, 20):
        bench.request(id, "echo", text="x" * 1_000_000)
    counts = bench.mux.debug_counts()
    assert counts["parked_bytes"] < 6_000_000
    assert counts["held"] == 1
    bench.done(0)
    assert bench.mux.debug_counts()["parked_bytes"] == 0
    assert bench.at_rest()


def test_a_large_request_is_checked_before_it_is_parked():
    """JR-02: broken text far inside a long frame is told at once; a good one waits for its turn."""
    bench = Bench(max_in_flight=1)
    bench.request(0, "wait")
    bench.feed(raw(1, "echo", '{"arguments":{"a":[1,,2],"b":"' + "x" * 5000 + '"}}'))
    assert bench.answers[1]["code"] == -32700
    bench.feed(raw(2, "echo", '{"arguments":{"a":[1,2],"b":"' + "x" * 5000 + '"}}'))
    assert 2 not in bench.answers
    bench.done(0)
    assert bench.answers[2] == {"text": "hi"}
    assert bench.at_rest()


def test_requests_of_a_closed_sink_are_forgotten():
    bench = Bench(max_in_flight=1)
    other = []
    sink = FrameSink(other.append)
    bench.request(0, "wait")
    bench.mux.receive_frame(raw(1), sink)
    bench.request(2)
    sink.finish()
    bench.done(0)
    assert other == []
    assert set(bench.answers) == {0, 2}
    assert bench.at_rest()


def test_the_bound_of_the_runtime_is_shared_in_turns():
    first = Bench(max_in_flight_total=2)
    others = [second(first) for _ in range(3)]
    order = []
    for number, bench in enumerate(others):
        async def work(ex, bench=bench, number=number):
            order.append(number)
            return await bench.wait(ex)

        bench.method("work", work)
    first.request("a", "wait")
    first.request("b", "wait")
    for bench in others:
        for id in range(3):
            bench.request(id, "work")
        assert bench.mux.debug_counts()["parked"] == 3
    assert order == []
    first.done("a")
    first.done("b")
    for _ in range(9):
        for bench in others:
            for id in range(3):
                future = bench.waits.get(id)
                if future is not None and not future.done():
                    bench.done(id)
    assert sorted(order[:3]) == [0, 1, 2]  # no connection twice before each had one
    assert sorted(order) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for bench in others:
        assert set(bench.answers) == {0, 1, 2}
        assert bench.at_rest()
    assert first.runtime.in_flight == 0


def test_a_busy_connection_does_not_starve_another():
    busy = Bench(max_in_flight_total=1)
    quiet = second(busy)
    for id in range(20):
        busy.request(id, "wait")
    quiet.request("q", "echo")
    for id in range(2):
        busy.done(id)
    assert quiet.answers == {"q": {"text": "hi"}}
    for id in range(2, 20):
        busy.done(id)
    assert busy.at_rest() and quiet.at_rest()


def test_a_connection_that_waits_for_the_runtime_and_goes_away():
    bench = Bench(max_in_flight_total=1)
    other = second(bench)
    bench.request(1, "wait")
    other.request(1)
    assert other.mux.debug_counts()["waiting"] == 1
    other.mux.close()
    assert other.mux.debug_counts()["waiting"] == 0
    bench.done(1)
    assert bench.at_rest() and other.at_rest()


def test_wait_idle_counts_parked_requests_that_others_hold_up():
    bench = Bench(max_in_flight_total=1)
    other = second(bench)
    bench.request(1, "wait")
    other.request(1)
    waiter = other.mux.wait_idle()
    assert waiter is not None and other.mux.wait_idle() is waiter
    bench.done(1)
    assert waiter.done()
    assert other.mux.wait_idle() is None


def test_an_unscoped_mux_refuses_instead_of_parking():
    bench = Bench(scoped=False, max_in_flight_total=1)
    bench.request(1, "wait")
    # a FrameSink may be parked on; HTTP exchanges may not, and are tested with the HTTP server
    bench.request(2)
    bench.done(1)
    assert set(bench.answers) == {1, 2}
    assert bench.at_rest()


def test_t19_no_standstill_when_handlers_wait_for_the_peer():
    """Handlers that hold all places wait for answers that come the same way: reading must not stop."""
    bench = Bench(max_in_flight=2, max_parked=2)
    calls = []

    async def ask(ex):
        call = bench.mux.call("ask", None, bench.sink)
        calls.append(call)
        return await call

    bench.method("ask", ask)
    bench.request(1, "ask")
    bench.request(2, "ask")
    for id in range(3, 9):
        bench.request(id, "echo")
    assert bench.mux.debug_counts()["held"] == 0
    assert {id: a["code"] for id, a in bench.answers.items()} == {5: -32603, 6: -32603, 7: -32603, 8: -32603} | {
        id: a["code"] for id, a in bench.answers.items() if id in (1, 2)}
    for call in calls:
        bench.answer(call.id)
    bench.loop.turn()
    assert bench.answers[3] == bench.answers[4] == {"text": "hi"}
    assert bench.at_rest()


def test_t19_a_call_made_while_reading_is_held_lets_it_go_on():
    bench = Bench(max_in_flight=1, max_parked=1)
    bench.request(1, "wait")
    bench.request(2)
    assert bench.mux.debug_counts()["held"] == 1
    call = bench.mux.call("ask", None, bench.sink)
    assert bench.mux.debug_counts()["held"] == 0
    bench.answer(call.id)
    bench.done(1)
    assert bench.at_rest()


def test_10_000_requests_in_flight():
    bench = Bench(max_in_flight=10_000)
    for id in range(10_000):
        bench.request(id, "wait")
    assert bench.mux.debug_counts()["counted"] == 10_000
    for id in range(0, 10_000, 2):
        bench.cancel(id)
    for id in range(1, 10_000, 2):
        bench.waits[id].set_result(b"{}")
    bench.loop.turn(100_000)
    assert set(bench.answers) == set(range(1, 10_000, 2))
    assert bench.at_rest()


def test_every_function_handler_may_be_urgent():
    handler = FunctionHandler(lambda ex: b"{}", urgent=True)
    assert handler.urgent and handler.cancellable
    assert RecordingGate(None).answers_bad_input
