"""Sections 2, 6 and 7 of the field faults: many senders on one connection, many short streams, servers one after the
other, and stores that fail (B29, B90, B96, B100)."""

import asyncio
import json
import random
import subprocess
import sys
import threading

import pytest

from field.child import META, environment
from headrace import Context, Server
from headrace.transports.http_server import serve_http
from headrace.transports.stream import serve_lines

TASKS, THREADS, NOTES = 100, 8, 40


def talkative():
    app = Server("load", version="1")

    def text(number, seed):
        return "x" * random.Random(seed * 1000 + number).choice((1, 100, 5_000, 40_000))

    @app.tool
    async def talk(ctx: Context, seed: int, notes: int) -> str:
        for number in range(notes):
            await ctx.progress(number + 1, None, text(number, seed))
            if number % 7 == 0:
                await asyncio.sleep(0)
        return str(seed)

    @app.tool
    def talk_in_a_thread(ctx: Context, seed: int, notes: int) -> str:
        for number in range(notes):
            ctx.progress(number + 1, None, text(number, seed))
        return f"{seed} {threading.current_thread() is threading.main_thread()}"

    app.text = text
    return app


def frame(id, method, params):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def test_b29_many_senders_on_one_connection(run, tmp_path):
    """Tasks and threads talk at once: every frame whole, none lost, each sender's in order, its answer last."""

    async def main():
        app = talkative()
        async with app.running():
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"), limit=1 << 20)
            senders = {f"task {n}": ("talk", n) for n in range(TASKS)}
            senders |= {f"thread {n}": ("talk_in_a_thread", TASKS + n) for n in range(THREADS)}
            for id, (tool, seed) in senders.items():
                params = {"name": tool, "arguments": {"seed": seed, "notes": NOTES}, "_meta": META | {"progressToken": id}}
                writer.write(frame(id, "tools/call", params))
            heard = {id: 0 for id in senders}
            answers = {}
            while len(answers) < len(senders):
                message = json.loads(await reader.readline())
                if "method" in message:
                    note = message["params"]
                    id = note["progressToken"]
                    assert id not in answers and note["progress"] == heard[id] + 1
                    assert note["message"] == app.text(heard[id], senders[id][1])
                    heard[id] += 1
                else:
                    answers[message["id"]] = message["result"]["content"][0]["text"]
            assert set(heard.values()) == {NOTES}
            wanted = {id: str(seed) if id.startswith("task") else f"{seed} False" for id, (_, seed) in senders.items()}
            assert answers == wanted
            writer.close()
            await listener.close()

    run(main)


async def ask(reader, writer, method, path, body=b"", **fields):
    """One request; gives (status, headers, body), where an event stream's body is left unread."""
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    head += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(lines[0].split()[1]), headers, content


async def session(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    both = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    _, headers, _ = await ask(reader, writer, "POST", "/mcp", frame(1, "initialize", hello), **both)
    return reader, writer, headers["mcp-session-id"], both


async def short_streams(port, sid, count):
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        status, headers, _ = await ask(reader, writer, "GET", "/mcp", Accept="text/event-stream", Mcp_Session_Id=sid)
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        writer.transport.abort()


def test_b90_short_streams_leave_no_helpers(run):
    """As many tasks and threads behind a thousand streams as before them; two servers beside each other."""

    async def main():
        first, second = talkative(), talkative()
        async with first.running(), second.running():
            listeners = [await serve_http(app, host="127.0.0.1", port=0) for app in (first, second)]
            ports = [int(each.url.rpartition(":")[2].partition("/")[0]) for each in listeners]
            sessions = [await session(port) for port in ports]
            tasks, threads = len(asyncio.all_tasks()), threading.active_count()
            await asyncio.gather(*(short_streams(port, each[2], 500) for port, each in zip(ports, sessions, strict=True)))
            for _ in range(500):
                if all(each.connections == 1 for each in listeners) and len(asyncio.all_tasks()) <= tasks:
                    break
                await asyncio.sleep(0.01)
            assert [each.connections for each in listeners] == [1, 1]
            assert (len(asyncio.all_tasks()), threading.active_count()) == (tasks, threads)
            await listeners[0].close()  # the other one does not notice
            reader, writer, sid, both = sessions[1]
            status, _, body = await ask(reader, writer, "POST", "/mcp", frame(2, "ping", {}), Mcp_Session_Id=sid, **both)
            assert status == 200 and json.loads(body)["result"] == {}
            for _, writer, _, _ in sessions:
                writer.close()
            await listeners[1].close()

    run(main)


def test_b90_one_server_on_loop_after_loop(run):
    """Started and stopped on three event loops of one process, one after the other."""
    app = talkative()

    async def main():
        async with app.running():
            listener = await serve_http(app, host="127.0.0.1", port=0)
            port = int(listener.url.rpartition(":")[2].partition("/")[0])
            reader, writer, sid, both = await session(port)
            await short_streams(port, sid, 5)
            for tool in ("talk", "talk_in_a_thread"):
                call = frame(2, "tools/call", {"name": tool, "arguments": {"seed": 1, "notes": 0}})
                status, _, body = await ask(reader, writer, "POST", "/mcp", call, Mcp_Session_Id=sid, **both)
                assert status == 200 and json.loads(body)["result"]["content"][0]["text"].startswith("1")
            writer.close()
            await listener.close()

    for _ in range(3):
        run(main)


@pytest.mark.parametrize("kind", ["directory", "junk"])
def test_b96_a_task_store_that_is_down_at_the_start(tmp_path, kind):
    """The host ends at once with one plain line that names the store, and does not serve without it."""
    store = tmp_path / "tasks.db"
    if kind == "directory":
        store.mkdir()
    else:
        store.write_bytes(b"this is no database" * 100)
    program = tmp_path / "program.py"
    program.write_text(
        "from headrace import Server, SqliteTaskStore\n"
        f"app = Server('t', version='1')\napp.tasks(store=SqliteTaskStore({str(store)!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", str(program), "--http", "0"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=25, env=environment(),
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    assert "tasks.db" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_b100_trace_context_is_each_requests_own(run, tmp_path):
    """`_meta` is the handler's, each request with its own; what is no trace fails nothing, and nothing is carried over."""
    app = Server("trace", version="1")

    @app.tool
    async def trace(ctx: Context, ms: int = 0) -> str:
        await asyncio.sleep(ms / 1000)
        return json.dumps({key: value for key, value in ctx.meta.items() if "/" not in key or "test.example" in key})

    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = [
        {"traceparent": good, "tracestate": "a=1,b=2", "baggage": "k=v"},
        {"traceparent": good.upper()},
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-00"},
        {"traceparent": 5, "tracestate": None, "test.example/x": {"y": [1]}},
        {"traceparent": ""},
        {},
        {"traceparent": good.replace("b7", "c8")},
    ]

    async def main():
        async with app.running():
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            for id, members in enumerate(sent):
                params = {"name": "trace", "arguments": {"ms": 30 - 4 * id}, "_meta": META | members}
                writer.write(frame(id, "tools/call", params))
            seen = {}
            for _ in sent:
                message = json.loads(await reader.readline())
                seen[message["id"]] = json.loads(message["result"]["content"][0]["text"])
            assert [seen[id] for id in range(len(sent))] == sent
            writer.close()
            await listener.close()

    run(main)
