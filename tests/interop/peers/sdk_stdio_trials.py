"""Trials of stdio_transport under the official SDK, both of its ways; see trials.py."""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientSession
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification
from trials import over, run

from headrace.integrations.mcp_sdk import HeadraceDispatcher, client_dispatch, connect, stdio_transport

SERVER = str(Path(__file__).with_name("mini_server.py"))
ways = over(streams=Client, dispatcher=connect)


def transport(*arguments, **options):
    return stdio_transport(sys.executable, SERVER, *arguments, **options)


async def told(client, name, **arguments):
    return (await client.call_tool(name, arguments)).content[0].text


async def until(condition):
    for _ in range(200):
        if condition():
            return
        await anyio.sleep(0.02)
    raise AssertionError("it did not come about")


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "notes"


async def refuses(expected, call, *arguments):
    try:
        await call(*arguments)
    except expected:
        return
    raise AssertionError(f"no {expected.__name__}")


def words(path):
    return path.read_text().split() if path.exists() else []


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


@ways
async def trial_environment(client_of):
    """Only the safe variables are inherited; env over them, cwd, arguments and standard error as told (B17, B20)."""
    os.environ["SECRET_OF_OURS"] = "x"
    errlog = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        place = transport("plain", "", "two words", env={"EXTRA": "1"}, cwd=folder, errlog=errlog)
        async with client_of(place, mode="legacy") as client:
            about = json.loads(await told(client, "about"))
    assert about["cwd"] == os.path.realpath(folder)
    assert about["env"]["EXTRA"] == "1"
    assert about["env"]["PATH"] == os.environ["PATH"]
    assert "SECRET_OF_OURS" not in about["env"]
    assert about["argv"] == ["plain", "", "two words"]
    assert errlog.getvalue() == "about\n"


@ways
async def trial_parameters(client_of):
    """An object of the SDK says it all; standard error goes to a file."""
    parameters = StdioServerParameters(command=sys.executable, args=[SERVER, "plain"], env={"EXTRA": "2"}, cwd="/")
    with tempfile.TemporaryFile("w+") as errlog:
        async with client_of(stdio_transport(parameters, errlog=errlog), mode="legacy") as client:
            about = json.loads(await told(client, "about"))
            assert (about["cwd"], about["env"]["EXTRA"]) == ("/", "2")
        errlog.seek(0)
        assert errlog.read() == "about\n"


@ways
async def trial_cannot_start(client_of):
    try:
        async with client_of(stdio_transport("no-such-program-anywhere")):
            raise AssertionError("it started")
    except FileNotFoundError as exc:
        assert "no such command" in "".join(exc.__notes__)
        assert exc.filename == "no-such-program-anywhere"
    try:
        async with client_of(transport("a\0b")):
            raise AssertionError("it started")
    except ValueError:
        pass


@ways
async def trial_server_dies(client_of):
    """Calls that wait fail at once, and so do later ones (B82)."""
    async with client_of(transport("plain", errlog=io.StringIO()), mode="legacy") as client:
        for name in ("die", "say"):
            try:
                await client.call_tool(name, {"text": "x"})
            except MCPError as exc:
                assert exc.code == -32000, exc
            else:
                raise AssertionError("it was answered")


async def trial_odd_lines():
    """What is no message is an exception of the stream, and what is around it is read (B01, B08)."""
    async with transport("garbage") as (read, write):
        found = [await read.receive() for _ in range(3)]
        assert all(isinstance(each, Exception) for each in found), found
        async with ClientSession(read, write) as session:
            assert (await session.initialize()).server_info.name == "mini"


async def trial_deep_lines():
    """A message that no parser here follows to its depth is an exception of the stream as well, and no fault of ours."""
    from headrace.integrations.mcp_sdk.messages import message_of

    for depth in (300, 100_000):
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        for text in (b'{"jsonrpc":"2.0","id":1,"result":%b}', b'{"jsonrpc":"2.0","method":"x","params":%b}'):
            found = message_of(text % deep)
            assert depth == 300 or isinstance(found, ValueError), found


async def trial_encodings():
    def said(item):
        return item.message.params["data"]

    async with transport("garbage", encoding_error_handler="replace") as (read, _):
        found = [await read.receive() for _ in range(3)]
        assert isinstance(found[0], ValueError)
        assert said(found[2]) == "h\ufffd"
    async with transport("garbage", encoding_error_handler="ignore") as (read, _):
        assert said([await read.receive() for _ in range(3)][2]) == "h"
    async with transport("latin", encoding="latin-1") as (read, write):
        assert said(await read.receive()) == "h\xe9"
        async with ClientSession(read, write) as session:
            await session.initialize()
            assert (await session.call_tool("say", {"text": "\xe9\xff"})).content[0].text == "\xe9\xff"
    async with transport("latin") as (read, _):
        assert isinstance(await read.receive(), Exception)


@ways
async def trial_ends_in_order(client_of):
    """Its input is closed, then SIGTERM to the group, then SIGKILL; nothing is left (ST-20, B19)."""
    with scratch() as notes:
        async with client_of(transport("stubborn", notes, "child", close_grace=0.3), mode="legacy"):
            child = int(words(notes)[0])
            assert runs(child)
        assert words(notes) == [str(child), "eof", "term"]
        await until(lambda: not runs(child))
    with scratch() as notes:
        place = transport("deaf", notes, close_grace=0.3)
        async with client_of(place, mode="legacy"):
            pid = place.child.pid
        assert words(notes) == ["eof"]
        assert not runs(pid)


