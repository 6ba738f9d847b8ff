"""The head parser and the chunked decoder against their models, at any split, with mutations."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from model import http1 as model

from headrace.errors import RemoteProtocolError
from headrace.limits import Limits
from headrace.wire import _http1 as http1

NAMES = [
    b"Host", b"Accept", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"Upgrade", b"TE",
    b"Mcp-Session-Id", b"MCP-Protocol-Version", b"Mcp-Method", b"Mcp-Name", b"Mcp-Param-X", b"Content-Type",
    b"Origin", b"Authorization", b"Last-Event-ID", b"Content-Encoding", b"Access-Control-Request-Method",
    b"Location", b"X", b"Access-Control-Request-Headers", b"WWW-Authenticate", b"Retry-After", b"Mcp-Parax-Y",
    b"Contont-Type", b"hosT",
]  # fmt: skip
VALUES = [
    b"a", b"", b"chunked", b"Chunked", b"gzip, chunked", b"5", b"0", b"12345678901234567890", b"close",
    b"keep-alive", b"Keep-Alive, Close", b"100-continue", b"a:80", b"a b", b"\xe9", b"x\ty", b"5, 5",
    b"trailers", b"v" * 17, b"w" * 40,
]  # fmt: skip
LINES = [
    b"GET / HTTP/1.1", b"POST /mcp HTTP/1.1", b"POST /mcp HTTP/1.0", b"OPTIONS * HTTP/1.1",
    b"DELETE /a?b HTTP/1.1", b"POST http://e/x HTTP/1.1", b"PUT /" + b"t" * 30 + b" HTTP/1.1",
    b"X /a HTTP/1.1", b"GET / HTTP/2.0", b"GET /", b"HTTP/1.1 200 OK", b"HTTP/1.0 404 Not Found",
    b"HTTP/1.1 204", b"HTTP/1.1 100 Continue", b"HTTP/3.0 200 x",
]  # fmt: skip
JUNK = st.sampled_from(
    [bytes([c]) for c in b"\0\t\n\r :,;#\x7f\x80\xffaZ0-"] + [b"\r\n", b"\r\n ", b"\n\n", b""]
)
SPACE = st.sampled_from([b"", b" ", b"  ", b"\t "])


@st.composite
def heads(draw):
    """A head, mostly right, with up to three places changed."""
    lines = [draw(st.sampled_from(LINES))]
    if draw(st.integers(0, 9)):
        lines.append(b"Host: a")
    for _ in range(draw(st.integers(0, 6))):
        lines.append(
            draw(st.sampled_from(NAMES)) + b":" + draw(SPACE) + draw(st.sampled_from(VALUES)) + draw(SPACE)
        )
    data = draw(st.sampled_from([b"", b"", b"", b"\r\n"])) + b"\r\n".join(lines) + b"\r\n\r\n"
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(JUNK) + data[at + draw(st.integers(0, 2)) :]
    return data + draw(st.sampled_from([b"", b"", b"{}", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 40]))


BOUNDS = st.sampled_from(
    [(32768, 100, 8192), (32768, 100, 8192), (120, 3, 20), (64, 2, 200), (40, 1, 1), (1, 1, 1)]
)
CUTS = st.lists(st.integers(0, 2000), max_size=8)


def pieces(data, cuts):
    ends = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(ends)]


def summary(head):
    return (
        head.method, head.target, head.status, head.reason, head.minor, head.headers, head.content_length,
        head.chunked, head.keep_alive, head.expect_continue, head.expect_other, head.upgrade, head.absolute,
        head.has_mcp_params, head.known, set(head.repeated), head.size, head.body,
    )  # fmt: skip


def model_summary(head):
    def text(value):
        return None if value is None else value.decode("latin-1")

    on = head.flags.__contains__
    return (
        text(head.method), text(head.target), head.status, text(head.reason), head.minor, head.headers,
        head.length, on("CHUNKED"), on("PERSIST"), on("EXPECT_100"), on("EXPECT_OTHER"), on("UPGRADE"),
        on("ABSOLUTE"), on("MCP_PARAM"), head.known, head.repeated, head.size, head.body,
    )  # fmt: skip


def by_model(data, response, bounds):
    got = model.parse(
        data, response=response, max_head=bounds[0], max_count=bounds[1], max_target=bounds[2]
    )
    if got[0] == "ok":
        return ("ok", model_summary(got[1]))
    return ("error", model.ANSWERS[got[1]]) if got[0] == "error" else got


def by_parser(parts, response, bounds):
    limits = Limits(max_header_bytes=bounds[0], max_header_count=bounds[1], max_target_bytes=bounds[2])
    parser = http1.HeadParser(response=response, limits=limits)
    try:
        for part in parts:
            head = parser.feed(part)
            if head is not None:
                return ("ok", summary(head))
    except RemoteProtocolError as error:
        return ("error", (error.http_status, str(error)))
    return ("more",)


@given(heads(), st.booleans(), BOUNDS, CUTS)
def test_b54_any_split_gives_the_head_of_the_model(data, response, bounds, cuts):
    want = by_model(data, response, bounds)
    assert by_parser([data], response, bounds) == want
    assert by_parser(pieces(data, cuts), response, bounds) == want
    assert by_parser([data[i : i + 1] for i in range(len(data))], response, bounds) == want


@given(st.binary(max_size=80), st.booleans(), CUTS)
def test_b54_any_bytes_give_the_result_of_the_model(data, response, cuts):
    bounds = (60, 2, 20)
    want = by_model(data, response, bounds)
    assert by_parser([data], response, bounds) == want
    assert by_parser(pieces(data, cuts), response, bounds) == want


CHUNKS = st.sampled_from(
    [b"5\r\nhello\r\n", b"A\r\n0123456789\r\n", b"1;a=b\r\nx\r\n", b'2;q="\\"\t"\r\n\r\n\r\n', b"01\r\n0\r\n"]
)
ENDS = st.sampled_from(
    [b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"00;e\r\nX:\r\nY: z\r\nZ: 1\r\n\r\n", b"0\r\n", b"", b"g"]
)


@st.composite
def bodies(draw):
    data = b"".join(draw(st.lists(CHUNKS, max_size=5))) + draw(ENDS)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(JUNK) + data[at + draw(st.integers(0, 2)) :]
    return data


def decode(parts, bounds):
    decoder = http1.ChunkedDecoder(limits=Limits(max_header_bytes=bounds[0], max_header_count=bounds[1]))
    body, sent = b"", 0
    try:
        for part in parts:
            body += decoder.feed(part)
            sent += len(part)
    except RemoteProtocolError as error:
        return ("error", (error.http_status, str(error)))
    return ("ok", (body, sent - len(decoder.trailing))) if decoder.done else ("more", body)


@given(bodies(), st.sampled_from([(1000, 100), (8, 2), (40, 1)]), CUTS)
@example(b"0\r\n\r\n", (1000, 100), [])
def test_b50_any_split_gives_the_body_of_the_model(data, bounds, cuts):
    want = model.chunked(data, max_head=bounds[0], max_count=bounds[1])
    got = decode([data], bounds)
    assert decode(pieces(data, cuts), bounds) == got
    assert decode([data[i : i + 1] for i in range(len(data))], bounds) == got
    if want[0] == "error":
        assert got[0] == "error"  # two faults in one line: either may be named
    elif got[0] == "error":
        # The model judges whole lines; what it calls unfinished may be wrong already.
        assert want[0] == "more"
        assert model.chunked(data + b"\n", max_head=bounds[0], max_count=bounds[1])[0] == "error"
    else:
        assert got == want
