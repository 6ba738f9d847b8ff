"""The gate of HTTP requests outside sessions: eras, mirrored headers, mirrored parameters (VN-62, HN-10..HN-31)."""

import json
import logging

import pytest

from headrace.errors import RpcError
from headrace.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, R4, R5, UNSUPPORTED_VERSION
from headrace.mux import FunctionHandler, Revision
from headrace.protocol.http_door import HttpDoor, decode_header_value
from headrace.wire import scan_envelope

MODERN = {b"mcp-protocol-version": R5.encode()}


class Tables:
    def __init__(self):
        call = FunctionHandler(lambda exchange: b"{}")
        self.modern = Revision(R5, modern=True, requests={b"tools/call": call})
        self.handshake = Revision(R4, modern=False)


class Owner:
    log = logging.getLogger("headrace.test")
    parameters = ()

    def __init__(self):
        self.tables = Tables()

    def header_parameters(self, name):
        return self.parameters if name == "tool" else ()


class Request:
    """Stands for the sink of a request."""

    def __init__(self, fields):
        self._fields = list(fields.items()) if isinstance(fields, dict) else fields

    def fields(self):
        return self._fields


def body(method="tools/call", version=R5, capabilities=True, id=1, **params):
    meta = {}
    if version is not None:
        meta["io.modelcontextprotocol/protocolVersion"] = version
    if capabilities:
        meta["io.modelcontextprotocol/clientCapabilities"] = {}
    if meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def classify(message, fields, owner=None):
    owner = owner or Owner()
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    revision = HttpDoor(owner, None).classify(scan_envelope(raw), Request(fields))
    return "modern" if revision is owner.tables.modern else "handshake"


def code_of(message, fields, owner=None):
    with pytest.raises(RpcError) as caught:
        classify(message, fields, owner)
    assert caught.value.http_status == 400
    return caught.value.code


