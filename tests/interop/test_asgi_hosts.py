"""A server as an ASGI application under the hosts that people have: uvicorn, hypercorn, granian, mounts in Starlette
and FastAPI, our own. The official SDK's client and ours get from it what they get from our HTTP server."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request

import pytest
from ports import free_port

from headrace import connect
from interop import exercise
from interop.support import HERE, SOURCE, TOP, end, read_line, run_json, wait_for_port

pytestmark = pytest.mark.interop

TEXT = 'é€😀𝄞\n"\\\x00\u2028'
HOSTS = {
    "uvicorn": ("uvicorn", "asgi_hosted:bare"),
    "hypercorn": ("hypercorn", "asgi_hosted:bare"),
    "granian": ("granian", "asgi_hosted:bare"),
    "starlette": ("uvicorn", "asgi_hosted:starlette()"),
    "fastapi": ("uvicorn", "asgi_hosted:fastapi()"),
    "headrace": ("headrace", "asgi_hosted:bare"),
}


def start(python, host, target, port, *folders, **pipes):
    command = [str(python), str(HERE / "peers" / "asgi_host.py"), host, target, str(port)]
    path = os.pathsep.join(str(each) for each in (SOURCE, *folders))
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path}, **pipes)


def missing(python, module):
    """Peers that were installed before these tests were may lack what these need."""
    done = subprocess.run([str(python), "-c", f"import {module}"], capture_output=True)
    return done.returncode != 0


@contextlib.contextmanager
def hosted(python, host, target, log, *folders):
    """An application behind a host; gives the URL of the host, and looks at its last words."""
    port = free_port()
    with open(log, "wb") as errors:
        process = start(python, host, target, port, *folders, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            wait_for_port(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            status = end(process, 15)
    words = log.read_text(errors="replace")
    assert status in (0, -signal.SIGINT, 128 + signal.SIGINT), words
    assert "ASGI" not in words.replace("the ASGI host sent no lifespan events", ""), words
    assert words.count("Traceback") == words.count("RuntimeError: a secret of the server"), words


@pytest.fixture(scope="module", params=[*HOSTS])
def place(request, peers, tmp_path_factory):
    host, target = HOSTS[request.param]
    for module in {host, request.param}:
        if missing(peers, module):
            pytest.skip(f"{module} is not among the peers: make peers")
    log = tmp_path_factory.mktemp("asgi") / f"{request.param}.log"
    with hosted(peers, host, target, log) as url:
        yield url


# The modern era, which our client speaks behind every host, behind some.
EACH = [(name, "legacy") for name in HOSTS] + [(name, "auto") for name in ("uvicorn", "granian", "fastapi")]


@pytest.mark.parametrize(("place", "mode"), EACH, indirect=["place"])
def test_official_client(place, peers, mode):
    """Both eras: calls, progress in order, giving up, many at once, questions both ways, resources, changes, pages."""
    seen = run_json([peers, HERE / "peers" / "sdk_client.py", mode, f"{place}/paged", f"{place}/mcp"])
    assert seen["protocol"] == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert seen["add"]["text"] == ["3"] and seen["echo"]["text"] == [TEXT]
    assert seen["fail"]["is_error"] and "secret" not in seen["crash"]["text"][0]
    assert seen["progress"] == [[n, 20, f"at {n}"] for n in range(1, 21)]
    assert sorted(seen["journal"]) == ["by scope cancelled", "by timeout cancelled"]
    assert seen["together"] and seen["grown"] and seen["updated"]
    assert seen["ask_name"]["text"] == ["Hello Ada"]
    assert seen["think"]["text"] == ["thought about cats"]
    assert seen["where"]["text"] == ["file:///work"]
    assert (seen["read"], seen["prompt"]) == ("static note", "Greet Ada")
    assert [len(page) for page in seen["pages"]] == [3, 3, 3, 1]
    if mode == "legacy":
        assert seen["ping"] and seen["quiet"]
        assert any("list_changed" in each or "ToolListChanged" in each for each in seen["messages"])


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_our_client(place, revision):
    async def body():
        touched = []
        async with connect(
            f"{place}/mcp", revision=revision, on_resource_updated=touched.append, **exercise.QUESTIONS
        ) as client:
            assert client.protocol_version == revision
            await exercise.exercise(client, structured=False)
            await exercise.features(client, touched=touched)

    asyncio.run(asyncio.wait_for(body(), 50))


def status_of(url, method="GET", **headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_b59_hosts_and_methods(place):
    """The guards and statuses of our server hold behind every host, and the rest of the site is the host's own."""
    url = f"{place}/mcp"
    if status_of(url, "PUT") == 307:
        url += "/"  # mounts have a slash at their end; clients follow
    assert status_of(url) == 405
    assert status_of(url, "PUT") == 405
    assert status_of(url, "HEAD") == 405
    assert status_of(url, Host="evil.example") == 421
    assert status_of(url, Origin="http://evil.example") == 403
    assert status_of(f"{place}/nowhere") == 404


