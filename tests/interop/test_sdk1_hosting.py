"""Servers of mcp 1.x on the SDK's own transports and on headrace's: the same observations, and what must hold anyway."""

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile

import pytest

from headrace import connect
from interop import support
from interop.exercise import QUESTIONS, exercise, features, unknown_tool, until
from interop.fastmcp_hosts import ENVIRONMENT, Raw, begin, call, clients

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

LOW = support.HERE / "peers" / "sdk1_hosted.py"
HIGH = support.HERE / "peers" / "sdk1_server.py"
CLIENT = support.HERE / "peers" / "sdk1_hosted_client.py"


@pytest.fixture
def loop_name():
    """Our client's loop is not at stake here."""
    return "asyncio"


def command(python, script, *words):
    return ["/usr/bin/env", f"PYTHONPATH={support.SOURCE}", str(python), str(script), *map(str, words)]


@contextlib.contextmanager
def hosted(python, script, *words):
    """A server on a port; `words` has None where the port goes. Gives its URL."""
    port = support.free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(python), str(script), *(str(port) if word is None else word for word in words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=ENVIRONMENT,
        )
        try:
            support.wait_for_port(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
            assert process.poll() is None, "the server ended by itself"
            status = support.end(process)
            if "headrace" in words[0]:
                log.seek(0)
                assert (status, log.read()) == (0, b"")
        finally:
            if process.poll() is None:
                support.end(process, 5)


def on_both(python, kind, *words):
    """What ClientSession saw of a server on the SDK's own transports, and of the same on ours."""
    if kind == "stdio":
        targets = [json.dumps(command(python, LOW, host, "stdio", *words)) for host in ("own", "headrace")]
        return clients(python, targets, script=CLIENT)
    with (
        hosted(python, LOW, "own", "http", None, *words) as own,
        hosted(python, LOW, "headrace", "http", None, *words) as ours,
    ):
        return clients(python, [own, ours], script=CLIENT)


@pytest.fixture(scope="module", params=["stdio", "http", "http events"])
def both(request, peers_1):
    return request.param, *on_both(peers_1, *request.param.split())


def test_everything_is_as_on_their_own_transports(both):
    """Results, errors, order of notifications, questions and their progress, cancellation of scopes, lifespan of each
    session, context variables, closed streams."""
    _, own, ours = both
    assert {key: ours.get(key) for key in own} == own
    assert set(ours) == set(own)


def test_the_client_has_seen_something(both):
    """The comparison above is one of full observations."""
    way, _, ours = both
    request = "no request" if way == "stdio" else "POST /mcp mine"
    assert ours["context"] == [f"1|None|{request}|a client|{'events' in way}|lifespan", False]
    assert ours["with meta"][0].split("|")[1] == "{'com.example/own': [1]}"
    assert ours["ask"] == ["accept {'n': 3} [0.5]", False]
    assert ours["ask alone"][0].startswith("accept")
    assert ours["roots"] == ["file:///work", False]
    assert ours["part"] == ["after the break", False]
    assert ours["together"]
    assert ours["marks"] == [f"lifespan m{n}" for n in range(5)]
    assert ours["messages"] == [["notifications/message", "one"], ["notifications/progress", None],
                                ["notifications/message", "two"]]  # fmt: skip
    assert ours["changed"]
    assert ours["progress"] == [[1.0, 2.0, "half"]]
    assert ours["not offered"][1] == -32601
    assert ours["invalid"] == ["McpError", -32602, "Invalid request parameters"]
    assert {"entered", "slow CancelledError", "stubborn CancelledError", "roots changed", "late None"} <= set(
        ours["journal"]
    )


@pytest.mark.parametrize("words", [["json"], ["stateless"], ["events", "waits"]], ids="-".join)
def test_other_modes(peers_1, words):
    """Answers in JSON, a run of the server for each request, an event store that has to wait."""
    with hosted(peers_1, LOW, "headrace", "http", None, *words) as url:
        [seen] = clients(peers_1, [url], script=CLIENT)
    assert seen["together"]
    assert seen["echo"] == ["é€😀", False]
    if "stateless" in words:
        # B98: the SDK runs the lifespan of 1.x with each run of the server, and each is left again. Three still run:
        # the one that told, and two that no message without a session can cancel.
        assert seen["journal"].count("entered") > 100
        assert seen["journal"].count("entered") - seen["journal"].count("left") <= 3
        assert seen["ask"][1] is True
    elif "json" in words:
        assert seen["ask"][1] is True
        assert seen["messages"] == []
    else:
        assert seen["part"] == ["after the break", False]


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_our_client_and_their_high_level_server(run, peers_1, kind):
    """Everything our client does with servers, against a FastMCP of the SDK on our transports."""

    async def trial(target):
        logs, changed, touched = [], [], []
        options = QUESTIONS | {
            "on_log": logs.append,
            "on_list_changed": changed.append,
            "on_resource_updated": touched.append,
        }
        async with connect(target, **options) as client:
            assert client.protocol_version == "2025-11-25"
            assert client.server_info.name == "sdk1-peer"
            await exercise(client)
            await unknown_tool(client)
            await features(client, subscribes=False)
            await client.ping()
            await client.set_log_level("debug")
            await client.call_tool("log", {"level": "warning", "text": "careful"})
            await until(lambda: logs)
            assert (logs[0].level, logs[0].data, logs[0].logger) == ("warning", "careful", "peer")
            await client.call_tool("grow", {"name": "grown"})
            await until(lambda: changed)
            assert changed == ["tools"]

    if kind == "stdio":
        run(trial, command(peers_1, HIGH, "headrace-stdio"))
    else:
        with hosted(peers_1, HIGH, "headrace-http", None) as url:
            run(trial, url)


@pytest.fixture(scope="module")
def low(peers_1):
    with hosted(peers_1, LOW, "headrace", "http", None) as url:
        yield url


def test_revisions(low):
    """VN-02, VN-22: each revision of the handshake era is served as asked for; another is refused by its number."""
    for revision in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        answer = Raw(low, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        assert answer.message["result"]["protocolVersion"] == revision
    params["protocolVersion"] = "1999-01-01"
    answer = Raw(low, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    assert answer.message["result"]["protocolVersion"] == "2025-11-25"
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    answer = Raw(low, message, MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/list")
    assert (answer.status, answer.message["error"]["code"]) == (400, -32022)
    assert answer.message["error"]["data"]["supported"][-1] == "2025-11-25"


def test_b98_a_session_has_a_lifespan_of_its_own(run, low):
    """B98: in 1.x it runs with each session; it is entered once and left once for each."""

    async def trial():
        async with connect(low) as client:
            journal = (await client.call_tool("journal")).text.split("|")
            others = journal.count("entered") - journal.count("left") - 1
        for _ in range(3):
            async with connect(low) as client:
                first = (await client.call_tool("context")).text
                assert first.split("|")[0] == (await client.call_tool("context")).text.split("|")[0]
        async with connect(low) as client:
            for _ in range(50):
                journal = (await client.call_tool("journal")).text.split("|")
                if journal.count("entered") == journal.count("left") + others + 1:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError(journal)

    run(trial)


def test_fifty_sessions_are_apart(run, low):
    """Each session has its own client, its own context variables and its own answers."""

    async def one(number):
        async with connect(low, headers={"X-Own": str(number)}) as client:
            for _ in range(3):
                found = (await client.call_tool("context")).text.split("|")
                assert found[2] == f"POST /mcp {number}"
            assert (await client.call_tool("mark", {"text": str(number)})).text == f"lifespan {number}"

    async def trial():
        await asyncio.gather(*(one(number) for number in range(50)))

    run(trial)


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_b98_a_lifespan_that_fails(peers_1, kind):
    """B98: on standard streams the process ends with the error; over HTTP a session cannot be opened."""
    if kind == "stdio":
        done = subprocess.run(
            [str(peers_1), str(LOW), "headrace", "stdio", "broken"],
            stdin=subprocess.PIPE,
            capture_output=True,
            timeout=50,
            env=ENVIRONMENT,
        )
        assert done.returncode != 0
        assert done.stderr.decode().rstrip().endswith("RuntimeError: the lifespan fails")
        return
    with hosted(peers_1, LOW, "headrace", "http", None, "broken") as url:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        answer = Raw(url, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        assert answer.message["error"]["code"] == -32603
        assert "mcp-session-id" not in answer.headers


def test_requests_behind_an_unanswered_initialize(peers_1):
    """Clients that do not wait for the handshake's answer are served in order, as by the SDK."""
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call("echo", {"text": "at once"}, id=2),
        {"jsonrpc": "2.0", "id": "3", "method": "ping"},
    ]
    process = subprocess.Popen(
        [str(peers_1), str(LOW), "headrace", "stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env=ENVIRONMENT,
    )
    with process:
        process.stdin.write("".join(json.dumps(each) + "\n" for each in lines).encode())
        answers = {}
        for _ in range(3):
            answer = json.loads(support.read_line(process.stdout))
            answers[answer["id"]] = answer
        process.stdin.close()
        assert process.wait(20) == 0
    assert answers[1]["result"]["serverInfo"]["name"] == "low"
    assert answers[2]["result"]["content"][0]["text"] == "at once"
    assert answers["3"]["result"] == {}


def test_a_session_that_ends_takes_its_run_along(low):
    """HO-32: DELETE ends the server's run; a call in flight gets no answer, the id is unknown."""
    session = begin(low)
    process = subprocess.Popen(
        ["curl", "-s", "-m", "20", low, "-H", "Content-Type: application/json", "-H", f"Mcp-Session-Id: {session}",
         "-H", "Accept: application/json, text/event-stream", "-d", json.dumps(call("slow"))],
        stdout=subprocess.PIPE,
    ) if os.path.exists("/usr/bin/curl") else None  # fmt: skip
    if process is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    assert Raw(low, method="DELETE", Mcp_Session_Id=session).status == 204
    if process is not None:
        assert process.communicate(timeout=20)[0] == b""
    assert Raw(low, call("echo"), Mcp_Session_Id=session).status == 404


def test_a_run_that_ends_with_no_exception(peers_1, tmp_path):
    """JR-38: what is no Exception takes the server's run along; the request is answered, the log says why, once."""
    port = support.free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with open(tmp_path / "log", "wb") as log:
        command = [str(peers_1), str(LOW), "headrace", "http", str(port), "loud"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=ENVIRONMENT)
    try:
        support.wait_for_port(port, process)
        session = begin(url)
        assert Raw(url, call("odd"), Mcp_Session_Id=session).message["error"]["code"] == -32603
        assert Raw(url, call("echo"), Mcp_Session_Id=session).status == 404
        assert Raw(url, call("echo", {"text": "on"}), Mcp_Session_Id=begin(url)).status == 200
    finally:
        status = support.end(process)
    text = (tmp_path / "log").read_text()
    assert status == 0
    assert text.count("a session of the hosted server failed") == 1 and "swordfish" in text, text
    assert "never retrieved" not in text, text


def test_errors_of_methods(low):
    """JR-32: an unknown method is -32601; params that do not fit are -32602, as the SDK says it."""
    session = begin(low)
    for method, code in (("no/such", -32601), ("resources/list", -32601), ("tools/call", -32602)):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": 5}}
        assert Raw(low, message, Mcp_Session_Id=session).message["error"]["code"] == code
