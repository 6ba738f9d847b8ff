"""Plain handlers over HTTP, both ends: eras by `_meta`, headers, sessions, streams, questions, cancelling."""

import asyncio
import contextlib

import pytest

from headrace.errors import ConnectFailed, ConnectionClosed, HttpStatusError, LocalProtocolError, RpcError, UsageError
from headrace.jsonrpc import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from headrace.limits import Limits
from headrace.transports import McpHost, open_http
from headrace.transports.http_server import serve_http

META = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class App:
    """A server on the seam: what it does is said by its methods."""

    def __init__(self):
        self.seen = []
        self.told = []
        self.ended = []
        self.cancelled = 0

    async def handler(self, method, params, exchange):
        self.seen.append((method, dict(exchange.headers), exchange.revision, exchange.session))
        if method == "initialize":
            return {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {"name": "app"}}
        if method == "ask":
            return {"roots": await exchange.request("roots/list", {"n": 10**30})}
        if method == "note":
            exchange.tell("notifications/message", {"level": "info", "data": "first"})
            exchange.progress(1, 2, "half")
            await exchange.notify("notifications/message", {"level": "info", "data": "second"})
            return {}
        if method == "slow":
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if method == "refuse":
            raise RpcError(-32001, "no", {"why": 1})
        if method == "news":
            exchange.session.announce(b"notifications/tools/list_changed")
            return {}
        return {"method": method, "params": params}

    def notified(self, method, params, exchange):
        self.told.append((method, params))


@contextlib.asynccontextmanager
async def served(app, client=None, host_options=None, **options):
    """The app over HTTP and a client's peer of it."""
    open_options = options.pop("open", {})
    host = McpHost(app.handler, on_notify=app.notified, on_session_end=app.ended.append, **(host_options or {}))
    async with host.running():
        listener = await serve_http(host, host="127.0.0.1", **options)
        async with open_http(listener.url, client, **open_options) as peer:
            yield peer
        await listener.close()


async def began(peer, version="2025-11-25"):
    result = await peer.request("initialize", {**HELLO, "protocolVersion": version})
    assert await peer.notify("notifications/initialized")
    return result


def test_a_session(run):
    """Version and session id come from the answer to initialize and go with everything after it."""

    async def main():
        app = App()
        async with served(app) as peer:
            await began(peer)
            assert peer.protocol_version == "2025-11-25"
            assert await peer.request("any/thing", {"n": 2**70}) == {"method": "any/thing", "params": {"n": 2**70}}
            (_, first, _, session), (_, second, revision, same) = app.seen
            assert "mcp-session-id" not in first and "mcp-protocol-version" not in first
            assert second["mcp-session-id"] == peer.session_id == session.id
            assert (second["mcp-protocol-version"], revision) == ("2025-11-25", "2025-11-25")
            assert "mcp-method" not in second
            assert same is session
            assert app.told == [("notifications/initialized", None)]
            with pytest.raises(RpcError, match="no") as refused:
                await peer.request("refuse")
            assert (refused.value.code, refused.value.data) == (-32001, {"why": 1})
        assert app.ended == [session]
        with pytest.raises(ConnectionClosed):
            peer.request("any")
        assert not peer.tell("x")
        assert not await peer.notify("x")

    run(main)


def test_modern_requests_are_mirrored(run):
    """HN-03: version, method and name of what params say; no session, whatever came before."""

    async def main():
        app = App()
        async with served(app) as peer:
            params = {"_meta": META, "name": "grüß", "arguments": {}}
            assert await peer.request("tools/call", params) == {"method": "tools/call", "params": params}
            await peer.request("resources/read", {"_meta": META, "uri": "file:///x"}, mirror={"Region": "eu", "n": None})
            await peer.request("a/b", b'{"_meta":{"%b":"2026-07-28","%b":{}},"name":5}' % (
                PROTOCOL_VERSION.encode(), CLIENT_CAPABILITIES.encode()))
            tools, resources, other = (headers for _, headers, _, _ in app.seen)
            assert tools["mcp-method"] == "tools/call" and tools["mcp-protocol-version"] == "2026-07-28"
            assert tools["mcp-name"].startswith("=?base64?")
            assert (resources["mcp-name"], resources["mcp-param-region"]) == ("file:///x", "eu")
            assert other["mcp-method"] == "a/b" and "mcp-name" not in other
            assert [revision for _, _, revision, _ in app.seen] == ["2026-07-28"] * 3
            assert [session for *_, session in app.seen] == [None] * 3
            assert peer.session_id is None

    run(main)


