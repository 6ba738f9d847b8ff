"""Log lines with the request they belong to, as text and as JSON; the access log; and no secret in any (SE-11)."""

import asyncio
import io
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import headrace
from headrace import connect
from headrace.errors import HttpStatusError, RpcError
from headrace.hosting.access_log import AccessLog
from headrace.hosting.facts import session_tag
from headrace.hosting.logs import (
    JsonFormatter,
    PlainFormatter,
    RequestContext,
    RequestFilter,
    current_request,
    one_line,
    redacted,
)  # fmt: skip
from headrace.jsonrpc import R4, R5
from headrace.transports.http_server import serve_http

ENV = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])}
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

log = logging.getLogger("shop")


def make_app():
    app = headrace.Server("logged", version="1")

    @app.tool
    async def waits(word: str = "") -> str:
        """Logs before and after it waits, and in a task."""
        log.warning("before")
        await asyncio.sleep(0.001)
        log.warning("after")
        await asyncio.create_task(later())
        return word

    @app.tool
    def thread() -> str:
        """Logs in a thread."""
        log.warning("in a thread")
        return "ok"

    @app.tool(inline=True)
    def inline() -> str:
        """Logs on the loop."""
        log.warning("inline", extra={"items": [1, 2], "method": "mine"})
        return "ok"

    @app.tool
    async def breaks() -> str:
        """Fails."""
        raise ValueError("a surprise")

    @app.tool
    async def errs() -> str:
        """Answers an error."""
        raise RpcError(-32050, "no such luck")

    @app.prompt
    def greeting() -> str:
        """A prompt."""
        log.warning("greeting")
        return "hello"

    @app.resource("docs://intro/{part}")
    def intro(part: str) -> str:
        """A resource."""
        return part

    return app


async def later():
    log.warning("in a task")


@pytest.fixture
def lines():
    """What is logged, as records and as lines of both formats."""
    texts, jsons = io.StringIO(), io.StringIO()
    handlers = []
    for stream, formatter in ((texts, PlainFormatter()), (jsons, JsonFormatter())):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        handler.addFilter(RequestFilter())
        logging.getLogger().addHandler(handler)
        handlers.append(handler)
    yield lambda: (texts.getvalue().splitlines(), [json.loads(line) for line in jsons.getvalue().splitlines()])
    for handler in handlers:
        logging.getLogger().removeHandler(handler)


@pytest.fixture(params=[R4, R5])
def revision(request):
    return request.param


def test_every_line_says_of_which_request_it_is(run, lines, revision):
    """In async handlers, in their tasks, in threads and on the loop; outside of requests nothing is added."""
    app = make_app()
    app.observe(RequestContext())

    async def trial():
        async with connect(app, revision=revision) as client:
            log.warning("outside")
            assert current_request() is None
            await asyncio.gather(client.call_tool("waits"), client.call_tool("thread"), client.call_tool("inline"))
            await client.get_prompt("greeting")

    run(trial)
    texts, objects = lines()
    found = {line["message"]: line for line in objects}
    assert set(found["outside"]) == {"time", "level", "logger", "message"}
    for message, tool in (("before", "waits"), ("after", "waits"), ("in a task", "waits"), ("in a thread", "thread")):
        line = found[message]
        assert re.fullmatch(STAMP, line["time"])
        assert (line["level"], line["logger"]) == ("warning", "shop")
        assert (line["method"], line["tool"], line["revision"]) == ("tools/call", tool, revision)
        assert line["request_id"] == found["before" if tool == "waits" else message]["request_id"]
    assert found["before"]["request_id"] != found["in a thread"]["request_id"]
    assert found["inline"]["items"] == [1, 2] and found["inline"]["tool"] == "inline"
    assert found["greeting"]["prompt"] == "greeting" and "tool" not in found["greeting"]
    (plain,) = [line for line in texts if " shop: before " in line]
    assert re.fullmatch(
        rf"{STAMP} WARNING shop: before \[request_id=\d+ method=tools/call tool=waits revision={revision}\]", plain
    )


def test_exceptions_and_line_breaks(lines):
    """A traceback is a member of its object; nothing that is logged begins another line or moves a cursor."""
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("one\ntwo\x1b[2J\u2028three")
    log.warning("broken %s", "\ud800", extra={"thing": object(), "big": 1 << 70, "nan": float("nan")})
    texts, objects = lines()
    assert "one\\ntwo\\x1b[2J\\u2028three" in texts[0]
    assert objects[0]["message"] == "one\ntwo\x1b[2J\u2028three"
    assert "ValueError: why" in objects[0]["exception"]
    assert objects[1]["message"] == "broken ?" and objects[1]["thing"].startswith("<object object")
    assert objects[1]["big"] == str(1 << 70)


