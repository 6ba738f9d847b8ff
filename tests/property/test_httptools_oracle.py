"""llhttp (httptools) as a second opinion: what we accept, it accepts with the same meaning and the same end.

Where it is more lenient (missing Host, several empty lines, ...) we refuse and nothing is compared.
Known differences among accepted messages, left out of the comparison:

- methods llhttp does not know; it refuses them,
- the lone ``%`` and other sloppy targets of absolute form; it parses the authority,
- ``Upgrade`` with ``Connection: upgrade``: it stops after the head, we ignore the upgrade (B54),
- "close" together with "keep-alive": "close" counts for us,
- ``Connection: close``: it reads nothing behind such a message, so the next one is not tried,
- a response that ends with the connection: llhttp has no end for it either,
- 1xx answers other than 101, 204 and 304 with framing headers.
"""

import httptools
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headrace.errors import RemoteProtocolError
from headrace.wire import _http1 as http1

METHODS = [b"GET", b"POST", b"DELETE", b"OPTIONS", b"HEAD", b"PUT", b"PATCH"]
TARGETS = [
    b"/", b"/mcp", b"/a?b=c&d=%20", b"/" + b"x" * 50, b"/a|b{c}", b"http://e/x", b"/a//b/../c;d", b"/%",
    b"/'\"`",
]  # fmt: skip
HEADERS = [
    b"Accept: application/json, text/event-stream", b"Mcp-Session-Id: 1", b"X-Y: \xe9",
    b"Connection: keep-alive", b"Connection: close", b"connection: Keep-Alive , x", b"Expect: 100-continue",
    b"X:", b"X:   a b \t", b"Mcp-Param-A:\tb", b"Upgrade: h2c", b"TE: trailers", b"Connection: TE",
    b"x!#$%&'*+-.^_`|~: y", b"Content-Type: application/json", b"Cookie: a=b; c", b"X: a\tb",
]  # fmt: skip
CHUNKED = [
    b"5\r\nhello\r\n0\r\n\r\n", b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n", b"0\r\n\r\n",
    b"00A\r\n0123456789\r\n000\r\n\r\n", b'1;q="x y"\r\nz\r\n0\r\n\r\n', b"1;a;b\r\nz\r\n0\r\n\r\n",
]  # fmt: skip
# Header lines and the bodies that go with them.
FRAMING = [
    ([b"Content-Length: 5"], [b"hello"]), ([b"Content-Length: 005"], [b"hello"]),
    ([b"Content-Length: 0"], [b""]), ([b"Transfer-Encoding: chunked"], CHUNKED),
    ([b"transfer-encoding: CHUNKED"], CHUNKED), ([], [b""]),
]  # fmt: skip
# Ambiguous or wrong: to be refused by us, whatever llhttp does.
WRONG = [
    [b"Content-Length: 5", b"Content-Length: 5"], [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
    [b"Transfer-Encoding: gzip, chunked"], [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
    [b"Content-Length: +5"], [b"Content-Length: 5,5"], [b"Transfer-Encoding: x"], [b"Content-Length : 5"],
]  # fmt: skip
JUNK = [bytes([c]) for c in b"\0\t\n\r :,;=\"#\x7f\x80\xffaZ0-"] + [b"\r\n", b"\r\n ", b""]
NEXT = b"GET /next HTTP/1.1\r\nHost: n\r\n\r\n"

# Some two fifths of the mutated messages are refused, as they should be; there is nothing to compare then.
patient = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@st.composite
def messages(draw, first_lines):
    framing, bodies = draw(st.sampled_from(FRAMING))
    if not draw(st.integers(0, 9)):
        framing = draw(st.sampled_from(WRONG))
    others = draw(st.lists(st.sampled_from(HEADERS), max_size=4))
    hosts = draw(st.sampled_from([[b"Host: a"]] * 8 + [[b"Host: [::1]:80"], []]))
    lines = [draw(first_lines), *hosts, *others[:2], *framing, *others[2:]]
    data = b"\r\n".join(lines) + b"\r\n\r\n" + draw(st.sampled_from(bodies))
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 1, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from(JUNK)) + data[at + draw(st.integers(0, 2)) :]
    return data


REQUESTS = messages(
    st.builds(
        lambda m, t, v: m + b" " + t + b" HTTP/1." + v,
        st.sampled_from(METHODS),
        st.sampled_from(TARGETS),
        st.sampled_from([b"1", b"1", b"1", b"0"]),
    )
)
RESPONSES = messages(
    st.sampled_from(
        [b"HTTP/1.1 200 OK", b"HTTP/1.1 202 ", b"HTTP/1.0 404 No", b"HTTP/1.1 500 \xe9", b"HTTP/1.1 200"]
    )
)


class Events:
    """What llhttp saw, message after message."""

    def __init__(self, kind):
        self.parser = kind(self)
        self.done = 0
        self.keep_alive = None
        self.headers, self.body, self.url = [], b"", b""

    def on_message_begin(self):
        self.headers, self.body, self.url = [], b"", b""

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        self.headers.append((name.lower(), value))

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.done += 1
        self.keep_alive = self.parser.should_keep_alive()  # meaningless once this returns


def read(data, response):
    """Our reading: head, body and bytes used; None when refused or not complete."""
    try:
        head = http1.HeadParser(response=response).feed(data)
        if head is None:
            return None
        rest = data[head.size :]
        if head.body == "chunked":
            decoder = http1.ChunkedDecoder()
            body = decoder.feed(rest)
            return (head, body, len(data) - len(decoder.trailing)) if decoder.done else None
    except RemoteProtocolError:
        return None
    length = head.content_length if head.body == "length" else 0
    if head.body == "until-close" or len(rest) < length:
        return None
    return head, rest[:length], head.size + length


def accepted(data, response):
    """What we read, where both sides promise to understand it; other examples are passed over."""
    found = read(data, response)
    assume(found is not None)
    head = found[0]
    assume(not head.upgrade and (head.method is None or head.method.encode() in METHODS))
    assume(not head.absolute or head.target == "http://e/x")
    return found


def options(head):
    """The keep-alive decision, except where a message asks for both (we close then)."""
    fields = (head.get(b"connection") or b"").lower()
    return None if b"close" in fields and b"keep-alive" in fields else head.keep_alive


def ours(head, body, response):
    start = (head.status,) if response else (head.method, head.target)
    return start, f"1.{head.minor}", head.headers, body, options(head)


def llhttp(data, found, response):
    """The same of llhttp, fed up to where our message ends: not earlier, not later."""
    head, _, used = found
    events = Events(httptools.HttpResponseParser if response else httptools.HttpRequestParser)
    parser = events.parser
    parser.feed_data(data[: used - 1])
    assert events.done == 0, "llhttp sees an earlier end"
    parser.feed_data(data[used - 1 : used])
    assert events.done == 1, "llhttp sees no end here"
    trailers = len(events.headers) - len(head.headers)  # httptools reports trailers as headers
    assert trailers == 0 or (trailers > 0 and head.chunked)
    headers = [(n, v.strip(b" \t")) for n, v in events.headers[: len(head.headers)]]
    start = (parser.get_status_code(),) if response else (parser.get_method().decode(), events.url.decode("latin-1"))
    keeps = None if options(head) is None else events.keep_alive
    result = start, parser.get_http_version(), headers, events.body, keeps
    if head.keep_alive and not response:
        parser.feed_data(NEXT)
        assert (events.done, events.url, events.body) == (2, b"/next", b"")
    return result


@patient
@given(REQUESTS)
def test_b54_accepted_requests_mean_the_same_to_llhttp(data):
    found = accepted(data, response=False)
    assert llhttp(data, found, False) == ours(*found[:2], False)
    assert options(found[0]) is not None or not found[0].keep_alive


@patient
@given(RESPONSES)
def test_b54_accepted_responses_mean_the_same_to_llhttp(data):
    found = accepted(data, response=True)
    assert llhttp(data, found, True) == ours(*found[:2], True)
    assert options(found[0]) is not None or not found[0].keep_alive


@patient
@given(REQUESTS.map(lambda data: data + NEXT))
def test_b54_message_with_another_behind_it(data):
    found = accepted(data, response=False)
    assert llhttp(data, found, False) == ours(*found[:2], False)
    assert options(found[0]) is not None or not found[0].keep_alive
