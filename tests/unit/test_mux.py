"""Requests of the peer through the multiplexer: ids, kinds of messages, errors (no event loop)."""

import asyncio
import json
import time

import msgspec
import pytest
from mux_support import Bench, raw, stable_id

from headrace.errors import RemoteProtocolError, RpcError
from headrace.mux import FrameSink, FunctionHandler, RawResult, Revision

IDS = [
    "1", '"1"', '"01"', "0", '"0"', '""', "-1", '"null"', "9007199254740993", '"a\\u0000b"', '"' + "x" * 4000 + '"',
    "1774232524389", "2147483648", "9223372036854775807", "18446744073709551615", "18446744073709551616",
    "-9223372036854775809", "9" * 5000, '"\\u00e9\\/"', '"\\ud83d\\ude00"',
]


@pytest.mark.parametrize("id", IDS, ids=lambda i: i[:24])
@pytest.mark.parametrize("method", ["echo", "fail", "nowhere"])
def test_b71_b73_jr04_an_answer_repeats_the_id_as_it_was_written(id, method):
    bench = Bench()
    bench.feed(raw(id, method))
    (frame,) = bench.frames
    assert b'"id":' + id.encode() + b"," in frame
    json.loads(frame.replace(id.encode(), b"0"))
    assert bench.at_rest()


def test_b71_ids_that_only_look_alike_are_different_requests():
    bench = Bench()
    for id in IDS:
        bench.feed(raw(id, "hold"))
    assert bench.mux.debug_counts()["inflight"] == len(IDS)
    assert bench.frames == []
    for future in list(bench.waits.values()):
        future.set_result(b"{}")
    # ids beyond what Python makes an int of share no key in bench.waits with others
    bench.loop.turn()
    assert len(bench.frames) == len(IDS)
    for id, frame in zip(IDS, bench.frames, strict=True):
        assert b'"id":' + id.encode() + b"," in frame
    assert bench.at_rest()


@pytest.mark.parametrize(("one", "other"), [('"1"', '"\\u0031"'), ('"a/b"', '"a\\/b"'), ('"\x7f"', '"\\u007f"')])
def test_jr06_an_escaped_id_equals_the_plain_one(one, other):
    bench = Bench()
    bench.feed(raw(one, "hold"))
    bench.feed(raw(other, "hold"))
    (refused,) = bench.sent
    assert refused["error"]["code"] == -32600
    bench.feed(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{other}}}}}'.encode())
    assert bench.mux.inflight == {}
    assert bench.at_rest()


@pytest.mark.parametrize("id", ["null", "1.5", "1.0", "1e0", "true", "[]", "{}"])
def test_b72_a_request_with_an_unusable_id_is_refused_and_not_run(id):
    bench = Bench()
    ran = []
    bench.method("echo", lambda ex: ran.append(1) or b"{}")
    bench.feed(raw(id))
    (answer,) = bench.sent
    assert answer["error"]["code"] == -32600
    assert "id" not in answer
    assert ran == []


def test_jr13_unreadable_ids_are_null_before_2025_11_25():
    bench = Bench()
    bench.mux.null_ids = True
    bench.feed(b"not json")
    assert bench.sent[0]["id"] is None


@pytest.mark.parametrize(
    ("frame", "code", "id"),
    [
        ('{"jsonrpc":"1.0","id":1,"method":"echo"}', -32600, 1),
        ('{"id":1,"method":"echo"}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"echo","params":[]}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"echo","params":5}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"nowhere"}', -32601, 1),
        ("5", -32600, None),
        ('"a"', -32600, None),
        ("null", -32600, None),
        ("[]", -32600, None),
        ("[1]", -32600, None),
        ('[{"jsonrpc":"2.0","id":1,"method":"echo"}]', -32600, None),
        ("{}{}", -32700, None),
        ('{"jsonrpc":"2.0","id":1,"method":"echo",}', -32700, 1),
        ("\x00", -32700, None),
    ],
)
def test_jr01_jr12_jr23_b83_b84_what_is_no_request_gets_one_error(frame, code, id):
    bench = Bench()
    bench.feed(frame.encode())
    (answer,) = bench.sent
    assert answer["error"]["code"] == code
    assert answer.get("id") == id
    assert len(bench.frames[0]) < 1024
    assert bench.at_rest()


@pytest.mark.parametrize("text", [b"\xff\xfe", b'{"a":"\xc0\xaf"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xf4\x90\x80\x80"}'])
def test_b04_bad_bytes_are_one_parse_error(text):
    bench = Bench()
    bench.feed(text)
    assert bench.sent[0]["error"]["code"] == -32700
    bench.request("z", "ping")
    assert bench.answers["z"] == {}


