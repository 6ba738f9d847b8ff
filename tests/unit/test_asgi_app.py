"""A server as an ASGI application, driven by a host written by hand: eras, sessions, streams, statuses, mounts."""

import asyncio
import contextvars
import json

import pytest
from asgi_support import (
    HELLO,
    Call,
    ask,
    get,
    handshake,
    living,
    modern,
    open_session,
    post,
    scope_of,
)
from http_support import R4, events_of, id_of, make_server, tiny

from headrace import Context
from headrace.errors import HttpRefusal, UsageError
from headrace.transports.asgi import asgi_scope
from headrace.transports.plain import McpHost


def call_of(tool, arguments=None, **scope):
    return modern("tools/call", {"name": tool, "arguments": arguments or {}}, **scope)


def text_of(answer):
    return answer.json["result"]["content"][0]["text"]


def nothing_left(app, listener):
    """After its end an application holds nothing."""
    counts = listener.endpoint.mux.debug_counts()
    assert not any(counts.values()), counts
    assert listener.connections == 0 and listener.sessions == 0
    assert listener.endpoint.buffered_bytes == 0 and listener.endpoint.served == 0


def served(run, body, *, server=None, limits=None, **options):
    """Runs ``body(app)`` inside the lifespan of a host."""
    server = server or make_server()
    if limits is not None:
        server.set_limits(limits)
    app = server.asgi(**options)

    async def main():
        async with living(app):
            listener = app._listener
            await body(app)
        nothing_left(app, listener)

    run(main)


# --- both eras ------------------------------------------------------------------------------------------


def test_call_of_the_modern_era(run):
    async def body(app):
        answer = await post(app, *call_of("echo", {"text": "hello"})).over()
        assert answer.status == 200 and text_of(answer) == "hello"
        assert answer.get("content-type") == "application/json"
        assert answer.get("content-length") == str(len(answer.body))
        # The host writes these itself.
        assert not {"date", "connection", "transfer-encoding"} & answer.headers.keys()

    served(run, body)


def test_session_of_the_handshake_era(run):
    async def body(app):
        session = await open_session(app)
        headers, data = handshake("tools/call", {"name": "echo", "arguments": {"text": "a"}}, session=session)
        assert text_of(await post(app, headers, data).over()) == "a"
        fields = [(b"mcp-session-id", session.encode())]
        end = await Call(app, scope_of("DELETE", "/mcp", fields)).start().over()
        assert end.status == 204 and end.body == b""
        assert (await post(app, headers, data).over()).status == 404

    served(run, body)


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
@pytest.mark.parametrize("length", [True, False])
def test_body_in_many_messages(run, pieces, length):
    async def body(app):
        headers, data = call_of("echo", {"text": "x" * 300})
        if not length:
            headers = [field for field in headers if field[0] != b"content-length"]
        answer = await post(app, headers, data, pieces=pieces).over()
        assert text_of(answer) == "x" * 300

    served(run, body)


def test_body_that_comes_late(run):
    """The host gives it when the application already waits; empty messages mean nothing."""

    async def body(app):
        headers, data = call_of("echo", {"text": "late"})
        call = Call(app, scope_of("POST", "/mcp", headers)).start()
        await asyncio.sleep(0.01)
        for piece in (b"", data[:10], b"", data[10:]):
            call.tell(piece, True)
            await asyncio.sleep(0)
        call.tell(b"")
        assert text_of(await call.over()) == "late"

    served(run, body)


def test_transfer_coding_of_the_host_is_not_looked_at(run):
    """The body was decoded by the host, whatever its header still says."""

    async def body(app):
        headers, data = call_of("echo", {"text": "c"})
        headers = [(b"transfer-encoding", b"chunked")] + [f for f in headers if f[0] != b"content-length"]
        assert text_of(await post(app, headers, data, pieces=3).over()) == "c"

    served(run, body)


def test_large_request_and_large_answer(run):
    async def body(app):
        headers, data = call_of("echo", {"text": "y" * 300_000})
        assert len(text_of(await post(app, headers, data, pieces=9).over())) == 300_000

    served(run, body)


