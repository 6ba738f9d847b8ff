"""`headrace serve --beside`: an ASGI application on the port of an MCP server, from the command line."""

import signal
import urllib.request

import pytest
from test_cli import headrace, plain_failure, serving

from headrace import connect

BOTH = """
from headrace import Server

mcp = Server("both", version="1")

@mcp.tool
def echo(text: str) -> str:
    return text

async def web(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("web is down")
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})

async def sick(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no disk"})

def make():
    return web

def raises():
    raise ValueError("swordfish")

class Web:
    pass
"""


@pytest.fixture
def both(tmp_path):
    (tmp_path / "both.py").write_text(BOTH)
    return tmp_path


@pytest.mark.parametrize("target", ["both:web", "both.py:web", "both:make"])
def test_pages_and_tools_share_the_port(run, both, target):
    with serving("both.py", "--http", "0", "--beside", target, cwd=both) as (process, (url,)):
        page = url.removesuffix("/mcp") + "/health"
        with urllib.request.urlopen(page, timeout=10) as got:
            assert got.read() == b"/health"

        async def main():
            async with connect(url) as client:
                assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"

        run(main)
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=20)[0]
        assert process.returncode == 0 and output == "web is down\n"


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        ("both:mcp", 2, "both:mcp is a Server, not an ASGI application"),
        ("both:Web", 2, "both:Web is a type, not an ASGI application"),
        ("both:nothing", 2, "both has no 'nothing'"),
        ("both", 2, "both has no 'app'"),
        ("neither:app", 2, "there is no module 'neither'"),
        ("both:raises", 1, "both:raises raised: ValueError: swordfish"),
        ("both:sick", 1, "failed to start: no disk"),
    ],
)
def test_what_cannot_be_served_beside(both, target, status, text):
    done = headrace("serve", "both.py", "--http", "0", "--beside", target, cwd=both)
    assert text in plain_failure(done, status)


def test_it_wants_http(both):
    done = headrace("serve", "both.py", "--beside", "both:web", cwd=both)
    assert "--beside is for HTTP: say --http HOST:PORT as well" in plain_failure(done, 2)
