"""What an ASGI host hands over, whatever it is: it arrives as it is, or the request is refused, and nothing else."""

import asyncio
import sys
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from asgi_support import Call, living, modern, scope_of
from http_support import make_server

TOKEN = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.!#$%&'*+^`|~", min_size=1, max_size=12)
VALUE = st.binary(max_size=12)
FIELDS = st.lists(st.tuples(TOKEN.map(str.encode) | st.binary(max_size=6), VALUE), max_size=6)
OURS = {b"host", b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"}


def plain(value):
    """What HTTP carries as a field value: no controls but tabs, no white space around it."""
    return not any((c < 0x20 and c != 9) or c == 0x7F for c in value)


def proper(name):
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!#$%&'*+^`|~"
    return bool(name) and all(c in letters for c in name)


@settings(max_examples=60)
@given(fields=FIELDS, cuts=st.lists(st.integers(0, 400), max_size=5), length=st.booleans(), query=st.binary(max_size=8))
def test_b54_scopes(fields, cuts, length, query):
    """The header fields of the request are those of the scope, and the body is its body."""
    seen = []

    def principal_of(found):
        seen.append(found)

    fields = [field for field in fields if field[0].lower() not in OURS and not field[0].lower().startswith(b"mcp-")]
    fields = [field for field in fields if field[0].lower() not in (b"accept", b"content-type", b"origin", b"expect")]
    fields = [field for field in fields if field[0].lower() != b"content-encoding"]
    headers, data = modern("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    if not length:
        headers = [field for field in headers if field[0] != b"content-length"]
    app = make_server().asgi(principal_of=principal_of)

    async def main():
        async with living(app):
            call = Call(app, scope_of("POST", "/mcp", [*headers, *fields], query=query))
            marks = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
            pieces = [data[a:b] for a, b in pairwise(marks)]
            for number, piece in enumerate(pieces, 1):
                call.tell(piece, number < len(pieces))
            return await call.start().over()

    answer = asyncio.run(main())
    good = all(proper(name) and plain(value) for name, value in fields)
    good = good and all(0x21 <= c <= 0x7E and c != 0x23 for c in query)
    assert answer.status == (200 if good else 400), (answer, fields, query)
    if good:
        (found,) = seen
        given_ = [(b"host", b"127.0.0.1:8000"), *headers, *fields]
        expected = [(name.lower(), value.strip(b" \t")) for name, value in given_]
        framing = (b"content-length", b"transfer-encoding")
        assert [field for field in found if field[0] not in framing] == [f for f in expected if f[0] not in framing]
        assert answer.json["result"]["content"][0]["text"] == "x"
    else:
        assert seen == []
