"""The HTTP endpoint as curl sees it: both eras, event streams, statuses, large bodies, reuse of connections."""

import json
import subprocess

import pytest

from interop.support import TOOLBOX, hosted

pytestmark = pytest.mark.interop

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "curl", "version": "7"},
}
BOTH = "application/json, text/event-stream"


class Answer:
    """What curl got: statuses of all heads (100 first, if there was one), header fields, body."""

    def __init__(self, raw):
        self.statuses = []
        head = b"HTTP/"
        while raw.startswith(head):
            lines, _, raw = raw.partition(b"\r\n\r\n")
            first, *fields = lines.decode().split("\r\n")
            self.statuses.append(int(first.split()[1]))
            self.headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
        self.status = self.statuses[-1]
        self.body = raw

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The messages; events without data, which only carry an id, are none (HO-22)."""
        lines = self.body.decode().splitlines()
        return [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]


class Curl:
    """curl against one URL."""

    def __init__(self, program, url):
        self.program = program
        self.url = url

    def __call__(self, *arguments, body=None, headers=(), url=None):
        command = [self.program, "-sS", "-i", "--max-time", "20", *arguments]
        for header in headers:
            command += ["-H", header]
        if body is not None:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            command += ["--data-binary", "@-"]
        done = subprocess.run(
            [*command, url or self.url], input=raw if body is not None else b"", capture_output=True, timeout=30
        )
        assert done.returncode == 0, done.stderr.decode()
        return Answer(done.stdout)

    def post(self, body, *arguments, content_type="application/json", accept=BOTH, headers=()):
        fields = [f"Content-Type: {content_type}", f"Accept: {accept}", *headers]
        return self(*arguments, body=body, headers=fields)

    def modern(self, method, params, *arguments, id=1, headers=None, meta=None, **options):
        params = params | {"_meta": META | (meta or {})}
        if headers is None:
            headers = [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}"]
            if "name" in params:
                headers.append(f"Mcp-Name: {params['name']}")
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return self.post(message, *arguments, headers=headers, **options)


@pytest.fixture(scope="module")
def ask(curl, toolbox):
    return Curl(curl, toolbox)


@pytest.fixture(scope="module")
def session(ask):
    """Header lines of a session of the handshake era."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "curl", "version": "7"}}
    answer = ask.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    assert answer.status == 200
    assert answer.json["result"]["protocolVersion"] == HANDSHAKE
    lines = [f"Mcp-Session-Id: {answer.headers['mcp-session-id']}", f"MCP-Protocol-Version: {HANDSHAKE}"]
    ready = ask.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=lines)
    assert (ready.status, ready.body) == (202, b"")
    return lines


def test_modern_call(ask):
    """HN-43: a plain answer is JSON, and nothing of a session shows."""
    answer = ask.modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert "mcp-session-id" not in answer.headers
    assert answer.json["id"] == 1
    assert answer.json["result"]["content"] == [{"type": "text", "text": "3"}]
    assert answer.json["result"]["resultType"] == "complete"


def test_modern_progress(ask):
    """HN-40, B78: an event stream of notes and then the answer, and its end."""
    answer = ask.modern("tools/call", {"name": "count", "arguments": {"to": 5}}, "-N", meta={"progressToken": "t"})
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    events = answer.events
    assert [event["params"]["progress"] for event in events[:-1]] == [1, 2, 3, 4, 5]
    assert {event["params"]["progressToken"] for event in events[:-1]} == {"t"}
    assert events[-1]["result"]["content"][0]["text"] == "counted to 5"


def test_handshake(ask, session):
    answer = ask.post({"jsonrpc": "2.0", "id": "l", "method": "tools/list"}, headers=session)
    assert answer.status == 200
    message = answer.json if answer.headers["content-type"].startswith("application/json") else answer.events[-1]
    assert message["id"] == "l"
    assert "add" in {tool["name"] for tool in message["result"]["tools"]}
    call = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": 7}}
    answer = ask.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, "-N", headers=session)
    notes = [event for event in answer.events if "method" in event]
    assert [note["params"]["progress"] for note in notes] == [1, 2, 3]
    assert answer.events[-1]["id"] == 2