def test_progress_is_streamed_as_it_comes(run):
    """HN-43: notifications go to the host at once, not with the answer."""

    async def body(app):
        headers, data = modern(
            "tools/call",
            {
                "name": "progress",
                "arguments": {"n": 5, "gap_ms": 30},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "progressToken": "t",
                },
            },
        )
        call = post(app, headers, data)
        await call.until(lambda call: len(call.sent) > 1)
        assert call.sent[0]["status"] == 200 and not call.whole
        answer = await call.over()
        messages = events_of(answer.body)
        assert [message["params"]["progress"] for message in messages[:-1]] == [1, 2, 3, 4, 5]
        assert messages[-1]["result"]["content"][0]["text"] == "done"
        assert len(answer.chunks) >= 5 and answer.get("content-length") is None

    served(run, body)


def test_questions_of_the_server_travel_both_ways(run):
    """HO-43: a question goes out on the stream of the request, its answer comes in a post of its own."""
    server = make_server()

    @server.tool
    async def roots(ctx: Context) -> str:
        found = await ctx.list_roots()
        return found[0].uri if hasattr(found[0], "uri") else found[0]["uri"]

    async def body(app):
        hello = {**HELLO, "capabilities": {"roots": {}}}
        answer = await post(app, *handshake("initialize", hello)).over()
        session = answer.get("mcp-session-id")
        await post(app, *handshake("notifications/initialized", id=None, session=session)).over()
        call = post(app, *handshake("tools/call", {"name": "roots", "arguments": {}}, session=session))
        await call.until(lambda call: events_of(call.body))
        (question,) = events_of(call.body)
        assert question["method"] == "roots/list"
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": "file:///a"}]}}
        headers, _ = handshake("x", session=session)
        headers = [field for field in headers if field[0] != b"content-length"]
        assert (await post(app, headers, json.dumps(reply).encode()).over()).status == 202
        answer = await call.over()
        assert events_of(answer.body)[-1]["result"]["content"][0]["text"] == "file:///a"

    served(run, body, server=server)


# --- streams of sessions ----------------------------------------------------------------------------------


def test_get_stream_carries_notices_and_ends_politely(run):
    """HO-10; at the end of the host's lifespan the stream ends as a whole answer."""
    server = make_server()
    app = server.asgi()

    async def main():
        async with living(app):
            session = await open_session(app)
            stream = get(app, session)
            await stream.until(lambda call: len(call.sent) > 1)
            assert stream.sent[0]["status"] == 200

            @server.tool
            def another() -> str:
                return ""

            await stream.until(lambda call: b"list_changed" in call.body)
        answer = await stream.over()
        assert stream.whole and answer.get("content-type") == "text/event-stream"

    run(main)


def test_stream_is_resumed(run):
    """HO-20, HO-21: the client went away in the middle; the call goes on, and the rest comes on a GET."""

    async def body(app):
        session = await open_session(app)
        params = {"name": "progress", "arguments": {"n": 10, "gap_ms": 30}, "_meta": {"progressToken": 1}}
        call = post(app, *handshake("tools/call", params, session=session))
        await call.until(lambda call: len(events_of(call.body)) >= 2)
        call.disconnect()
        await asyncio.wait_for(call.task, 5)
        assert b"done" not in call.body
        last = id_of(call.body)
        stream = get(app, session, (b"last-event-id", last.encode()))
        answer = await stream.over()
        seen = events_of(call.body) + events_of(answer.body)
        assert [message["params"]["progress"] for message in seen[:-1]] == list(range(1, 11))
        assert seen[-1]["result"]["content"][0]["text"] == "done"
        assert app.server.seen.cancelled == 0

    served(run, body)


def test_legacy_sse_at_a_mount_point(run):
    """LS-02, LS-07: the endpoint event names the path as the client sees it."""

    async def body(app):
        stream = get(app, path="/api v1/sse", root_path="/api v1")
        await stream.until(lambda call: b"endpoint" in call.body)
        data = stream.body.decode().split("data: ")[1].split("\n")[0]
        path, _, query = data.partition("?")
        assert path == "/api%20v1/messages"
        headers, message = handshake("initialize", HELLO)
        answer = await post(
            app, headers, message, path="/api v1/messages", root_path="/api v1", query=query.encode()
        ).over()
        assert (answer.status, answer.body) == (202, b"Accepted")
        await stream.until(lambda call: b"protocolVersion" in call.body)
        stream.disconnect()
        await asyncio.wait_for(stream.task, 5)
        for _ in range(100):
            if not app._listener.sessions:
                break
            await asyncio.sleep(0.01)
        assert app._listener.sessions == 0

    served(run, body, legacy_sse=True)