@pytest.mark.parametrize("name", ["starlette", "fastapi"])
def test_the_rest_of_the_site(peers, tmp_path, name):
    host, target = HOSTS[name]
    if missing(peers, name):
        pytest.skip(f"{name} is not among the peers: make peers")
    with hosted(peers, host, target, tmp_path / "log") as url:
        assert status_of(f"{url}/health") == 200
        assert status_of(f"{url}/mcp/other") == 404
        assert status_of(f"{url}/mcp/" if name == "fastapi" else f"{url}/mcp", "PUT") == 405


@pytest.mark.parametrize("host", ["uvicorn", "hypercorn", "granian"])
def test_b98_lifespan_and_end_with_open_streams(peers, host):
    """Started once, stopped once, in bounded time although a client has a stream open. (granian cuts its worker off
    then, as it is no more than a time limit to it: there the client leaves first.)"""
    if missing(peers, host):
        pytest.skip(f"{host} is not among the peers: make peers")
    port = free_port()
    process = start(
        peers, host, "asgi_hosted:counted()", port, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )

    async def body():
        async with connect(f"http://127.0.0.1:{port}/mcp", revision="2025-11-25") as client:
            assert (await client.call_tool("echo", {"text": "a"})).text == "a"
            await asyncio.sleep(0.3)  # the stream for messages without a request opens by the way
            if host != "granian":
                await stopped()
        if host == "granian":
            await stopped()

    async def stopped():
        process.send_signal(signal.SIGTERM)
        while (line := await asyncio.to_thread(read_line, process.stdout, 15)).startswith("["):
            pass
        assert line == "stopped\n"
        await asyncio.to_thread(process.wait, 15)

    try:
        while (line := read_line(process.stdout)).startswith("["):
            pass  # granian's own words
        assert line == "started\n"
        wait_for_port(port, process)
        asyncio.run(asyncio.wait_for(body(), 50))
    finally:
        end(process)


@pytest.mark.parametrize("host", ["uvicorn", "hypercorn"])
def test_server_that_cannot_start(peers, host):
    """lifespan.startup.failed: the host gives up, and says why."""
    if missing(peers, host):
        pytest.skip(f"{host} is not among the peers: make peers")
    process = start(
        peers, host, "asgi_hosted:broken()", free_port(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, errors = process.communicate(timeout=20)
    assert process.returncode != 0
    assert b"no database" in errors


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_servers_of_other_sdks(peers, tmp_path, revision):
    """`host_of(server).asgi()`: what headrace carries for another SDK is mounted as well."""

    async def body(url):
        async with connect(f"{url}/mcp", revision=revision) as client:
            assert (await client.call_tool("where")).text == "/mcp"
        async with connect(f"{url}/fast/", revision=revision) as client:
            assert (await client.call_tool("double", {"n": 4})).text == "8"

    with hosted(peers, "uvicorn", "asgi_hosted:guests()", tmp_path / "log") as url:
        asyncio.run(asyncio.wait_for(body(url), 50))


def test_the_page(peers, tmp_path):
    """docs/asgi.md: its web application, a route and a mount with a name in it."""
    for block in re.findall(r"```python\n(.*?)```", (TOP / "docs" / "asgi.md").read_text(), re.S):
        (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(block)

    async def body(url):
        for path in ("/mcp", "/shops/one/", "/shops/two/mcp"):
            async with connect(url + path) as client:
                assert (await client.call_tool("stock", {"item": "tea"})).text == "the shop has 3 tea"

    with hosted(peers, "uvicorn", "web:web", tmp_path / "log", tmp_path) as url:
        assert status_of(f"{url}/health") == 200
        asyncio.run(asyncio.wait_for(body(url), 50))


def test_clients_without_a_socket(peers):
    """httpx2's ASGI transport, and Starlette's test client with and without a lifespan."""
    if missing(peers, "fastapi"):
        pytest.skip("fastapi is not among the peers: make peers")
    script = [peers, HERE / "peers" / "asgi_clients.py"]
    done = subprocess.run(
        [str(part) for part in script], capture_output=True, timeout=55, env=os.environ | {"PYTHONPATH": str(SOURCE)}
    )
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["httpx"] == {
        "together": [str(number + 1) for number in range(50)],
        "refused": 415, "get": [405, "POST"], "head": 405, "options": 405,
    }  # fmt: skip
    assert seen["starlette"] == {
        "alone": ["1", "2", "3"], "living": ["1", "2", "3"], "health": "well", "elsewhere": 404, "below": 404,
        "marked": ["5", "yes"],
    }  # fmt: skip