def test_the_trace_is_named_where_there_is_one(run, lines):
    pytest.importorskip("opentelemetry.sdk", reason="the OpenTelemetry SDK is not installed")
    from headrace.hosting import tracing

    from .traced import Spans, place

    spans, app = Spans(), make_app()
    tracing.instrument(app, spans.provider)
    app.observe(RequestContext())

    async def trial():
        async with connect(app) as client:
            await client.call_tool("thread")

    run(trial)
    (line,) = [line for line in lines()[1] if line["message"] == "in a thread"]
    assert f"{line['trace_id']}-{line['span_id']}" == place(spans.one("tools/call thread"))
    assert line["tool"] == "thread"


def test_workers_are_named(lines, monkeypatch):
    monkeypatch.setattr("headrace.hosting.workers.worker._current", SimpleNamespace(index=3))
    record = log.makeRecord("shop", logging.INFO, __file__, 1, "hello", (), None)
    assert RequestFilter().filter(record)
    assert json.loads(JsonFormatter().format(record))["worker"] == 3
    assert "[worker=3]" in PlainFormatter().format(record)


@pytest.mark.parametrize(
    "text, hidden",
    [
        ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("{'authorization': 'Bearer abcdefgh12'}", "abcdefgh12"),
        ("(b'authorization', b'Basic dXNlcjpwYXNz')", "dXNlcjpwYXNz"),
        ("mcp-session-id=deadbeef", "deadbeef"),
        ("the session 0123456789abcdef0123456789abcdef0123456789abcdef ended", "0123456789abcdef"),
        ("redis://user:hunter2@10.0.0.1:6379/0 is gone", "hunter2"),
        ("rediss://:hunter2@cache/0", "hunter2"),
        ("Cookie: id=abc", "id=abc"),
        ("set-cookie: a=1; id=abc", "id=abc"),
        ("(b'cookie', b'a=1; id=abc')", "id=abc"),
        ("X-Api-Key: 12345678", "12345678"),
    ],
)
def test_se11_what_looks_like_a_credential_is_hidden(text, hidden):
    assert hidden in text and hidden not in redacted(text)


@pytest.mark.parametrize("text", ["a basic idea", "tools/call add in 3 ms", "http://127.0.0.1:8000/mcp", "12:30 bearer"])
def test_what_is_no_credential_stays(text):
    assert redacted(text) == text
    assert one_line(text) == text


# --- the access log -----------------------------------------------------------------------------------


def test_access_lines(run, revision):
    """One line a request, of what and how; several in one write."""
    app = make_app()
    writes, objects = [], []
    app.observe(AccessLog(writes.append))
    app.observe(AccessLog(lambda text: objects.extend(map(json.loads, text.splitlines())), as_json=True))

    async def trial():
        async with connect(app, revision=revision) as client:
            await asyncio.gather(*(client.call_tool("waits", {"word": "x"}) for _ in range(20)))
            await client.call_tool("breaks")
            for call in (client.call_tool("errs"), client.call_tool("made-up\n"), client.request("made/up")):
                with pytest.raises(RpcError):
                    await call
            await client.read_resource("docs://intro/secret")
            await client.get_prompt("greeting")
            await asyncio.sleep(0.01)

    run(trial)
    lines = "".join(writes).splitlines()
    assert len(lines) == len(objects)
    assert len(writes) < len(lines)
    calls = [line for line in objects if line.get("tool") == "waits"]
    assert len(calls) == 20 and len({line["request_id"] for line in calls}) == 20
    line = calls[0]
    assert line["log"] == "access" and re.fullmatch(STAMP, line["time"])
    assert (line["method"], line["outcome"], line["peer"]) == ("tools/call", "ok", "unix")
    assert line["ms"] > 0 and line["bytes_in"] > 20 and line["bytes_out"] > 20 and line["revision"] == revision
    rest = [(line["method"], line.get("tool"), line["outcome"], line.get("code")) for line in objects]
    assert ("tools/call", "breaks", "tool_error", None) in rest
    assert ("tools/call", "errs", "error", -32050) in rest
    assert ("tools/call", None, "error", -32602) in rest
    assert ("-", None, "refused", -32601) in rest
    assert ("resources/read", None, "ok", None) in rest
    assert [line["prompt"] for line in objects if "prompt" in line] == ["greeting"]
    assert "secret" not in "".join(writes) and "made" not in "".join(writes)
    (plain,) = [line for line in lines if "tools/call breaks" in line]
    assert re.fullmatch(
        rf"{STAMP} access unix tools/call breaks tool_error \d+\.\dms in=\d+ out=\d+ revision={revision} id=\d+", plain
    )


