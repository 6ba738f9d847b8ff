"""JSON arrays of messages in the multiplexer: one answer each, bounds, cancel, what is refused (JR-20..JR-23, B83)."""

import json

import pytest
from mux_support import Bench

from headrace.jsonrpc import INVALID_REQUEST
from headrace.mux import serve_batch


def make(most=20, mixed=True, **options):
    bench = Bench(**options)

    def batch(envelope, sink):
        serve_batch(bench.mux, envelope, sink, most=most, mixed=mixed)
        return True

    bench.gate.batch = batch
    return bench


def request(id, method="echo", **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def note(method="notifications/thing", **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def cancel(id):
    return note("notifications/cancelled", requestId=id)


def code(answer):
    return answer["error"]["code"]


def test_jr22_all_answers_are_one_array():
    bench = make()
    bench.feed([request(1), request("1"), note(), request(3, "ping")])
    (answers,) = bench.sent
    assert [(a["id"], a["result"]) for a in answers] == [(1, {"text": "hi"}), ("1", {"text": "hi"}), (3, {})]
    assert bench.at_rest()


def test_jr22_the_array_waits_for_the_slowest():
    bench = make()
    bench.feed([request(1, "wait"), request(2), request(3, "hold")])
    assert bench.frames == [] and bench.mux.in_flight == 2
    bench.done(3)
    bench.feed(request(9))
    assert [a["id"] for a in bench.sent] == [9]
    bench.done(1)
    assert [a["id"] for a in bench.sent[1]] == [2, 3, 1]
    assert bench.at_rest()


def test_jr22_only_notifications_are_not_answered():
    bench = make()
    bench.feed([note(), note()])
    bench.feed([note("notifications/progress", progressToken=7, progress=1)])
    assert bench.frames == [] and bench.at_rest()


def test_b83_one_bad_entry_hurts_no_other():
    bench = make()
    bench.feed([
        1, request(1), {"jsonrpc": "1.0", "id": 2, "method": "echo"}, [request(3)], request(4, "no/such"),
        {"jsonrpc": "2.0", "id": None, "method": "echo"}, request(5, "fail"), request(6), "x", {},
    ])  # fmt: skip
    (answers,) = bench.sent
    by_id = {a.get("id"): a for a in answers if "id" in a}
    assert by_id[1]["result"] == by_id[6]["result"] == {"text": "hi"}
    assert (code(by_id[2]), code(by_id[4]), code(by_id[5])) == (INVALID_REQUEST, -32601, -32050)
    assert [code(a) for a in answers if "id" not in a] == [INVALID_REQUEST] * 5
    assert len(answers) == 10 and bench.at_rest()


@pytest.mark.parametrize("array", [[], [request(1)] * 21])
def test_jr21_empty_and_overlong_arrays_are_one_error(array):
    bench = make()
    bench.feed(array)
    (answer,) = bench.sent
    assert code(answer) == INVALID_REQUEST and "id" not in answer
    assert bench.at_rest()


def test_b83_a_million_entries_cost_nothing():
    bench = make()
    bench.feed(b"[" + b"1," * 1_000_000 + b"1]")
    (answer,) = bench.sent
    assert code(answer) == INVALID_REQUEST and "at most 20" in answer["error"]["message"]


def test_jr21_initialize_is_never_in_a_batch():
    bench = make()
    bench.feed([request(1, "initialize"), request(2)])
    (answers,) = bench.sent
    assert code(answers[0]) == INVALID_REQUEST and answers[1]["result"]
    assert bench.at_rest()


def test_hn02_modern_requests_are_never_in_a_batch():
    bench = make()
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    bench.feed([request(1, _meta=meta)])
    assert code(bench.sent[0][0]) == INVALID_REQUEST


def test_jr06_an_id_twice_in_one_array():
    bench = make()
    bench.feed([request(1), request(1), request(2, "wait"), request(2)])
    bench.done(2)
    (answers,) = bench.sent
    assert [(a["id"], "result" in a) for a in answers] == [(1, True), (1, False), (2, False), (2, True)]
    assert {code(a) for a in answers if "error" in a} == {INVALID_REQUEST}
    assert bench.at_rest()


def test_jr06_an_id_of_a_batch_that_is_in_flight_already():
    bench = make()
    bench.request(1, "wait")
    bench.feed([request(1), request(2)])
    assert [(a["id"], "result" in a) for a in bench.sent[0]] == [(1, False), (2, True)]
    bench.done(1)
    assert bench.sent[1]["id"] == 1 and bench.at_rest()


def test_mx12_cancel_of_one_entry():
    bench = make()
    bench.feed([request(1, "wait"), request(2, "wait"), request(3)])
    bench.cancel(1)
    bench.loop.turn()
    assert bench.frames == [] and ("ended", 1) in bench.log
    bench.done(2)
    assert [a["id"] for a in bench.sent[0]] == [3, 2] and bench.at_rest()


def test_mx12_cancel_inside_of_the_array():
    bench = make()
    bench.feed([request(1, "wait"), cancel(1), request(2)])
    assert [a["id"] for a in bench.sent[0]] == [2] and bench.at_rest()


def test_mx12_cancel_of_all_entries_answers_nothing():
    bench = make()
    bench.feed([request(1, "wait"), request(2, "wait")])
    bench.cancel(2)
    bench.cancel(1)
    assert bench.frames == [] and bench.at_rest()


def test_b70_entries_count_against_the_bounds():
    bench = make(max_in_flight=2, max_parked=2)
    bench.feed([request(i, "wait") for i in range(6)])
    assert bench.mux.in_flight == 2 and bench.mux.debug_counts()["parked"] == 2
    bench.cancel(3)  # a parked one: it never runs
    bench.done(0)
    bench.done(1)
    bench.done(2)
    (answers,) = bench.sent
    assert sorted(a["id"] for a in answers if "result" in a) == [0, 1, 2]
    assert {a["id"]: code(a) for a in answers if "error" in a} == {4: -32603, 5: -32603}
    assert bench.at_rest()


def test_entries_notify_before_their_answer():
    bench = make()
    async def tell(ex):
        ex.notify(b"notifications/message", b'{"n":1}')
        return b"{}"

    bench.method("tell", tell)
    bench.feed([request(1, "tell"), request(2, "wait")])
    bench.done(2)
    assert bench.sent[0]["method"] == "notifications/message"
    assert [a["id"] for a in bench.sent[1]] == [1, 2] and bench.at_rest()


def test_a_peer_that_vanishes():
    bench = make()
    bench.feed([request(1, "wait"), request(2), request(3, "wait")])
    bench.sink.finish()
    bench.mux.close("gone")
    bench.loop.turn()
    assert bench.frames == [] and bench.at_rest()
    assert sorted(bench.log) == [("ended", 1), ("ended", 3)]


def test_a_result_that_cannot_be_written_takes_back_its_own_text_only():
    bench = make()
    bench.method("bad", lambda ex: {"x": object()})
    bench.feed([request(1), request(2, "bad"), request(3)])
    (answers,) = bench.sent
    assert [a["id"] for a in answers] == [1, 2, 3] and code(answers[1]) == -32603


def test_responses_in_an_array_answer_our_calls():
    bench = make()
    calls = [bench.mux.call("roots/list", None, bench.sink) for _ in range(2)]
    bench.feed([{"jsonrpc": "2.0", "id": call.id, "result": {"n": call.id}} for call in calls] + [request(7)])
    assert [json.loads(call.future.result()) for call in calls] == [{"n": call.id} for call in calls]
    assert bench.sent[-1] == [{"jsonrpc": "2.0", "id": 7, "result": {"text": "hi"}}]
    assert bench.at_rest()


def test_jr21_requests_and_responses_do_not_mix_where_that_is_the_rule():
    bench = make(mixed=False)
    call = bench.mux.call("roots/list", None, bench.sink)
    bench.feed([request(7), {"jsonrpc": "2.0", "id": call.id, "result": {}}])
    assert code(bench.sent[-1]) == INVALID_REQUEST and not call.future.done()
    bench.feed([{"jsonrpc": "2.0", "id": call.id, "result": {}}])
    assert call.future.done() and bench.at_rest()


def test_b07_a_client_answers_no_bad_entry():
    bench = make(client=True)
    bench.feed([1, request(2, "ping"), {"jsonrpc": "2.0", "id": 9, "result": {}}])
    assert bench.sent == [[{"jsonrpc": "2.0", "id": 2, "result": {}}]]
    bench.feed([1])
    assert len(bench.frames) == 1 and bench.at_rest()


def test_jr20_without_a_gate_that_serves_them_arrays_are_one_error():
    bench = Bench()
    for array in ([], [1], [request(1)], [request(1), note()]):
        bench.feed(array)
    assert [code(a) for a in bench.sent] == [INVALID_REQUEST] * 4 and bench.at_rest()
