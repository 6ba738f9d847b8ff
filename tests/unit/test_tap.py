"""The tap shows each message once, in order and unchanged, on every transport."""

import asyncio
import json

import pytest

from headrace import Context, Server, connect
from headrace.limits import DEFAULT
from headrace.transports.tap import _Http, tapped

app = Server("tapped", version="1")


@app.tool
async def count(to: int, ctx: Context) -> str:
    for done in range(to):
        await ctx.progress(done + 1, to)
    return "é" * 3


async def hosted(body, **where):
    ready = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(app.serve(**where, on_ready=lambda names: ready.set_result(names[0])))
    try:
        await body(await ready)
    finally:
        task.cancel()
        await asyncio.wait([task])


def check(seen, progress):
    """Requests, notes and answers of one tools/call, as they must have been seen."""
    messages = [(m.sent, json.loads(m.message)) for m in seen if m.message is not None]
    call = next(i for i, (sent, m) in enumerate(messages) if m.get("method") == "tools/call")
    after = messages[call + 1 :]
    assert all(not sent for sent, _ in after)
    assert [m["params"]["progress"] for _, m in after if "method" in m] == list(range(1, progress + 1))
    assert after[-1][1]["result"]["content"][0]["text"] == "é" * 3
    assert after[-1][1]["id"] == messages[call][1]["id"]


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("where", ["memory", "unix", "tcp", "http"])
def test_every_transport(run, tmp_path, where, revision):
    seen = []

    async def body(target):
        async with connect(target, revision=revision, tap=seen.append) as client:
            await client.call_tool("count", {"to": 2}, on_progress=lambda *a: None)
            if where != "memory" and revision == "2026-07-28":
                check(seen, 2)

    async def main():
        if where == "memory":
            await body(app)
        else:
            address = {"unix": str(tmp_path / "s"), "tcp": "127.0.0.1:0", "http": "127.0.0.1:0"}[where]
            await hosted(body, **{where: address})

    run(main)
    check(seen, 2)
    assert all((m.http is not None) == (where == "http") for m in seen)
    times = [m.time for m in seen]
    assert times == sorted(times)


def test_a_tap_that_raises_is_not_called_again_and_breaks_nothing(run):
    calls, reports = [], []

    def tap(message):
        calls.append(message)
        raise ValueError("no")

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context["exception"]))
        async with connect(app, tap=tap) as client:
            assert not (await client.call_tool("count", {"to": 1})).is_error

    run(main)
    assert len(calls) == 1 and [str(r) for r in reports] == ["no"]


def test_without_a_tap_nothing_stands_between():
    marker = object()
    assert tapped(None, marker, DEFAULT, http=True) is marker


RESPONSES = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'
    b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    b"HTTP/1.1 204 No Content\r\n\r\n"
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"a\r\nid: 1\ndata\r\n6\r\n:\n\n: x\r\n1b\r\n\n\nevent: odd\ndata: [1]\n\n\nda\r\n8\r\nta: {}\n\n\r\n0\r\n\r\n"
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope"
)  # fmt: skip


@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
def test_http_bodies_however_they_are_cut(step):
    reader = _Http(False, DEFAULT)
    shown = []
    for at in range(0, len(RESPONSES), step):
        shown += reader.feed(RESPONSES[at : at + step])
    shown += reader.finish()
    assert shown == [
        (b"{}", "200 OK"),
        (None, "204 No Content"),
        (b"[1]", "200 OK event odd"),
        (b"{}", "200 OK event"),
        (b"nope", "404 Not Found"),
    ]


def test_bytes_that_are_no_http_are_told_once():
    reader = _Http(False, DEFAULT)
    [(message, text)] = reader.feed(b"\x00\x01 nonsense\r\n\r\n")
    assert message is None and text.startswith("unreadable HTTP")
    assert reader.feed(b"more") == [] == reader.finish()