def test_session_ends(ask):
    """An ended session is unknown: 404, and clients begin anew (B48)."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "curl", "version": "7"}}
    made = ask.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    lines = [f"Mcp-Session-Id: {made.headers['mcp-session-id']}", f"MCP-Protocol-Version: {HANDSHAKE}"]
    assert ask("-X", "DELETE", headers=lines).status in (200, 202, 204)
    assert ask.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=lines).status == 404


GOOD = ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"]
LIST = {"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {"_meta": META}}


@pytest.mark.parametrize(
    ("status", "code", "request_"),
    [
        (400, -32700, {"body": b"{nonsense", "headers": GOOD}),
        (400, -32700, {"body": b"", "headers": GOOD}),
        (400, -32600, {"body": [LIST], "headers": GOOD}),
        (400, -32600, {"body": {"jsonrpc": "1.0", "id": 9, "method": "tools/list"}, "headers": GOOD}),
        (400, -32600, {"body": LIST | {"id": None}, "headers": GOOD}),
        (400, -32602, {"body": LIST | {"params": {}}, "headers": GOOD}),
        (400, -32020, {"body": LIST, "headers": GOOD[:1]}),
        (400, -32020, {"body": LIST, "headers": [GOOD[0], "Mcp-Method: tools/call"]}),
        (406, None, {"body": LIST, "headers": GOOD, "accept": "text/html"}),
        (415, None, {"body": LIST, "headers": GOOD, "content_type": "text/plain"}),
    ],
    ids=[
        "broken-json", "empty", "batch", "jsonrpc-1", "null-id", "no-meta", "no-method-header", "other-method",
        "not-acceptable", "media-type",
    ],
)  # fmt: skip
def test_refusals(ask, status, code, request_):
    """HN-30: statuses and codes in the order of the checks."""
    answer = ask.post(**request_)
    assert answer.status == status
    if code is not None:
        assert answer.json["error"]["code"] == code


def test_not_found(ask):
    """404 for another path, for a method and for a session nobody knows."""
    assert ask.post(LIST, headers=GOOD).status == 200
    other = ask(body=LIST, headers=["Content-Type: application/json"], url=ask.url + "/elsewhere")
    assert other.status == 404
    unknown = ask.modern("no/such", {})
    assert (unknown.status, unknown.json["error"]["code"], unknown.json["id"]) == (404, -32601, 1)
    lost = ["Mcp-Session-Id: nobody", f"MCP-Protocol-Version: {HANDSHAKE}"]
    assert ask.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=lost).status == 404


def test_unsupported_version(ask):
    meta = META | {"io.modelcontextprotocol/protocolVersion": "2999-01-01"}
    body = LIST | {"params": {"_meta": meta}}
    answer = ask.post(body, headers=["MCP-Protocol-Version: 2999-01-01", "Mcp-Method: tools/list"])
    assert answer.status == 400
    assert answer.json["error"]["code"] == -32022
    assert MODERN in answer.json["error"]["data"]["supported"]


def test_method_not_allowed(ask):
    for method in ("PUT", "PATCH"):
        answer = ask("-X", method, body=b"{}", headers=["Content-Type: application/json"])
        assert answer.status == 405
        assert "POST" in answer.headers["allow"]


def test_foreign_origin(ask):
    assert ask.post(LIST, headers=[*GOOD, "Origin: http://evil.example"]).status == 403


def test_too_large(curl):
    """413 before the body is read, when its length says so; and when a chunked body grows too long."""
    with hosted(TOOLBOX, "--max-message-bytes", "65536") as url:
        ask = Curl(curl, url)
        body = json.dumps(LIST | {"pad": "x" * 100_000}).encode()
        assert ask.post(body, headers=GOOD).status == 413
        assert ask.post(body, headers=[*GOOD, "Transfer-Encoding: chunked"]).status == 413
        assert ask.post(LIST, headers=GOOD).status == 200


def test_large_body_expects_continue(ask):
    """curl waits for 100 Continue before a large body."""
    text = "é" * 1_000_000
    answer = ask.modern("tools/call", {"name": "echo", "arguments": {"text": text}}, "--expect100-timeout", "15")
    if answer.statuses[0] != 100:  # newer versions of curl ask only when told to
        headers = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: echo"]
        answer = ask.modern(
            "tools/call",
            {"name": "echo", "arguments": {"text": text}},
            "--expect100-timeout",
            "15",
            headers=[*headers, "Expect: 100-continue"],
        )
    assert answer.statuses == [100, 200]
    assert answer.json["result"]["content"][0]["text"] == text


def test_chunked_body(ask):
    answer = ask.modern(
        "tools/call",
        {"name": "echo", "arguments": {"text": "in pieces"}},
        headers=[
            f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: echo",
            "Transfer-Encoding: chunked",
        ],
    )  # fmt: skip
    assert answer.json["result"]["content"][0]["text"] == "in pieces"


def test_keep_alive(ask, tmp_path):
    """Five requests of one curl go over one connection, refusals included."""
    body = tmp_path / "list.json"
    body.write_text(json.dumps(LIST))
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    command = [ask.program, "-sS", "--max-time", "20"]
    for number, file in enumerate([body, bad, body, bad, body]):
        command += ["--next"] if number else []
        command += ["-o", str(tmp_path / f"{number}.out"), "-w", "%{http_code} %{num_connects}\n"]
        command += ["-H", "Content-Type: application/json", "-H", f"Accept: {BOTH}"]
        for header in GOOD:
            command += ["-H", header]
        command += ["--data-binary", f"@{file}", ask.url]
    done = subprocess.run(command, capture_output=True, timeout=30, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:5] == ["200 1", "400 0", "200 0", "400 0", "200 0"]


def test_head_and_get(ask):
    """A GET without a session is refused in one plain answer, and HEAD has no body."""
    answer = ask(headers=["Accept: text/event-stream"])
    assert answer.status in (400, 405)
    answer = ask("--head")
    assert answer.status == 405
    assert answer.body == b""
