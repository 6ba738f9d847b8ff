"""scan_envelope and split_batch: every vector, the model on every vector, and the Python surface."""

import gc
import threading
from array import array

import pytest
from model import envelope as model
from vectors import load

from headrace.errors import RemoteProtocolError, UsageError
from headrace.jsonrpc import PARSE_ERROR
from headrace.wire import Envelope, scan_envelope, split_batch

VECTORS = load("envelope")
MESSAGES = {
    "not valid JSON": "json",
    "not valid UTF-8": "utf8",
}


def expect(vector, scan):
    """Holds `scan(text, max_depth, loose)`, which gives a model.Found, against the vector."""
    text = vector.get("in")
    depth = int(vector.get("depth") or 256)
    found = scan(text, depth, vector.get("loose") == b"yes")
    bad, reason = vector.get("bad"), vector.get("reason")
    assert found.fault == (bad and bad.decode())
    if bad is None:
        assert found.kind == vector.get("kind").decode()
        assert found.reason == (reason and reason.decode())
    if vector.get("at") is not None:
        assert found.at == int(vector.get("at"))
    if vector.get("usable") is not None:
        assert found.id_usable == (vector.get("usable") == b"yes")
    for key, value in vector.fields:
        if key in model.TOKENS:
            assert found.tokens.get(key) == value, key
    for name in (vector.get("none") or b"").decode().split():
        assert name not in found.tokens, name


def compiled(text, max_depth, loose):
    try:
        e = scan_envelope(text, max_depth=max_depth, loose=loose)
    except RemoteProtocolError as error:
        assert error.rpc_code == PARSE_ERROR
        fault = MESSAGES.get(str(error), "deep")
        return model.Found(
            fault=fault,
            at=error.offset,
            tokens={"id": error.id} if error.id is not None else {},
            id_usable=error.id is not None,
        )
    assert e.data == text
    tokens = {}
    for name in model.TOKENS:
        value = getattr(e, name)
        if name == "method" and value is not None:
            continue
        if value is not None:
            tokens[name] = value
    if e.method is not None:
        raw = model.scan(text, max_depth, loose).tokens["method"]
        assert model._Reader(raw, 1).string(0)[1] == e.method
        tokens["method"] = raw
    return model.Found(e.kind, e.reason, None, None, tokens, {}, e.id_usable)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
def test_vector(vector):
    expect(vector, compiled)


@pytest.mark.parametrize("vector", [v for v in VECTORS if len(v.get("in")) < 50_000], ids=lambda v: v.name)
def test_vector_on_the_model(vector):
    expect(vector, model.scan)


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.get("kind")], ids=lambda v: v.name)
def test_vector_with_trailing_data(vector):
    """White space around changes nothing; anything else makes it no JSON (B109)."""
    text, depth = vector.get("in"), int(vector.get("depth") or 256)
    loose = vector.get("loose") == b"yes"
    spaced = scan_envelope(b" \t" + text + b"\r\n ", max_depth=depth, loose=loose)
    assert spaced.kind == vector.get("kind").decode()
    for tail in (b"\x00", b"x", b"{}", b",", b"]", b"}", b'"', b"\xff", b"1"):
        if text[-1:].isalnum() and tail.isalnum():
            continue  # goes on with the number or literal
        with pytest.raises(RemoteProtocolError):
            scan_envelope(text + tail, max_depth=depth, loose=loose)


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v.get("kind") and len(v.get("in")) < 600], ids=lambda v: v.name
)
def test_vector_cut_anywhere(vector):
    """A message cut at any byte is no JSON, and an id is given only when it came whole (JR-13)."""
    text = vector.get("in").rstrip()
    if text[:1] not in (b"{", b"[", b'"'):
        return
    depth, loose = int(vector.get("depth") or 256), vector.get("loose") == b"yes"
    for cut in range(len(text)):
        with pytest.raises(RemoteProtocolError) as caught:
            scan_envelope(text[:cut], max_depth=depth, loose=loose)
        assert caught.value.id in (None, model.scan(text[:cut], depth, loose).tokens.get("id"))


def test_b108_deep_nesting_in_a_small_thread():
    """5,000,000 levels on a 256 KiB stack: one error with the id, never a signal."""
    head = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":'
    outcome = []

    def scan():
        for text in (head + b"[" * 5_000_000, head + b"[" * 1_100 + b"]" * 1_100 + b"}}"):
            for loose in (False, True):
                try:
                    scan_envelope(text, max_depth=1024, loose=loose)
                except RemoteProtocolError as error:
                    outcome.append((str(error), error.id))

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=scan)
        thread.start()
        thread.join(30)
    finally:
        threading.stack_size(before)
    assert outcome == [("nested deeper than 1024 levels", b"1")] * 4