def test_access_lines_of_http(run, revision):
    """The client's address, a stand-in for the session, and what was turned away before there was a message."""
    app = make_app()
    objects = []
    app.observe(AccessLog(lambda text: objects.extend(map(json.loads, text.splitlines())), as_json=True))

    async def trial():
        async with app.running():
            listener = await serve_http(app, host="127.0.0.1", port=0, path="/mcp")
            try:
                async with connect(listener.url, revision=revision) as client:
                    await client.call_tool("inline")
                    tags = {session_tag(session.mux) for session in app.sessions if session.id}
                    session = client._http.session_id
                with pytest.raises((HttpStatusError, headrace.HeadraceError)):
                    async with connect(listener.url + "/nowhere", revision=revision):
                        pass
                return tags, session
            finally:
                await listener.close()

    tags, session = run(trial)
    (line,) = [line for line in objects if line.get("tool") == "inline"]
    assert line["peer"] == "127.0.0.1"
    assert line.get("session") == (None if revision == R5 else line["session"])
    if revision == R4:
        assert len(line["session"]) == 16 and session and session not in json.dumps(objects)
        assert not tags or line["session"] in tags
    assert [(line["outcome"], line["peer"]) for line in objects if line.get("status") == 404][:1] == [
        ("refused", "127.0.0.1")
    ]


def test_a_log_that_cannot_be_written_stops_no_server(run):
    app = make_app()

    def broken(text):
        raise OSError("the disk is full")

    app.observe(AccessLog(broken))

    async def trial():
        async with connect(app) as client:
            await client.call_tool("inline")
            return (await client.call_tool("inline")).text

    assert run(trial) == "ok"


# --- headrace serve -----------------------------------------------------------------------------------

PROGRAM = '''
import logging

import headrace
from headrace import Context

app = headrace.Server("secretive", version="1")
log = logging.getLogger("shop")


@app.tool
async def buy(card: str, ctx: Context) -> str:
    """Buys something."""
    log.warning("buying")
    found = await ctx.elicit("sure?", {"type": "object", "properties": {"pin": {"type": "string"}}})
    return f"{found.action}"


@app.tool
async def loses(card: str) -> str:
    """Fails."""
    raise ValueError("lost")
'''

SECRETS = ("tok3n-of-mine", "4111-1111", "pin-9876")


async def use(where, revision, **options):
    """A session with secrets of all kinds; gives those that came up."""

    def elicitation(params):
        return {"pin": "pin-9876"}

    async with connect(where, revision=revision, elicitation=elicitation, **options) as client:
        assert (await client.call_tool("buy", {"card": "4111-1111"})).text == "accept"
        assert (await client.call_tool("loses", {"card": "4111-1111"})).is_error
        assert (await client.call_tool("loses", {"card": ["4111-1111"]})).is_error
        with pytest.raises(RpcError):
            await client.call_tool("4111-1111")
        with pytest.raises(RpcError):
            await client.request("4111-1111/pin-9876")
        found = client._http.session_id if client._http is not None else None
    return [found] if found else []


@pytest.mark.parametrize("log_format", ["plain", "json"])
def test_se11_no_log_of_a_served_program_holds_a_secret(tmp_path, log_format):
    """Everything that headrace serve writes at the most talkative level, over HTTP, in both eras: no credentials, no
    session ids, no arguments, no answers of users."""
    (tmp_path / "shop.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "headrace", "serve", "shop.py", "--http", "127.0.0.1:0", "--log-level", "debug",
            "--log-format", log_format, "--access-log",
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=ENV,
    )  # fmt: skip
    head = []
    secrets = list(SECRETS)
    try:
        while True:
            head.append(line := process.stderr.readline())
            assert line, head
            if found := re.search(r"serving secretive on (http://\S+?/mcp)", line):
                break
        for revision in (R4, R5):
            secrets += asyncio.run(
                use(found[1], revision, headers={"Authorization": "Bearer tok3n-of-mine", "Cookie": "c=tok3n-of-mine"})
            )
        process.terminate()
        out, err = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    err = "".join(head) + err
    assert out == "" and process.returncode == 0
    assert len(secrets) == 4
    assert [secret for secret in secrets if secret in err] == []
    lines = err.splitlines()
    if log_format == "json":
        objects = [json.loads(line) for line in lines]
        (buying, *_) = [line for line in objects if line.get("message") == "buying"]
        assert (buying["tool"], buying["method"], buying["logger"]) == ("buy", "tools/call", "shop")
        access = [line for line in objects if line.get("log") == "access"]
        assert {line["outcome"] for line in access} >= {"ok", "tool_error", "error", "refused"}
        (lost, *_) = [line for line in objects if line.get("exception")]
        assert lost["tool"] == "loses" and "ValueError: lost" in lost["exception"]
    else:
        assert any(re.search(r"WARNING shop: buying \[request_id=\d+ method=tools/call tool=buy ", line) for line in lines)
        assert any(re.search(r" access 127\.0\.0\.1 tools/call loses tool_error ", line) for line in lines)


