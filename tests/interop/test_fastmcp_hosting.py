"""FastMCP servers, of generation 3 and 4, on FastMCP's own transports and on headrace's: the same observations."""

import subprocess
import sys

import pytest

from headrace import connect
from interop.exercise import exercise
from interop.fastmcp_hosts import ENVIRONMENT, Raw, begin, call, client, command, hosted, on_both, said

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

WAYS = ["3 stdio", "3 http", "4 stdio", "4 http", "4 http mode=legacy"]


@pytest.fixture
def loop_name():
    """Our client's loop is not at stake here; a server takes seconds to start."""
    return "asyncio"


@pytest.fixture(scope="module", params=["3", "4"])
def python(request):
    """The Python of one generation."""
    return request.getfixturevalue("peers" if request.param == "4" else "peers_1")


@pytest.fixture(scope="module", params=WAYS)
def both(request):
    """What FastMCP's client saw of a server on its own transports, and of the same on ours."""
    generation, kind, *words = request.param.split()
    python = request.getfixturevalue("peers" if generation == "4" else "peers_1")
    return request.param, *on_both(python, kind, *words)


def test_everything_is_as_on_their_own_transports(both):
    """Results, errors, structured content, order of progress and logs, questions, middleware, mounted servers, proxies,
    transformations, state, context variables: whatever a client can see."""
    _, own, ours = both
    assert {key: ours.get(key) for key in own} == own
    assert set(ours) == set(own)


def test_the_client_has_seen_something(both):
    """The comparison above is one of full observations."""
    way, _, ours = both
    over_http = "http" in way
    modern = way.startswith("4") and "legacy" not in way
    assert modern or ours["server"] == ["features", "1.2.3", "Features."]
    assert {"child_inner", "via_far", "plus"} <= ours["tools"].keys()
    assert ours["echo"] == [["é€😀"], {"result": "é€😀"}]
    assert ours["child_inner"][0] == ["inner of child"]
    assert ours["via_far"][0] == ["far 3"]
    assert ours["plus"][0] == ["6"]
    assert ours["forbidden"] == ["ToolError", "the middleware forbids it"]
    assert ours["remember 2"][0] == ["None" if modern else "first"]
    assert ours["together"]
    assert ours["meta"][1].keys() >= {"traceparent", "com.example/own"}
    assert ours["no meta"][1] == {}
    assert ours["server_name"][0] == ["features"]
    context = ours["context"][1]
    assert context["transport"] == ("streamable-http" if over_http else "stdio")
    assert context["request"] == (["POST", "/mcp", "mine"] if over_http else "No active HTTP request found.")
    assert context["lifespan"] == {"database": "open"}
    assert [1.0, 5.0, "at 1"] in ours["progress"]
    assert [level for level, *_ in ours["logs"]] == ["debug", "warning"]
    if not modern:
        assert ours["ask_name"][0] == ["Hello Ada"]
        assert ours["via_far_name"][0] == ["Far Ada"]
    if way.startswith("3"):  # what FastMCP 4 does not have any more
        assert ours["think"][0] == ["thought about cats"]
        assert ours["where"][0] == ["file:///work"]


