"""An ASGI application beside the MCP endpoint, on one port: whose a path is, and that neither disturbs the other.

Strategy: raw sockets against a Server with the option `beside`, on both loops.
"""

import asyncio
import json

import pytest
from asgi_site import App, answer, whole_body
from http_support import R4, make_server, site

from headrace.errors import HeadraceError, HttpRefusal, UsageError


async def pages(scope, receive, send):
    """Echoes what it gets under its path."""
    body, _ = await whole_body(receive)
    if scope["path"] == "/slow":
        await asyncio.sleep(0.01)
    if body is not None:
        await answer(send, f"{scope['method']} {scope['path']}?{scope['query_string'].decode()} ".encode() + body)


def page(place, target="/health", method="GET", body=None, **fields):
    return place.request(method, target, body, **({"accept": None, "content_type": None} | fields))


def test_every_other_path_is_the_applications(run):
    async def main():
        app = App(pages)
        async with site(beside=app) as place:
            peer = await place.connect()
            for _ in range(2):
                got = await peer.ask(page(place, "/health?deep=1"))
                assert got.body == b"GET /health?deep=1 "
                got = await peer.ask(place.call("echo", {"text": "mcp"}))
                assert got.json["result"]["content"][0]["text"] == "mcp"
                got = await peer.ask(page(place, "/form", "POST", b"a=b"))
                assert got.body == b"POST /form? a=b"
            for path in ("/", "/mc", "/mcpx", "/mcp/x", "/MCP", "/x/mcp", "/%6dcp", "/.well-known/oauth-authorization-server"):
                assert (await peer.ask(page(place, path))).status == 200, path
            for path in ("/mcp", "/mcp/", "/mcp?x"):
                assert (await peer.ask(page(place, path))).status == 405, path
            # What browsers ask of the endpoint is not the application's matter.
            assert (await peer.ask(page(place, "/mcp", "OPTIONS"))).status == 405
            assert (await peer.ask(page(place, "/any", "OPTIONS"))).status == 200
        assert app.events == ["up", "down"]

    run(main)


def test_without_it_other_paths_are_404(run):
    async def main():
        async with site() as place:
            peer = await place.connect()
            assert (await peer.ask(page(place))).status == 404

    run(main)


def test_host_is_checked_and_origin_is_its_own_matter(run):
    """SE-01: DNS rebinding concerns all of the port; which pages may call the application it knows itself."""

    async def main():
        async with site(beside=App(pages), cors_origins=["https://app.example"]) as place:
            peer = await place.connect()
            assert (await peer.ask(page(place, host="evil.example"))).status == 421
            got = await peer.ask(page(place, origin="https://evil.example"))
            assert got.status == 200 and got.get("access-control-allow-origin") is None
            got = await peer.ask(page(place, origin="https://app.example"))
            assert got.status == 200 and got.get("access-control-allow-origin") is None
            got = await peer.ask(place.call("echo", {"text": "x"}, origin="https://evil.example"))
            assert got.status == 403
            got = await peer.ask(place.call("echo", {"text": "x"}, origin="https://app.example"))
            assert got.get("access-control-allow-origin") == "https://app.example"

    run(main)


def test_authenticate_is_for_the_endpoint_alone(run):
    async def main():
        async def authenticate(request):
            seen.append(request.target)
            await asyncio.sleep(0)
            raise HttpRefusal(401)

        seen = []
        async with site(beside=App(pages), authenticate=authenticate) as place:
            peer = await place.connect()
            for _ in range(2):
                assert (await peer.ask(page(place))).status == 200
                assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 401
            assert seen == ["/mcp"] * 2

    run(main)


def test_both_eras_and_the_application_take_turns_on_one_connection(run):
    async def main():
        async with site(beside=App(pages)) as place:
            peer = await place.connect()
            sid = await place.open_session(peer)
            stream = await place.open_stream(sid)
            data = b""
            for i in range(10):
                data += place.legacy_call(sid, "echo", {"text": f"l{i}"}, id=i)
                data += page(place, "/slow" if i % 2 else "/fast", "POST", b"p" * i)
                data += place.call("echo", {"text": f"m{i}"}, id=i)
            for at in range(0, len(data), 333):
                peer.send(data[at : at + 333])
                await asyncio.sleep(0.0005)
            for i in range(10):
                for want in (f"l{i}", None, f"m{i}"):
                    got = await peer.answer()
                    if want is None:
                        assert got.body.endswith(b"p" * i) and got.body.startswith(b"POST /")
                    else:
                        assert got.json["result"]["content"][0]["text"] == want
            stream.close()

    run(main)


