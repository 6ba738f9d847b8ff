"""The scan finds what the slow model finds, on good, odd and mutated messages; msgspec agrees on validity.

What msgspec refuses and the scan lets pass, because only a decoder can tell (B105): numbers beyond the
range of a double. Everything else must be judged alike.
"""

import json
import re

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from model import envelope as model

from headrace.errors import RemoteProtocolError
from headrace.wire import scan_envelope

FAULTS = {"not valid JSON": "json", "not valid UTF-8": "utf8"}
BIG_NUMBER = re.compile(rb"[0-9]{300,}|[eE][+-]?[0-9]{3,}")

TEXT = st.one_of(
    st.text(max_size=20),
    st.text(alphabet='"\\/\b\f\n\r\t \x7fé€😀a', max_size=90),
    st.sampled_from(["2.0", "ping", "tools/call", ""]),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def string(draw, text=TEXT):
    """A JSON string, any character of it written any legal way."""
    out = ['"']
    for c in draw(text):
        way = draw(st.integers(0, 5))
        if way == 0 or (c < " " and c not in "\b\f\n\r\t"):
            units = c.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2)]
        elif way == 1 and c == "/":
            out.append("\\/")
        else:
            out.append(json.dumps(c, ensure_ascii=False)[1:-1])
    return "".join(out) + '"'


SPACE = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r"])
ANY = VALUES.map(lambda v: json.dumps(v, ensure_ascii=False))


@st.composite
def members(draw, known, special=None):
    """An object over the known keys and others, with duplicates now and then."""
    keys = draw(
        st.lists(st.sampled_from([*known, "x"]), max_size=len(known) + 1, unique=draw(st.integers(0, 4)) > 0)
    )
    parts = []
    for key in keys:
        value = draw(special[key]) if special and key in special and draw(st.integers(0, 5)) else draw(ANY)
        name = draw(string(st.just(key))) if draw(st.integers(0, 4)) == 0 else json.dumps(key)
        parts.append(draw(SPACE) + name + draw(SPACE) + ":" + draw(SPACE) + value + draw(SPACE))
    return "{" + (",".join(parts) or draw(SPACE)) + "}"


META = members(list(model.META_MEMBERS))
PARAMS = members(list(model.PARAMS), {"_meta": META, "name": string()})
MESSAGES = members(
    ["jsonrpc", "id", "method", "params", "result", "error"],
    {
        "jsonrpc": st.sampled_from(['"2.0"', '"2.0"', '"2.0"', '"\\u0032.0"', "2.0"]),
        "id": st.sampled_from(["1", "0", "-5", '"a"', '"\\n"', "null", "1.5", "12345678901234567890"]),
        "method": string(),
        "params": PARAMS,
        "result": st.dictionaries(TEXT, VALUES, max_size=3).map(lambda v: json.dumps(v, ensure_ascii=False)),
        "error": st.just('{"code":1,"message":"m"}'),
    },
)


def ours(text, max_depth, loose):
    """What the scanner makes of `text`, comparable with :func:`theirs`."""
    try:
        e = scan_envelope(text, max_depth=max_depth, loose=loose)
    except RemoteProtocolError as error:
        assert 0 <= error.offset <= len(text)
        # Within one long string the order in which two faults are seen is not promised.
        return "fault", FAULTS.get(str(error), "deep") == "deep", error.id
    tokens = {name: getattr(e, name) for name in model.TOKENS if name != "method"}
    return "message", e.kind, e.reason, e.id_usable, tokens, e.method


def theirs(text, max_depth, loose):
    """The same of the model."""
    found = model.scan(text, max_depth, loose)
    if found.fault:
        return "fault", found.fault == "deep", found.tokens.get("id") if found.id_usable else None
    tokens = {name: found.tokens.get(name) for name in model.TOKENS if name != "method"}
    method = json.loads(found.tokens["method"]) if found.types.get("method") == "string" else None
    return "message", found.kind, found.reason, found.id_usable, tokens, method


@given(MESSAGES, st.booleans())
def test_messages(message, loose):
    how = (message.encode("utf-8", "surrogatepass"), 256, loose)
    assert ours(*how) == theirs(*how)


MUTATION = st.tuples(
    st.sampled_from(["insert", "delete", "replace", "cut", "repeat"]),
    st.integers(0, 10_000),
    st.one_of(
        st.sampled_from(
            [
                b'"',
                b"\\",
                b"{",
                b"}",
                b"[",
                b"]",
                b",",
                b":",
                b"\\u",
                b"\\ud800",
                b"\x00",
                b"\xff",
                b"0",
                b"-",
            ]
        ),
        st.binary(min_size=1, max_size=3),
    ),
    st.integers(1, 40),
)


def mutate(text, mutations):
    for how, where, what, n in mutations:
        at = where % (len(text) + 1)
        if how == "insert":
            text = text[:at] + what + text[at:]
        elif how == "delete":
            text = text[:at] + text[at + n :]
        elif how == "replace":
            text = text[:at] + what + text[at + len(what) :]
        elif how == "cut":
            text = text[:at]
        else:
            text = text[:at] + text[at : at + n] * 2 + text[at + n :]
    return text


@given(
    MESSAGES, st.lists(MUTATION, min_size=1, max_size=4), st.booleans(), st.sampled_from([1, 2, 3, 5, 256])
)
def test_mutated_messages(message, mutations, loose, max_depth):
    how = (mutate(message.encode("utf-8", "surrogatepass"), mutations), max_depth, loose)
    assert ours(*how) == theirs(*how)


@given(st.binary(max_size=60))
def test_any_bytes(text):
    for loose in (False, True):
        assert ours(text, 256, loose) == theirs(text, 256, loose)


@given(
    st.integers(0, 140),
    st.lists(
        st.sampled_from(
            [
                b"\\n",
                b"\\\\",
                b'\\"',
                b"\\u0041",
                b"\\ud83d\\ude00",
                b"a",
                b"\xc3\xa9",
                b"\xe2\x82\xac",
                b"\xf0\x9f\x98\x80",
            ]
        ),
        min_size=1,
        max_size=120,
    ),
    st.lists(MUTATION, max_size=1),
)
def test_long_strings_at_every_alignment(pad, pieces, mutations):
    """Long enough for the blocks of the scanner; characters and escapes lie across their borders."""
    inside = mutate(b"p" * pad + b"".join(pieces), mutations)
    for message in (
        b'{"jsonrpc":"2.0","id":1,"method":"%s"}',
        b'{"jsonrpc":"2.0","id":1,"result":{"%s":[1]}}',
    ):
        for loose in (False, True):
            assert ours(message % inside, 256, loose) == theirs(message % inside, 256, loose)


@given(MESSAGES, st.lists(MUTATION, max_size=3))
def test_msgspec_agrees_on_validity(message, mutations):
    text = mutate(message.encode("utf-8", "surrogatepass"), mutations)
    assume(not BIG_NUMBER.search(text))
    try:
        msgspec.json.decode(text)
        valid = True
    except (msgspec.DecodeError, UnicodeDecodeError):
        valid = False
    try:
        scan_envelope(text)
        passed = True
    except RemoteProtocolError:
        passed = False
    assert passed == valid, text
