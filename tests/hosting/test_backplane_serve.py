"""`headrace serve --workers` with and without --backplane: sessions over workers, kills, and what is refused (B47, B95).

The load of 200 sessions and the loss of Redis under load are `make chaos`.
"""

import asyncio
import http.client
import json
import os
import signal
import time

import pytest
from chaos.caller import Session, Unwanted
from chaos.machines import Hosted
from ports import free_port

from hosting.processes import META, eventually, serving
from hosting.redis_support import redis_one, redis_server

__all__ = ("redis_one",)

APP = """
import asyncio, os
from headrace import Context, Server
app = Server("shared", version="1.0", lifespan=None)

@app.tool
def pid() -> str:
    return str(os.getpid())

@app.tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"

@app.tool
async def roots(ctx: Context) -> str:
    return " ".join(root.uri for root in await ctx.list_roots())

@app.tool(task="optional")
async def work() -> str:
    return "done"

@app.resource("data://one")
def one() -> str:
    return "1"
"""
R4 = "2025-11-25"
NEEDS = "--backplane"


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def start(app, *more, workers=2, env=None):
    return serving("app.py", "--http", "127.0.0.1:0", "--workers", str(workers), *more, cwd=app, env=env)


def exchange(port, message, method="POST", timeout=20, **fields):
    """(status, header fields, messages) of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {"Accept": "application/json, text/event-stream"} | {
        name.replace("_", "-"): value for name, value in fields.items()
    }
    if message is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, "/mcp", None if message is None else json.dumps(message), headers)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    if response.headers.get_content_type() == "text/event-stream":
        found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    else:
        found = [json.loads(text)] if text else []
    return response.status, response.headers, found


def begin(port):
    """The id of a new session."""
    params = {"protocolVersion": R4, "capabilities": {"roots": {}}, "clientInfo": {"name": "t", "version": "1"}}
    status, fields, found = exchange(port, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    assert status == 200, found
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert exchange(port, note, Mcp_Session_Id=fields["mcp-session-id"])[0] == 202
    return fields["mcp-session-id"]


def ask(port, sid, method, params=None, id=1, **options):
    """(status, last message) of a request of a session."""
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
    status, _, found = exchange(port, message, Mcp_Session_Id=sid, MCP_Protocol_Version=R4, **options)
    return status, found[-1] if found else None


def call(port, sid, name, **arguments):
    """The text of a tool's result."""
    status, message = ask(port, sid, "tools/call", {"name": name, "arguments": arguments})
    assert status == 200, message
    return message["result"]["content"][0]["text"]


def modern(port, method, params=None, **fields):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": META}}
    return exchange(port, message, MCP_Protocol_Version="2026-07-28", Mcp_Method=method, **fields)


def test_b95_workers_serve_the_sessions_of_each_other(app, redis_one):
    with start(app, "--backplane", redis_one.url, "--backplane-prefix", "serve1", workers=3) as it:
        sessions = [begin(it.port) for _ in range(6)]
        by = {sid: {call(it.port, sid, "pid") for _ in range(9)} for sid in sessions}
        assert all(len(pids) == 3 for pids in by.values())
        assert exchange(it.port, None, "DELETE", Mcp_Session_Id=sessions[0])[0] == 204
        eventually(lambda: all(ask(it.port, sessions[0], "ping")[0] == 404 for _ in range(6)))
        # From a second machine, as it were.
        with start(app, "--backplane", redis_one.url, "--backplane-prefix", "serve1", workers=1) as other:
            assert call(other.port, sessions[1], "pid") not in by[sessions[1]]
        with start(app, "--backplane", redis_one.url, "--backplane-prefix", "strange", workers=1) as stranger:
            assert ask(stranger.port, sessions[1], "ping")[0] == 404
        assert it.stop() == 0
        assert "warning" not in it.text and "Traceback" not in it.text


