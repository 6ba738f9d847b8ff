"""B98 against `headrace serve`: what a process, a session and a request open, and how often, until SIGTERM."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import headrace
from headrace import connect

ENV = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
WAIT = 30

SERVER = """
import asyncio
from contextlib import asynccontextmanager
import anyio
from headrace import Context, Server

def note(text):
    with open("notes", "a") as file:
        file.write(text + "\\n")

@asynccontextmanager
async def lifespan(server):
    note("enter server")
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        yield {"loaded": True}
        group.cancel_scope.cancel()
    note("exit server")

app = Server("life", version="1", lifespan=lifespan)

@app.on_session
async def session(session):
    note("enter session")
    yield
    note("exit session")

@app.on_request
async def request(call):
    note("enter request")
    yield
    note("exit request")

@app.tool
async def ask(ctx: Context) -> bool:
    return ctx.lifespan["loaded"]
"""


@contextlib.contextmanager
def serving(directory, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", "serve", "target.py", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=directory, env=ENV,
    )  # fmt: skip
    try:
        while True:
            line = process.stderr.readline()
            assert line, "the server ended"
            if found := re.search(r"serving \S+ on (http\S+)", line):
                break
        yield process, found[1]
    finally:
        process.kill()
        process.communicate(timeout=WAIT)


def test_b98_what_is_opened_is_opened_once_and_closed_once(tmp_path):
    (tmp_path / "target.py").write_text(SERVER)

    async def load(url):
        for _ in range(3):
            async with connect(url, revision="2025-11-25") as client:
                for _ in range(2):
                    await client.call_tool("ask")
        async with connect(url, revision="2026-07-28") as client:
            for _ in range(100):
                assert (await client.call_tool("ask")).content[0].text == "true"
        # One session that is open when the server is stopped.
        left_open = connect(url, revision="2025-11-25")
        client = await left_open.__aenter__()
        await client.call_tool("ask")
        return left_open

    async def main():
        with serving(tmp_path, "--http", "127.0.0.1:0") as (process, url):
            left_open = await load(url)
            process.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(process.wait, WAIT)
            with contextlib.suppress(Exception):
                await left_open.__aexit__(None, None, None)
            return code

    assert asyncio.run(main()) == 0
    notes = (tmp_path / "notes").read_text().splitlines()
    assert notes[0] == "enter server" and notes[-1] == "exit server"
    assert Counter(notes) == {
        "enter server": 1, "exit server": 1, "enter session": 4, "exit session": 4,
        "enter request": 107, "exit request": 107,
    }  # fmt: skip


@pytest.mark.parametrize("failure", ["raise OSError('no database')", "raise SystemExit(7)", "1 / 0"])
def test_b98_a_lifespan_that_fails_ends_the_start_before_anything_listens(tmp_path, failure):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    source = f"""
    from contextlib import asynccontextmanager
    import socket
    from headrace import Server

    @asynccontextmanager
    async def lifespan(server):
        with socket.socket() as sock:
            print("listens:", sock.connect_ex(("127.0.0.1", {port})) == 0, flush=True)
        {failure}
        yield

    app = Server("life", version="1", lifespan=lifespan)
    """
    (tmp_path / "target.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "target.py", "--http", f"127.0.0.1:{port}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path, env=ENV, timeout=WAIT,
    )  # fmt: skip
    assert done.returncode == (7 if "SystemExit" in failure else 1)
    assert "listens: False" in done.stdout + done.stderr and "serving" not in done.stderr
    assert "Traceback" not in done.stderr