def test_jr12_null_params_are_none():
    bench = Bench()
    bench.feed(raw(1, "ping", "null"))
    assert bench.answers == {1: {}}


def test_jr16_unknown_members_are_ignored():
    bench = Bench()
    bench.feed(b'{"jsonrpc":"2.0","x":[1,{"id":9}],"id":1,"method":"echo","params":{"y":1,"_meta":{"q":2}}}')
    assert bench.answers == {1: {"text": "hi"}}


@pytest.mark.parametrize("method", [r"tools\/call", r"\u0065cho", r"echo\u0000"])
def test_methods_written_with_escapes_are_the_plain_method(method):
    bench = Bench()
    name = json.loads(f'"{method}"')
    bench.method(name, lambda ex: b'{"ok":true}')
    bench.feed(raw(1, method))
    assert bench.answers == {1: {"ok": True}}


def test_a_cancel_with_an_escaped_method_is_a_cancel():
    bench = Bench()
    bench.request(1, "wait")
    bench.feed(rb'{"jsonrpc":"2.0","method":"notifications\/cancelled","params":{"requestId":1}}')
    assert bench.exchanges[1].cancelled
    assert bench.at_rest()


def test_jr07_notifications_are_never_answered():
    bench = Bench()
    for params in ("", ',"params":[]', ',"params":5', ',"params":null', ',"params":{}'):
        bench.feed(f'{{"jsonrpc":"2.0","method":"x/y"{params}}}'.encode())
        bench.feed(f'{{"jsonrpc":"2.0","method":"notifications/cancelled"{params}}}'.encode())
        bench.feed(f'{{"jsonrpc":"2.0","method":"notifications/progress"{params}}}'.encode())
    for id in ("null", "1.5", "[]", '"nobody"', "7"):
        bench.feed(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}'.encode())
    assert bench.frames == []
    assert bench.gate.notes.count("x/y") == 5
    assert bench.at_rest()


def test_b07_an_error_answer_without_id_is_not_answered():
    bench = Bench()
    for _ in range(1000):
        bench.feed(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}')
        bench.feed(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}')
    assert bench.frames == []
    assert bench.mux.stray == 2000


def test_b07_a_client_answers_nothing_that_is_no_request():
    bench = Bench(client=True)
    for junk in (b"npm warn foo", b"5", b"[]", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":3,"result":1}'):
        bench.feed(junk)
    assert bench.frames == []


def test_b108_deep_nesting_is_refused_with_the_id():
    bench = Bench(max_depth=200)
    started = time.perf_counter()
    for depth in (1100, 10_000, 1_000_000):
        bench.feed(raw(1, "echo", '{"a":' + "[" * depth + "]" * depth + "}"))
        bench.feed(raw(1, "echo", '{"a":' + "[" * depth))
    assert [a["error"]["code"] for a in bench.sent] == [-32700] * 6
    assert all(a["id"] == 1 for a in bench.sent)
    bench.frames.clear()
    bench.feed(raw(1, "echo", '{"a":' + "[" * 190 + "]" * 190 + "}"))
    assert bench.answers == {1: {"text": "hi"}}
    assert time.perf_counter() - started < 20


# --- progress -------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["0", '""', '"1"', "1", "-5", '"\\u0000"', "18446744073709551616"])
def test_b79_progress_carries_the_exact_token(token):
    bench = Bench()
    bench.method("work", lambda ex: ex.progress(1) or ex.progress(2.5, 10, "half") or b"{}")
    bench.feed(raw(1, "work", f'{{"_meta":{{"progressToken":{token}}}}}'))
    notes = bench.frames[:-1]
    assert notes == [
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,"progress":1}}' % token.encode(),
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,"progress":2.5,"total":10,'
        b'"message":"half"}}' % token.encode(),
    ]
    assert bench.at_rest()


@pytest.mark.parametrize("token", ["null", "1.5", "true", "[]", "{}", None])
def test_b79_other_tokens_get_no_progress(token):
    bench = Bench()
    bench.method("work", lambda ex: ex.progress(1) or b"{}")
    bench.feed(raw(1, "work", "{}" if token is None else f'{{"_meta":{{"progressToken":{token}}}}}'))
    assert len(bench.frames) == 1
    assert bench.answers == {1: {}}


def test_mx03_progress_increases_and_is_finite():
    bench = Bench()
    values = [0, 0, -1, 1, 1.0, float("nan"), float("inf"), 2, 1e300, 2**53]

    def work(ex):
        for value in values:
            ex.progress(value, float("inf"), "\ud800")
        with pytest.raises(TypeError):
            ex.progress(1e301, "many")
        return b"{}"

    bench.method("work", work)
    bench.feed(raw(1, "work", '{"_meta":{"progressToken":1}}'))
    notes = [note["params"] for note in bench.sent[:-1]]
    assert [note["progress"] for note in notes] == [0, 1, 2, 1e300]
    assert all("total" not in note and note["message"] == "?" for note in notes)


