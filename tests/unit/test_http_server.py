"""The HTTP server on raw sockets: statuses, negotiation, framing, order (sections 4, 5; B50..B60)."""

import asyncio
import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated

import pytest
from http_support import BOTH, META, R4, R5, make_server, site, tiny

from headrace.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from headrace.server.schema import Header


def text_of(answer):
    return answer.json["result"]["content"][0]["text"]


def test_hn43_unary_answer_is_one_json_object(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for id in (1, "a", 12345678901234567890, ""):
                answer = await peer.ask(s.call("echo", {"text": "hi"}, id=id))
                assert answer.status == 200
                assert answer.get("content-type") == "application/json"
                assert answer.json["id"] == id
                assert answer.json["result"]["resultType"] == "complete"
                assert text_of(answer) == "hi"

    run(main)


@pytest.mark.parametrize("size", [0, 1, 100, 65_000, 70_000, 1_000_000, 5_000_000])
def test_bodies_and_answers_of_every_size(run, size):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for _ in range(2):
                answer = await peer.ask(s.call("echo", {"text": "y" * size}), timeout=20)
                assert text_of(answer) == "y" * size
            assert (await peer.ask(s.call("echo", {"text": "on"}))).status == 200

    run(main)


def test_byte_by_byte_requests_are_served(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for byte in s.call("echo", {"text": "slowly"}):
                peer.send(bytes((byte,)))
                await asyncio.sleep(0)
            assert text_of(await peer.answer()) == "slowly"

    run(main)


def test_every_split_of_a_request_gives_the_same_answer(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            data = s.call("echo", {"text": "split"})
            for at in range(1, len(data), 7):
                peer.send(data[:at])
                await asyncio.sleep(0.001)
                peer.send(data[at:])
                assert text_of(await peer.answer()) == "split"

    run(main)


def test_b54_pipelined_requests_are_answered_in_order(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            calls = [s.call("sleep", {"ms": 30 if i % 3 == 0 else 0}, id=i) for i in range(12)]
            calls += [s.call("echo", {"text": "e"}, id=i) for i in range(12, 800)]
            peer.send(b"".join(calls))
            for i in range(800):
                assert (await peer.answer()).json["id"] == i

    run(main)


def test_pipelined_input_behind_a_running_request_is_bounded(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            peer.send(s.call("sleep", {"ms": 300}, id=0))
            block = b"".join(s.call("echo", {"text": "z" * 1000}, id=i) for i in range(1, 3001))
            peer.send(block)
            await asyncio.sleep(0.15)
            assert s.server.seen.started == 1 and s.server.seen.finished == 0
            for i in range(3001):
                assert (await peer.answer(timeout=10)).json["id"] == i

    run(main)


# --- HN-30: statuses in their order ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "status"),
    [("/mcp", 200), ("/mcp/", 200), ("/mcp?x=1", 200), ("/mcp/?x", 200), ("//mcp", 404), ("/MCP", 404),
     ("/mcp%2F", 404), ("/mcp//", 404), ("/", 404), ("/mcpx", 404)],
)  # fmt: skip
def test_b58_paths(run, target, status):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for _ in range(2):
                answer = await peer.ask(s.call("echo", {"text": "p"}, target=target))
                assert answer.status == status
                if status != 200:
                    assert answer.code == INVALID_REQUEST
                    assert "id" not in answer.json
            assert (await peer.ask(s.call("echo", {"text": "p"}))).status == 200

    run(main)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "HEAD", "MKCOL"])
def test_other_methods_are_405_with_allow(run, method):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.request(method, body=b"{}"), head_only=method == "HEAD")
            assert answer.status == 405
            assert answer.get("allow") == "GET, POST, DELETE"
            assert "access-control-allow-origin" not in answer.headers
            assert (await peer.ask(s.call("echo", {"text": "next"}))).status == 200

    run(main)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_hn01_get_and_delete_are_405_for_modern_clients(run, method):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for fields in ({"mcp_protocol_version": R5}, {}, {"mcp_protocol_version": R5, "mcp_session_id": "x"}):
                answer = await peer.ask(s.request(method, **fields))
                assert (answer.status, answer.get("allow")) == (405, "POST")

    run(main)


def test_hn01_session_ids_are_ignored_in_the_modern_era(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("echo", {"text": "x"}, mcp_session_id="nonsense", last_event_id="9"))
            assert answer.status == 200
            assert "mcp-session-id" not in answer.headers

    run(main)


@pytest.mark.parametrize(
    ("value", "status"),
    [("application/json; charset=utf-8", 200), ("Application/JSON", 200), ('application/json;charset="UTF-8"', 200),
     ("application/jsonx", 415), ("text/plain", 415), (None, 415), ("application/json; charset=latin-1", 415)],
)  # fmt: skip
def test_b56_content_types(run, value, status):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("echo", {"text": "x"}, content_type=value))
            assert answer.status == status

    run(main)


