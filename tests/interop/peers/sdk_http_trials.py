"""Trials of http_transport under the official SDK, both of its ways, against scripted servers; see trials.py."""

import asyncio
import hashlib
import tempfile

import anyio
import httpx2
from mcp import Client, MCPError, types
from mcp.client.session import ClientSession
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from scripted import data, ordinary, scripted
from trials import over, run

from headrace.errors import UsageError
from headrace.integrations.mcp_sdk import connect, http_transport

ways = over(streams=Client, dispatcher=connect)
MODERN = "2026-07-28"
DISCOVERED = {
    "resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public",
}  # fmt: skip


def text(value):
    return {"content": [{"type": "text", "text": value}], "isError": False, "resultType": "complete"}


async def until(condition):
    for _ in range(200):
        if condition():
            return
        await anyio.sleep(0.02)
    raise AssertionError("it did not come about")


async def fails(call, code, words=""):
    try:
        result = await call
    except MCPError as exc:
        assert exc.code == code, (exc.code, exc.message)
        assert words in exc.message, exc.message
        return exc
    raise AssertionError(f"no error, but {result}")


def calls(requests):
    return [r for r in requests if b'"tools/call"' in r.body]


@ways
async def trial_handshake_headers(client_of):
    """Version and session on everything behind initialize, the stream behind initialized, DELETE at the end (HO-10..33)."""

    async def answer(request):
        if not await ordinary(request):
            await request.result(text("x"))

    async with scripted(answer) as (url, requests):
        place = http_transport(url, headers={"X-Own": "1", "Host": "other.example"})
        async with client_of(place, mode="legacy") as client:
            await client.call_tool("any", {})
            assert place.session_id == place.get_session_id() == "s-1"
        verbs = [r.method for r in requests]
        assert verbs[:2] == ["POST", "POST"]
        assert verbs[-1] == "DELETE"
        assert verbs.count("GET") == 1
        first = requests[0]
        assert first.message["method"] == "initialize"
        assert not {"mcp-protocol-version", "mcp-session-id", "mcp-method"} & set(first.headers)
        for request in requests[1:]:
            assert request.headers["mcp-session-id"] == "s-1"
            assert request.headers["mcp-protocol-version"] == "2025-11-25"
            assert "mcp-method" not in request.headers
        assert all(r.headers["x-own"] == "1" and r.headers["host"] == "other.example" for r in requests)
        assert requests[1].message == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert place.session_id is None

    async with scripted(answer) as (url, requests):
        async with client_of(http_transport(url, terminate_on_close=False), mode="legacy"):
            pass
        assert [r.method for r in requests].count("DELETE") == 0


