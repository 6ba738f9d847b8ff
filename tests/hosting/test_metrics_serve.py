"""`headrace serve --metrics` and `--health`, one process."""

import asyncio
import contextlib
import signal
import socket
import sys
import time

import pytest
from ports import free_port

from headrace import connect
from hosting.metrics_support import fetch, parsed, shop, total
from hosting.processes import ENV, HEADRACE, eventually, refused, serving

__all__ = ("shop",)


def calls(url, *tools, **options):
    """Calls each of (tool, arguments)."""

    async def main():
        async with connect(url, **options) as client:
            for tool, arguments in tools:
                await client.call_tool(tool, arguments)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_an_address_of_its_own(shop):
    http, metrics = free_port(), free_port()
    with serving("shop.py", "--http", http, "--metrics", f"127.0.0.1:{metrics}", cwd=shop) as it:
        it.line(rf"metrics on http://127\.0\.0\.1:{metrics}/metrics$")
        it.line("serving shop on")
        calls(f"http://127.0.0.1:{http}/mcp", ("echo", {"text": "a"}), ("fails", {}))
        status, text, headers = fetch(f"http://127.0.0.1:{metrics}/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain")
        samples, _ = parsed(text)
        assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 1
        assert total(samples, "headrace_requests_total", tool="fails", status="tool_error") == 1
        assert total(samples, "headrace_worker_connections", worker="0") == total(samples, "headrace_connections")
        for port in (http, metrics):
            for path in ("healthz", "readyz"):
                assert fetch(f"http://127.0.0.1:{port}/{path}")[:2] == (200, "ok\n")
        assert fetch(f"http://127.0.0.1:{http}/readyz", Host="10.0.0.1")[0] == 200
        assert fetch(f"http://127.0.0.1:{http}/metrics")[0] == 404


def test_lines_alone_are_counted_too(shop):
    lines, metrics = free_port(), free_port()
    with serving("shop.py", "--tcp", lines, "--metrics", metrics, cwd=shop) as it:
        it.line("serving shop on")
        calls(f"tcp:127.0.0.1:{lines}", ("echo", {"text": "a"}))
        samples, _ = parsed(fetch(f"http://127.0.0.1:{metrics}/metrics")[1])
        assert total(samples, "headrace_requests_total", tool="echo", revision="2026-07-28", status="ok") == 1
        assert fetch(f"http://127.0.0.1:{metrics}/readyz")[0] == 200


def test_standard_streams_are_counted_too(shop):
    """The page goes with the process that the client has started."""
    metrics = free_port()

    async def main():
        command = [*HEADRACE, "serve", str(shop / "shop.py"), "--metrics", str(metrics)]
        async with connect(command, env={"PYTHONPATH": ENV["PYTHONPATH"]}) as client:
            await client.call_tool("echo", {"text": "a"})
            samples, _ = parsed((await asyncio.to_thread(fetch, f"http://127.0.0.1:{metrics}/metrics"))[1])
            assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 1
            assert samples["headrace_connections"][("transport", "lines"),] == 1

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_path_of_the_endpoint(shop):
    http = free_port()
    with serving("shop.py", "--http", http, "--metrics", "/numbers", "--no-health", cwd=shop) as it:
        it.line("serving shop on")
        calls(f"http://127.0.0.1:{http}/mcp", ("echo", {"text": "a"}))
        samples, _ = parsed(fetch(f"http://127.0.0.1:{http}/numbers")[1])
        assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 1
        assert fetch(f"http://127.0.0.1:{http}/numbers", method="DELETE")[0] == 405
        assert [fetch(f"http://127.0.0.1:{http}/{path}")[0] for path in ("healthz", "else")] == [404, 404]


def test_the_address_stays_up_while_the_server_drains(shop):
    """/readyz is 503 then, /metrics still counts, and new connections to the server are refused."""
    http, metrics = free_port(), free_port()
    with serving("shop.py", "--http", http, "--metrics", metrics, cwd=shop) as it:
        it.line("serving shop on")

        async def main():
            async with connect(f"http://127.0.0.1:{http}/mcp") as client:
                call = asyncio.ensure_future(client.call_tool("slow", {"ms": 1500}))
                await until(lambda: in_flight() == 1)
                it.send(signal.SIGTERM)
                await until(lambda: fetch(f"http://127.0.0.1:{metrics}/readyz")[:2] == (503, "draining\n"))
                assert fetch(f"http://127.0.0.1:{metrics}/healthz")[0] == 200
                assert in_flight() == 1
                with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", http), 5):
                    pass
                assert (await call).text == "slept"

        def in_flight():
            return total(parsed(fetch(f"http://127.0.0.1:{metrics}/metrics")[1])[0], "headrace_requests_in_flight")

        asyncio.run(asyncio.wait_for(main(), 30))
        assert it.wait() == 0