@pytest.mark.parametrize(
    ("value", "status", "kind"),
    [("*/*", 200, "json"), ("application/*, text/*", 200, "json"),
     ("APPLICATION/JSON, Text/Event-Stream", 200, "json"),
     ("application/json;q=0.9, text/event-stream;q=0", 200, "json"),
     ("application/json", 200, "json"), ("text/event-stream", 200, "sse"),
     ("application/json;q=0, text/event-stream", 200, "sse"), (None, 200, "json"), ("text/html", 406, "json")],
)  # fmt: skip
def test_b55_accept(run, value, status, kind):
    """HO-02: what a POST may ask for, in every spelling."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            for _ in range(2):
                answer = await peer.ask(s.call("echo", {"text": "x"}, accept=value))
                assert answer.status == status
                if kind == "sse":
                    assert answer.get("content-type") == "text/event-stream"
                    (message,) = answer.events
                    assert message["result"]["content"][0]["text"] == "x"
                else:
                    assert answer.get("content-type") == "application/json"

    run(main)


def test_b55_two_accept_lines_count_together(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            two = (("Accept", "text/html"), ("Accept", "text/event-stream"))
            answer = await peer.ask(s.call("echo", {"text": "x"}, accept=None, headers=two))
            assert answer.get("content-type") == "text/event-stream"

    run(main)


def test_json_only_mode_never_streams(run):
    async def main():
        async with site(json_only=True) as s:
            peer = await s.connect()
            assert (await peer.ask(s.call("echo", {"text": "x"}, accept="text/event-stream"))).status == 406
            answer = await peer.ask(s.call("progress", {"n": 3}, meta={"progressToken": 1}))
            assert answer.get("content-type") == "application/json"
            assert text_of(answer) == "done"

    run(main)


@pytest.mark.parametrize("value", ["gzip", "br", "identity, gzip"])
def test_b52_encoded_bodies_are_415(run, value):
    async def main():
        async with site() as s:
            peer = await s.connect()
            assert (await peer.ask(s.call("echo", {"text": "x"}, content_encoding=value))).status == 415
            assert (await peer.ask(s.call("echo", {"text": "x"}, content_encoding="identity"))).status == 200

    run(main)


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", PARSE_ERROR), (b"", PARSE_ERROR), (b"\xff", PARSE_ERROR), (b"[]", INVALID_REQUEST),
     (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST), (b"3", INVALID_REQUEST),
     (b'{"jsonrpc":"2.0","id":null,"method":"x"}', INVALID_REQUEST),
     (b'{"jsonrpc":"2.0","id":1,"result":{}}', INVALID_REQUEST),
     (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}', INVALID_REQUEST)],
)  # fmt: skip
def test_hn30_bad_bodies_are_400_and_the_connection_goes_on(run, body, code):
    """JR-15: a posted response is one of them."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.request(body=body, mcp_protocol_version=R5))
            assert (answer.status, answer.code) == (400, code)
            assert (await peer.ask(s.call("echo", {"text": "on"}))).status == 200

    run(main)