# --- where it answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "root", "status"),
    [
        ("/mcp", "", 200),
        ("/mcp/", "", 200),
        ("/", "", 200),
        ("", "", 200),
        ("/tools", "/tools", 200),
        ("/tools/", "/tools", 200),
        ("/tools/", "/tools/", 200),
        ("/tools/mcp", "/tools", 200),
        ("/mcp", "/mcp", 200),
        ("/mcp", "/proxy", 200),  # the path without the prefix that a proxy took away
        ("/toolsmcp", "/tools", 404),
        ("/tools/other", "/tools", 404),
        ("/other", "", 404),
        ("/mcp?x", "", 404),
        ("/mcp\r\nhost: evil", "", 404),
        ("/mcp//", "", 404),
    ],
)
def test_mount_points(run, path, root, status):
    async def body(app):
        answer = await ask(app, "tools/list", path=path, root_path=root)
        assert answer.status == status, answer

    served(run, body)


@pytest.mark.parametrize(
    ("option", "path", "status"),
    [("/x", "/x", 200), ("/x", "/x/", 200), ("/x", "/mcp", 404), ("/x", "/", 404), ("/", "/", 200), ("/", "", 200)],
)
def test_path_option(run, option, path, status):
    async def body(app):
        assert (await ask(app, "tools/list", path="/m" + path, root_path="/m")).status == status

    served(run, body, path=option)


def test_b113_several_apps_in_one_host(run):
    """Two servers, and one of them twice, each at its own mount point: nobody sees the others' tools."""
    first, second = make_server(), make_server()

    @second.tool
    def only_here() -> str:
        return "second"

    apps = {"/a": first.asgi(), "/b": second.asgi(), "/c": second.asgi(json_only=True)}

    async def host(scope, receive, send):
        for mount, app in apps.items():
            if scope["path"].startswith(mount):
                return await app({**scope, "root_path": mount}, receive, send)
        raise AssertionError(scope["path"])

    async def main():
        async with living(apps["/a"]), living(apps["/b"]), living(apps["/c"]):
            for mount, known in (("/a", False), ("/b", True), ("/c", True)):
                answer = await ask(host, "tools/list", path=mount)
                names = {tool["name"] for tool in answer.json["result"]["tools"]}
                assert ("only_here" in names) == known
            session = await open_session(host, path="/b")
            headers, data = handshake("tools/list", session=session)
            assert (await post(host, headers, data, path="/b").over()).status == 200
            assert (await post(host, headers, data, path="/c").over()).status == 404
            assert (await post(host, headers, data, path="/a").over()).status == 404

    run(main)


# --- guards, statuses, limits ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "host", "allowed", "status"),
    [
        (("127.0.0.1", 8000), b"127.0.0.1:8000", None, 200),
        (("127.0.0.1", 8000), b"localhost", None, 200),
        (("127.0.0.1", 8000), b"evil.example", None, 421),
        (("::1", 8000), b"evil.example", None, 421),
        (("::ffff:127.0.0.1", 8000), b"evil.example", None, 421),
        (("127.0.0.1", 8000), b"", None, 421),
        (("10.1.2.3", 8000), b"api.example", None, 200),
        (("/run/app.sock", None), b"api.example", None, 200),
        (None, b"api.example", None, 200),
        (("127.0.0.1", 8000), b"api.example", ["api.example"], 200),
        (("127.0.0.1", 8000), b"localhost:8000", ["api.example"], 200),
        (("10.1.2.3", 8000), b"evil.example", ["api.example"], 421),
        (("127.0.0.1", 8000), b"evil.example", ["*"], 200),
    ],
)
def test_b59_hosts(run, server, host, allowed, status):
    """SE-01: what arrives at a loopback address is for local names, unless others are allowed."""
    options = {} if allowed is None else {"allowed_hosts": allowed}

    async def body(app):
        headers, data = modern("tools/list")
        answer = await post(app, [(b"host", host), *headers], data, server=server).over()
        assert answer.status == status
        assert status == 200 or answer.code == -32600

    served(run, body, **options)


