"""The command line beyond tools: resources, prompts, changes, and questions of the server; run as people run it."""

import fcntl
import json
import os
import pty
import re
import select
import subprocess
import sys
import termios
import threading
import time

import pytest
from test_cli import ENV, HEADRACE, headrace, plain_failure

from headrace.cli.app import run

SOURCE = '''
import dataclasses
from typing import Literal
from headrace import Context, Server

app = Server("features", version="1")

@dataclasses.dataclass
class Person:
    name: str
    age: int = 7
    color: Literal["red", "green"] = "red"
    member: bool = False

@app.tool
async def hello(ctx: Context) -> str:
    "Asks who is there."
    answer = await ctx.elicit("Who are you?", Person)
    return f"{answer.action}: {answer.content}"

@app.tool
async def twice(ctx: Context) -> str:
    one = await ctx.elicit("One?", {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})
    two = await ctx.elicit("Two?", {"type": "object", "properties": {"y": {"type": "string"}}})
    return f"{one.content} {two.content}"

@app.tool
async def visit(ctx: Context) -> str:
    return (await ctx.elicit_url("Sign in", "https://example.com/login?x=1")).action

@app.tool
async def lure(ctx: Context, url: str) -> str:
    return (await ctx.elicit_url("Look", url)).action

@app.tool
async def where(ctx: Context) -> str:
    return " ".join(root.uri for root in await ctx.list_roots())

@app.tool
async def grow() -> str:
    async def extra() -> str:
        return "x"
    app.add_tool(extra, name=f"extra{len(app.tools)}")
    app.notify_resource_updated("docs://intro")
    return "grown"

@app.resource("docs://intro", name="intro", description="The beginning.", mime_type="text/plain")
async def intro() -> str:
    return "Welcome."

@app.resource("docs://picture", mime_type="image/png")
async def picture() -> bytes:
    return b"\\x89PNG\\r\\n\\x1a\\n..."

@app.resource("docs://page/{number}", description="One page.")
async def page(number: int) -> str:
    return f"page {number}"

@app.prompt
async def review(language: str, code: str = "") -> str:
    "Reviews code."
    return f"Review this {language}: {code}"
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "features.py"
    path.write_text(SOURCE)
    return ["--", *HEADRACE, "serve", str(path)]


def test_ls_shows_every_kind(server):
    lines = headrace("ls", *server, check=0).stdout.splitlines()
    assert "hello()\tAsks who is there." in lines
    assert "resource docs://intro (text/plain)\tThe beginning." in lines
    assert any(line.startswith("template docs://page/{number}") and line.endswith("\tOne page.") for line in lines)
    assert "prompt review(language, code?)\tReviews code." in lines
    assert all(line.startswith("prompt ") for line in headrace("ls", "--prompts", *server, check=0).stdout.splitlines())
    shown = headrace("ls", "--schemas", "--tools", *server, check=0).stdout
    assert '    arguments: {\n      "type": "object"' in shown and "docs://" not in shown
    assert "    language (required)\n    code\n" in headrace("ls", "--schemas", "--prompts", *server, check=0).stdout
    found = json.loads(headrace("ls", "--json", *server, check=0).stdout)
    assert [each["uri"] for each in found["resources"]] == ["docs://intro", "docs://picture"]
    assert [each["uriTemplate"] for each in found["resourceTemplates"]] == ["docs://page/{number}"]
    assert [each["name"] for each in found["prompts"]] == ["review"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2026-07-28"])
def test_read(server, tmp_path, revision):
    assert headrace("read", "docs://intro", "--revision", revision, *server, check=0).stdout == "Welcome.\n"
    assert headrace("read", "docs://page/3", "--revision", revision, *server, check=0).stdout == "page 3\n"
    plain_failure(
        headrace("read", "docs://entro", "--revision", revision, *server), 1,
        r"no such resource: docs://entro; did you mean docs://intro or",
    )  # fmt: skip


def test_read_binary_and_json(server, tmp_path):
    assert re.search(r"\[resource docs://picture, image/png, \d+ bytes; --output DIR saves it\]",
                     headrace("read", "docs://picture", *server, check=0).stdout)  # fmt: skip
    path = headrace("read", "docs://picture", "--output", str(tmp_path), *server, check=0).stdout.strip()
    with open(path, "rb") as file:
        assert file.read().startswith(b"\x89PNG") and os.path.dirname(path) == str(tmp_path)
    found = json.loads(headrace("read", "docs://intro", "--json", *server, check=0).stdout)
    assert found["contents"][0]["text"] == "Welcome." and found["contents"][0]["mimeType"] == "text/plain"


def test_prompt(server):
    assert headrace("prompt", "review", "language=C", *server, check=0).stdout == "user: Review this C: \n"
    found = json.loads(headrace("prompt", "--json", "review", "language=C", "code=x", *server, check=0).stdout)
    assert found["messages"][0]["content"]["text"] == "Review this C: x"
    plain_failure(headrace("prompt", "revue", "language=C", *server), 1, r"unknown prompt: revue; did you mean review\?")
    plain_failure(headrace("prompt", "review", *server), 2, "review needs language: say language=")
    plain_failure(headrace("prompt", "review", "language:=1", *server), 2, "arguments of prompts are texts")
    plain_failure(headrace("prompt", "language=C", *server), 2, "name a server and a prompt")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_questions_are_answered_by_options(server, revision):
    def call(*words):
        return headrace("call", *words, "--revision", revision, *server)

    done = call("hello", "--answer", "name=Bo", "--answer", "color=green", "--answer", "member=yes")
    assert done.stdout == "accept: Person(name='Bo', age=7, color='green', member=True)\n", done
    assert call("hello", "--decline").stdout == "decline: None\n"
    assert call("twice", "--answer", "x=3", "--answer", "y=z").stdout == "{'x': 3} {'y': 'z'}\n"
    wrong = call("hello", "--answer", "name=Bo", "--answer", "age=x")
    assert wrong.stdout == "cancel: None\n" and "--answer age: a whole number is wanted" in wrong.stderr
    missing = call("hello", "--answer", "age=3")
    assert missing.stdout == "cancel: None\n" and "say --answer name=VALUE" in missing.stderr
    slip = call("hello", "--answer", "name=Bo", "--answer", "colour=green")
    assert slip.stdout == "cancel: None\n" and "--answer colour: the server asks for no such field; did you" in slip.stderr
    # What the server does with a cancelled form is not what was wanted, whatever it says.
    assert wrong.returncode == missing.returncode == slip.returncode == 2
    idle = call("hello", "--answer", "name=Bo", "--answer", "x=1")
    assert idle.returncode == 0 and "--answer x: the server did not ask for that" in idle.stderr


def test_without_answers_servers_are_told_not_to_ask(server):
    plain_failure(headrace("call", "hello", *server), 1, "say --answer NAME=VALUE or --decline.*elicitation")
    plain_failure(headrace("call", "visit", *server), 1, "at a terminal to open the URL, or say --decline")
    plain_failure(headrace("call", "where", *server), 1, "say --root PATH")
    done = headrace("call", "visit", "--decline", *server, check=0)
    assert done.stdout == "decline\n"
    done = headrace("call", "visit", "--answer", "a=b", *server, check=0)
    assert done.stdout == "decline\n" and "https://example.com/login?x=1" in done.stderr


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_roots(server, tmp_path, revision):
    done = headrace("call", "where", "--root", str(tmp_path), "--revision", revision, *server, check=0)
    assert done.stdout == f"{tmp_path.as_uri()}\n"


def at_a_terminal(arguments, answers, **env):
    """Runs a command with a terminal; ``answers`` are (what is awaited on it, what is typed then)."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [*HEADRACE, *arguments], stdin=side, stdout=side, stderr=side, env=ENV | env, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(side)
    seen = ""
    end = time.monotonic() + 40
    waiting = list(answers)
    while time.monotonic() < end:
        if not select.select([main], [], [], 0.5)[0]:
            continue
        try:
            data = os.read(main, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data.decode()
        if waiting and waiting[0][0] in seen.rpartition("\x00")[2]:
            os.write(main, waiting.pop(0)[1].encode())
            seen += "\x00"
    os.close(main)
    process.wait(20)
    return process.returncode, seen.replace("\x00", "").replace("\r\n", "\n"), waiting


def test_a_person_answers_at_the_terminal(server):
    status, seen, left = at_a_terminal(
        ["call", "hello", *server],
        [("name:", "Bo\n"), ("age [7]", "old\n"), ("age [7]", "8\n"), ("color [red]", "2\n"),
         ("member [no]", "\n"), ("Send", "\n")],
    )  # fmt: skip
    assert status == 0 and not left, seen
    assert "The server 'features' asks: Who are you?" in seen, seen
    assert "1. red\n" in seen and "2. green\n" in seen, seen
    assert "accept: Person(name='Bo', age=8, color='green', member=False)" in seen


def test_a_person_declines_or_leaves(server):
    status, seen, _ = at_a_terminal(["call", "hello", *server], [("name:", "!\n")])
    assert status == 0 and "decline: None" in seen, seen
    status, seen, _ = at_a_terminal(["call", "hello", *server], [("name:", "\x04")])
    assert status == 0 and "cancel: None" in seen, seen
    status, seen, _ = at_a_terminal(["call", "visit", *server], [("[y/N]", "\n")])
    assert status == 0 and "https://example.com/login?x=1" in seen and "decline" in seen, seen
    status, seen, _ = at_a_terminal(["call", "hello", *server], [("name:", "\x03")])
    assert status == 130, seen


def test_cf34_se06_an_address_is_opened_after_consent_only(server, tmp_path):
    """CF-34, SE-06: who asks, the whole address and its host are shown; odd scripts are pointed out; no shell."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\nprintf %s \"$1\" >> {tmp_path}/opened\n")
    browser.chmod(0o755)
    address = "https://xn--80ak6aa92e.example/" + "a" * 2500 + "?x=$(id)&y=1"
    status, seen, left = at_a_terminal(
        ["call", "lure", f"url={address}", *server], [("[y/N]", "y\n")], BROWSER=f"{browser} %s"
    )
    assert status == 0 and not left and "accept" in seen, seen
    assert "The server 'features' asks: Look" in seen
    assert address in seen and "at the host xn--80ak6aa92e.example" in re.sub(r"\x1b\[\d*m", "", seen)
    assert "look twice" in seen
    end = time.monotonic() + 20
    while not (tmp_path / "opened").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert (tmp_path / "opened").read_text() == address
    status, seen, _ = at_a_terminal(["call", "lure", "url=http://example.com/", *server], [("[y/N]", "y\n")])
    assert status == 1 and "neither https nor" in seen and "[y/N]" not in seen, seen


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
def test_listen_over_http(tmp_path, revision):
    path = tmp_path / "features.py"
    path.write_text(SOURCE)
    host = subprocess.Popen(
        [*HEADRACE, "serve", str(path), "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, env=ENV
    )
    try:
        url = re.search(r"http://\S+", host.stderr.readline())[0]
        watch = subprocess.Popen(
            [*HEADRACE, "listen", url, "docs://intro", "--json", "--count", "2", "--revision", revision],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
        )  # fmt: skip
        # The listener may come later than the first change: changes go on until it has seen enough.
        for _ in range(20):
            headrace("call", url, "grow")
            if watch.poll() is not None:
                break
        out, err = watch.communicate(timeout=30)
        assert watch.returncode == 0, err
        found = [json.loads(line) for line in out.splitlines()]
        assert len(found) == 2 and {"updated", "changed"} & found[0].keys(), found
    finally:
        host.terminate()
        host.wait(20)
        host.stderr.close()


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_listen_ends_when_the_server_is_gone_for_good(tmp_path, monkeypatch, capfd, revision):
    monkeypatch.setattr("headrace.client.listen.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("headrace.cli.listen.LOOK_EVERY", 0.3)
    path = tmp_path / "features.py"
    path.write_text(SOURCE)
    with subprocess.Popen(
        [*HEADRACE, "serve", str(path), "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, env=ENV
    ) as host:
        url = re.search(r"http://\S+", host.stderr.readline())[0]
        killer = threading.Timer(1.5, host.kill)
        killer.start()
        assert run(["listen", url, "docs://intro", "--revision", revision]) == 1
        killer.join()
    assert re.search("headrace: the connection was lost: .*connection refused", capfd.readouterr().err)


def test_listen_says_what_cannot_be_heard(server):
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    if 'id' not in m: continue\n"
        "    r = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'n', 'version': '1'}}\n"
        "    a = {'result': r} if m['method'] == 'initialize' else {'error': {'code': -32601, 'message': 'no'}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], **a}), flush=True)\n"
    )
    said = plain_failure(headrace("listen", "--", sys.executable, "-c", code), 1)
    assert "the server does not tell of changes" in said