def test_b95_no_session_is_lost_with_a_killed_worker(app, redis_one):
    with start(app, "--backplane", redis_one.url, "--backplane-prefix", "serve2") as it:
        port = it.port
        sessions = [begin(port) for _ in range(20)]
        for _ in range(3):
            before = it.workers
            os.kill(before[0], signal.SIGKILL)
            lost = 0
            for sid in sessions:
                for _ in range(4):
                    try:
                        assert int(call(port, sid, "pid")) > 0
                    except (OSError, http.client.HTTPException):
                        lost += 1  # on its way to the one that was killed
            assert lost <= 4
            eventually(lambda before=before: len(it.workers) == 2 and before[0] not in it.workers)
        it.line("was ended by SIGKILL", 3)
        eventually(lambda: len({call(port, sessions[0], "pid") for _ in range(4)}) == 2)


def test_b95_a_worker_learns_of_the_death_of_another_at_once(app, redis_one):
    with start(app, "--backplane", redis_one.url, "--backplane-prefix", "serve3") as it:
        sid = begin(it.port)
        workers = "{serve3}:workers"
        assert redis_one.ask("ZCARD", workers) == 2
        names = set(redis_one.ask("ZRANGE", workers, 0, -1))
        os.kill(it.workers[0], signal.SIGKILL)
        until = time.monotonic() + 30
        while len(dead := set(redis_one.ask("ZRANGE", "{serve3}:dead", 0, -1)) & names) != 1:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert not dead & set(redis_one.ask("ZRANGE", workers, 0, -1))
        assert int(call(it.port, sid, "pid")) > 0


def test_a_rolling_restart_keeps_the_sessions(app, redis_one):
    with start(app, "--backplane", redis_one.url, "--backplane-prefix", "serve4") as it:
        port = it.port
        sessions = [begin(port) for _ in range(5)]
        before = set(it.workers)
        it.send(signal.SIGHUP)
        done = 0
        while set(it.workers) & before or done < 50:
            assert int(call(port, sessions[done % 5], "pid")) > 0
            done += 1
            assert done < 5000
        assert it.stop() == 0
        assert "Traceback" not in it.text


def test_b96_redis_is_killed_and_comes_back(app):
    with redis_server() as redis, start(app, "--backplane", redis.url) as it:
        port = it.port
        sid = begin(port)
        served = {call(port, sid, "pid") for _ in range(6)}
        assert len(served) == 2
        redis.kill()
        for _ in range(10):
            assert call(port, sid, "pid") in served
            assert modern(port, "tools/call", {"name": "pid", "arguments": {}}, Mcp_Name="pid")[0] == 200
        params = {"protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        status, fields, found = exchange(port, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert (status, fields["retry-after"]) == (503, "1")
        assert "try again" in found[0]["error"]["message"] and "redis" not in found[0]["error"]["message"].lower()
        redis.restart()

        def back():
            return exchange(port, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})[0] == 200

        eventually(lambda: all(back() for _ in range(4)))
        assert call(port, sid, "pid") in served
        assert it.stop() == 0
        assert it.text.count("cannot be used") <= 4 and "Traceback" not in it.text


def test_redis_that_cannot_be_had_ends_the_start_with_one_line(app):
    port = free_port()
    with start(app, "--backplane", f"redis://:horse@127.0.0.1:{port}") as it:
        assert it.wait() == 1
        assert any("--backplane" in line and f"127.0.0.1:{port}" in line for line in it.lines), it.text
        assert "horse" not in it.text and "Traceback" not in it.text
    with serving("app.py", "--http", "127.0.0.1:0", "--backplane", f"redis://127.0.0.1:{port}", cwd=app) as it:
        assert it.wait() == 1
        assert len([line for line in it.lines if line]) == 1, it.text