def test_both_eras_of_one_client(run):
    """A probe of one era changes nothing about requests of the other, also when they are under way together."""

    async def main():
        app = App()
        async with served(app) as peer:
            await peer.request("server/discover", {"_meta": META})
            await began(peer)
            calls = [
                peer.request("x", {"n": n, "_meta": META} if n % 2 else {"n": n}) for n in range(40)
            ]
            assert [(await call)["params"]["n"] for call in calls] == list(range(40))
            for _, headers, revision, session in app.seen[2:]:
                modern = revision == "2026-07-28"
                assert ("mcp-method" in headers) == modern
                assert ("mcp-session-id" in headers) != modern
                assert (session is None) == modern

    run(main)


def test_the_server_asks(run):
    """HO-43: on the stream of the request; the answer is posted in the session."""

    async def main():
        async def client(method, params, exchange):
            assert (method, params) == ("roots/list", {"n": 10**30})
            assert exchange.session is peer
            return {"roots": []}

        app = App()
        async with served(app, client) as peer:
            await began(peer)
            assert await peer.request("ask") == {"roots": {"roots": []}}
            with pytest.raises(RpcError) as refused:
                await peer.request("ask", {"_meta": META})
            assert refused.value.code == -32603

    run(main)


def test_a_client_that_serves_nothing_refuses(run):
    async def main():
        async with served(App()) as peer:
            await began(peer)
            with pytest.raises(RpcError):
                await peer.request("ask")

    run(main)


@pytest.mark.parametrize("meta", [{}, META])
def test_notifications_of_a_request_come_before_its_answer(run, meta):
    async def main():
        heard, done = [], []
        app = App()
        options = {"on_notify": lambda method, params, exchange: heard.append(params["data"])}
        async with served(app, open=options) as peer:
            if not meta:
                await began(peer)
            params = {"_meta": meta} if meta else None
            assert await peer.request("note", params, on_progress=lambda *each: done.append(each)) == {}
            assert heard == ["first", "second"]
            assert done == [(1, 2, "half")]

    run(main)


def test_messages_that_belong_to_no_request(run):
    """They come on the stream that `notifications/initialized` opened (HO-10)."""

    async def main():
        heard = asyncio.get_running_loop().create_future()
        app = App()
        async with served(app, open={"on_notify": lambda method, *_: heard.set_result(method)}) as peer:
            await began(peer)
            assert peer.stream is not None
            await asyncio.wait([peer.stream.answered()], timeout=5)
            await peer.request("news")
            assert await asyncio.wait_for(heard, 10) == "notifications/tools/list_changed"

    run(main)


def test_without_listening_there_is_no_stream(run):
    async def main():
        async with served(App(), open={"listen": False}) as peer:
            await began(peer)
            assert peer.stream is None

    run(main)


@pytest.mark.parametrize("meta", [{}, META])
def test_cancelling(run, meta):
    """Era M closes the connection of the request, era H sends a notification (MX-11, HN-51)."""

    async def main():
        app = App()
        async with served(app) as peer:
            if not meta:
                await began(peer)
            call = peer.request("slow", {"_meta": meta})
            while not app.seen or app.seen[-1][0] != "slow":
                await asyncio.sleep(0.005)
            call.cancel()
            while not app.cancelled:
                await asyncio.sleep(0.005)
            assert (await peer.request("still", {"_meta": meta}))["method"] == "still"

    run(main)


def test_a_session_that_the_server_forgot(run):
    """404 under a session id is told as it is (HO-32): the caller begins anew."""

    async def main():
        app = App()
        async with served(app) as peer:
            await began(peer)
            peer.session_id = "gone"
            with pytest.raises((HttpStatusError, RpcError)) as lost:
                await peer.request("x")
            assert getattr(lost.value, "status", None) == 404 or lost.value.http_status == 404
            await began(peer)
            assert (await peer.request("x"))["method"] == "x"

    run(main)


def test_a_client_that_goes_on_with_a_session_of_before(run):
    async def main():
        app = App()
        host = McpHost(app.handler)
        async with host.running():
            listener = await serve_http(host, host="127.0.0.1")
            first = await open_http(listener.url)
            await began(first)
            async with open_http(listener.url) as second:
                second.session_id, second.protocol_version = first.session_id, first.protocol_version
                await second.request("x")
                assert app.seen[-1][3] is app.seen[0][3]
            await first.close()
            await listener.close()

    run(main)