def header(name, value, base=MODERN):
    return base | {name: value}


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"us-west1", "us-west1"), (b"=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
        (b"=?base64?IHBhZGRlZCA=?=", " padded "), (b"=?base64?bGluZTEKbGluZTI=?=", "line1\nline2"),
        (b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="), (b"=?base64?CWluZGVudGVk?=", "\tindented"),
        (b"=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="), (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        (b"SGVsbG8=?=", "SGVsbG8=?="), (b"", ""), (b"=?base64??=", ""), (b"a b", "a b"), (b"a\tb", "a\tb"),
    ],
)  # fmt: skip
def test_hn12_values(value, text):
    assert decode_header_value(value) == text


@pytest.mark.parametrize(
    "value",
    [b"=?base64?SGVsbG8?=", b"=?base64?SGVsbG9=?=", b"=?base64?SGVs bG8=?=", b"=?base64?!!!!?=", b"=?base64?/w==?=",
     b"=?base64?SGVsbG8=\n?=", b"caf\xc3\xa9", b"a\x7f"],
)  # fmt: skip
def test_hn12_bad_values_are_refused(value):
    with pytest.raises(ValueError):
        decode_header_value(value)


# --- eras --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, b"", b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25"])
def test_vn62_initialize_without_a_modern_sign_is_a_handshake(version):
    fields = {} if version is None else {b"mcp-protocol-version": version}
    assert classify(body("initialize", version=None, capabilities=False), fields) == "handshake"


def test_b61_initialize_with_an_unknown_header_is_decided_by_its_body():
    fields = {b"mcp-protocol-version": b"2099-01-01"}
    assert classify(body("initialize", version=None, capabilities=False), fields) == "handshake"
    assert code_of(body("initialize"), fields) == HEADER_MISMATCH


def test_vn64_initialize_with_modern_signs_is_modern():
    fields = MODERN | {b"mcp-method": b"initialize"}
    assert classify(body("initialize"), fields) == "modern"
    assert code_of(body("initialize", version=None), fields) == INVALID_PARAMS


def test_vn62_a_legacy_header_wins_over_a_modern_body():
    fields = {b"mcp-protocol-version": R4.encode()}
    assert code_of(body(name="tool"), fields) == INVALID_REQUEST
    assert classify(body("initialize"), fields) == "handshake"


@pytest.mark.parametrize("method", ["tools/list", "ping", "server/discover"])
def test_ho31_other_requests_without_any_sign_need_a_session(method):
    assert code_of(body(method, version=None, capabilities=False), {}) == INVALID_REQUEST


def test_vn66_a_modern_envelope_with_a_legacy_version_is_not_served():
    assert code_of(body("x", version=R4), {b"mcp-protocol-version": b"9", b"mcp-method": b"x"}) == HEADER_MISMATCH
    assert code_of(body("x", version=R4), {b"mcp-method": b"x"}) == HEADER_MISMATCH


def test_vn22_unknown_versions_name_the_supported_ones():
    with pytest.raises(RpcError) as caught:
        classify(body("x", version="v9"), {b"mcp-protocol-version": b"v9", b"mcp-method": b"x"})
    assert caught.value.code == UNSUPPORTED_VERSION
    assert caught.value.data == {"supported": [R5], "requested": "v9"}


# --- mirrored headers --------------------------------------------------------------------------------


CALL = MODERN | {b"mcp-method": b"tools/call"}


def test_b62_names_in_every_spelling():
    assert classify(body(name="tool"), CALL | {b"mcp-name": b"tool"}) == "modern"
    assert classify(body(name="éé"), CALL | {b"mcp-name": b"=?base64?w6nDqQ==?="}) == "modern"
    assert classify(body(name=" x"), CALL | {b"mcp-name": b"=?base64?IHg=?="}) == "modern"
    assert classify(body(name=""), CALL | {b"mcp-name": b""}) == "modern"
    raw = json.dumps(body(name="tool")).replace('"tool"', '"to\\u006fl"').encode()
    assert classify(raw, CALL | {b"mcp-name": b"tool"}) == "modern"


@pytest.mark.parametrize("value", [b"boom", b"Tool", b"=?base64?dG9vbA?=", b"t\xc3\xb6ol", b"", None])
def test_b62_wrong_names_are_refused(value):
    fields = CALL if value is None else CALL | {b"mcp-name": value}
    assert code_of(body(name="tool"), fields) == HEADER_MISMATCH


@pytest.mark.parametrize(
    ("method", "member"),
    [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri"), ("tasks/get", "taskId"),
     ("tasks/update", "taskId"), ("tasks/cancel", "taskId")],
)  # fmt: skip
def test_hn03_where_the_name_comes_from(method, member):
    fields = MODERN | {b"mcp-method": method.encode()}
    message = body(method, **{member: "x:y"})
    assert classify(message, fields | {b"mcp-name": b"x:y"}) == "modern"
    assert code_of(message, fields | {b"mcp-name": b"x:z"}) == HEADER_MISMATCH
    assert code_of(message, fields) == HEADER_MISMATCH


def test_hn03_other_methods_need_no_name():
    fields = MODERN | {b"mcp-method": b"tools/list"}
    assert classify(body("tools/list"), fields) == "modern"
    assert classify(body("tools/list"), fields | {b"mcp-name": b"ignored"}) == "modern"


def test_a_missing_name_is_left_to_the_method():
    assert classify(body(), CALL | {b"mcp-name": b"x"}) == "modern"
    assert classify(body(name=3), CALL | {b"mcp-name": b"x"}) == "modern"


@pytest.mark.parametrize("name", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_hn27_doubled_headers(name):
    fields = list((CALL | {b"mcp-name": b"tool"}).items())
    fields.append((name, dict(fields)[name]))
    assert code_of(body(name="tool"), fields) == HEADER_MISMATCH


def test_trap7_order_of_faults():
    assert code_of(body("x", version=None, capabilities=False), MODERN) == INVALID_PARAMS
    assert code_of(body("x", version="v9"), MODERN | {b"mcp-method": b"x"}) == HEADER_MISMATCH
    assert code_of(body("x", version="v9"), {b"mcp-protocol-version": b"v9"}) == HEADER_MISMATCH


# --- parameters as headers ---------------------------------------------------------------------------


def owner():
    made = Owner()
    made.parameters = (("Region", ("region",), "string"), ("Count", ("opt", "count"), "integer"),
                       ("Flag", ("flag",), "boolean"))  # fmt: skip
    return made


TOOL = CALL | {b"mcp-name": b"tool"}


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({}, {}), ({"region": None}, {}), ({"region": "eu"}, {b"mcp-param-region": b"eu"}),
        ({"region": ""}, {b"mcp-param-region": b""}),
        ({"region": "é"}, {b"mcp-param-region": b"=?base64?w6k=?="}),
        ({"opt": {"count": 42}}, {b"mcp-param-count": b"42"}), ({"opt": {"count": 42}}, {b"mcp-param-count": b"42.0"}),
        ({"opt": {"count": -7}}, {b"mcp-param-count": b"-7"}), ({"flag": True}, {b"mcp-param-flag": b"true"}),
        ({"flag": False}, {b"mcp-param-flag": b"false"}), ({}, {b"mcp-param-other": b"forwarded"}),
        ({"opt": {"count": 9007199254740993}}, {b"mcp-param-count": b"9007199254740993"}),
        ({"opt": {"count": [1]}}, {}), ({"opt": 3}, {}),
    ],
)  # fmt: skip
def test_hn25_parameters_that_agree(arguments, fields):
    assert classify(body(name="tool", arguments=arguments), TOOL | fields, owner()) == "modern"


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"region": "eu"}, {}), ({"region": "eu"}, {b"mcp-param-region": b"us"}),
        ({}, {b"mcp-param-region": b"eu"}), ({"region": None}, {b"mcp-param-region": b""}),
        ({"region": "x"}, {b"mcp-param-region": b"=?base64?eA?="}), ({"region": "é"}, {b"mcp-param-region": b"\xe9"}),
        ({"flag": True}, {b"mcp-param-flag": b"True"}), ({"flag": True}, {b"mcp-param-flag": b"1"}),
        ({"opt": {"count": 42}}, {b"mcp-param-count": b"43"}), ({"opt": {"count": 42}}, {b"mcp-param-count": b"0x2a"}),
        ({"opt": {"count": 42}}, {b"mcp-param-count": b"4_2"}),
        ({"opt": {"count": 9007199254740993}}, {b"mcp-param-count": b"9007199254740992"}),
    ],
)  # fmt: skip
def test_hn25_parameters_that_differ(arguments, fields):
    assert code_of(body(name="tool", arguments=arguments), TOOL | fields, owner()) == HEADER_MISMATCH


def test_hn27_doubled_parameter_header():
    fields = [*TOOL.items(), (b"mcp-param-region", b"eu"), (b"mcp-param-region", b"eu")]
    assert code_of(body(name="tool", arguments={"region": "eu"}), fields, owner()) == HEADER_MISMATCH


def test_hn25_other_tools_are_not_looked_at():
    fields = CALL | {b"mcp-name": b"else", b"mcp-param-region": b"x"}
    assert classify(body(name="else", arguments={"region": "y"}), fields, owner()) == "modern"