def test_an_optional_redis_may_be_missing_at_the_start(app):
    with redis_server() as redis:
        redis.kill()
        with start(app, "--backplane", redis.url, "--backplane-optional") as it:
            port = it.port
            assert modern(port, "tools/call", {"name": "pid", "arguments": {}}, Mcp_Name="pid")[0] == 200
            message = {
                "jsonrpc": "2.0", "id": 0, "method": "initialize",
                "params": {"protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
            }  # fmt: skip
            assert exchange(port, message)[0] == 503
            redis.restart()
            eventually(lambda: all(exchange(port, message)[0] == 200 for _ in range(4)))
            it.line("going on without it")


def test_b95_workers_without_a_backplane_serve_plain_calls_and_refuse_the_rest_clearly(app):
    with start(app) as it:
        port = it.port
        it.line("warning: several workers without --backplane")
        assert it.text.count("warning") == 1
        sid = begin(port)
        assert len({call(port, sid, "pid") for _ in range(6)}) == 2
        status, _, found = exchange(port, None, "GET", Mcp_Session_Id=sid, Accept="text/event-stream")
        assert status == 405 and NEEDS in found[0]["error"]["message"]
        for method, params in (
            ("resources/subscribe", {"uri": "data://one"}), ("logging/setLevel", {"level": "error"}),
            ("tasks/get", {"taskId": "x"}),
        ):  # fmt: skip
            status, message = ask(port, sid, method, params)
            assert message["error"]["code"] == -32601 and NEEDS in message["error"]["message"], message
        status, message = ask(port, sid, "tools/call", {"name": "roots", "arguments": {}})
        assert message["result"]["isError"] and NEEDS in message["result"]["content"][0]["text"], message
        status, _, found = modern(port, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert status == 404 and NEEDS in found[0]["error"]["message"]
        _, _, found = modern(port, "server/discover")
        offered = json.dumps(found[0]["result"]["capabilities"])
        assert "listChanged" not in offered and "subscribe" not in offered and "tasks" not in offered
        assert exchange(port, None, "DELETE", Mcp_Session_Id=sid)[0] == 204
        assert it.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--http", "0", "--backplane", "http://127.0.0.1"], 1, "redis://HOST:PORT"),
        (["--http", "0", "--backplane", "redis://:horse@127.0.0.1:port"], 1, "--backplane"),
        (["--backplane", "redis://127.0.0.1"], 2, "--http"),
        (["--http", "0", "--backplane-optional"], 2, "--backplane URL"),
        (["--http", "0", "--backplane-prefix", "x"], 2, "--backplane URL"),
        (["--http", "0", "--backplane", "redis://127.0.0.1", "--backplane-prefix", "a b"], 2, "letters"),
        (["--http", "0", "--workers", "2", "--legacy-sse"], 2, "--legacy-sse"),
    ],
)
def test_wrong_values_are_one_line(app, arguments, status, said):
    with serving("app.py", *arguments, cwd=app) as it:
        assert it.wait() == status
        lines = [line for line in it.lines if line]
        assert len(lines) == 1 and said in lines[0], lines
        assert "horse" not in it.text


def test_two_servers_in_one_redis_are_two_servers(tmp_path, redis_one):
    """Without a prefix of its own each has its name: the session of one is none of the other."""
    for name in ("one", "other & more"):
        (tmp_path / f"{name[:5].strip()}.py").write_text(
            f"from headrace import Server\napp = Server({name!r}, version='1')\n"
        )

    async def main():
        options = ("--backplane", redis_one.url)
        async with (
            Hosted(*options, target=tmp_path / "one.py") as one,
            Hosted(*options, target=tmp_path / "other.py") as other,
        ):
            session = await Session(one.port).open()
            same = Session(one.port)
            same.id = session.id
            foreign = Session(other.port)
            foreign.id = session.id
            assert await same.send("tools/list") == {"tools": []}
            with pytest.raises(Unwanted) as caught:
                await foreign.send("tools/list")
            assert caught.value.status == 404

    asyncio.run(main())