@ways
async def trial_modern_headers(client_of):
    """Mcp-Method, Mcp-Name and Mcp-Param-* of each message; no session, no stream, no DELETE (HN-02..11)."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "x-mcp-header": "City"}, "n": {"type": "integer"}},
    }

    async def answer(request):
        method = request.message["method"]
        if method == "server/discover":
            await request.result(DISCOVERED)
        elif method == "tools/list":
            tools = [{"name": "na\u00efve", "inputSchema": schema}]
            await request.result({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"})
        else:
            await request.result(text("x"))

    async with scripted(answer) as (url, requests):
        async with client_of(http_transport(url)) as client:
            assert client.protocol_version == MODERN
            await client.list_tools()
            await client.call_tool("na\u00efve", {"city": "Z\u00fcrich", "n": 1})
        discover, listed, call = requests
        assert discover.headers["mcp-protocol-version"] == MODERN
        assert discover.headers["mcp-method"] == "server/discover"
        assert listed.headers["mcp-method"] == "tools/list"
        assert "mcp-name" not in listed.headers
        assert call.headers["mcp-method"] == "tools/call"
        assert call.headers["mcp-name"] == "=?base64?bmHDr3Zl?="
        assert call.headers["mcp-param-city"] == "=?base64?WsO8cmljaA==?="
        assert len([name for name in call.headers if name.startswith("mcp-")]) == 4


@ways
async def trial_era_switch(client_of):
    """A server that refuses the probe is spoken to in its own era, without a trace of the probe (VN-49)."""

    async def answer(request):
        if request.method == "POST" and request.message["method"] == "server/discover":
            assert request.headers["mcp-protocol-version"] == MODERN
            await request.reply(400, b"what?", "text/plain")
        elif not await ordinary(request):
            await request.result(text("x"))

    async with scripted(answer) as (url, requests):
        async with client_of(http_transport(url)) as client:
            assert client.protocol_version == "2025-11-25"
            await client.call_tool("any", {})
        assert "mcp-protocol-version" not in requests[1].headers
        assert calls(requests)[0].headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in calls(requests)[0].headers


@ways
async def trial_error_statuses(client_of):
    """The errors that the SDK's own transport makes of answers that are none."""
    error = {"code": -32602, "message": "no", "data": [1]}
    answers = {
        "accepted": (lambda r: r.reply(202), -32600, "202 Accepted"),
        "gone": (lambda r: r.reply(404), -32600, "Session terminated"),
        "broken": (lambda r: r.reply(500, b"oops", "text/plain"), -32603, "Server returned an error response"),
        "page": (lambda r: r.reply(200, b"<html>", "text/html"), -32600, "Unexpected content type: text/html"),
        "nonsense": (lambda r: r.reply(200, b"{nonsense", "application/json"), -32700, "Failed to parse"),
        "refused": (lambda r: r.reply(400, {"jsonrpc": "2.0", "id": None, "error": error}), -32602, "no"),
        "elsewhere": (lambda r: r.reply(307, Location="http://127.0.0.1:1/mcp"), -32600, "127.0.0.1:1"),
        "cut": (lambda r: r.events(), -32000, ""),
        "login": (lambda r: r.reply(401, b"who?", "text/plain", WWW_Authenticate="Bearer"), -32603, ""),
    }

    async def answer(request):
        if not await ordinary(request):
            await answers[request.message["params"]["name"]][0](request)
            if request.message["params"]["name"] == "cut":
                request.writer.close()

    async with scripted(answer) as (url, _), client_of(http_transport(url), mode="legacy") as client:
        for name, (_, code, words) in answers.items():
            exc = await fails(client.call_tool(name, {}), code, words)
            assert name != "refused" or exc.error.data == [1]


async def trial_not_found_without_session():
    async def answer(request):
        await request.reply(404)

    async with scripted(answer) as (url, _):
        for client_of in (Client, connect):
            try:
                async with client_of(http_transport(url)):
                    raise AssertionError("it connected")
            except* MCPError as group:
                (exc,) = group.exceptions
                while isinstance(exc, ExceptionGroup):
                    (exc,) = exc.exceptions
                assert (exc.code, exc.message) == (-32601, "Not Found")


@ways
async def trial_redirect_within(client_of):
    """A 307 of the same origin is followed with method and body (B58)."""

    async def answer(request):
        if request.target == "/mcp":
            await request.reply(307, Location="/mcp/")
        elif not await ordinary(request):
            await request.result(text("x"))

    async with scripted(answer) as (url, requests), client_of(http_transport(url), mode="legacy") as client:
        await client.call_tool("any", {})
        assert [r.target for r in requests][:3] == ["/mcp", "/mcp/", "/mcp/"]