@ways
async def trial_cancelled_around(client_of):
    """A cancelled scope around everything still ends the server politely (B21)."""
    with scratch() as notes:
        place = transport("stubborn", notes, close_grace=0.3)
        with anyio.move_on_after(1.5) as scope:
            async with client_of(place, mode="legacy") as client:
                pid = place.child.pid
                await client.call_tool("hang", {})
        assert scope.cancelled_caught
        assert words(notes) == ["eof", "term"]
        assert not runs(pid)


async def trial_closed_elsewhere():
    """Opened in one task and closed in another, first opened first, and twice (B21)."""
    one, other = transport("plain"), transport("plain")
    async with anyio.create_task_group() as tg:
        opened = anyio.Event()

        async def open_both():
            await one.__aenter__()
            await other.__aenter__()
            opened.set()

        tg.start_soon(open_both)
        await opened.wait()
        pids = [one.child.pid, other.child.pid]
        await one.__aexit__(None, None, None)
        await one.__aexit__(None, None, None)

        async def close():
            await other.__aexit__(None, None, None)

        tg.start_soon(close)
    assert not any(runs(pid) for pid in pids)


@ways
async def trial_scopes(client_of):
    """Scopes and time limits give calls up, the server hears of it, and the connection goes on (B75)."""
    with scratch() as notes:
        async with client_of(transport("plain", notes), mode="legacy") as client:
            with anyio.move_on_after(0.2) as scope:
                await client.call_tool("hang", {})
            assert scope.cancelled_caught
            try:
                await client.call_tool("hang", {}, read_timeout_seconds=0.2)
            except MCPError as exc:
                assert exc.code == -32001
            async with anyio.create_task_group() as tg:
                for _ in range(20):
                    tg.start_soon(client.call_tool, "hang", {})
                await anyio.sleep(0.2)
                tg.cancel_scope.cancel()
            assert await told(client, "say", text="after") == "after"
            await until(lambda: len(notes.read_text().splitlines()) == 22)
        reasons = [json.loads(line)["reason"] for line in notes.read_text().splitlines()]
        assert reasons[0] == "caller cancelled"
        assert reasons[1] == "timed out after 0.2s"


@ways
async def trial_many(client_of):
    """A thousand calls at once, each with its own answer."""
    async with client_of(transport("plain"), mode="legacy") as client:
        answers = {}

        async def one(number):
            answers[number] = await told(client, "say", text=f"n{number}")

        async with anyio.create_task_group() as tg:
            for number in range(1000):
                tg.start_soon(one, number)
        assert answers == {number: f"n{number}" for number in range(1000)}


async def trial_slow_reader():
    """Nobody reads: the server is not read either, and nothing is lost (B09)."""
    most = 30000
    with scratch() as notes:
        async with transport("flood", notes, str(most)) as (read, _):
            await until(lambda: words(notes))
            before = None
            while before != (before := words(notes)):
                await anyio.sleep(0.5)
            assert int(before[0]) < most / 2
            for _ in range(most):
                assert (await read.receive()).message.params["level"] == "info"
            await until(lambda: words(notes) == ["done"])


async def trial_reader_gone():
    """A session that is gone does not keep the server from ending: what it still writes is drained."""
    with scratch() as notes:
        place = transport("flood", notes, "30000", close_grace=10)
        with anyio.fail_after(8):
            async with place as (read, _):
                await read.receive()
        assert words(notes) == ["done"]


async def trial_last_words():
    """What is sent just before the end arrives; a server that has stopped listening ends the streams."""
    with scratch() as notes:
        async with transport("plain", notes) as (_, write):
            params = {"requestId": 1, "reason": "bye"}
            note = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
            await write.send(SessionMessage(note))
        assert json.loads(notes.read_text()) == params
        async with transport("closes-input", notes, close_grace=0.3) as (read, write):
            await until(lambda: "closed" in words(notes))
            await write.send(SessionMessage(note))
            assert [item async for item in read] == []


async def trial_streams_end():
    """What streams raise after their end is what anyio's raise."""
    async with transport("plain") as (read, write):
        async with write, read:
            pass
        await refuses(anyio.ClosedResourceError, write.send, None)
        await refuses(anyio.ClosedResourceError, read.receive)
    place = transport("plain", errlog=io.StringIO())
    async with place as (read, write):
        os.kill(place.child.pid, 9)
        assert [item async for item in read] == []
        await refuses(anyio.EndOfStream, read.receive)
        await refuses(anyio.BrokenResourceError, write.send, None)


async def trial_dispatcher_of_session():
    """ClientSession(dispatcher=...) starts the server itself and ends it."""
    place = transport("plain")
    async with ClientSession(dispatcher=place.dispatcher()) as session:
        await session.initialize()
        pid = place.child.pid
        assert (await session.call_tool("say", {"text": "x"})).content[0].text == "x"
    assert not runs(pid)


async def trial_other_releases():
    """A release of the SDK without the name that connect() replaces: the client works, over streams."""
    for patched in (False, True):
        known = client_dispatch._connects
        if patched:
            client_dispatch._connects = lambda client: False
        try:
            async with connect([sys.executable, SERVER, "plain"], mode="legacy") as client:
                assert isinstance(client.session._dispatcher, HeadraceDispatcher) != patched
                assert await told(client, "say", text="x") == "x"
        finally:
            client_dispatch._connects = known


if __name__ == "__main__":
    run(globals())