def test_mx03_the_first_revision_has_no_progress_message():
    bench = Bench()
    bench.gate.revision = Revision("2024-11-05", modern=False, requests={
        b"work": FunctionHandler(lambda ex: ex.progress(1, 2, "text") or b"{}")})
    bench.feed(raw(1, "work", '{"_meta":{"progressToken":1}}'))
    assert bench.sent[0]["params"] == {"progressToken": 1, "progress": 1, "total": 2}


# --- results and errors of handlers ---------------------------------------------------------------


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


ERRORS = [
    ValueError("secret"), asyncio.CancelledError(), SystemExit(3), StopIteration(1), RecursionError(), MemoryError(),
    ExceptionGroup("g", [ValueError("secret")]), BaseExceptionGroup("g", [SystemExit()]), Unprintable(), GeneratorExit(),
    type("Odd", (BaseException,), {})("secret"),
]


@pytest.mark.parametrize("exc", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("kind", ["call", "coroutine", "later"])
def test_b86_jr38_any_exception_of_a_handler_is_one_internal_error(exc, kind):
    if kind == "later" and isinstance(exc, SystemExit):
        pytest.skip("asyncio itself ends the loop")
    bench = Bench()

    async def coroutine(ex):
        if kind == "later":
            await ex.later
        raise exc

    class Holder:
        later = None

    holder = Holder()

    def call(ex):
        if kind == "call":
            raise exc
        holder.later = bench.loop.create_future()
        return coroutine(holder)

    bench.method("boom", call)
    bench.request(1, "boom")
    if kind == "later":
        holder.later.set_result(None)
    bench.loop.turn()
    (frame,) = bench.frames
    answer = json.loads(frame)
    assert answer["id"] == 1
    assert answer["error"] == {"code": -32603, "message": "internal error"}
    assert len(bench.faults) == 1
    exc.__traceback__ = exc.__context__ = None  # it outlives the test
    bench.request("z", "ping")
    assert bench.answers["z"] == {}
    assert bench.at_rest()


def test_keyboard_interrupt_is_answered_and_goes_on():
    bench = Bench()

    def boom(ex):
        raise KeyboardInterrupt

    bench.method("boom", boom)
    with pytest.raises(KeyboardInterrupt):
        bench.request(1, "boom")
    assert bench.answers[1]["code"] == -32603
    assert bench.at_rest()


class Late(msgspec.Struct):
    text: str


@pytest.mark.parametrize(
    "result",
    [None, 5, "text", [1], b"", b"[]", b"5", b"{", object(), {"a": object()}, {"a": "\ud800"}, {1: {2: {3}}, "x": lambda: 0},
     Late("\udfff"), b"nul"],
    ids=stable_id,
)
def test_b86_a_result_that_cannot_be_written_is_one_error(result):
    bench = Bench()
    bench.method("work", lambda ex: result)
    bench.request(1, "work")
    bench.request(2, "echo")
    assert bench.answers[1]["code"] == -32603
    assert bench.answers[2] == {"text": "hi"}
    assert len(bench.frames) == 2
    assert bench.at_rest()


def test_a_result_that_contains_itself_is_one_error():
    bench = Bench()
    loop = {}
    loop["loop"] = loop
    bench.method("work", lambda ex: loop)
    bench.request(1, "work")
    assert bench.answers[1]["code"] == -32603


@pytest.mark.parametrize(
    ("result", "wire"),
    [
        ({"a": 1}, b'{"a":1}'), (b'{"a": 1}', b'{"a": 1}'), (Late("x"), b'{"text":"x"}'), ({}, b"{}"), (b"{}", b"{}"),
        (RawResult(b'{"z":1}'), b'{"z":1}'),
        (b'{\n "a": [1,\n2]}', b'{"a":[1,2]}'), (RawResult(b'{\n"a":"b\\n"}'), b'{"a":"b\\n"}'),
    ],
    ids=stable_id,
)
def test_st01_results_are_one_line(result, wire):
    bench = Bench()
    bench.method("work", lambda ex: result)
    bench.request(1, "work")
    assert bench.frames == [b'{"jsonrpc":"2.0","id":1,"result":%b}' % wire]


def test_jr10_the_tail_closes_every_result():
    bench = Bench()
    bench.revision.result_tail = b',"resultType":"complete"}'
    bench.request(1, "echo")
    bench.request(2, "ping")
    assert bench.answers == {1: {"text": "hi", "resultType": "complete"}, 2: {"resultType": "complete"}}


@pytest.mark.parametrize(
    ("error", "wire"),
    [
        (RpcError(-32050, "m", {"a": 1}), {"code": -32050, "message": "m", "data": {"a": 1}}),
        (RpcError(5, "m", object()), {"code": 5, "message": "m"}),
        (RpcError(5, "m", {"a": "\ud800"}), {"code": 5, "message": "m"}),
        (RpcError(5, "m\ud800é\n\"", 0), {"code": 5, "message": "m?é\n\"", "data": 0}),
        (RpcError(5, None), {"code": 5, "message": "None"}),
        (RpcError(5, Unprintable()), {"code": 5, "message": "(Unprintable)"}),
        (RpcError("5", "m"), {"code": -32603, "message": "m"}),
        (RpcError(2**70, "m"), {"code": -32603, "message": "m"}),
        (RpcError(2**40, "m", http_status="teapot"), {"code": 2**40, "message": "m"}),
        (RpcError(1.5, "m"), {"code": -32603, "message": "m"}),
        (RemoteProtocolError("bad", rpc_code=-32602), {"code": -32602, "message": "bad"}),
    ],
    ids=stable_id,
)
def test_jr09_errors_are_valid_whatever_a_handler_raises(error, wire):
    bench = Bench()

    def boom(ex):
        raise error

    bench.method("boom", boom)
    bench.request(1, "boom")
    assert bench.sent == [{"jsonrpc": "2.0", "id": 1, "error": wire}]
    error.__traceback__ = error.__context__ = None  # it outlives the test
    assert bench.at_rest()


def test_awaitables_of_every_kind_are_waited_for():
    bench = Bench()

    class Odd:
        def __init__(self, future):
            self.future = future

        def __await__(self):
            return self.future.__await__()

    futures = [bench.loop.create_future() for _ in range(3)]
    bench.method("future", lambda ex: futures[0])
    bench.method("awaitable", lambda ex: Odd(futures[1]))
    bench.method("hold", lambda ex: ex.hold(futures[2]))
    for id, method in enumerate(("future", "awaitable", "hold")):
        bench.request(id, method)
    bench.loop.turn()
    assert bench.frames == []
    for future in futures:
        future.set_result(b'{"a":1}')
    bench.loop.turn()
    assert bench.answers == {0: {"a": 1}, 1: {"a": 1}, 2: {"a": 1}}
    assert bench.at_rest()


def test_a_gate_that_fails_leaves_no_request_unanswered():
    bench = Bench()

    def broken(*args):
        raise ZeroDivisionError

    bench.gate.bad_input = bench.gate.notify = bench.gate.stray = broken
    bench.feed(b"junk")
    bench.feed(b'{"jsonrpc":"2.0","method":"x"}')
    bench.feed(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    bench.gate.unknown_method = broken
    bench.request(2, "nowhere")
    bench.gate.classify = broken
    bench.request(3, "echo")
    answers = bench.answers
    assert (answers[None]["code"], answers[2]["code"], answers[3]["code"]) == (-32700, -32603, -32603)
    bench.gate.lost = broken
    bench.mux.close()
    assert bench.at_rest()


def test_frames_after_close_are_ignored():
    bench = Bench()
    bench.mux.close("gone")
    bench.request(1)
    bench.feed(b"junk")
    assert bench.frames == []
    assert bench.gate.ends == ["gone"] and bench.mux.close_reason == "gone"


def test_a_finished_sink_takes_no_answer():
    bench = Bench()
    bench.request(1, "wait")
    bench.sink.finish()
    bench.done(1)
    bench.request(2, "fail")
    bench.feed(b"junk")
    assert bench.frames == []
    assert bench.at_rest()


def test_hn51_ids_have_no_scope_in_an_unscoped_mux():
    bench = Bench(scoped=False)
    other = []
    bench.request(1, "wait")
    first = bench.waits[1]
    bench.mux.receive_frame(raw(1, "wait"), FrameSink(other.append))
    bench.cancel(1)
    assert first is not bench.waits[1]
    first.set_result(b'{"a":1}')
    bench.done(1, b'{"b":1}')
    assert bench.answers == {1: {"a": 1}}
    assert [json.loads(f)["result"] for f in other] == [{"b": 1}]
    assert bench.at_rest()


def test_a_method_is_looked_up_anew_after_a_change():
    bench = Bench()
    bench.request(1)
    del bench.revision.requests[b"echo"]
    bench.revision.changed()
    bench.request(2)
    assert bench.answers[2]["code"] == -32601