def test_origins_and_cors(run):
    """HO-42, SE-12, B60."""

    async def body(app):
        headers, data = modern("tools/list")
        answer = await post(app, [*headers, (b"origin", b"https://evil.example")], data).over()
        assert answer.status == 403
        answer = await post(app, [*headers, (b"origin", b"https://app.example")], data).over()
        assert answer.status == 200
        assert answer.get("access-control-allow-origin") == "https://app.example"
        fields = [(b"origin", b"https://app.example"), (b"access-control-request-method", b"POST")]
        answer = await Call(app, scope_of("OPTIONS", "/mcp", fields)).start().over()
        assert answer.status == 204 and "Mcp-Session-Id" in answer.get("access-control-allow-headers")

    served(run, body, cors_origins=["https://app.example"])


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "GET"])
def test_other_methods(run, method):
    async def body(app):
        answer = await Call(app, scope_of(method)).start().over()
        assert answer.status == 405 and "POST" in answer.get("allow")
        assert (answer.body == b"") == (method == "HEAD")

    served(run, body)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ((b"content-type", b"text/plain"), 415),
        ((b"content-encoding", b"gzip"), 415),
        ((b"accept", b"image/png"), 406),
        ((b"expect", b"magic"), 417),
        ((b"mcp-method", b"tools/list"), 400),
        ((b"expect", b"100-continue"), 200),
        ((b"connection", b"close"), 200),
        ((b"te", b"trailers"), 200),
        ((b"upgrade", b"h2c"), 200),
    ],
)
def test_head_rules_hold(run, change, status):
    """What the server of our own asks of a head is asked here; what belongs to the host's connection is not."""

    async def body(app):
        headers, data = call_of("echo", {"text": "a"})
        headers = [field for field in headers if field[0] != change[0]] + [change]
        assert (await post(app, headers, data).over()).status == status

    served(run, body)


@pytest.mark.parametrize("length", [True, False])
def test_body_over_the_limit(run, length):
    async def body(app):
        headers, data = call_of("echo", {"text": "z" * 5000})
        if not length:
            headers = [field for field in headers if field[0] != b"content-length"]
        call = post(app, headers, data, pieces=20)
        assert (await call.over()).status == 413
        assert call.asked < 20  # what is refused by its head is not even asked for
        assert not length or call.asked == 0

    served(run, body, limits=tiny(max_message_bytes=2000))


def test_too_many_at_once(run):
    """max_connections are requests here; those that wait for the next one do not count twice."""

    async def body(app):
        calls = [post(app, *call_of("sleep", {"ms": 300})) for _ in range(2)]
        await asyncio.sleep(0.02)
        answer = await post(app, *call_of("echo", {"text": "a"})).over()
        assert answer.status == 503 and answer.get("retry-after")
        for call in calls:
            assert (await call.over()).status == 200
        for _ in range(5):
            assert (await post(app, *call_of("echo", {"text": "a"})).over()).status == 200

    served(run, body, limits=tiny(max_connections=2))


def test_principals(run):
    """HO-34: whose a request is may come from what the host found out."""

    async def body(app):
        headers, data = handshake("initialize", HELLO)
        answer = await post(app, headers, data, user="ann").over()
        session = answer.get("mcp-session-id")
        headers, data = handshake("tools/list", session=session)
        assert (await post(app, headers, data, user="ann").over()).status == 200
        assert (await post(app, headers, data, user="bob").over()).status == 404
        assert (await post(app, headers, data, user="ann").over()).status == 200

    served(run, body, principal_of=lambda fields: asgi_scope()["user"])


@pytest.mark.parametrize("wait", [False, True])
def test_authenticate(run, wait):
    """The option of HTTP endpoints, with what the host knows of its client."""
    asked = []

    async def authenticate(request):
        asked.append((request.method, request.client, request.scheme, asgi_scope()["path"]))
        if wait:
            await asyncio.sleep(0.01)
        if request.header(b"authorization") != b"Bearer good":
            raise HttpRefusal(401, headers=[("WWW-Authenticate", "Bearer")])
        return "ann"

    server = make_server()

    @server.tool
    async def who(ctx: Context) -> str:
        return ctx.principal

    async def body(app):
        for pieces in (1, 5):
            headers, data = call_of("who")
            answer = await post(app, headers, data, pieces=pieces, scheme="https").over()
            assert answer.status == 401 and answer.get("www-authenticate") == "Bearer"
            headers.append((b"authorization", b"Bearer good"))
            assert text_of(await post(app, headers, data, pieces=pieces, scheme="https").over()) == "ann"
        answer = await get(app, "unknown").over()
        assert answer.status == 401
        assert asked[0] == ("POST", ("127.0.0.1", 50000), "https", "/mcp")

    served(run, body, server=server, authenticate=authenticate)