def modern_body(method="tools/call", version=R5, capabilities=True, **params):
    meta = {}
    if version is not None:
        meta["io.modelcontextprotocol/protocolVersion"] = version
    if capabilities:
        meta["io.modelcontextprotocol/clientCapabilities"] = {}
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": meta, **params}}


ECHO = {"name": "echo", "arguments": {"text": "x"}}
GOOD = {"mcp_protocol_version": R5, "mcp_method": "tools/call", "mcp_name": "echo"}


@pytest.mark.parametrize(
    ("body", "fields", "status", "code"),
    [
        # 7: _meta before headers
        (modern_body(version=None, **ECHO), GOOD, 400, INVALID_PARAMS),
        (modern_body(capabilities=False, **ECHO), GOOD, 400, INVALID_PARAMS),
        (modern_body(version=7, **ECHO), GOOD, 400, INVALID_PARAMS),
        ({"jsonrpc": "2.0", "id": 7, "method": "tools/call"}, GOOD, 400, INVALID_PARAMS),
        (modern_body(version=None, **ECHO), GOOD | {"mcp_method": "wrong"}, 400, INVALID_PARAMS),
        # 8: headers before version support
        (modern_body(**ECHO), GOOD | {"mcp_protocol_version": None}, 400, HEADER_MISMATCH),
        (modern_body(version="v999", **ECHO), GOOD, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_protocol_version": "v999"}, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_method": None}, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_method": "tools/list"}, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_method": "TOOLS/CALL"}, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_name": None}, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_name": "boom"}, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_name": "=?base64?ZWNobw?="}, 400, HEADER_MISMATCH),
        (modern_body(**ECHO), GOOD | {"mcp_name": "\xe9"}, 400, HEADER_MISMATCH),
        (modern_body(method="nope"), GOOD | {"mcp_method": "nada"}, 400, HEADER_MISMATCH),
        # 9: version support before the method
        (modern_body(version="v999", **ECHO), GOOD | {"mcp_protocol_version": "v999"}, 400, -32022),
        (modern_body(version="v999", method="nope"), {"mcp_protocol_version": "v999", "mcp_method": "nope"}, 400,
         -32022),
        (modern_body(version=R4, **ECHO), GOOD | {"mcp_protocol_version": "9"}, 400, HEADER_MISMATCH),
        # 10: methods
        (modern_body(method="nope"), {"mcp_protocol_version": R5, "mcp_method": "nope"}, 404, METHOD_NOT_FOUND),
        *[(modern_body(method=m), {"mcp_protocol_version": R5, "mcp_method": m}, 404, METHOD_NOT_FOUND)
          for m in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")],
        # 12
        (modern_body(**ECHO), GOOD | {"mcp_name": "=?base64?ZWNobw==?="}, 200, None),
        (modern_body(**ECHO), GOOD, 200, None),
    ],
)  # fmt: skip
def test_hn30_order_of_the_checks(run, body, fields, status, code):
    """HN-31: every error carries the request's id. VN-62, VN-64."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            for _ in range(2):
                answer = await peer.ask(s.request(body=body, **fields))
                assert answer.status == status, answer
                assert answer.json["id"] == 7
                if code is not None:
                    assert answer.code == code
                if code == -32022:
                    assert answer.json["error"]["data"] == {"supported": [R5], "requested": "v999"}

    run(main)


@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_hn27_doubled_mirrored_headers_are_refused(run, name):
    async def main():
        async with site() as s:
            peer = await s.connect()
            value = {"MCP-Protocol-Version": R5, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}[name]
            answer = await peer.ask(s.call("echo", {"text": "x"}, headers=((name, value),)))
            assert (answer.status, answer.code) == (400, HEADER_MISMATCH)

    run(main)


def test_hn30_early_checks_come_before_late_ones(run):
    """Host before path before method before type before accept before JSON."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            fields = {"host": "evil.com", "origin": "http://evil.com", "content_type": "x/y", "accept": "a/b"}
            target, method = "/other", "PUT"
            seen = []
            for fix in ("host", "origin", "target", "method", "content_type", "accept", None):
                request = s.request(method, target, b"{", mcp_protocol_version=R5, **fields)
                seen.append((await peer.ask(request)).status)
                if fix == "target":
                    target = "/mcp"
                elif fix == "method":
                    method = "POST"
                elif fix == "host":
                    fields["host"] = s.netloc
                elif fix == "content_type":
                    fields["content_type"] = "application/json"
                elif fix is not None:
                    fields.pop(fix)
            assert seen == [421, 403, 404, 405, 415, 406, 400]

    run(main)