@pytest.mark.parametrize("options", [{"stateless": True}, {"sealed_sessions": True}])
def test_stateless_and_sealed_hosts(run, options):
    """HO-35, and sessions that are carried by their id: the handler sees a request for what it is."""

    async def main():
        app = App()
        async with served(app, **options) as peer:
            result = await began(peer)
            assert result["serverInfo"] == {"name": "app"}
            assert (await peer.request("x", {"n": 1}))["params"] == {"n": 1}
            _, headers, revision, session = app.seen[-1]
            assert revision == "2025-11-25"
            if "stateless" in options:
                assert session is None and peer.session_id is None
            else:
                assert session.hello.client_info["name"] == "t"
            assert headers["mcp-protocol-version"] == "2025-11-25"

    run(main)


def test_raw_params_both_ways(run):
    async def main():
        seen = []

        async def handler(method, params, exchange):
            seen.append(params)
            if method == "initialize":
                return b'{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{}}'
            return b'{"got": %b}' % (params or b"null")

        host = McpHost(handler, raw=True)
        async with host.running():
            listener = await serve_http(host, host="127.0.0.1")
            async with open_http(listener.url) as peer:
                await peer.request("initialize", b'{"protocolVersion": "2025-06-18"}')
                assert await peer.request("x", b'{"n": 1e2}', decode=None) == b'{"got": {"n": 1e2}}'
                assert await peer.request("x", decode=None) == b'{"got": null}'
                assert seen == [b'{"protocolVersion": "2025-06-18"}', b'{"n": 1e2}', None]
            await listener.close()

    run(main)


def test_headers_that_a_client_renews(run):
    async def main():
        app = App()
        async with served(app, open={"headers": {"Authorization": "Bearer 1"}}) as peer:
            await peer.request("x", {"_meta": META})
            peer.set_headers({"Authorization": "Bearer 2"})
            await peer.request("x", {"_meta": META})
            await began(peer)
            assert [headers["authorization"] for _, headers, _, _ in app.seen] == ["Bearer 1", "Bearer 2", "Bearer 2"]

    run(main)


def test_whom_a_request_belongs_to(run):
    """HO-34: the principal is the exchange's; a session is nobody else's."""

    async def main():
        principals = []

        async def handler(method, params, exchange):
            principals.append(exchange.principal)
            return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}

        host = McpHost(handler)
        async with host.running():
            listener = await serve_http(
                host, host="127.0.0.1", principal_of=lambda fields: dict(fields).get(b"authorization")
            )
            async with open_http(listener.url, headers={"Authorization": "a"}) as one:
                await began(one)
                async with open_http(listener.url, headers={"Authorization": "b"}) as other:
                    other.session_id = one.session_id
                    other.protocol_version = "2025-11-25"
                    with pytest.raises((HttpStatusError, RpcError)):
                        await other.request("x")
                    other.session_id = None
            assert principals == [b"a"]
            await listener.close()

    run(main)


def test_what_cannot_be_opened():
    async def main():
        with pytest.raises(UsageError):
            await open_http("ftp://x")
        with pytest.raises(UsageError, match="an McpHost only serves"):
            await open_http("http://127.0.0.1:1/mcp", McpHost(None))
        with pytest.raises(ConnectFailed):
            await open_http("http://127.0.0.1:1/mcp", limits=Limits(connect_timeout=5))

    asyncio.run(main())


def test_closing_from_another_task_and_twice(run):
    async def main():
        app = App()
        host = McpHost(app.handler)
        async with host.running():
            listener = await serve_http(host, host="127.0.0.1")
            reasons = []
            peer = await open_http(listener.url, on_lost=reasons.append)
            await began(peer)
            call = peer.request("slow")
            await asyncio.gather(asyncio.create_task(peer.close()), peer.close())
            with pytest.raises(ConnectionClosed):
                await call
            assert len(reasons) == 1 and peer.closed
            assert listener.sessions == 0
            await listener.close()

    run(main)


def test_nothing_can_be_asked_inside_of_a_request_that_is_over(run):
    async def main():
        kept = []

        async def handler(method, params, exchange):
            kept.append(exchange)
            return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}

        host = McpHost(handler)
        async with host.running():
            listener = await serve_http(host, host="127.0.0.1")
            async with open_http(listener.url) as peer:
                await began(peer)
                await peer.request("x")
                exchange = kept[-1]
                assert not exchange.open and not exchange.cancelled and exchange.request_id == 2
                assert not exchange.tell("notifications/message", {})
                with pytest.raises(LocalProtocolError, match="the request is over"):
                    exchange.request("roots/list")
            await listener.close()

    run(main)