def test_legacy_sse_keeps_its_paths(run):
    async def main():
        async with site(beside=App(pages), legacy_sse=True) as place:
            stream = await place.connect()
            stream.send(place.request("GET", "/sse"))
            assert (await stream.head())[1]["content-type"] == ["text/event-stream"]
            where = (await stream.chunk()).decode().split("data: ")[1].strip()
            peer = await place.connect()
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await peer.ask(place.request(target=where, body=body))).status == 202
            assert json.loads((await stream.chunk()).decode().split("data: ")[1])["id"] == 1
            assert (await peer.ask(page(place, "/sse/x"))).status == 200
            assert (await peer.ask(page(place, "/messages"))).status == 405

    run(main)


def test_the_endpoint_at_the_root(run):
    """`path="/"`: only the root itself is MCP's."""

    async def main():
        async with site(beside=App(pages), path="/") as place:
            peer = await place.connect()
            assert (await peer.ask(page(place, "/x"))).status == 200
            assert (await peer.ask(page(place, "/?q"))).status == 405
            assert (await peer.ask(place.request(body={}, target="/"))).status == 400

    run(main)


def test_errors_of_the_application_are_its_own(run, caplog):
    """A failing page is 500 in plain text; MCP on the same connection goes on, and refusals of MCP are JSON."""

    async def main():
        async def broken(scope, receive, send):
            raise RuntimeError("swordfish")

        async with site(beside=App(broken)) as place:
            peer = await place.connect()
            got = await peer.ask(page(place))
            assert got.status == 500 and got.body == b"Internal Server Error"
            got = await peer.ask(place.call("echo", {"text": "x"}))
            assert got.status == 200
            got = await peer.ask(place.request("PUT", content_length="0"))
            assert got.status == 405 and "error" in got.json
            assert (await peer.ask(page(place))).status == 500
            # ... where the endpoint recognises the request of before, too.
            data = place.request(transfer_encoding="chunked") + b"2\r\n{}\r\nzz\r\n"
            got = await peer.ask(data)
            assert got.status == 400 and "error" in got.json

    run(main)
    assert "swordfish" in caplog.text


def test_an_application_that_fails_to_start(run):
    async def main():
        async def app(scope, receive, send):
            await receive()
            await send({"type": "lifespan.startup.failed", "message": "no disk"})

        with pytest.raises(HeadraceError, match="no disk"):
            async with site(beside=app):
                pass
        for name in ("beside", "authenticate", "principal_of"):
            with pytest.raises(UsageError, match=f"{name}=3 cannot be called"):
                async with site(**{name: 3}):
                    pass

    run(main)


def test_the_lifespan_of_the_application_is_inside_that_of_the_server(run):
    async def main():
        order = []

        class Told(App):
            async def __call__(self, scope, receive, send):
                order.append("up" if scope["type"] == "lifespan" else "page")
                await super().__call__(scope, receive, send)
                if scope["type"] == "lifespan":
                    order.append("down")

        server = make_server()
        async with site(server, beside=Told(pages)) as place:
            peer = await place.connect()
            await peer.ask(page(place))
            sid = await place.open_session(peer)
            assert (await peer.ask(place.legacy_call(sid, "echo", {"text": R4}))).status == 200
        assert order == ["up", "page", "down"]

    run(main)


def test_serve_takes_it(run):
    """Server.serve passes it on, as all options of the endpoint."""

    async def main():
        server = make_server()
        ready = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(server.serve(http=0, beside=App(pages), on_ready=ready.set_result))
        (url,) = await asyncio.wait_for(ready, 5)
        port = int(url.split(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"GET /page? ")
        writer.close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    run(main)