def test_b109_long_key_and_many_keys():
    text = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"%s":1,%s}}' % (
        b"k" * 1_048_576,
        b",".join(b'"prefix%06d":0' % i for i in range(100_000)),
    )
    assert scan_envelope(text).kind == "request"


def test_b71_ids_keep_their_bytes():
    ids = [b"1", b'"1"', b'"01"', b"0", b'"0"', b'""', b"-1", b'"null"', b"9007199254740993", rb'"a\u0000b"']
    assert [scan_envelope(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % i).id for i in ids] == ids


def test_method_is_decoded_b107():
    assert scan_envelope(rb'{"jsonrpc":"2.0","method":"\u0070ing\ud83d\ude00"}').method == "ping\U0001f600"
    long = b"\\n" * 1000
    assert scan_envelope(b'{"jsonrpc":"2.0","method":"%s"}' % long).method == "\n" * 1000
    assert scan_envelope(b'{"jsonrpc":"2.0","method":5}').method is None
    assert scan_envelope('{"jsonrpc":"2.0","method":"é"}'.encode()).method == "é"


@pytest.mark.parametrize(
    "make", [bytearray, memoryview, lambda b: array("B", b), lambda b: memoryview(b + b)[: len(b)]]
)
def test_other_buffers_are_copied(make):
    text = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    e = scan_envelope(make(text))
    assert (e.data, type(e.data)) == (text, bytes)


def test_strided_buffer_is_read_in_its_order():
    text = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    spread = bytes(b for c in text for b in (c, 0))
    assert scan_envelope(memoryview(spread)[::2]).data == text


@pytest.mark.parametrize("wrong", ["{}", 5, None, [1]])
def test_only_bytes_like(wrong):
    with pytest.raises(TypeError):
        scan_envelope(wrong)


@pytest.mark.parametrize("depth", [0, -1, 1025])
def test_depth_is_bounded(depth):
    with pytest.raises(UsageError, match="max_depth"):
        scan_envelope(b"{}", max_depth=depth)


def test_envelope_outlives_its_source():
    source = bytearray(b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"abc"}}')
    e = scan_envelope(source)
    source[:] = b"x" * len(source)
    del source
    gc.collect()
    assert (e.id, e.name, e.method) == (b"77", b'"abc"', "tools/call")
    assert repr(e) == "<Envelope request id=b'77' method='tools/call'>"


def test_envelope_is_read_only():
    e = scan_envelope(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    for name in ("id", "kind", "data", "method"):
        with pytest.raises(AttributeError):
            setattr(e, name, b"")
    with pytest.raises(TypeError, match="scan_envelope"):
        Envelope()


def test_jr20_split_batch():
    assert split_batch(b"[]") == split_batch(b" [ ] ") == []
    assert split_batch(b' [ 1 ,{"a":"]"},\t"x,\\"" , [[],[1]],null] ') == [
        b"1", b'{"a":"]"}', b'"x,\\""', b"[[],[1]]", b"null",
    ]  # fmt: skip


@pytest.mark.parametrize("text", [b"{}", b"5", b"[1", b"[1,]", b"", b"[1]x"])
def test_jr20_split_batch_refuses(text):
    with pytest.raises(RemoteProtocolError):
        split_batch(text)


def test_results_of_any_kind_where_they_are_allowed():
    """Bare JSON-RPC 2.0 has them; MCP's are objects. What else makes a message invalid does so in both."""
    for value in (b"null", b"true", b"0", b'"x"', b"[1,[2]]", b"{}", b"-1.5e3"):
        text = b'{"jsonrpc":"2.0","id":1,"result":' + value + b"}"
        found = scan_envelope(text, any_result=True)
        assert (found.kind, found.result) == ("result", value)
        found = scan_envelope(text, any_result=True, loose=True)
        assert (found.kind, found.result) == ("result", value)
        strict = scan_envelope(text)
        assert (strict.kind, strict.reason) == (
            ("result", None) if value == b"{}" else ("invalid", "result must be an object"))
    for text in (b'{"jsonrpc":"2.0","result":1}', b'{"jsonrpc":"2.0","id":1,"result":1,"error":{}}',
                 b'{"jsonrpc":"2.0","id":1,"error":1}'):
        assert scan_envelope(text, any_result=True).kind == "invalid"