@pytest.mark.parametrize(
    ("python", "words"),
    [("3", ["stateless", "json"]), ("4", ["json"]), ("4", ["stateless"])],
    ids=["3-stateless-json", "4-json", "4-stateless"],
    indirect=["python"],
)
def test_other_modes(python, words):
    """Answers in JSON, and no sessions."""
    with hosted(python, "headrace", *words) as (url, _):
        seen = client(python, url, *(["mode=legacy"] if "peers-1" not in str(python) else []))
        assert seen["together"]
        assert seen["via_far"][0] == ["far 3"]
        assert seen["context"][1]["request"] == ["POST", "/mcp", "mine"]
        assert seen["context"][1]["entered"] == 1
        assert seen["ask_name"][0] in ("ToolError", "McpError", "MCPError")
        assert bool(seen["progress"]) is ("json" not in words)
        if "stateless" in words:
            answer = Raw(url, call("add", {"a": 40}), MCP_Protocol_Version="2025-06-18")
            assert answer.message["result"]["structuredContent"] == {"result": 42}
            assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_our_client(run, python, kind):
    """headrace at both ends of a FastMCP server."""

    async def trial(target):
        async with connect(target, elicitation=lambda params: {"name": "Ada"}) as client:
            assert client.server_info.name == "features"
            await exercise(client, cancels=False)
            assert (await client.call_tool("child_inner")).text == "inner of child"
            if client.protocol_version < "2026":
                assert (await client.call_tool("ask_name")).text == "Hello Ada"
            assert (await client.read_resource("note://named/x")).text == "note of x"
            assert (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text == "Greet Ada"

    if kind == "stdio":
        run(trial, command(python, "headrace", "stdio"))
    else:
        with hosted(python, "headrace") as (url, _):
            run(trial, url)


def test_modern_clients_fall_back(peers_1, run):
    """VN-40..50: FastMCP 3 knows handshakes alone, and says so to a client that begins without one."""
    with hosted(peers_1, "headrace") as (url, _):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
        answer = Raw(url, message, MCP_Protocol_Version="2026-07-28", Mcp_Method="server/discover")
        assert answer.status == 400
        error = answer.message["error"]
        assert error["code"] == -32022
        assert "2025-11-25" in error["data"]["supported"]
        assert "2026-07-28" not in error["data"]["supported"]

        async def trial():
            async with connect(url) as client:
                assert client.protocol_version == "2025-11-25"

        run(trial)


# --- who calls ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(python):
    """A server that wants one of its static tokens."""
    with hosted(python, "headrace", "auth") as (url, _):
        yield python, url


def test_auth_of_static_tokens(guarded):
    """AU-02: without a token 401 and a challenge, with a wrong one an error that says so."""
    _, url = guarded
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    missing = Raw(url, message)
    assert (missing.status, missing.headers["www-authenticate"].split()[0]) == (401, "Bearer")
    assert "invalid_token" not in missing.headers["www-authenticate"]
    wrong = Raw(url, message, Authorization="Bearer wrong")
    assert wrong.status == 401
    assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
    assert wrong.message["error"] == "invalid_token"
    assert Raw(url, message, Authorization="Bearer guest-token").status in (401, 403)
    assert Raw(url, method="GET").status == 401
    assert Raw(url, method="DELETE", Mcp_Session_Id="x").status == 401


def test_sessions_belong_to_their_caller(guarded):
    """HO-34: a session is unknown to another caller, whose token is as good."""
    _, url = guarded
    alice, bob = ({"Authorization": f"Bearer {name}-token"} for name in ("alice", "bob"))
    session = begin(url, **alice)
    mine = Raw(url, call("context"), Mcp_Session_Id=session, **alice)
    assert mine.message["result"]["structuredContent"]["token"] == ["alice", ["use"], "alice"]
    assert Raw(url, call("context"), Mcp_Session_Id=session, **bob).status == 404
    assert Raw(url, method="DELETE", Mcp_Session_Id=session, **bob).status == 404
    again = Raw(url, call("remember", {"value": "x"}), Mcp_Session_Id=session, **alice)
    assert again.message["result"]["structuredContent"] == {"result": "None"}


def test_their_client_with_a_token(guarded):
    python, url = guarded
    assert client(python, url, "token=bob-token")["context"][1]["token"] == ["bob", ["use"], "bob"]


def test_auth_of_signed_tokens(python):
    """Tokens with a signature, and the metadata of the protected resource (RFC 9728)."""
    with hosted(python, "headrace", "jwt") as (url, process):
        token = next(line for line in said(process).decode().splitlines() if line.startswith("ey"))
        refused = Raw(url, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        where = url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{where}"' in refused.headers["www-authenticate"]
        metadata = Raw(url, method="GET", path="/.well-known/oauth-protected-resource/mcp")
        assert metadata.status == 200
        assert metadata.message["authorization_servers"][0].rstrip("/") == "https://issuer.example"
        bearer = {"Authorization": f"Bearer {token}"}
        session = begin(url, **bearer)
        mine = Raw(url, call("context"), Mcp_Session_Id=session, **bearer)
        assert mine.message["result"]["structuredContent"]["token"][2] == "carol"
        assert Raw(url, call("context"), Mcp_Session_Id=session, Authorization=f"Bearer {token}x").status == 401


def test_routes_and_middleware_of_the_user(python):
    """Custom routes, those of mounted servers too, and ASGI middleware around all of it."""
    with hosted(python, "headrace", "guarded") as (url, _):
        health = Raw(url, method="GET", path="/health")
        assert (health.status, health.message["entered"]) == (200, 1)
        assert Raw(url, method="GET", path="/child").message == {"child": True}
        assert Raw(url, method="GET", path="/nothing").status == 404
        refused = Raw(url, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, X_Refuse="1")
        assert (refused.status, refused.headers["x-guard"], refused.body) == (418, "yes", "refused by the guard")
        assert Raw(url, method="GET", path="/health", X_Refuse="1").status == 418
        session = begin(url)
        seen = Raw(url, call("guard"), Mcp_Session_Id=session)
        assert seen.message["result"]["structuredContent"] == {"result": "seen"}


def test_what_is_missing_is_said_in_one_line():
    """Without FastMCP the integration names what to install."""
    program = "import sys; sys.modules['fastmcp'] = None\nimport headrace.integrations.fastmcp"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=ENVIRONMENT)
    assert done.stderr.decode().splitlines()[-1].endswith("needs FastMCP: pip install 'headrace[fastmcp]'")
