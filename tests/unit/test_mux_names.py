"""A mux whose peer has other names for cancelling and progress, or none; loose results."""

import json

import msgspec
import pytest
from mux_support import Bench

from headrace.errors import RemoteProtocolError
from headrace.limits import Limits
from headrace.mux import LSP, MCP, NO_NAMES, AnyMethod, FrameSink, Gate, Mux, Names, Revision


class Notes(Gate):
    def __init__(self):
        self.told = []

    def notify(self, envelope, sink):
        self.told.append((envelope.method, envelope.params))


def made(names, handler=lambda exchange: exchange.params, limits=Limits()):  # noqa: B008
    bench = Bench()
    gate, sent = Notes(), []
    mux = Mux(bench.mux.runtime, gate, limits)
    mux.current = Revision("", modern=False, fallback=AnyMethod(handler, loose=True))
    mux.names = names
    mux.loose = True
    return bench, mux, gate, FrameSink(sent.append), sent


def frame(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def test_names_are_mcps_at_first():
    mux = Bench().mux
    assert mux.names == MCP and not mux.loose
    mux.names = LSP
    assert mux.names == LSP
    mux.names = Names(
        cancel="notifications/cancelled", cancel_id="requestId",
        progress="notifications/progress", progress_token="progressToken",
    )  # fmt: skip
    assert mux.names is MCP


@pytest.mark.parametrize(
    "names, cancelled",
    [
        (MCP, b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'),
        (LSP, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}'),
        (Names(cancel='a"b', cancel_id="é"), '{"jsonrpc":"2.0","method":"a\\"b","params":{"é":1}}'.encode()),
        (NO_NAMES, None),
    ],
)
def test_giving_up_a_call(names, cancelled):
    _, mux, _, sink, sent = made(names)
    call = mux.call("initialize" if names is not MCP else "x", None, sink)
    call.cancel()
    call.cancel()
    assert sent[1:] == ([] if cancelled is None else [cancelled])
    assert not mux.pending
    if cancelled:
        assert msgspec.json.decode(cancelled)["jsonrpc"] == "2.0"


def test_an_answer_for_what_was_cancelled():
    """Once, with the id as it came; the handler is cancelled and what it does then is dropped."""
    held = []

    def handler(exchange):
        held.append(exchange)
        exchange.hold(bench.mux.runtime.create_future())

    bench, mux, gate, sink, sent = made(LSP, handler)
    mux.receive_frame(b'{"jsonrpc":"2.0","id":"\\u0061","method":"x"}', sink)
    mux.receive_frame(b'{"jsonrpc":"2.0","method":"$\\/cancelRequest","params":{"id":"a"}}', sink)
    (exchange,) = held
    assert exchange.cancelled and not exchange.open and exchange.task.cancelled()
    exchange.answer(5)
    assert [msgspec.json.decode(each) for each in sent] == [
        {"jsonrpc": "2.0", "id": "a", "error": {"code": -32800, "message": "the request was cancelled"}}
    ]
    assert gate.told == []
    mux.receive_frame(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"a"}}', sink)
    assert len(gate.told) == 1 and len(sent) == 1


def test_a_gate_that_is_told_of_everything():
    done = []
    _, mux, gate, sink, _ = made(LSP)
    mux.tees = True
    mux.call("x", None, sink, on_progress=done.append)
    mux.receive_frame(frame(method="$/progress", params={"token": 1, "value": 2}), sink)
    assert done == [{"token": 1, "value": 2}]
    assert gate.told == [("$/progress", b'{"token": 1, "value": 2}')]


def test_progress_that_names_no_call_is_any_notification():
    done = []
    _, mux, gate, sink, _ = made(Names(progress="p", progress_token="t"))
    mux.call("x", None, sink, on_progress=done.append, id="ü")
    for params in ({"t": 2}, {"t": None}, {"t": [1]}, [], {"token": 1}, {"t": True}, {"t": 1.0}):
        mux.receive_frame(frame(method="p", params=params), sink)
    mux.receive_frame(frame(method="p"), sink)
    assert len(gate.told) == 8 and done == []
    mux.receive_frame(frame(method="p", params={"t": "ü"}), sink)
    assert done == [{"t": "ü"}] and len(gate.told) == 8


def test_a_progress_callback_that_fails_leaves_the_call_alone():
    def fails(params):
        raise ValueError("not mine")

    _, mux, _, sink, _ = made(LSP)
    call = mux.call("x", None, sink, on_progress=fails)
    mux.receive_frame(frame(method="$/progress", params={"token": 1}), sink)
    mux.receive_frame(frame(id=1, result=[7]), sink)
    assert call.future.result() == b"[7]"


def test_mcps_progress_is_not_sent_to_others():
    def handler(exchange):
        exchange.progress(1, 2, "half")
        return None

    for names, count in ((MCP, 2), (LSP, 1)):
        _, mux, _, sink, sent = made(names, handler)
        mux.receive_frame(frame(id=1, method="x", params={"_meta": {"progressToken": 1}}), sink)
        assert len(sent) == count


@pytest.mark.parametrize("value", ["null", "0", '"x"', "[]", "{}", "false"])
def test_results_of_any_kind(value):
    _, mux, _, sink, _ = made(NO_NAMES)
    call = mux.call("x", None, sink)
    mux.receive_frame(b'{"jsonrpc":"2.0","id":1,"result":' + value.encode() + b"}", sink)
    assert call.future.result() == value.encode()
    mux.loose = False
    call = mux.call("x", None, sink)
    mux.receive_frame(b'{"jsonrpc":"2.0","id":2,"result":' + value.encode() + b"}", sink)
    if value == "{}":
        assert call.future.result() == b"{}"
    else:
        with pytest.raises(RemoteProtocolError, match="result must be an object"):
            call.future.result()


def test_an_empty_method_is_a_method():
    _, mux, _, sink, sent = made(NO_NAMES, lambda exchange: exchange.method)
    for _ in range(2):
        mux.receive_frame(frame(id=1, method=""), sink)
    assert [msgspec.json.decode(each)["result"] for each in sent] == ["", ""]


def test_cancelling_what_is_parked():
    def handler(exchange):
        exchange.hold(bench.mux.runtime.create_future())

    bench, mux, _, sink, sent = made(LSP, handler, Limits(max_in_flight=1))
    for n in range(3):
        mux.receive_frame(frame(id=n, method="x"), sink)
    mux.receive_frame(frame(method="$/cancelRequest", params={"id": 2}), sink)
    assert [msgspec.json.decode(each)["id"] for each in sent] == [2]
    assert mux.debug_counts()["parked"] == 1
    mux.close()
    assert mux.debug_counts()["parked"] == mux.debug_counts()["parked_bytes"] == 0
