"""Faults from the field on hosted FastMCP servers, generation 3 and 4: lifetimes, isolation, look-alikes, floods."""

import asyncio
import json
import subprocess

import pytest
from ports import free_port

from headrace import connect
from interop.fastmcp_hosts import ENVIRONMENT, SERVER, Raw, begin, call, command, hosted
from interop.support import end, wait_for_port

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture
def loop_name():
    """Our client's loop is not at stake here; a server takes seconds to start."""
    return "asyncio"


@pytest.fixture(scope="module", params=["3", "4"])
def python(request):
    """The Python of one generation."""
    return request.getfixturevalue("peers" if request.param == "4" else "peers_1")


@pytest.fixture(scope="module")
def server(python):
    """A server on headrace, for all tests that leave it as it is but for more tools."""
    with hosted(python, "headrace") as (url, _):
        yield url


@pytest.mark.parametrize("revision", ["2025-11-25", None])
def test_contexts_of_fifty_sessions_are_apart(run, server, revision):
    """B25-like: each of 50 sessions at once sees its own headers and its own state, before and after a pause."""

    async def one(number):
        async with connect(server, headers={"X-Own": f"own {number}"}, revision=revision) as client:
            if client.protocol_version < "2026":
                await client.call_tool("remember", {"value": f"value {number}"})
            seen = []
            for _ in range(3):
                result = await client.call_tool("whoami", {"seconds": 0.05})
                seen.append(result.structured_content["result"])
            value = f"value {number}" if client.protocol_version < "2026" else "None"
            assert seen == [[f"own {number}", f"own {number}", value]] * 3

    async def trial():
        await asyncio.gather(*(one(number) for number in range(50)))

    run(trial)


def test_b21_clients_close_in_any_order(run, server):
    """B21: first opened, first closed; closed in another task; closed while a call waits."""

    async def trial():
        first, second = connect(server), connect(server)
        a, b = await first.__aenter__(), await second.__aenter__()
        assert (await a.call_tool("add", {"a": 1})).text == (await b.call_tool("add", {"a": 1})).text == "3"
        waiting = asyncio.ensure_future(a.call_tool("slow", {"seconds": 20, "tag": "left"}))
        await asyncio.sleep(0.1)
        await first.__aexit__(None, None, None)
        with pytest.raises(Exception, match="clos"):
            await waiting
        await asyncio.create_task(second.__aexit__(None, None, None))
        async with connect(server) as again:
            assert (await again.call_tool("echo", {"text": "x"})).text == "x"

    run(trial)


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_b29_concurrent_senders(run, python, server, kind):
    """B29: 20 handlers send 20 notes of 20 KiB each at once: every one arrives whole, those of one in order."""
    notes = {}

    def on_log(message):
        text = message.data if isinstance(message.data, str) else message.data["msg"]
        mark, number, filling = text.split(" ")
        assert filling == "x" * 20_000
        notes.setdefault(mark, []).append(int(number))

    async def trial():
        target = server if kind == "http" else command(python, "headrace", "stdio")
        async with connect(target, on_log=on_log, revision="2025-11-25") as client:
            calls = [client.call_tool("flood", {"notes": 20, "size": 20_000, "mark": f"m{n}"}) for n in range(20)]
            assert [each.text for each in await asyncio.gather(*calls)] == [f"m{n}" for n in range(20)]
            for _ in range(100):
                if sum(map(len, notes.values())) == 400:
                    break
                await asyncio.sleep(0.05)
        assert notes == {f"m{n}": list(range(20)) for n in range(20)}

    run(trial)


def lifespans_seen(run, url):
    """What three clients of five calls each see of the lifespan, and what the server says of it afterwards."""
    seen = []

    async def trial():
        for _ in range(3):
            async with connect(url, revision="2025-11-25") as client:
                for _ in range(5):
                    found = (await client.call_tool("context")).structured_content
                    seen.append((found["entered"], found["lifespan"]))

    run(trial)
    return seen, Raw(url, method="GET", path="/health").message


ONCE = [(1, {"database": "open"})] * 15, {"status": "ok", "entered": 1, "left": 0}


def test_b98_the_lifespan_runs_once(run, server):
    """B98: entered once for all sessions."""
    assert lifespans_seen(run, server) == ONCE


def test_b98_the_lifespan_runs_once_without_sessions(run, python):
    """B98: and for all requests that belong to none."""
    with hosted(python, "headrace", "stateless") as (url, _):
        assert lifespans_seen(run, url) == ONCE


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_b98_a_lifespan_that_fails(python, kind):
    """B98: the process ends with an error before anything is served."""
    where = [kind] if kind == "stdio" else [kind, str(free_port())]
    done = subprocess.run(
        [str(python), str(SERVER), "headrace", *where, "broken"],
        stdin=subprocess.PIPE,
        capture_output=True,
        timeout=50,
        env=ENVIRONMENT,
    )
    assert done.returncode != 0
    assert done.stdout == b""
    assert done.stderr.decode().rstrip().endswith("RuntimeError: the lifespan fails")