def test_body_is_not_taken_while_authenticate_waits(run):
    """Its memory is bounded: the host keeps what comes, as a socket would."""
    decided = []

    async def authenticate(request):
        decided.append(asyncio.get_running_loop().create_future())
        return await decided[-1]

    async def body(app):
        headers, data = call_of("echo", {"text": "x" * 1_000_000})
        call = post(app, headers, data, pieces=100)
        await asyncio.sleep(0.1)
        assert call.asked < 20
        decided[0].set_result("ann")
        assert len(text_of(await call.over())) == 1_000_000
        call = post(app, headers, data, pieces=100)
        await asyncio.sleep(0.1)
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.task
        await asyncio.sleep(0)
        assert decided[1].cancelled()

    served(run, body, authenticate=authenticate)


def test_stateless_and_json_only(run):
    async def body(app):
        headers, data = handshake("initialize", HELLO)
        answer = await post(app, headers, data).over()
        assert answer.status == 200 and answer.get("mcp-session-id") is None
        headers, data = handshake("tools/call", {"name": "progress", "arguments": {"n": 3}})
        answer = await post(app, [*headers, (b"mcp-protocol-version", R4.encode())], data).over()
        assert answer.get("content-type") == "application/json" and text_of(answer) == "done"

    served(run, body, stateless=True, json_only=True)


@pytest.mark.parametrize("option", [{"ssl": object()}, {"proxy_protocol": True}, {"path": "mcp"}, {"sealed_sessions": True, "stateless": True}])
def test_options_that_cannot_be_served(option):
    with pytest.raises(UsageError):
        make_server().asgi(**option)


def test_unknown_option():
    with pytest.raises(TypeError, match="unknown option 'colour'"):
        make_server().asgi(colour="red")


# --- what handlers see -----------------------------------------------------------------------------------


def test_scope_and_context_of_the_host(run):
    """Context variables of the host's middleware, and its scope, are there in handlers, also behind an await."""
    server = make_server()
    tenant = contextvars.ContextVar("tenant", default=None)

    @server.tool
    async def who(wait: bool) -> list:
        if wait:
            await asyncio.sleep(0.01)
        scope = asgi_scope()
        return [tenant.get(), scope["state"]["n"], scope["extensions"]["tls"]["client_cert_name"]]

    inner = server.asgi()

    async def app(scope, receive, send):
        if scope["type"] == "http":
            tenant.set(f"tenant {scope['state']['n']}")
        await inner(scope, receive, send)

    async def main():
        async with living(app):
            calls = [
                post(
                    app, *call_of("who", {"wait": bool(n % 2)}), state={"n": n},
                    extensions={"tls": {"client_cert_name": f"CN={n}"}},
                )
                for n in range(20)
            ]  # fmt: skip
            for n, call in enumerate(calls):
                found = (await call.over()).json["result"]["structuredContent"]
                assert (found if isinstance(found, list) else found["result"]) == [f"tenant {n}", n, f"CN={n}"]
        assert asgi_scope() is None

    run(main)


def test_b100_many_at_once_get_their_own_answers(run):
    async def body(app):
        calls = [post(app, *call_of("peek", {"wait": True}), query=b"n") for _ in range(3)]
        calls += [post(app, *call_of("echo", {"text": str(n)}), pieces=1 + n % 5) for n in range(200)]
        for call in calls[:3]:
            assert json.loads(text_of(await call.over()))["host"] == "127.0.0.1:8000"
        for n, call in enumerate(calls[3:]):
            assert text_of(await call.over()) == str(n)

    served(run, body)


def test_mcp_host_is_served_too(run):
    """The seam for other SDKs has the same method."""

    async def handler(method, params, exchange):
        return {"method": method}

    async def body(app):
        answer = await ask(app, "x/any")
        assert answer.json["result"]["method"] == "x/any"

    served(run, body, server=McpHost(handler))