async def until(check, timeout=10.0):
    end = time.monotonic() + timeout
    while not await asyncio.to_thread(check):
        assert time.monotonic() < end, "it did not come to that in time"
        await asyncio.sleep(0.02)


def test_not_ready_before_the_lifespan_is_done(tmp_path):
    """The address of the metrics answers from the very beginning."""
    (tmp_path / "late.py").write_text(
        "import asyncio, contextlib, pathlib\n"
        "from headrace import Server\n"
        "@contextlib.asynccontextmanager\n"
        "async def lifespan(server):\n"
        "    while not pathlib.Path('go').exists():\n"
        "        await asyncio.sleep(0.02)\n"
        "    yield\n"
        "app = Server('late', version='1', lifespan=lifespan)\n"
    )
    http, metrics = free_port(), free_port()
    with serving("late.py", "--http", http, "--metrics", metrics, cwd=tmp_path) as it:
        it.line("metrics on")
        assert fetch(f"http://127.0.0.1:{metrics}/readyz")[:2] == (503, "starting\n")
        assert fetch(f"http://127.0.0.1:{metrics}/healthz")[0] == 200
        (tmp_path / "go").touch()
        it.line("serving late on")
        assert fetch(f"http://127.0.0.1:{metrics}/readyz")[0] == 200


APPLICATION = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"mine " + scope["path"].encode()})
"""


def test_an_application_keeps_its_paths(shop):
    """As the target or beside it: /healthz is its own, unless --health is typed."""
    (shop / "site.py").write_text(APPLICATION)
    (shop / "web.py").write_text(APPLICATION)
    for arguments in (("web:app",), ("shop.py", "--beside", "web:app")):
        for typed, mine in (((), True), (("--health",), False)):
            http = free_port()
            with serving(*arguments, "--http", http, "--metrics", "/metrics", *typed, cwd=shop) as it:
                it.line("serving .* on")
                body = fetch(f"http://127.0.0.1:{http}/healthz")[1]
                assert body == ("mine /healthz" if mine else "ok\n")
                assert fetch(f"http://127.0.0.1:{http}/other")[1] == "mine /other"
                parsed(fetch(f"http://127.0.0.1:{http}/metrics")[1])


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("--metrics", "/metrics"), "--metrics /metrics is a path of HTTP: say --http"),
        (("--http", "0", "--metrics", "/a b"), "--metrics '/a b': a path of its own, without a space"),
        (("--http", "0", "--metrics", "/mcp"), "--metrics '/mcp': a path of its own"),
        (("--http", "0", "--metrics", "nowhere"), "--metrics 'nowhere': use HOST:PORT, a PORT on 127.0.0.1, or a /PATH"),
        (("--http", "0", "--metrics", "127.0.0.1:99999"), "--metrics '127.0.0.1:99999': use HOST:PORT"),
        (("--http", "0", "--path", "/readyz"), "/readyz"),
    ],
)
def test_wrong_values_are_one_line_and_status_2(shop, arguments, text):
    status, line = refused("shop.py", *arguments, cwd=shop)
    assert (status, text in line) == (2, True), line


def test_a_port_in_use_is_one_line_and_status_1(shop):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        status, line = refused("shop.py", "--http", "0", "--metrics", where, cwd=shop)
        assert status == 1
        assert line.startswith(f"headrace: --metrics {where}: ") and "in use" in line.lower()


def test_without_prometheus_client(shop):
    """One line says what to install."""
    (shop / "hidden").mkdir()
    (shop / "hidden" / "prometheus_client.py").write_text("raise ImportError('none')\n")
    path = f"{shop / 'hidden'}:{next(p for p in sys.path if p.endswith('src'))}"
    status, line = refused("shop.py", "--http", "0", "--metrics", "0", cwd=shop, env={"PYTHONPATH": path})
    assert (status, "pip install 'headrace[metrics]'" in line) == (1, True), line


def test_connections_to_the_metrics_take_no_descriptors_from_those_who_call(shop):
    """The supervisor accepts for all: who opens connections to its metrics does not keep it from that."""
    with serving("shop.py", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--workers", "1", cwd=shop) as it:
        port = int(it.line(r"metrics on http://127\.0\.0\.1:(\d+)/metrics$")[1])
        it.line("serving shop on")
        with contextlib.ExitStack() as held:
            idle = [held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(600)]
            for each in idle[300:]:
                each.settimeout(30)
                assert b" 200 " not in each.recv(1000).partition(b"\r\n")[0]  # told that it is one too many, or closed
            calls(f"http://127.0.0.1:{it.port}/mcp", ("echo", {"text": "a"}))

        def scraped():
            with contextlib.suppress(OSError):
                return fetch(f"http://127.0.0.1:{port}/metrics")[0] == 200
            return False

        eventually(scraped, "an answer with the metrics")