def test_b107_look_alike_keys(server):
    """B107: what middleware judges is what runs, whichever of two equal keys counts; capitals are other keys."""
    session = begin(server)

    def ask(params, method='"method":"tools/call"'):
        text = f'{{"jsonrpc":"2.0","id":7,{method},"params":{params}}}'
        return Raw(server, text=text, Mcp_Session_Id=session, MCP_Protocol_Version="2025-06-18")

    for names in (["echo", "forbidden"], ["forbidden", "echo"]):
        pairs = ",".join(f'"name":"{name}"' for name in names)
        message = ask(f'{{{pairs},"arguments":{{"text":"ran"}}}}').message
        if "error" not in message:
            ran = "ran" in json.dumps(message["result"])
            assert ran is (names[-1] == "echo")
            assert ("the middleware forbids it" in json.dumps(message["result"])) is (names[-1] == "forbidden")
    capital = ask('{"name":"echo","Name":"forbidden","NAME":"crash","arguments":{"text":"ran"}}').message
    assert capital["result"]["content"][0]["text"] == "ran"
    escaped = ask('{"n\\u0061me":"echo","arguments":{"text":"ran"}}', r'"\u006dethod":"tools\/call"').message
    assert escaped["result"]["content"][0]["text"] == "ran"
    twice = ask('{"name":"echo","arguments":{"text":"ran"}}', '"method":"ping","method":"tools/call"').message
    assert "error" in twice or twice["result"] == {} or twice["result"]["content"][0]["text"] == "ran"


def test_b113_the_tool_list_changes_while_it_is_read(run, server):
    """B113: 30 tools come while lists are read; the list in the end has them all, and the client was told."""
    changed = []

    async def trial():
        async with connect(server, on_list_changed=changed.append, revision="2025-11-25") as client:
            lists, _ = await asyncio.gather(
                asyncio.gather(*(client.list_tools() for _ in range(10))),
                asyncio.gather(*(client.call_tool("grow", {"name": f"grown_{n}"}) for n in range(30))),
            )
            assert all({tool.name for tool in each} >= {"echo", "add"} for each in lists)
            grown = {tool.name for tool in await client.list_tools(refresh=True)}
            assert {f"grown_{n}" for n in range(30)} <= grown
            assert (await client.call_tool("grown_29")).text == "grown_29"

    run(trial)


def test_b115_one_object_on_two_transports(run, python):
    """B115: one server object on standard streams and HTTP at once, with 20 sessions; a closed one leaves the rest."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"

    async def trial():
        async with connect(command(python, "headrace", "both", port)) as line:
            assert (await line.call_tool("echo", {"text": "line"})).text == "line"
            sessions = [connect(url, revision="2025-11-25") for _ in range(20)]
            clients = [await each.__aenter__() for each in sessions]
            answers = await asyncio.gather(*(each.call_tool("context") for each in clients), line.call_tool("context"))
            found = [each.structured_content for each in answers]
            assert [each["transport"] for each in found] == ["streamable-http"] * 20 + ["stdio"]
            assert {each["entered"] for each in found} == {1}
            for each in sessions[:10]:
                await each.__aexit__(None, None, None)
            assert (await clients[10].call_tool("echo", {"text": "still"})).text == "still"
            for each in sessions[10:]:
                await each.__aexit__(None, None, None)
            assert (await line.call_tool("echo", {"text": "line"})).text == "line"

    run(trial)


def test_a_cancelled_call_is_cancelled_there(run, server):
    """B75: what a client gives up ends in the handler."""

    async def trial():
        async with connect(server, revision="2025-11-25") as client:
            task = asyncio.ensure_future(client.call_tool("slow", {"seconds": 20, "tag": "given up"}))
            await asyncio.sleep(0.3)
            task.cancel()
            for _ in range(50):
                journal = (await client.call_tool("read_journal")).structured_content["result"]
                if "given up cancelled" in journal:
                    break
                await asyncio.sleep(0.1)
            assert "given up cancelled" in journal

    run(trial)


def test_a_server_stops_with_sessions_open(python):
    """SIGINT ends it in order: streams and sessions that are open do not keep it, nothing is reported as lost."""
    port = free_port()
    process = subprocess.Popen(
        [str(python), str(SERVER), "headrace", "http", str(port)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    wait_for_port(port, process)
    url = f"http://127.0.0.1:{port}/mcp"
    for _ in range(5):
        session = begin(url)
        assert Raw(url, call("add", {"a": 1}), Mcp_Session_Id=session).status == 200
    stderr = process.stderr
    process.stderr = None
    assert end(process) == 0
    assert b"Traceback" not in stderr.read()
    stderr.close()