@ways
async def trial_messages_on_streams(client_of):
    """What comes on the stream of a request, and on the session's own, in order; progress goes to its callback."""
    seen, progress = [], []

    async def on_message(message):
        seen.append(getattr(message, "method", message))

    async def on_progress(done, total, message):
        progress.append((done, total, message))

    streams = []

    async def answer(request):
        if request.method == "GET":
            await request.events()
            streams.append(request)
            await request.gone.wait()
        elif not await ordinary(request):
            token = request.message["params"]["_meta"]["progressToken"]
            steps = [{"progressToken": token, "progress": n} for n in (1, 2)]
            notes = [data({"jsonrpc": "2.0", "method": "notifications/progress", "params": step}) for step in steps]
            await request.events(*notes, data({"jsonrpc": "2.0", "id": request.message["id"], "result": text("x")}))
            request.writer.close()

    async with scripted(answer) as (url, _):
        async with client_of(http_transport(url), mode="legacy", message_handler=on_message) as client:
            await client.call_tool("any", {}, progress_callback=on_progress)
            assert progress == [(1.0, None, None), (2.0, None, None)]
            await until(lambda: streams)
            await streams[0].event(data({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
            await until(lambda: "notifications/tools/list_changed" in seen)
            # The server asks something on its own stream, and is answered by a POST.
            await streams[0].event(data({"jsonrpc": "2.0", "id": "q", "method": "ping"}))
        for stream in streams:
            stream.gone.set()


@ways
async def trial_broken_streams_resume(client_of):
    """A stream that ends before the answer is asked for again behind its last event (HO-21, HO-24)."""

    async def answer(request):
        if request.method == "GET" and request.headers.get("last-event-id") == "e1":
            await request.events(data({"jsonrpc": "2.0", "id": asked[0], "result": text("resumed")}, "e2"))
            request.writer.close()
        elif not await ordinary(request):
            asked.append(request.message["id"])
            await request.events(b"id: e1\nretry: 10\ndata:")
            request.writer.close()

    asked = []
    async with scripted(answer) as (url, _), client_of(http_transport(url), mode="legacy") as client:
        assert (await client.call_tool("any", {})).content[0].text == "resumed"


async def trial_resumption_tokens():
    """on_resumption_token_update hears of every event id; resumption_token asks for the rest of an earlier answer."""

    async def answer(request):
        if request.method == "GET" and "last-event-id" in request.headers:
            assert request.headers["last-event-id"] == "t2"
            await request.events(data({"jsonrpc": "2.0", "id": 77, "result": text("the rest")}, "t3"))
            request.writer.close()
        elif not await ordinary(request):
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
            last = data({"jsonrpc": "2.0", "id": request.message["id"], "result": text("x")})
            await request.events(b"id: t1\ndata:", data(note, "t2"), last)
            request.writer.close()

    request = types.CallToolRequest(params=types.CallToolRequestParams(name="any", arguments={}))
    for way in ("streams", "dispatcher"):
        tokens = []

        async def on_token(token, tokens=tokens):
            tokens.append(token)

        async with scripted(answer) as (url, requests):
            place = http_transport(url)
            if way == "streams":
                async with place as (read, write), ClientSession(read, write) as session:
                    await resume(session, request, on_token, tokens)
            else:
                async with ClientSession(dispatcher=place.dispatcher()) as session:
                    await resume(session, request, on_token, tokens)
            assert len(calls(requests)) == 1


async def resume(session, request, on_token, tokens):
    await session.initialize()
    metadata = ClientMessageMetadata(on_resumption_token_update=on_token)
    await session.send_request(request, types.CallToolResult, metadata=metadata)
    await until(lambda: tokens == ["t1", "t2"])
    metadata = ClientMessageMetadata(resumption_token="t2", on_resumption_token_update=on_token)
    result = await session.send_request(request, types.CallToolResult, metadata=metadata)
    assert result.content[0].text == "the rest"
    await until(lambda: tokens == ["t1", "t2", "t3"])


@ways
async def trial_cancels(client_of):
    """Handshake era: notifications/cancelled. Modern era: the connection is closed, nothing is sent (HN-51, B75)."""
    for modern in (False, True):
        waiting = []

        async def answer(request, modern=modern, waiting=waiting):
            if modern and request.message["method"] == "server/discover":
                await request.result(DISCOVERED)
            elif modern and request.message["method"] == "tools/list":
                await request.result({"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"})
            elif modern or not await ordinary(request):
                if request.message["params"]["name"] == "hang":
                    waiting.append(request)
                    await request.gone.wait()
                else:
                    await request.result(text("x"))

        async with scripted(answer) as (url, requests):
            async with client_of(http_transport(url), mode="auto" if modern else "legacy") as client:
                with anyio.move_on_after(0.3) as scope:
                    await client.call_tool("hang", {})
                assert scope.cancelled_caught
                await fails(client.call_tool("hang", {}, read_timeout_seconds=0.2), -32001)
                assert (await client.call_tool("any", {})).content[0].text == "x"
                if modern:
                    await until(lambda waiting=waiting: all(r.closed for r in waiting))
                else:
                    await until(lambda requests=requests: len(cancelled(requests)) == 2)
            said = cancelled(requests)
            if modern:
                assert said == []
            else:
                assert [params["requestId"] for params in said] == [r.message["id"] for r in waiting]
                assert said[0]["reason"] == "caller cancelled"
            for request in waiting:
                request.gone.set()


def cancelled(requests):
    return [
        r.message["params"] for r in requests if r.body and r.message.get("method") == "notifications/cancelled"
    ]


@ways
async def trial_no_server(client_of):
    """A connection that does not come up is httpx's own exception (B116)."""
    for place in ("http://127.0.0.1:1/mcp", "unix:/nowhere/at/all"):
        try:
            async with client_of(http_transport(place)):
                raise AssertionError("it connected")
        except httpx2.ConnectError:
            pass


@ways
async def trial_server_restarts(client_of):
    """A server that goes away fails the calls of that time; those behind it reach the next one (B82)."""

    async def answer(request):
        if not await ordinary(request):
            if request.message["params"]["name"] == "die":
                request.writer.transport.abort()
            else:
                await request.result(text("x"))

    async with scripted(answer) as (url, _), client_of(http_transport(url), mode="legacy") as client:
        for _ in range(3):
            await fails(client.call_tool("die", {}), -32000)
            assert (await client.call_tool("any", {})).content[0].text == "x"


async def trial_header_hints():
    """A message's own headers go out with it alone, and stand in place of the transport's."""

    async def answer(request):
        if not await ordinary(request):
            await request.result(text("x"))

    hint = {"X-Own": "mine", "Authorization": "mine", "mcp-protocol-version": "2025-06-18"}
    params = {"name": "any", "arguments": {}}
    for way in ("streams", "dispatcher"):
        async with scripted(answer) as (url, requests):
            place = http_transport(url, headers={"Authorization": "all", "X-All": "1"})
            if way == "dispatcher":
                dispatcher = place.dispatcher()
                async with ClientSession(dispatcher=dispatcher) as session:
                    await session.initialize()
                    await dispatcher.send_raw_request("tools/call", params, {"headers": hint})
                    await dispatcher.send_raw_request("tools/call", params, {"headers": {}})
            else:
                async with place as (read, write):
                    for number, headers in enumerate((hint, None)):
                        request = types.JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call", params=params)
                        metadata = None if headers is None else ClientMessageMetadata(headers=headers)
                        await write.send(SessionMessage(request, metadata))
                        assert (await read.receive()).message.id == number
            first, second = calls(requests)
            assert (first.headers["x-own"], first.headers["authorization"], first.headers["x-all"]) == ("mine", "mine", "1")
            assert first.headers["mcp-protocol-version"] == "2025-06-18"
            assert "x-own" not in second.headers
            assert second.headers["authorization"] == "all"


@ways
async def trial_client_given(client_of):
    """Headers, cookies, user, hooks and timeouts of an httpx client hold here too; what it cannot be is refused."""
    hooked = []

    async def on_request(request):
        request.headers["X-Hook"] = str(len(hooked))

    async def on_response(response):
        hooked.append((response.status_code, response.headers.get("x-answer")))

    async def answer(request):
        if not await ordinary(request, Set_Cookie="kitchen=sink; Path=/", X_Answer="yes"):
            if request.message["params"]["name"] == "hang":
                await asyncio.sleep(1)
            await request.result(text("x"))

    headers = {"X-Client": "1", "Authorization": "overridden"}
    options = {"headers": headers, "cookies": {"a": "b"}, "auth": ("me", "secret")}
    async with scripted(answer) as (url, requests):
        hooks = {"request": [on_request], "response": [on_response]}
        async with httpx2.AsyncClient(**options, event_hooks=hooks, timeout=httpx2.Timeout(5, read=0.4)) as http_client:
            place = http_transport(url, http_client=http_client, headers={"X-Client": "2"})
            async with client_of(place, mode="legacy") as client:
                await client.call_tool("any", {})
                await fails(client.call_tool("hang", {}), -32001)
            assert not http_client.is_closed
        first, last = requests[0], calls(requests)[0]
        assert first.headers["x-client"] == last.headers["x-client"] == "2"
        assert first.headers["cookie"] == "a=b"
        assert set(last.headers["cookie"].split("; ")) == {"a=b", "kitchen=sink"}
        assert first.headers["authorization"] == "Basic bWU6c2VjcmV0"
        assert first.headers["x-hook"] == "0"
        assert hooked[0] == (200, "yes")
        assert "accept-encoding" not in first.headers

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda request: None)) as http_client:
        try:
            async with http_transport(url, http_client=http_client):
                raise AssertionError("a transport of its own was passed over")
        except UsageError:
            pass
    try:
        async with http_transport(url, http_client=http_client):
            raise AssertionError("a closed client was used")
    except RuntimeError:
        pass


class Renewing(httpx2.Auth):
    """Fetches a token elsewhere when it is refused."""

    def __init__(self, url):
        self.url = url
        self.token = "old"
        self.seen = []

    def auth_flow(self, request):
        request.headers["Authorization"] = f"Bearer {self.token}"
        response = yield request
        self.seen.append((request.method, response.status_code, response.headers.get("www-authenticate")))
        if response.status_code == 401:
            fetched = yield httpx2.Request("POST", self.url, data={"grant_type": "x"})
            self.token = fetched.headers["x-token"]
            request.headers["Authorization"] = f"Bearer {self.token}"
            yield request


@ways
async def trial_auth_flow(client_of):
    """A flow is asked for each message, fetches what it needs through httpx, and the message goes out again."""
    fetched = []

    async def answer(request):
        if request.target == "/token":
            fetched.append(request)
            await request.reply(200, b"{}", X_Token="new")
        elif request.headers.get("authorization") != "Bearer new":
            await request.reply(401, b"", WWW_Authenticate='Bearer realm="x"')
        elif request.method == "GET":
            await request.events(data({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
            await request.gone.wait()
        elif not await ordinary(request):
            await request.result(text("x"))

    async with scripted(answer) as (url, requests):
        auth = Renewing(url.replace("/mcp", "/token"))
        async with client_of(http_transport(url, auth=auth), mode="legacy") as client:
            assert (await client.call_tool("any", {})).content[0].text == "x"
            auth.token = "stale"
            async with anyio.create_task_group() as tg:
                for _ in range(5):
                    tg.start_soon(client.call_tool, "any", {})
            auth.token = "stale"
        assert auth.seen[0] == ("POST", 401, 'Bearer realm="x"')
        assert ("POST", 202, None) in auth.seen
        assert 2 <= len(fetched) <= 7
        assert fetched[0].body == b"grant_type=x"
        assert len([r for r in calls(requests) if r.headers["authorization"] == "Bearer new"]) == 6
        welcome = [r.method for r in requests if r.headers.get("authorization") == "Bearer new"]
        assert "GET" in welcome
        assert welcome[-1] == "DELETE"
        for request in requests:
            request.gone.set()


@ways
async def trial_flow_fails(client_of):
    """What a flow raises fails its message alone, and a cancelled message ends its flow."""
    ended = []

    class Odd(httpx2.Auth):
        async def async_auth_flow(self, request):
            try:
                if b'"odd"' in request.content:
                    raise ValueError("no token today")
                yield request
            finally:
                ended.append(request)

    async def answer(request):
        if not await ordinary(request):
            if request.message["params"]["name"] == "hang":
                await request.gone.wait()
            else:
                await request.result(text("x"))

    async with scripted(answer) as (url, requests):
        async with client_of(http_transport(url, auth=Odd()), mode="legacy") as client:
            try:
                await client.call_tool("odd", {})
            except (MCPError, ValueError) as exc:
                assert "no token today" in str(exc)
            with anyio.move_on_after(0.2) as scope:
                await client.call_tool("hang", {})
            assert scope.cancelled_caught
            assert (await client.call_tool("any", {})).content[0].text == "x"
            await until(lambda: len(cancelled(requests)) == 1)
        assert len(ended) >= 5
        for request in requests:
            request.gone.set()


@ways
async def trial_signed_bodies(client_of):
    """An auth that signs bodies signs what is sent, byte for byte."""

    class Signing(httpx2.Auth):
        requires_request_body = True

        def auth_flow(self, request):
            request.headers["X-Signature"] = hashlib.sha256(request.content).hexdigest()
            yield request

    async def answer(request):
        if request.method == "POST":
            assert request.headers["x-signature"] == hashlib.sha256(request.body).hexdigest()
        if not await ordinary(request):
            await request.result(text("x"))

    async with scripted(answer) as (url, _), client_of(http_transport(url, auth=Signing()), mode="legacy") as client:
        assert (await client.call_tool("any", {"text": "h\xe9\u20ac"})).content[0].text == "x"


async def trial_unix_socket():
    """A unix socket has no URL that httpx knows; flows and hooks see a stand-in."""
    seen = []

    async def on_request(request):
        seen.append(str(request.url))

    async def answer(request):
        if not await ordinary(request):
            await request.result(text(request.target))

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s"
        async with scripted(answer, unix=path) as (url, _), httpx2.AsyncClient() as http_client:
            http_client.event_hooks = {"request": [on_request]}
            for options in ({}, {"http_client": http_client}):
                async with connect(http_transport(url, **options), mode="legacy") as client:
                    assert (await client.call_tool("any", {})).content[0].text == "/other"
    assert set(seen) == {"http://localhost/mcp"}


@ways
async def trial_many(client_of):
    """A thousand calls at once over a bounded number of connections."""

    async def answer(request):
        if not await ordinary(request):
            await request.result(text(request.message["params"]["arguments"]["n"]))

    async with scripted(answer) as (url, _), client_of(http_transport(url), mode="legacy") as client:
        answers = {}

        async def one(number):
            result = await client.call_tool("any", {"n": f"n{number}"})
            answers[number] = result.content[0].text

        async with anyio.create_task_group() as tg:
            for number in range(1000):
                tg.start_soon(one, number)
        assert answers == {number: f"n{number}" for number in range(1000)}


async def trial_slow_reader():
    """Nobody reads: neither are the connections, and nothing is lost (B09)."""
    most, sent = 20000, [0]

    async def answer(request):
        if request.method == "GET":
            await request.events()
            params = {"level": "info", "data": "x" * 1000}
            note = data({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
            for _ in range(most):
                await request.event(note)
                sent[0] += 1
        else:
            await ordinary(request)

    async with scripted(answer) as (url, _), http_transport(url) as (read, write):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        await write.send(SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params=params)))
        assert (await read.receive()).message.result["serverInfo"]["name"] == "scripted"
        await write.send(SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")))
        await until(lambda: sent[0])
        before = -1
        while before != (before := sent[0]):
            await anyio.sleep(0.5)
        assert before < most
        for _ in range(most):
            assert (await read.receive()).message.params["level"] == "info"
        assert sent[0] == most


async def trial_closed_elsewhere():
    """Opened in one task, closed in another, and twice (B21)."""

    async def answer(request):
        await ordinary(request)

    async with scripted(answer) as (url, requests), anyio.create_task_group() as tg:
        place = http_transport(url)
        opened = anyio.Event()
        streams = []

        async def enter():
            streams.extend(await place.__aenter__())
            opened.set()

        tg.start_soon(enter)
        await opened.wait()
        async with ClientSession(*streams) as session:
            await session.initialize()
        await place.__aexit__(None, None, None)
        await place.__aexit__(None, None, None)
        assert [r.method for r in requests].count("DELETE") == 1


async def trial_answers_of_the_client():
    """A question of the server is answered by a POST, under the auth and the session of the rest."""
    asked = anyio.Event()

    async def answer(request):
        if request.method == "POST" and request.message.get("result") is not None:
            assert request.headers["mcp-session-id"] == "s-1"
            assert request.message == {"jsonrpc": "2.0", "id": "q", "result": {}}
            asked.set()
            await request.reply(202)
        elif not await ordinary(request):
            await request.events(data({"jsonrpc": "2.0", "id": "q", "method": "ping"}))
            await asked.wait()
            await request.event(data({"jsonrpc": "2.0", "id": request.message["id"], "result": text("x")}))
            request.writer.close()

    for client_of in (Client, connect):
        asked = anyio.Event()
        async with scripted(answer) as (url, _), client_of(http_transport(url), mode="legacy") as client:
            assert (await client.call_tool("any", {})).content[0].text == "x"


if __name__ == "__main__":
    run(globals())