# --- notifications -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/progress", "notifications/other"])
def test_b57_notifications_are_202_and_hn51_cancel_nothing(run, method):
    async def main():
        async with site() as s:
            other = await s.connect()
            other.send(s.call("sleep", {"ms": 150}, id=5))
            await s.settled(lambda: s.server.seen.started == 1)
            peer = await s.connect()
            note = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 5, "progressToken": 1, "progress": 1}}
            for fields in ({}, {"mcp_method": method}):
                answer = await peer.ask(s.request(body=note, mcp_protocol_version=R5, **fields))
                assert answer.status == 202
                assert answer.get("content-length") == "0"
                assert "content-type" not in answer.headers
            assert text_of(await other.answer()) == "slept"

    run(main)


# --- framing -----------------------------------------------------------------------------------------


def chunked(data, size, extension=b""):
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(b"%X%b\r\n%b\r\n" % (len(p), extension, p) for p in parts) + b"0\r\n\r\n"


def as_chunked(request, size=64, extension=b""):
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]) + b"\r\n\r\n", chunked(body, size, extension)


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_b50_chunked_bodies(run, size):
    async def main():
        async with site() as s:
            peer = await s.connect()
            head, body = as_chunked(s.call("echo", {"text": "c" * 300}), size, b";ext=1")
            assert text_of(await peer.ask(head + body)) == "c" * 300
            for byte in head + body:
                peer.send(bytes((byte,)))
                await asyncio.sleep(0)
            assert text_of(await peer.answer()) == "c" * 300
            peer.send((head + body) * 3)
            for _ in range(3):
                assert text_of(await peer.answer()) == "c" * 300

    run(main)