def serve(tmp_path, *options, program=PROGRAM, input="", **more):
    (tmp_path / "shop.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "shop.py", *options],
        input=input, capture_output=True, text=True, cwd=tmp_path, env={**ENV, **more}, timeout=30,
    )  # fmt: skip


CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": "one",
        "method": "tools/call",
        "params": {
            "name": "loses",
            "arguments": {"card": "4111-1111"},
            "_meta": {"io.modelcontextprotocol/protocolVersion": R5, "io.modelcontextprotocol/clientCapabilities": {}},
        },
    }
)


def test_on_stdio_all_of_it_is_on_stderr(tmp_path):
    done = serve(tmp_path, "--access-log", "--log-format", "json", input=CALL + "\n")
    assert done.returncode == 0
    (answer,) = done.stdout.splitlines()
    assert json.loads(answer)["result"]["isError"]
    objects = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["request_id"] for line in objects] == ["one", "one"]
    assert [line.get("log") for line in objects] == [None, "access"]
    assert "4111" not in done.stderr


def test_without_options_nothing_is_added(tmp_path):
    done = serve(tmp_path, input=CALL + "\n")
    assert done.returncode == 0 and "access" not in done.stderr
    assert "ERROR headrace.server: tool 'loses' failed\n" in done.stderr and "[" not in done.stderr.splitlines()[0]


def test_handlers_of_the_program_get_the_format_that_was_asked_for(tmp_path):
    program = PROGRAM + "\nlogging.basicConfig(level='INFO', format='mine %(message)s')\n"
    done = serve(tmp_path, program=program, input=CALL + "\n")
    assert "mine tool 'loses' failed" in done.stderr
    done = serve(tmp_path, "--log-format", "json", program=program, input=CALL + "\n")
    assert json.loads(done.stderr.splitlines()[0])["message"] == "tool 'loses' failed"


def test_a_failure_to_start_is_said_in_the_format_too(tmp_path):
    done = serve(tmp_path, "--log-format", "json", "--http", "256.0.0.1:1")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "cannot be served" in json.loads(line)["message"]
    done = serve(tmp_path, "--log-format", "json", "--path", "/x")
    assert done.returncode == 2 and "--path" in json.loads(done.stderr)["message"]


def test_wrong_values(tmp_path):
    """One line that names the option and what is accepted, status 2."""
    done = serve(tmp_path, "--log-format", "xml")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "--log-format" in line and "'xml'" in line and "plain" in line and "json" in line
    asgi = "async def app(scope, receive, send):\n    pass\n"
    done = serve(tmp_path, "--access-log", "--http", "127.0.0.1:0", program=asgi)
    assert done.returncode == 2 and "--access-log is for MCP servers" in done.stderr


def test_lines_of_workers_say_which(tmp_path):
    """With --workers every line of every process is in the format, and says whose it is."""
    (tmp_path / "shop.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "headrace", "serve", "shop.py", "--http", "127.0.0.1:0", "--workers", "2",
            "--log-format", "json", "--access-log", "--stateless",
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=ENV,
    )  # fmt: skip
    head = []
    try:
        while not (found := re.search(r"serving secretive on (http://\S+?/mcp)", head[-1] if head else "")):
            head.append(line := process.stderr.readline())
            assert line, head

        async def trial():
            for _ in range(4):
                async with connect(found[1], revision=R5) as client:
                    assert (await client.call_tool("loses", {"card": "4111-1111"})).is_error

        asyncio.run(asyncio.wait_for(trial(), 30))
        process.terminate()
        _, err = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    objects = [json.loads(line) for line in ("".join(head) + err).splitlines()]
    calls = [line for line in objects if line.get("log") == "access" and line.get("tool") == "loses"]
    assert len(calls) == 4 and {line["worker"] for line in calls} == {0, 1}
    assert {line["worker"] for line in objects if line.get("message") == "tool 'loses' failed"} == {0, 1}
    assert "4111" not in err
