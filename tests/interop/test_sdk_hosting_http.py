"""Servers of the official SDK on headrace's HTTP server, by hand: sessions, settings, ends, and what broke elsewhere."""

import contextlib
import json
import socket
import subprocess
import threading
import time

import pytest

from interop import support
from interop.raw_http import LEGACY, META, MODERN, Caller
from interop.sdk_hosts import command, environment, hosted, journal_of

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def port(peers, tmp_path_factory):
    """The port of a server that most tests share."""
    port = support.free_port()
    with hosted("ours", "http", port, "events", f"body={64 * 1024}"):
        yield port


@pytest.fixture
def caller(port):
    with contextlib.closing(Caller(port)) as caller:
        yield caller


def until(probe, seconds=5):
    """What `probe` gives once it is true, or what it gives in the end."""
    end = time.monotonic() + seconds
    while not (found := probe()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def noted(caller, word):
    """Lines of the server's journal that hold `word`, as soon as there is one."""
    lines = []

    def look():
        lines.extend(caller.call("journal").structured["result"])
        return [line for line in lines if word in line]

    return until(look)


# --- eras, sessions, streams ---------------------------------------------------------------------------


def test_both_eras_on_one_endpoint(caller):
    assert caller.call("echo", text="modern").structured == {"result": "modern"}
    assert caller.initialize().result["protocolVersion"] == LEGACY
    assert caller.legacy_call("echo", text="legacy").structured == {"result": "legacy"}
    assert caller.modern("server/discover").result["supportedVersions"] == [MODERN]


def test_a_session_has_one_connection(caller):
    """State of the SDK's connection lasts for a session, and for one request in the modern era."""
    caller.initialize()
    calls = [caller.legacy_call("context").structured for _ in range(3)]
    assert [each["calls_on_connection"] for each in calls] == [1, 2, 3]
    assert all(each["session"] and each["standalone"] for each in calls)
    alone = [caller.call("context").structured for _ in range(3)]
    assert [each["calls_on_connection"] for each in alone] == [1, 1, 1]
    assert not any(each["session"] or each["standalone"] for each in alone)


def test_the_request_is_there(caller):
    """Headers, query and body of the request, also after the handler had to wait."""
    params = {"name": "context", "arguments": {}}
    headers = caller.modern_headers("tools/call", params) | {"X_Mark": "é", "Host": "localhost:1"}
    answer = caller.request(caller.message("tools/call", params, META), path="/mcp?a=1&b=%20", **headers)
    request = answer.structured["request"]
    assert request["query"] == "a=1&b=%20"
    assert request["host"] == "localhost"
    assert request["mark"] == "é"


def test_unknown_sessions_are_unknown(caller):
    caller.initialize()
    caller.session = "0" * 48
    assert caller.legacy_call("echo", text="x").status == 404
    caller.session = None
    assert caller.legacy_call("echo", text="x").status == 400


def test_a_session_ends_with_delete(caller):
    """B21: what handlers left for the end of their connection is done; a second end changes nothing."""
    caller.initialize()
    caller.legacy_call("clean_up", name="by delete")
    assert caller.delete().status in (200, 204)
    assert caller.delete().status == 404
    assert noted(caller, "by delete") == [["by delete", "connection closed"]]


def test_a_session_that_ends_gives_up_its_requests(caller, port):
    """The handler is cancelled first, then the connection's own end comes."""
    caller.initialize()
    caller.legacy_call("clean_up", name="of the session")
    with contextlib.closing(Caller(port)) as other:
        params = {"name": "slow", "arguments": {"name": "in the session"}}
        other.send(other.message("tools/call", params), **caller.session_headers())
        time.sleep(0.3)
        assert caller.delete().status in (200, 204)
        assert noted(caller, "of the session")
        lines = noted(caller, "x") or []
    assert lines == []


def test_modern_requests_end_with_their_connection(caller, port):
    """A client that goes away cancels its request; the scope's cancellation is repeated (HN-50)."""
    other = Caller(port)
    params = {"name": "slow", "arguments": {"name": "gone"}}
    other.send(other.message("tools/call", params, META), **other.modern_headers("tools/call", params))
    time.sleep(0.3)
    other.close()
    assert until(lambda: len(seen := noted(caller, "gone")) and seen) is not None


def test_streams_have_the_order_of_the_handler(caller):
    answer = caller.call("mixed", meta={"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"})
    kinds = [each.get("method", "answer").rpartition("/")[2] for each in answer.messages]
    assert kinds == ["message", "progress", "message", "progress", "message", "answer"]


def test_log_levels_are_asked_for(caller):
    """Without a level in `_meta` nothing is logged, and the answer is one JSON object."""
    answer = caller.call("mixed")
    assert answer.headers["content-type"] == "application/json"
    answer = caller.call("mixed", meta={"io.modelcontextprotocol/logLevel": "warning"})
    assert [each["params"]["data"] for each in answer.messages if "params" in each] == ["two"]


def test_errors(caller):
    """Their errors on the wire, and the statuses that the SDK gives them."""
    assert caller.modern("acme/raw", {"how": "raise"}).answer["error"] == {"code": -32603, "message": "Internal server error"}
    answer = caller.modern("acme/nothing")
    assert (answer.status, answer.answer["error"]["code"]) == (404, -32601)
    answer = caller.modern("tools/call", {"name": 5}, Mcp_Name="5")
    assert (answer.status, answer.answer["error"]["code"]) == (400, -32602)
    caller.initialize()
    assert caller.legacy("acme/raw", {"how": "raise"}).answer["error"] == {"code": 0, "message": "as told"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_b86_one_bad_answer(caller, era):
    """B86: what has no JSON form, and a handler that raises CancelledError, cost one request and nothing else."""
    if era == "legacy":
        caller.initialize()
    ask = getattr(caller, era)
    assert ask("acme/raw", {"how": "wrong"}).answer["error"]["code"] in (-32603, 0)
    answer = ask("tools/call", {"name": "fail", "arguments": {"how": "cancelled"}})
    assert "error" in answer.answer
    assert ask("tools/call", {"name": "echo", "arguments": {"text": "on"}}).structured == {"result": "on"}


def test_b107_one_reading(caller):
    """B107: what the headers were compared with is what runs."""
    meta = json.dumps(META)
    for first, second in (("echo", "context"), ("context", "echo")):
        params = f'{{"name":"{first}","name":"{second}","arguments":{{"text":"t"}},"_meta":{meta}}}'
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
        for named in (first, second):
            answer = caller.request(body.encode(), MCP_Protocol_Version=MODERN, Mcp_Method="tools/call", Mcp_Name=named)
            if answer.status == 200:
                assert answer.structured == {"result": "t"} if named == "echo" else "version" in answer.structured
            else:
                assert answer.answer["error"]["code"] in (-32020, -32600)
    body = b'{"jsonrpc":"2.0","id":1,"Method":"tools/call","method":"ping","NAME":"x","params":{"_meta":%b}}' % meta.encode()
    answer = caller.request(body, MCP_Protocol_Version=MODERN, Mcp_Method="tools/call", Mcp_Name="echo")
    assert answer.answer["error"]["code"] == -32020


def test_limits_and_guards(caller, port):
    """The size of a body, the Host and the Origin."""
    assert caller.call("echo", text="x" * 70_000).status == 413
    with contextlib.closing(Caller(port)) as other:
        assert other.modern("server/discover", Host="evil.example").status == 421
    with contextlib.closing(Caller(port)) as other:
        assert other.modern("server/discover", Origin="http://evil.example").status == 403
        assert other.modern("server/discover", Origin="http://localhost:5173").status == 200


def test_resumption_with_their_store(caller, port):
    """A stream that ended early goes on where it was, with the ids that their event store gave."""
    caller.initialize()
    answer = caller.legacy_call("leave_stream")
    assert b"id: event-" in answer.body
    assert b"retry: 50" in answer.body
    last = answer.body.rpartition(b"id: ")[2].split()[0].decode()
    rest = caller.request(b"", "GET", **caller.session_headers(), Last_Event_ID=last)
    assert [each["params"]["data"] for each in rest.messages if "params" in each] == ["meanwhile"]
    assert rest.structured == {"result": "came back"}
    with contextlib.closing(Caller(port)) as other:
        other.initialize()
        stolen = other.request(b"", "GET", **other.session_headers(), Last_Event_ID=last)
        assert stolen.status == 400


# --- settings ------------------------------------------------------------------------------------------


def test_json_answers(peers):
    port = support.free_port()
    with hosted("ours", "http", port, "json"), contextlib.closing(Caller(port)) as caller:
        caller.initialize()
        answer = caller.legacy_call("count", {"progressToken": 1}, n=3)
        assert answer.headers["content-type"] == "application/json"
        assert answer.structured == {"result": "counted to 3"}
        assert not caller.legacy_call("context").structured["can_ask"]
        assert "no back-channel" in json.dumps(caller.legacy_call("ask_name").answer)


def test_stateless(peers):
    """Every request stands for itself; nothing is promised that needs a session."""
    port = support.free_port()
    with hosted("ours", "http", port, "stateless"), contextlib.closing(Caller(port)) as caller:
        assert "mcp-session-id" not in caller.initialize().headers
        found = [caller.legacy_call("context").structured for _ in range(2)]
        assert [each["calls_on_connection"] for each in found] == [1, 1]
        assert not any(each["session"] or each["can_ask"] for each in found)
        assert found[0]["version"] == LEGACY
        assert caller.legacy("tools/list", MCP_Protocol_Version="").result["tools"]
        assert caller.request(b"", "GET", **caller.session_headers()).status == 405


def test_idle_sessions_end(peers):
    port = support.free_port()
    with hosted("ours", "http", port, "sessions=0.2"), contextlib.closing(Caller(port)) as caller:
        caller.initialize()
        caller.legacy_call("clean_up", name="idle")
        assert noted(caller, "idle") == [["idle", "connection closed"]]
        assert caller.legacy_call("echo", text="x").status == 404


@pytest.fixture(scope="module", params=["theirs", "ours"])
def guarded(request, peers):
    """The port of a server with authorization, under each host."""
    port = support.free_port()
    with hosted(request.param, "http", port, "auth"):
        yield port


def test_authorization(guarded):
    """Refusals are the SDK's own; the token reaches handlers, and its user is the request's."""
    with contextlib.closing(Caller(guarded)) as caller:
        answer = caller.call("context")
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == (
            'Bearer error="invalid_token", error_description="Authentication required", '
            'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
        )
        assert answer.messages == [{"error": "invalid_token", "error_description": "Authentication required"}]
        assert caller.modern("server/discover", Authorization="Bearer nobody:read").status == 401
        answer = caller.modern("server/discover", Authorization="Bearer ada:write")
        assert answer.status == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    with contextlib.closing(Caller(guarded, Authorization="Bearer ada:read+write")) as caller:
        for _ in range(2):
            found = caller.call("context").structured
            assert found["token"] == ["ada", ["read", "write"]]
            assert found["request"]["user"] == "ada"


def test_sessions_belong_to_their_owner(guarded):
    """HO-34: another credential does not get at a session; the same client with another token does."""
    with contextlib.closing(Caller(guarded, Authorization="Bearer ada:read")) as ada:
        ada.initialize()
        assert ada.legacy_call("context").structured["token"][0] == "ada"
        with contextlib.closing(Caller(guarded, Authorization="Bearer alan:read")) as alan:
            alan.session = ada.session
            assert alan.legacy_call("context").status == 404
            assert alan.delete().status == 404
        with contextlib.closing(Caller(guarded, Authorization="Bearer ada:read+more")) as again:
            again.session = ada.session
            assert again.legacy_call("context").structured["token"] == ["ada", ["read", "more"]]


def test_routes_beside(guarded):
    """Routes of the server, and those of its authorization, on the same port."""
    with contextlib.closing(Caller(guarded)) as caller:
        assert caller.request(b"", "GET", "/health").messages == [{"well": True}]
        found = caller.request(b"", "GET", "/.well-known/oauth-protected-resource/mcp").messages[0]
        assert found["resource"].startswith("https://mcp.example.com/mcp")
        assert caller.request(b"", "GET", "/nowhere").status == 404


# --- the life of the process ---------------------------------------------------------------------------


def test_b98_one_lifespan(peers, tmp_path):
    """B98: entered once and left once, whatever came between; sessions that are open at the end are cleaned up."""
    journal = tmp_path / "journal"
    port = support.free_port()
    with hosted("ours", "http", port, journal=journal), contextlib.ExitStack() as stack:
        callers = [stack.enter_context(contextlib.closing(Caller(port))) for _ in range(3)]
        for number, caller in enumerate(callers):
            caller.initialize()
            caller.legacy_call("clean_up", name=f"session {number}")
        for _ in range(100):
            assert callers[0].call("echo", text="x").status == 200
        assert callers[0].call("context").structured["lifespan"] == "State"
        assert journal_of(journal) == [{"lifespan": "entered"}]
    *closed, left = journal_of(journal)[1:]
    assert left == {"lifespan": "left"}
    assert sorted(each["closed"] for each in closed) == ["session 0", "session 1", "session 2"]


@pytest.mark.parametrize("wire", ["http", "stdio"])
def test_b98_a_lifespan_that_fails(peers, tmp_path, wire):
    """B98: nothing is served then, and the process ends with an error."""
    where = (support.free_port(),) if wire == "http" else (0,)
    done = subprocess.run(
        command("ours", wire, *where, "failing"), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, env=environment()
    )
    assert done.returncode != 0
    assert b"the database is away" in done.stderr
    assert done.stdout == b""


def test_b98_a_lifespan_that_fails_later(peers):
    """B98: a task of the lifespan fails while the server runs: the process ends, with that error."""
    done = subprocess.run(
        command("ours", "http", support.free_port(), "failing-later"),
        stdin=subprocess.DEVNULL, capture_output=True, timeout=30, env=environment(),
    )  # fmt: skip
    assert done.returncode != 0
    assert b"the database went away" in done.stderr


def test_b115_one_server_two_transports(peers, tmp_path):
    """B115: standard streams and twenty HTTP sessions at once; one that ends leaves the others."""
    port = support.free_port()
    journal = tmp_path / "journal"
    process = subprocess.Popen(
        command("ours", "http", port, "and-stdio"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(journal),
    )  # fmt: skip
    try:
        support.wait_for_port(port, process)

        def ask(number, name, **arguments):
            params = {"name": name, "arguments": arguments, "_meta": META}
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            return json.loads(support.read_line(process.stdout))["result"]["structuredContent"]

        assert ask(1, "echo", text="on a pipe") == {"result": "on a pipe"}
        with contextlib.ExitStack() as stack:
            callers = [stack.enter_context(contextlib.closing(Caller(port))) for _ in range(20)]
            for caller in callers:
                caller.initialize()
            callers[0].delete()
            for number, caller in enumerate(callers[1:]):
                assert caller.legacy_call("echo", text=f"{number}").structured == {"result": f"{number}"}
                assert caller.legacy_call("context").structured["calls_on_connection"] == 1
            assert ask(2, "context")["lifespan"] == "State"
            assert journal_of(journal) == [{"lifespan": "entered"}]
        process.stdin.close()
        assert process.wait(20) == 0
        assert journal_of(journal) == [{"lifespan": "entered"}, {"lifespan": "left"}]
    finally:
        if process.poll() is None:
            support.end(process)
        process.stdout.close()


def test_listens_end_with_their_result(peers):
    """SF-74: when the server stops, a listener is told that its subscription is over."""
    port = support.free_port()
    with contextlib.closing(Caller(port)) as caller:
        with hosted("ours", "http", port):
            params = {"notifications": {"toolsListChanged": True}}
            caller.send(
                caller.message("subscriptions/listen", params, META), **caller.modern_headers("subscriptions/listen", {})
            )
            time.sleep(0.3)
        response = caller.connection.getresponse()
        lines = [json.loads(line[5:]) for line in response.read().splitlines() if line.startswith(b"data:")]
    assert lines[0]["method"] == "notifications/subscriptions/acknowledged"
    assert lines[-1]["id"] == 1
    assert lines[-1]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1


# --- line connections ----------------------------------------------------------------------------------


@contextlib.contextmanager
def lines(tmp_path, *options):
    """A file of lines on a unix socket of a server."""
    path = str(tmp_path / "s")
    with hosted("ours", "unix", path, *options), socket.socket(socket.AF_UNIX) as link:
        link.settimeout(20)
        link.connect(path)
        with link.makefile("rwb") as file:
            yield file


def test_initialize_comes_before_what_is_behind_it(peers, tmp_path):
    """A client that pipelines its handshake with a request finds the session open, however long the handshake takes."""
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    with lines(tmp_path, "slow-opening") as file:
        for message in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "context", "arguments": {}}},
            {"id": 3, "method": "ping"},
        ):
            file.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        file.flush()
        answers = [json.loads(file.readline()) for _ in range(3)]
    by_id = {each["id"]: each for each in answers}
    assert by_id[1]["result"]["protocolVersion"] == LEGACY
    assert by_id[2]["result"]["structuredContent"]["client"] == ["by hand", "1"]
    assert by_id[3]["result"] == {}


def test_b29_many_senders(peers, tmp_path):
    """B29: handlers that all send on one connection; every line is whole, and each one's order is kept."""
    wanted = 40
    with lines(tmp_path) as file:

        def write():
            for number in range(wanted):
                big = {"name": "echo", "arguments": {"text": chr(97 + number % 26) * (1 + 2500 * number)}, "_meta": META}
                told = {"name": "count", "arguments": {"n": 30}, "_meta": META | {"progressToken": number}}
                for id, params in ((f"big {number}", big), (f"count {number}", told)):
                    file.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode() + b"\n")
            file.flush()

        writer = threading.Thread(target=write)
        writer.start()
        progress = {number: [] for number in range(wanted)}
        answers = {}
        while len(answers) < 2 * wanted:
            message = json.loads(file.readline())
            if "id" in message:
                answers[message["id"]] = message["result"]["structuredContent"]["result"]
            else:
                progress[message["params"]["progressToken"]].append(message["params"]["progress"])
        writer.join()
    assert all(each == list(range(1, 31)) for each in progress.values())
    assert all(answers[f"big {n}"] == chr(97 + n % 26) * (1 + 2500 * n) for n in range(wanted))
