"""Stopping a host: bounded in time whatever handlers do, all listeners at once."""

import asyncio
import contextlib
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import headrace
from headrace import Context, Server, UsageError, connect
from headrace.transports.http_options import HttpOptions

SERVER = """
    import asyncio
    from headrace import Limits, Server

    app = Server("t", version="1", limits=Limits(drain_timeout=0.5))

    @app.tool
    async def stubborn() -> str:
        for _ in range(60):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                pass
        return "late"

    @app.tool
    async def sleep(ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return "slept"
"""
CALL = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "stubborn", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }},
}  # fmt: skip
LINE = json.dumps(CALL).encode() + b"\n"


@pytest.fixture
def start(tmp_path):
    """Starts `run(**where)` of the server in a process of its own, on an event loop by name."""
    (tmp_path / "host.py").write_text(textwrap.dedent(SERVER))
    children = []

    def starter(loop, where, **streams):
        code = f"from host import app; app.run(loop={loop!r}, on_ready=lambda a: print('ready', *a, flush=True, file=__import__('sys').stderr), {where})"
        env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(headrace.__file__).parents[1]}"}
        child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, env=env, **streams)
        children.append(child)
        return child, child.stderr.readline().decode().split()[1:]

    yield starter
    for child in children:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()


@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGINT"])
def test_b19_a_handler_that_ignores_its_cancellation_keeps_nobody(loop_name, start, how):
    """B19, ST-21: the drain limit holds although the handler never ends."""
    child, _ = start(loop_name, "", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(LINE)
    child.stdin.flush()
    time.sleep(0.3)
    if how == "eof":
        child.stdin.close()
    else:
        child.send_signal(getattr(signal, how))
    assert child.wait(15) == 0
    assert b"Traceback" not in child.stderr.read()


def test_all_listeners_stop_at_once(loop_name, start, tmp_path):
    """While one listener drains, none of the others takes new connections."""
    child, [http, _] = start(loop_name, f"http=0, unix={str(tmp_path / 's')!r}")
    host, _, port = http.removeprefix("http://").partition("/")[0].rpartition(":")
    with socket.socket(socket.AF_UNIX) as busy:
        busy.connect(str(tmp_path / "s"))
        busy.sendall(LINE)
        time.sleep(0.3)
        child.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with pytest.raises(OSError), socket.create_connection((host, int(port)), 2) as late:
            late.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if late.recv(100) == b"":
                raise ConnectionResetError
        assert child.wait(15) == 0


@pytest.mark.parametrize(
    "options, kind, text",
    [
        ({"allowed_host": ["a"]}, TypeError, "unknown option 'allowed_host'; HTTP endpoints have path, ssl, allowed_hosts"),
        ({"path": "mcp"}, UsageError, "path 'mcp' must begin with a slash"),
        ({"path": "/a?b"}, UsageError, "no space"),
        ({"sealed_sessions": True, "stateless": True}, UsageError, "exclude each other"),
    ],
)
@pytest.mark.parametrize("where", [{"http": 0}, {"unix": "x.sock"}, {}])
def test_wrong_options_are_told_before_anything_is_opened(run, tmp_path, monkeypatch, where, options, kind, text):
    """Also where there is no HTTP endpoint: an option that nobody reads is a mistake."""
    entered = []
    monkeypatch.chdir(tmp_path)

    @contextlib.asynccontextmanager
    async def lifespan(server):
        entered.append(1)
        yield

    app = Server("t", version="1", lifespan=lifespan)
    with pytest.raises(kind, match=re.escape(text)):
        run(functools.partial(app.serve, **where, **options))
    assert entered == [] and os.listdir(tmp_path) == []


def test_every_option_reaches_its_endpoint(run, tmp_path):
    """HO-34: ``principal_of`` among them; the others have tests of their own."""
    seen = []
    app = Server("t", version="1")

    def principal_of(fields):
        seen.append(dict(fields)[b"x-user"])
        return "somebody"

    @app.tool
    async def who(ctx: Context) -> str:
        return str(ctx.principal)

    async def main():
        ready = asyncio.get_running_loop().create_future()
        host = asyncio.create_task(
            app.serve(http=0, path="/p", principal_of=principal_of, on_ready=lambda names: ready.set_result(names[0]))
        )
        url = await ready
        assert url.endswith("/p")
        async with connect(url, headers={"X-User": "ada"}) as client:
            assert (await client.call_tool("who")).text == "somebody"
        host.cancel()
        await asyncio.wait([host])

    run(main)
    assert set(seen) == {b"ada"}
    assert set(HttpOptions.__annotations__) >= {"path", "ssl", "legacy_sse", "stateless", "sealed_sessions", "principal_of"}


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_objects_of_the_start_are_frozen_while_the_process_serves(tmp_path, loop):
    """A full collection while calls run looks at none of them; afterwards everything is as it was."""
    code = (
        "import gc, os, signal\n"
        "from headrace import Server\n"
        "app = Server('t', version='1')\n"
        "def ready(addresses):\n"
        "    print(gc.get_freeze_count(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        f"app.run(unix={str(tmp_path / 's')!r}, loop={loop!r}, on_ready=ready)\n"
        "print(gc.get_freeze_count())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    during, after = map(int, done.stdout.split())
    assert during > 10_000
    assert after == 0


def test_large_blocks_come_from_a_heap_that_is_kept_while_serving():
    """A call of 1 MB takes blocks of that size: mapped, or cut off the heap after each call, they cost more than the
    call. glibc counts the blocks that it mapped."""
    code = (
        "import ctypes\n"
        "from headrace.transports.run import keep_heap\n"
        "class Info(ctypes.Structure):\n"
        "    _fields_ = [(name, ctypes.c_size_t) for name in\n"
        "                ('arena', 'ordblks', 'smblks', 'hblks', 'hblkhd', 'usmblks', 'fsmblks', 'uordblks', 'fordblks', 'keepcost')]\n"
        "info = ctypes.CDLL(None).mallinfo2\n"
        "info.restype = Info\n"
        "def mapped():\n"
        "    before = info().hblks\n"
        "    held = bytearray(3 << 20)\n"
        "    count = info().hblks - before\n"
        "    held.clear()\n"
        "    return count\n"
        "first = bytearray(1 << 20)\n"
        "print(int(info().hblks > 0))\n"
        "keep_heap()\n"
        "print(mapped())\n"
        "del first\n"
        "held = bytearray(3 << 20)\n"
        "kept = info().arena\n"
        "del held\n"
        "print(int(info().arena == kept))\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, env=environment)
    if "mallinfo2" in done.stderr or done.stdout.startswith("0"):
        pytest.skip("not glibc's allocator")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "0", "1"]