def test_b50_body_without_length_never_runs_as_a_request(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            head = s.call("echo", {"text": "x"}, content_length=None).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            answer = await peer.ask(head + s.call("sleep", {"ms": 1}))
            assert (answer.status, answer.get("connection")) == (400, "close")
            assert await peer.ended()
            assert s.server.seen.started == 0

    run(main)


def test_b51_continue_is_sent_before_the_body(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            request = s.call("echo", {"text": "waited"}, expect="100-continue")
            head, _, body = request.partition(b"\r\n\r\n")
            assert (await peer.ask(head + b"\r\n\r\n")).status == 100
            assert text_of(await peer.ask(body)) == "waited"
            # also for a chunked body, and not when the body is here already
            head, body = as_chunked(request)
            assert (await peer.ask(head)).status == 100
            assert text_of(await peer.ask(body)) == "waited"
            assert text_of(await peer.ask(request)) == "waited"

    run(main)


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"content_length": "999999999"}, 413), ({"content_type": "text/plain"}, 415), ({"host": "evil.com"}, 421),
     ({"target": "/x"}, 404)],
)  # fmt: skip
def test_b51_refused_expectations_get_their_final_answer_at_once(run, changes, status):
    async def main():
        async with site(limits=tiny(max_message_bytes=10_000)) as s:
            peer = await s.connect()
            request = s.call("echo", {"text": "waited"}, expect="100-continue", **changes)
            answer = await peer.ask(request.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            assert (answer.status, answer.get("connection")) == (status, "close")
            assert await peer.ended()

    run(main)


def test_b51_other_expectations_are_417(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            assert (await peer.ask(s.call("echo", {"text": "x"}, expect="magic"))).status == 417

    run(main)


def test_b52_too_long_bodies_are_refused_unread(run):
    async def main():
        async with site(limits=tiny(max_message_bytes=1000)) as s:
            peer = await s.connect()
            head = s.request(body=b"", content_length=str(10_000), mcp_protocol_version=R5)
            answer = await peer.ask(head)
            assert (answer.status, answer.get("connection")) == (413, "close")
            # the peer goes on sending: its answer is not reset away, then the connection ends
            for _ in range(20):
                peer.send(b"x" * 10_000)
                await asyncio.sleep(0.005)
            assert await peer.ended()
            peer = await s.connect()
            head, _ = as_chunked(s.request(body=b"", mcp_protocol_version=R5))
            peer.send(head + b"3e8\r\n" + b" " * 1000 + b"\r\n")
            await asyncio.sleep(0.02)
            answer = await peer.ask(b"1\r\nx\r\n")
            assert (answer.status, answer.get("connection")) == (413, "close")
            exact = s.call("echo", {"text": ""})
            exact = s.call("echo", {"text": "x" * (1000 - len(exact.partition(b"\r\n\r\n")[2]))})
            peer = await s.connect()
            assert (await peer.ask(exact)).status == 200

    run(main)


def test_b52_a_length_that_lies_low_makes_the_rest_the_next_request(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            peer.send(s.request(body=b"{}GARBAGE\r\n\r\n", content_length="2", mcp_protocol_version=R5))
            assert (await peer.answer()).status == 400
            answer = await peer.answer()
            assert (answer.status, answer.get("connection")) == (400, "close")

    run(main)


def test_b52_stalled_bodies_are_bounded_in_all(run):
    async def main():
        async with site(limits=tiny(max_message_bytes=100_000, max_buffered_bytes=400_000, body_timeout=0.5)) as s:
            peers = [await s.connect() for _ in range(8)]
            for peer in peers:
                peer.send(s.request(body=b"y" * 99_000, content_length="99999", mcp_protocol_version=R5))
            await s.settled(lambda: s.endpoint.buffered_bytes > 200_000)
            answers = [await peer.answer() for peer in peers]
            assert s.endpoint.buffered_bytes <= 400_000
            assert sorted({a.status for a in answers}) == [408, 503]
            await s.settled(lambda: s.endpoint.buffered_bytes == 0)

    run(main)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"POST /mcp HTTP/1.1\nHost: a\n\n", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", 400),
        (b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"POST /mcp HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ],
)
def test_b54_ambiguous_or_broken_heads_end_the_connection(run, raw, status):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(raw + s.call("sleep", {"ms": 1}))
            assert (answer.status, answer.get("connection")) == (status, "close")
            assert answer.code == INVALID_REQUEST
            assert await peer.ended()
            assert s.server.seen.started == 0

    run(main)


def test_b54_bad_chunk_size_ends_the_connection(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            head, _ = as_chunked(s.call("echo", {"text": "x"}))
            answer = await peer.ask(head + b"zz\r\n")
            assert (answer.status, answer.get("connection")) == (400, "close")
            assert await peer.ended()

    run(main)


def test_b54_absolute_targets_are_judged_by_their_authority(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            assert (await peer.ask(s.call("echo", {"text": "x"}, target="http://evil.com/mcp"))).status == 421
            ok = f"http://{s.netloc}/mcp"
            assert (await peer.ask(s.call("echo", {"text": "x"}, target=ok, host="evil.com"))).status == 200
            # what an absolute target allowed is no precedent
            assert (await peer.ask(s.call("echo", {"text": "x"}, host="evil.com"))).status == 421

    run(main)


def test_b54_upgrade_is_ignored(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            request = s.call("echo", {"text": "x"}, upgrade="h2c", connection="Upgrade, HTTP2-Settings")
            assert text_of(await peer.ask(request)) == "x"
            assert text_of(await peer.ask(request)) == "x"

    run(main)


def test_b54_http10_is_answered_plainly_and_closed(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("echo", {"text": "x"}, version="1.0", connection="keep-alive"))
            assert (answer.status, answer.get("connection")) == (200, "close")
            assert await peer.ended()
            peer = await s.connect()
            request = s.call("progress", {"n": 2}, version="1.0", meta={"progressToken": 1})
            answer = await peer.ask(request)
            assert "transfer-encoding" not in answer.headers
            assert [m.get("id") for m in answer.events] == [None, None, 1]

    run(main)


def test_connection_close_is_honoured(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            two = s.call("echo", {"text": "x"}, connection="close") + s.call("sleep", {"ms": 1})
            answer = await peer.ask(two)
            assert (answer.status, answer.get("connection")) == (200, "close")
            assert await peer.ended()
            assert s.server.seen.started == 0
            peer = await s.connect()
            answer = await peer.ask(s.call("sleep", {"ms": 5}, connection="close"))
            assert (answer.status, answer.get("connection")) == (200, "close")
            assert await peer.ended()

    run(main)


def test_refused_requests_leave_the_connection_usable(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            bad = s.call("echo", {"text": "x" * 5000}, accept="text/html")
            peer.send(bad[:300])
            assert (await peer.answer()).status == 406
            peer.send(bad[300:] + s.call("echo", {"text": "next"}))
            assert text_of(await peer.answer()) == "next"
            head, body = as_chunked(bad)
            peer.send(head + body + s.call("echo", {"text": "again"}))
            assert (await peer.answer()).status == 406
            assert text_of(await peer.answer()) == "again"

    run(main)


# --- Host, Origin, CORS ------------------------------------------------------------------------------


def test_b59_host_and_origin_on_loopback(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for host, status in (
                ("localhost", 200), ("localhost:8000", 200), ("[::1]:8000", 200), ("127.0.0.1", 200),
                ("LOCALHOST:8000", 200), ("localhost.", 200), ("localhost.evil.com", 421), ("evil.com", 421),
            ):  # fmt: skip
                answer = await peer.ask(s.call("echo", {"text": "x"}, host=host))
                assert answer.status == status, host
                if status != 200:
                    assert "allowed_hosts" in answer.json["error"]["message"]
            for origin, status in (
                (None, 200), ("http://localhost:9", 200), ("null", 403), ("http://localhost.evil.com", 403),
                ("http://127.0.0.1@evil.com", 403),
            ):  # fmt: skip
                answer = await peer.ask(s.call("echo", {"text": "x"}, origin=origin))
                assert answer.status == status, origin
                if status != 200:
                    assert "allowed_origins" in answer.json["error"]["message"]

    run(main)


def test_b60_cors_when_it_is_on(run):
    async def main():
        async with site(cors_origins=["https://app.example.com"]) as s:
            peer = await s.connect()
            names = "mcp-protocol-version,mcp-session-id,authorization,last-event-id,mcp-method,mcp-name,mcp-param-a"
            answer = await peer.ask(
                s.request(
                    "OPTIONS", origin="https://app.example.com", access_control_request_method="DELETE",
                    access_control_request_headers=names,
                )
            )  # fmt: skip
            assert answer.status == 204
            allowed = [n.strip().lower() for n in answer.get("access-control-allow-headers").split(",")]
            assert set(names.split(",")) <= set(allowed)
            assert "DELETE" in answer.get("access-control-allow-methods")
            for request, status in (
                (s.call("echo", {"text": "x"}, origin="https://app.example.com"), 200),
                (s.call("echo", {"text": "x"}, origin="https://app.example.com", target="/x"), 404),
                (s.call("echo", {"text": "x"}, origin="https://app.example.com", accept="a/b"), 406),
                (s.call("progress", {"n": 1}, origin="https://app.example.com", meta={"progressToken": 1}), 200),
            ):
                answer = await peer.ask(request)
                assert answer.status == status
                assert answer.get("access-control-allow-origin") == "https://app.example.com"
                assert answer.get("vary") == "Origin"
                assert "Mcp-Session-Id" in answer.get("access-control-expose-headers")
                assert "access-control-allow-credentials" not in answer.headers
            assert "vary" not in (await peer.ask(s.call("echo", {"text": "x"}))).headers
            assert (await peer.ask(s.request("OPTIONS", origin="https://b.example.com"))).status == 403

    run(main)


# --- the request behind the sink ---------------------------------------------------------------------


def test_context_headers_are_those_of_the_request(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for wait in (False, True):
                extra = (("X-Trace", "a"), ("X-Trace", "b"))
                answer = await peer.ask(s.call("peek", {"wait": wait}, headers=extra))
                seen = json.loads(text_of(answer))
                assert seen["x-trace"] == "a, b"
                assert seen["mcp-name"] == "peek"
            assert "x-trace" not in json.loads(text_of(await peer.ask(s.call("peek", {}))))

    run(main)


def test_jr37_statuses_of_errors_without_a_mandate(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.modern("tools/call", {"name": "nope"}, name="nope"))
            assert (answer.status, answer.code) == (200, INVALID_PARAMS)

    run(main)


def test_vn60_both_eras_on_one_connection(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            for _ in range(2):
                legacy = await peer.ask(s.legacy_call(sid, "echo", {"text": "old"}))
                assert "resultType" not in legacy.json["result"]
                modern = await peer.ask(s.call("echo", {"text": "new"}))
                assert modern.json["result"]["resultType"] == "complete"

    run(main)


def test_vn62_modern_body_without_the_header(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            body = {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"_meta": META}}
            answer = await peer.ask(s.request(body=body, accept=BOTH))
            assert (answer.status, answer.code) == (400, HEADER_MISMATCH)

    run(main)


def test_hn25_mirrored_parameters_are_checked_for_the_tools_that_have_them(run):
    async def main():
        app = make_server()

        @app.tool(inline=True)
        def where(region: Annotated[str, Header("Region")], n: int = 0) -> str:
            return region

        async with site(app) as s:
            peer = await s.connect()
            good = (("Mcp-Param-Region", "eu"),)
            assert text_of(await peer.ask(s.call("where", {"region": "eu"}, headers=good))) == "eu"
            for headers in ((), (("Mcp-Param-Region", "us"),), good * 2):
                answer = await peer.ask(s.call("where", {"region": "eu"}, headers=headers))
                assert (answer.status, answer.code) == (400, HEADER_MISMATCH)
            # others do not care, and an unknown method comes first
            assert (await peer.ask(s.call("echo", {"text": "x"}, headers=good))).status == 200
            unknown = s.modern("nope", {"name": "where", "arguments": {"region": "eu"}})
            assert (await peer.ask(unknown)).status == 404
            app.remove_tool("where")
            assert (await peer.ask(s.call("where", {"region": "eu"}))).code == INVALID_PARAMS

    run(main)


def test_answers_carry_the_date(run):
    """RFC 9110 6.6.1."""

    async def main():
        async with site(cors_origins=["https://a.example.com"]) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            note = {"jsonrpc": "2.0", "method": "notifications/x"}
            for request in (
                s.call("echo", {"text": "x"}), s.call("progress", {"n": 1}, meta={"progressToken": 1}),
                s.call("echo", target="/x"), s.request(body=note, mcp_session_id=sid),
                s.request(body=note, mcp_session_id=sid, origin="https://a.example.com"),
                s.request("OPTIONS", origin="https://a.example.com"), s.request("DELETE", mcp_session_id=sid),
            ):  # fmt: skip
                answer = await peer.ask(request)
                sent = parsedate_to_datetime(answer.get("date"))
                assert abs((datetime.now(UTC) - sent).total_seconds()) < 30

    run(main)


def test_servers_share_nothing(run):
    """B115: one server object behind two listeners."""

    async def main():
        app = make_server()
        async with site(app) as a, site(app, alone=False, path="/other/") as b:
            one, two = await a.connect(), await b.connect()
            assert (await one.ask(a.call("echo", {"text": "x"}))).status == 200
            assert (await two.ask(b.call("echo", {"text": "x"}))).status == 404
            assert (await two.ask(b.call("echo", {"text": "x"}, target="/other"))).status == 200
            sid = await a.open_session(one)
            answer = await two.ask(b.legacy_call(sid, "echo", {"text": "x"}, target="/other"))
            assert answer.status == 404

    run(main)
