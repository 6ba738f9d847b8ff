"""The command line, run as people run it: in processes of its own."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import client_server
import pytest

import headrace
from headrace.cli.app import harmless, run
from headrace.cli.arguments import arguments_of, check_names, parse_pair
from headrace.cli.signature import signature
from headrace.limits import describe

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(client_server.__file__))
ENV = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1]), "COLUMNS": "100"}
HEADRACE = [sys.executable, "-m", "headrace"]
SERVER = ["--", sys.executable, PROGRAM]

WEATHER = """
import os, sys
print("printed at import")
os.system("echo from a child")
from headrace import Server
app = Server("weather", version="1.0")

@app.tool
def forecast(city: str, days: int = 3) -> str:
    "Forecast for a city."
    print("printed in a tool")
    return f"{days} days in {city}"

@app.tool
def where() -> str:
    return os.getcwd() + " " + sys.argv[0]

other = Server("other", version="2")
def factory():
    return other
number = 7
"""


def headrace(*arguments, stdin="", cwd=None, env=None, check=None):
    done = subprocess.run(
        [*HEADRACE, *arguments], input=stdin, capture_output=True, text=True, cwd=cwd, env=env or ENV, timeout=60
    )
    if check is not None:
        assert done.returncode == check, done
    return done


def plain_failure(done, status, *texts):
    """One plain line on stderr, which is given; nothing on stdout."""
    assert done.returncode == status, done
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("headrace: "), done.stderr
    for text in texts:
        assert re.search(text, line), done.stderr
    return line


@pytest.fixture
def weather(tmp_path):
    (tmp_path / "weather.py").write_text(WEATHER)
    return tmp_path


@contextlib.contextmanager
def serving(*arguments, cwd=None):
    """A `headrace serve` process; gives it and the addresses of its ready lines."""
    process = subprocess.Popen(
        [*HEADRACE, "serve", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=ENV,
    )  # fmt: skip
    try:
        wanted = sum(flag in arguments for flag in ("--http", "--unix", "--tcp"))
        addresses = []
        while len(addresses) < wanted:
            line = process.stderr.readline()
            assert line, "the server ended"
            found = re.fullmatch(r"headrace: serving (\S+) on (\S+)\n", line)
            if found:
                addresses.append(found[2])
        yield process, addresses
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


# --- the command itself ------------------------------------------------------------------------------


def test_version_and_help():
    assert re.fullmatch(r"headrace \d+\.\d+\.\d+\S*\n", headrace("--version", check=0).stdout)
    text = headrace("--help", check=0).stdout
    assert all(word in text for word in ("serve", "ls", "call", "Exit status"))
    for command in ("serve", "ls", "call"):
        text = headrace(command, "--help", check=0).stdout
        assert f"headrace {command} " in text and "--" in text
    text = headrace("serve", "--help", check=0).stdout
    options, limits = text.split("Limits (")
    for name, _, _ in describe():
        flag = rf"--{name.replace('_', '-')}[ ,]"
        assert re.search(flag, limits) and not re.search(flag, options)
    assert "nesting" in limits.lower()
    # Help is filled anew: nothing of how the text is laid out in limits.py shows.
    assert not re.search(r"\S {2,}\S", re.sub(r"^  --.{31}", "", limits, flags=re.M))
    assert re.search(r"Options:\n  --http", options)


def test_version_does_not_load_the_command_line():
    code = "import sys;from headrace.cli import main\ntry: main(['--version'])\nexcept SystemExit: print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV, timeout=60)
    assert "'headrace'" in done.stdout
    for module in ("click", "asyncio", "msgspec", "rich"):
        assert f"'{module}'" not in done.stdout


def test_importing_headrace_loads_nothing_heavy():
    code = (
        "import sys, headrace; print(sorted(m for m in sys.modules if 'headrace' in m or m in ('asyncio', 'msgspec')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV, timeout=60)
    assert done.stdout == "['headrace', 'headrace._version']\n"


def test_every_public_name_can_be_had():
    import headrace as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing


def test_without_click_one_line_says_how_to_install_it():
    code = "import sys; sys.modules['click'] = None; from headrace.cli import main; main(['ls', 'x'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV, timeout=60)
    assert "pip install 'headrace[cli]'" in plain_failure(done, 1)


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["cal"], "did you mean 'call'"),
        (["frobnicate"], "no command"),
        (["ls"], "name a server"),
        (["ls", "--"], "no command behind"),
        (["ls", "x", "--", "y"], "name one server"),
        (["ls", "somewhere"], "unix:PATH"),
        (["ls", "--nothing"], "nothing"),
        (["ls", "tcp:1:1", "--revision", "1999"], "revision"),
        (["ls", "tcp:1:1", "--log-level", "loud"], "log level"),
        (["ls", "tcp:1:1", "--timeout", "-1"], "positive"),
        (["ls", "tcp:1:1", "--header", "a=b"], "headers"),
        (["ls", "http://h", "--header", "ab"], "NAME=VALUE"),
        (["ls", "http://h", "--header", "a b=c"], "not a header name: 'a b'"),
        (["call", "tcp:1:1"], "name a server and a tool"),
        (["call", "tcp:1:1", "a=b"], "name of the tool"),
        (["call", "forecast", "city=Oslo"], "the server is missing: headrace call SERVER forecast city=Oslo"),
        (["call", "forecast", "city=Oslo", "--config", "f.json"], "the server is missing"),
        (["call", "weather.py", "forecast"], "after --, for example -- headrace serve weather.py"),
        (["ls", "127.0.0.1:18801/mcp"], "did you mean http://127.0.0.1:18801/mcp"),
        (["ls", "localhost:18801"], "did you mean http://localhost:18801 or tcp:HOST:PORT"),
        (["call", "tcp:1:1", "t", "=b"], "key=value"),
        (["call", "tcp:1:1", "t", "word"], "key=value"),
        (["call", "tcp:1:1", "t", "a=@/nonexistent"], "No such file"),
        (["call", "tcp:1:1", "t", "--args", "{"], "not JSON"),
        (["call", "tcp:1:1", "t", "--args", "[]"], "JSON object"),
        (["serve", "x.py", "--", "y"], "TARGET"),
        (["serve"], "TARGET"),
        (["serve", "no_such_module"], "no module"),
        (["serve", "nothing.py"], "no file"),
        (["serve", "a b:c"], "neither a module"),
        (["serve", "json:a-b"], "module:attr"),
        (["serve", "json"], "no 'app'; it has no server at all"),
        (["serve", PROGRAM, "--http", "1:x"], "port must be a number"),
        (["serve", PROGRAM, "--http", "0", "--path", "x"], "slash"),
        (["serve", PROGRAM, "--max-depth", "5000"], "'5000': a whole number of at least 1 and at most 1024"),
        (["serve", PROGRAM, "--max-depth", "0"], "'--max-depth': '0': a whole number of at least 1"),
        (["serve", PROGRAM, "--page-size", "x"], "page-size"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage_is_status_2_and_one_line(arguments, text, capsys):
    if arguments[0] == "serve":
        done = headrace(*arguments)
    else:
        status = run(arguments)
        done = subprocess.CompletedProcess(arguments, status, *capsys.readouterr())
    line = plain_failure(done, 2, text)
    command = "" if arguments[0] in ("cal", "frobnicate") else arguments[0] + " "
    assert line.endswith(f" (headrace {command}--help explains)")


# --- ls and call -------------------------------------------------------------------------------------


def test_ls_of_a_command():
    text = headrace("ls", *SERVER, check=0).stdout
    assert "add(a: integer, b: integer)\tAdds.\n" in text
    assert re.search(r"^norm\(point: (Point|object{x, y}), when\?: date\|null\)", text, re.M)
    listing = json.loads(headrace("ls", "--json", *SERVER, check=0).stdout)
    assert listing["serverInfo"]["name"] == "tester" and listing["protocolVersion"] == "2026-07-28"
    tool = next(t for t in listing["tools"] if t["name"] == "add")
    assert tool["inputSchema"]["required"] == ["a", "b"]
    listing = json.loads(headrace("ls", "--json", "--revision", "2025-11-25", *SERVER, check=0).stdout)
    assert listing["protocolVersion"] == "2025-11-25"


def test_call_of_a_command():
    assert headrace("call", "add", "a=1", "b=2", *SERVER, check=0).stdout == "3\n"
    assert headrace("call", "add", "--args", '{"a": 5, "b": 2}', "b=3", *SERVER, check=0).stdout == "8\n"
    # The schema wants a string: what looks like JSON stays text.
    assert headrace("call", "echo", "text=17", *SERVER, check=0).stdout == "17\n"
    assert headrace("call", "echo", "text=a=b", *SERVER, check=0).stdout == "a=b\n"
    result = json.loads(headrace("call", "echo", "text=hi", "--json", *SERVER, check=0).stdout)
    assert result["content"] == [{"type": "text", "text": "hi"}]


def test_call_with_files_and_standard_input(tmp_path):
    (tmp_path / "a.txt").write_text("from a file")
    (tmp_path / "p.json").write_text('{"x": 4}')
    assert headrace("call", "echo", f"text=@{tmp_path}/a.txt", *SERVER, check=0).stdout == "from a file\n"
    assert headrace("call", "echo", "text=@-", *SERVER, stdin="piped", check=0).stdout == "piped\n"
    assert headrace("call", "echo", "text=@@x", *SERVER, check=0).stdout == "@x\n"
    assert headrace("call", "norm", f"point:=@{tmp_path}/p.json", *SERVER, check=0).stdout == "4,0,None\n"


def test_failures_of_calls_are_status_1():
    plain = headrace("call", "fail", *SERVER, check=1)
    assert plain.stdout == "" and "it went wrong" in plain.stderr
    assert json.loads(headrace("call", "fail", "--json", *SERVER, check=1).stdout)["isError"] is True
    plain_failure(headrace("call", "refuse", *SERVER), 1, r"refused \(-7\).*because")
    plain_failure(headrace("call", "nothing", *SERVER), 1, r"unknown tool: nothing \(headrace ls lists them\)")
    plain_failure(headrace("call", "ad", "a=1", *SERVER), 1, r"unknown tool: ad; did you mean add\?")
    plain_failure(headrace("call", "add", "a=x", "b=1", *SERVER), 2, "a must be an integer, not 'x'")
    plain_failure(headrace("call", "add", "a=1", "a=2", *SERVER), 2, "argument a is given twice")
    plain_failure(headrace("call", "sleep", "seconds=30", "--timeout", "0.2", *SERVER), 1, "no answer within 0.2 s")
    refused = "connection refused; is the server running"
    plain_failure(headrace("ls", "tcp:127.0.0.1:1"), 1, f"cannot connect to tcp:127.0.0.1:1: {refused}")
    plain_failure(headrace("ls", "http://127.0.0.1:1/x"), 1, f"cannot connect to http://127.0.0.1:1/x: {refused}")
    plain_failure(headrace("ls", "unix:/nonexistent"), 1, "cannot connect to unix:/nonexistent: .*is the server running")
    plain_failure(headrace("ls", "--", "/nonexistent/program"), 1, "no such command")
    exits = [sys.executable, "-c", "raise SystemExit('gone wrong')"]
    failure = plain_failure(headrace("ls", "--", *exits), 1, "exited with status 1.*gone wrong")
    assert shlex.join(exits) in failure  # as it can be pasted into a shell
    assert "Traceback" in headrace("ls", "tcp:127.0.0.1:1", "--traceback").stderr


def test_arguments_that_the_tool_does_not_know(capsys):
    for arguments, text in (
        (["add", "a=1", "c=2"], "add has no argument 'c'; it takes a, b"),
        (["echo", "texd=1"], "it takes text (did you mean 'text'?)"),
        (["echo", "--args", '{"texd": 1}'], "echo has no argument 'texd'"),
    ):
        assert text in plain_failure(headrace("call", *arguments, *SERVER), 2)


def test_a_command_that_fails_is_started_once_and_says_why(tmp_path):
    log = tmp_path / "log"
    serve = "import os, sys; open(sys.argv[1], 'a').write('started '); os.execv(sys.executable, [sys.executable, '-m', "
    serve += "'headrace', 'serve', 'nosuch.py'])"
    done = headrace("ls", "--", sys.executable, "-c", serve, str(log))
    plain_failure(done, 1, r"exited with status 2 \(stderr: headrace: there is no file 'nosuch.py'")
    assert log.read_text() == "started "
    ends = "import sys; open(sys.argv[1], 'a').write('ended ')"
    done = headrace("ls", "--", sys.executable, "-c", ends, str(log))
    plain_failure(done, 1, r"the program ended without serving; does it call app.run\(\)\?")
    assert log.read_text() == "started ended "
    hint = "import sys; print('real reason\\nTry: x --help', file=sys.stderr); sys.exit(3)"
    plain_failure(headrace("ls", "--", sys.executable, "-c", hint), 1, r"status 3 \(stderr: real reason\)")


def test_a_command_that_exits_at_the_probe_is_started_again(tmp_path):
    """It read the probe: its exit is the answer of a server that knows only the handshake."""
    code = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    if message['method'] == 'server/discover':\n"
        "        sys.exit(1)\n"
        "    if message['method'] == 'initialize':\n"
        "        result = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, "
        "'serverInfo': {'name': 'old', 'version': '1'}}\n"
        "    else:\n"
        "        result = {'tools': []}\n"
        "    if 'id' in message:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result}), flush=True)\n"
    )
    done = headrace("ls", "--json", "--", sys.executable, "-c", code, check=0)
    assert json.loads(done.stdout)["serverInfo"]["name"] == "old"


def test_where_the_log_of_an_internal_error_is(tmp_path):
    (tmp_path / "s.py").write_text(
        "from headrace import Server\napp = Server('s', version='1')\n@app.tool\ndef boom() -> str:\n    1 / 0\n"
        "app.resource('boom://x')(boom)\n"
    )
    command = ["--", *HEADRACE, "serve", str(tmp_path / "s.py")]
    done = headrace("call", "boom", *command, check=1)
    assert done.stderr.splitlines() == [
        "tool 'boom' failed: internal error", "headrace: run with --stderr to see the server's log"
    ]  # fmt: skip
    assert "ZeroDivisionError" in headrace("call", "boom", "--stderr", *command, check=1).stderr
    plain_failure(headrace("read", "boom://x", *command), 1, r"internal error \(-32603\); run with --stderr")


def test_progress_and_log_messages_go_to_stderr():
    done = headrace("call", "count", "to=2", "--progress", *SERVER, check=0)
    assert done.stdout == "counted\n" and done.stderr == "1/2 step 1\n2/2 step 2\n"
    assert headrace("call", "count", "to=2", *SERVER, check=0).stderr == ""
    done = headrace("call", "talk", "--log-level", "info", *SERVER, check=0)
    assert done.stdout == "said\n" and done.stderr == '[info] talker: {"text": "hello"}\n'


def test_servers_of_a_config_file(tmp_path):
    config = tmp_path / "servers.json"
    command = {"command": sys.executable, "args": [PROGRAM], "env": {"PYTHONPATH": ENV["PYTHONPATH"]}}
    servers = {"local": {**command, "cwd": str(tmp_path)}, "far": {"url": "http://127.0.0.1:1/mcp"}, "bad": {}}
    config.write_text(json.dumps({"mcpServers": servers}))
    assert headrace("call", "local", "add", "a=1", "b=1", "--config", str(config), check=0).stdout == "2\n"
    plain_failure(headrace("ls", "far", "--config", str(config)), 1, "127.0.0.1:1")
    plain_failure(headrace("ls", "bad", "--config", str(config)), 2, "command or a url")
    assert headrace("ls", "--config", str(config), check=0).stdout == "local\nfar\nbad\n"
    plain_failure(headrace("ls", "tcp:127.0.0.1:1", "--config", str(config)), 1, "connect to tcp:127.0.0.1:1")
    plain_failure(headrace("ls", "none", "--config", str(config)), 2, "it has local, far, bad")
    plain_failure(headrace("ls", "x", "--config", str(tmp_path / "missing")), 2, "No such file")
    config.write_text("[]")
    plain_failure(headrace("ls", "x", "--config", str(config)), 2, "mcpServers")
    config.write_text("{")
    plain_failure(headrace("ls", "x", "--config", str(config)), 2, "is not JSON")
    broken = {"a": {"command": "x", "args": "-y"}, "b": {"command": "x", "env": []}, "c": {"command": "x", "env": [1]}}
    config.write_text(json.dumps({"servers": {**broken, "local": command}}))
    assert headrace("call", "local", "add", "a=1", "b=1", "--config", str(config), check=0).stdout == "2\n"
    plain_failure(headrace("ls", "a", "--config", str(config)), 2, 'server \'a\': "args" must be a list')
    plain_failure(headrace("ls", "c", "--config", str(config)), 2, 'server \'c\': "env" must be an object')


def test_binary_content_is_summarised_or_saved(tmp_path):
    (tmp_path / "pictures.py").write_text(
        "from headrace import Image, Server\n"
        "app = Server('p', version='1')\n"
        "@app.tool\n"
        "def picture() -> Image:\n"
        "    return Image(b'\\x89PNG\\r\\n\\x1a\\n123')\n"
    )
    server = ["--", *HEADRACE, "serve", str(tmp_path / "pictures.py")]
    done = headrace("call", "picture", *server, check=0)
    assert done.stdout == "[image, image/png, 11 bytes; --output DIR saves it]\n"
    out = tmp_path / "out"
    done = headrace("call", "picture", "--output", str(out), *server, check=0)
    assert done.stdout == f"{out}/image-1.png\n" and (out / "image-1.png").read_bytes()[:4] == b"\x89PNG"
    (out / "image-1.png").write_text("mine")
    for number in (2, 3):
        done = headrace("call", "picture", "--output", str(out), *server, check=0)
        assert done.stdout == f"{out}/image-1-{number}.png\n"
    assert (out / "image-1.png").read_text() == "mine"
    plain_failure(headrace("call", "picture", "--output", str(out / "image-1.png"), *server), 1, "not a directory")


def test_a_reader_that_goes_away_is_no_traceback():
    process = subprocess.Popen(
        [*HEADRACE, "ls", "--json", *SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(30) == 141
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_one_plain_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*HEADRACE, "ls", *SERVER], stdout=full, stderr=subprocess.PIPE, text=True, env=ENV, timeout=60
        )
    assert (done.returncode, done.stderr) == (1, "headrace: standard output: No space left on device\n")


def test_ctrl_c_works_once(tmp_path):
    flag = tmp_path / "started"
    (tmp_path / "slow.py").write_text(
        "import asyncio, pathlib\n"
        "from headrace import Server\n"
        "app = Server('slow', version='1')\n"
        "@app.tool\n"
        "async def slow() -> str:\n"
        f"    pathlib.Path({str(flag)!r}).touch()\n"
        "    await asyncio.sleep(60)\n"
    )
    command = ["--", *HEADRACE, "serve", str(tmp_path / "slow.py"), "--drain-timeout", "0.1"]
    process = subprocess.Popen(
        [*HEADRACE, "call", "slow", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV
    )
    for _ in range(3000):
        if flag.exists():
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.strip()) == (130, "", "")


# --- serve -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["weather", "weather:app", "weather.py", "weather.py:app", "./weather.py"])
def test_serve_on_stdio_keeps_stdout_clean(weather, target):
    """B08: what is printed at import, by children and by tools goes to stderr."""
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "forecast", "arguments": {"city": "Oslo"}}},
    ]  # fmt: skip
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    done = headrace("serve", target, stdin=stdin, cwd=weather, check=0)
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["result"]["serverInfo"]["name"] == "weather"
    assert second["result"]["content"][0]["text"] == "3 days in Oslo"
    for text in ("printed at import", "from a child", "printed in a tool"):
        assert text in done.stderr


def test_serve_factories_and_other_names(weather):
    for target in ("weather:factory", "weather.py:other"):
        listing = headrace("ls", "--json", "--", *HEADRACE, "serve", target, cwd=weather, check=0)
        assert json.loads(listing.stdout)["serverInfo"]["name"] == "other"
    server = ["--", *HEADRACE, "serve", str(weather / "weather.py")]
    assert headrace("call", "forecast", "city=Rome", *server, cwd="/", check=0).stdout == "3 days in Rome\n"


def test_a_wrong_path_and_an_unknown_host_are_named(weather):
    hint = "is the path right? The endpoint is usually /mcp"
    with serving("weather.py", "--http", "127.0.0.1:0", cwd=weather) as (_, [address]):
        for url in (address.removesuffix("/mcp"), address.removesuffix("mcp"), address.replace("/mcp", "/x")):
            said = plain_failure(headrace("ls", url), 1)
            assert f"cannot connect to {url}: " in said and hint in said
            assert hint in plain_failure(headrace("ls", url, "--revision", "2025-11-25"), 1)
    said = plain_failure(headrace("ls", "http://nowhere.invalid/mcp"), 1)
    assert "looking up nowhere.invalid failed: " in said and "[" not in said
    said = plain_failure(headrace("ls", "--", "./weather.py", "now", cwd=weather), 1)
    assert "started with: python ./weather.py, or headrace serve ./weather.py" in said


def test_serve_on_sockets(weather, tmp_path):
    flags = ["--http", "127.0.0.1:0", "--tcp", "0", "--unix", str(tmp_path / "s.sock")]
    with serving("weather.py", *flags, "--path", "/tools", cwd=weather) as (process, addresses):
        http, unix, tcp = addresses
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/tools", http)
        assert unix == f"unix:{tmp_path}/s.sock" and re.fullmatch(r"tcp:127\.0\.0\.1:\d+", tcp)
        for address in addresses:
            assert headrace("call", address, "forecast", "city=Oslo", "days=1", check=0).stdout == "1 days in Oslo\n"
        old = headrace("call", http, "forecast", "city=x", "--revision", "2025-11-25", check=0)
        assert old.stdout == "3 days in x\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert out == "printed at import\nfrom a child\n" or "printed" in out  # stdout is free there
        assert not os.path.exists(tmp_path / "s.sock")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_serve_ends_well_on_sigterm(weather, loop):
    with serving("weather.py", "--http", "0", "--loop", loop, cwd=weather) as (process, _):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_limits_of_serve(weather):
    with serving("weather.py", "--http", "0", "--page-size", "1", "--max-message-bytes", "2000", cwd=weather) as (
        _,
        [address],
    ):
        assert len(json.loads(headrace("ls", "--json", address, check=0).stdout)["tools"]) == 2
        plain_failure(headrace("call", address, "forecast", "city=" + "x" * 3000), 1, "413|2000")


def serve_failure(tmp_path, source, *arguments):
    (tmp_path / "target.py").write_text(source)
    return headrace("serve", "target.py", *arguments, cwd=tmp_path)


def test_serve_failures_are_plain(tmp_path):
    two = "from headrace import Server\nsrv = Server('s', version='1')\nother = Server('t', version='1')\n"
    plain_failure(serve_failure(tmp_path, two), 2, "no 'app'; it has srv, other: use target.py:srv")
    plain_failure(serve_failure(tmp_path, "app = 7\n"), 2, "target.py:app is a int, not a headrace.Server, a server of")
    plain_failure(serve_failure(tmp_path, "import no_such_thing\n"), 1, "ModuleNotFoundError.*no_such_thing")
    plain_failure(serve_failure(tmp_path, "raise ValueError('bad\\nvalue')\n"), 1, "ValueError: bad value")
    plain_failure(serve_failure(tmp_path, "def f(:\n"), 1, "line 1")
    plain_failure(serve_failure(tmp_path, "raise SystemExit(4)\n"), 1, "exited with status 4")
    plain_failure(serve_failure(tmp_path, "def app():\n    raise KeyError('x')\n"), 1, "KeyError")
    broken = (
        "import contextlib\nfrom headrace import Server\n"
        "@contextlib.asynccontextmanager\nasync def lifespan(server):\n    raise RuntimeError('no database')\n    yield\n"
        "app = Server('s', version='1', lifespan=lifespan)\n"
    )
    plain_failure(serve_failure(tmp_path, broken, "--http", "0"), 1, "s failed: RuntimeError: no database")
    done = serve_failure(tmp_path, "raise ValueError('x')\n", "--traceback")
    assert done.returncode == 1 and "Traceback" in done.stderr and "target.py" in done.stderr


@pytest.mark.parametrize(
    "options", [["--stateless"], ["--path", "/mcp"], ["--legacy-sse", "--unix", "x.sock"], ["--retry-interval", "1"]]
)
def test_options_for_http_want_http(weather, options):
    done = headrace("serve", "weather.py", *options, cwd=weather)
    assert f"{options[0]} is for HTTP: say --http HOST:PORT as well" in plain_failure(done, 2)


def test_a_target_may_configure_the_logging_itself(tmp_path):
    """Its own ``basicConfig`` counts; a level on the command line counts more; without both warnings are shown."""
    log = "import logging\nlogging.basicConfig(level='INFO', format='mine %(message)s')\n"
    body = "{log}from headrace import Server\napp = Server('s', version='1')\nlog = logging.getLogger('x')\nlog.info('up')\nlog.warning('hot')\n"
    (tmp_path / "own.py").write_text(body.format(log=log))
    (tmp_path / "none.py").write_text(body.format(log="import logging\n"))

    def logged(*arguments):
        return headrace("serve", *arguments, cwd=tmp_path, check=0).stderr.splitlines()

    assert logged("own.py") == ["mine up", "mine hot"]
    assert logged("own.py", "--log-level", "error") == ["mine up", "mine hot"]  # these were logged before
    [line] = logged("none.py")
    assert re.fullmatch(r"\d{4}-\S+ \S+ WARNING x: hot", line)
    assert len(logged("none.py", "--log-level", "info")) == 2
    assert logged("none.py", "--log-level", "error") == []


def test_serve_on_a_busy_port(weather):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for flag in ("--http", "--tcp"):
            done = headrace("serve", PROGRAM, flag, f"127.0.0.1:{port}")
            assert plain_failure(done, 1).lower().endswith(f"127.0.0.1:{port}: address already in use")


def test_serve_where_it_cannot_be(weather, tmp_path):
    path = str(tmp_path / "s.sock")
    missing = str(tmp_path / "none" / "s.sock")
    with serving("weather.py", "--unix", path, cwd=weather):
        said = plain_failure(headrace("serve", PROGRAM, "--unix", path), 1)
        assert f"{path}: another server listens there" in said
    said = plain_failure(headrace("serve", PROGRAM, "--unix", missing), 1)
    assert f"cannot be served: {missing}: No such file" in said
    assert "nowhere.invalid:0: " in plain_failure(headrace("serve", PROGRAM, "--http", "nowhere.invalid:0"), 1)


def test_serve_on_a_terminal_says_what_it_waits_for(weather):
    master, slave = os.openpty()
    process = subprocess.Popen(
        [*HEADRACE, "serve", "weather.py"], stdin=slave, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, cwd=weather, env=ENV,
    )  # fmt: skip
    os.close(slave)
    try:
        lines = [process.stderr.readline() for _ in range(3)]
        assert any(line.startswith("headrace: serving weather on stdio (") and "--http" in line for line in lines)
        os.write(master, b"\x04")
        process.communicate(timeout=30)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait(10)
        os.close(master)


# --- a tool on one line ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema, text",
    [
        ({"type": "integer"}, "a: integer"), ({}, "a"), (True, "a"), ({"const": "x"}, "a: x"),
        ({"enum": ["red", "green", 1, None, ""]}, 'a: red|green|1|null|""'),
        ({"enum": [f"value{i:02}" for i in range(40)]}, "a: " + "|".join(f"value{i:02}" for i in range(7)) + "|..."),
        ({"type": "array", "items": {"type": "string"}}, "a: array of string"), ({"type": "array"}, "a: array"),
        ({"type": "array", "items": {"enum": [1, 2]}}, "a: array of (1|2)"),
        ({"type": "string", "format": "date-time"}, "a: date-time"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "a: integer|null"), ({"anyOf": [{}, {}]}, "a"),
        ({"type": ["string", "null"]}, "a: string|null"), ({"$ref": "#/$defs/Point"}, "a: Point"),
        ({"$ref": "#/$defs/Color"}, "a: red|blue"), ({"$ref": "#/$defs/Loop"}, "a"), ({"$ref": "x"}, "a"),
        ({"type": "object", "properties": {"x": {}, "y": {}}}, "a: object{x, y}"), ({"type": "object"}, "a: object"),
        ({"type": "object", "properties": {key: {} for key in "abcdefgh"}}, "a: object{a, b, c, d, e, f, ...}"),
    ],
)  # fmt: skip
def test_signatures(schema, text):
    defs = {"Point": {"type": "object"}, "Color": {"enum": ["red", "blue"]}, "Loop": {"$ref": "#/$defs/Loop"}}
    root = {"properties": {"a": schema}, "required": ["a"], "$defs": defs}
    assert signature("t", root) == f"t({text})"
    assert signature("t", {"properties": {"a": {"type": "null"}}}) == "t(a?: null)"
    assert signature("t", {"properties": 1, "required": 2}) == "t()"


# --- key=value ---------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "open": {"anyOf": [{"type": "integer"}, {}]},
        "color": {"enum": ["red", "blue"]},
        "level": {"enum": [1, 2]},
        "ref": {"$ref": "#/$defs/Point"},
        "loop": {"$ref": "#/$defs/Loop"},
        "free": True,
        "yes": {"type": "boolean"},
        "tags": {"type": "array"},
    },
    "$defs": {"Point": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}},
}


@pytest.mark.parametrize(
    "text, value",
    [
        ("s=1", "1"), ("s:=1", 1), ("i=1", 1), ("maybe=null", None), ("maybe=3", 3), ("either=3", "3"), ("open=3", "3"),
        ("color=red", "red"), ("level=2", 2), ('ref={"x":1}', {"x": 1}), ("loop=x", "x"), ("free=1", "1"),
        ("new=1", "1"), ("new:=[1]", [1]), ("s=", ""), ("s=a:=b", "a:=b"), ("s=@@a", "@a"),
    ],
)  # fmt: skip
def test_values_follow_the_schema(text, value):
    given = parse_pair(text)
    assert arguments_of([given], {"z": 0}, SCHEMA) == {"z": 0, given.key: value}


@pytest.mark.parametrize(
    "text, message",
    [
        ("i=x", "i must be an integer, not 'x'"), ("i=", "i must be an integer"), ("i=[1]", "i must be an integer"),
        ("s:=x", "argument s: 'x' is not JSON"), ("yes=1", "yes must be true or false, not '1'"),
        ("ref=x", 'ref must be JSON for an object, for example ref:=\'{"x": 1}\''),
        ("tags=a", 'tags must be JSON for an array, for example tags:=\'["a"]\''),
    ],
)  # fmt: skip
def test_values_that_are_not_what_the_schema_wants(text, message):
    with pytest.raises(click.UsageError, match=re.escape(message)):
        arguments_of([parse_pair(text)], {}, SCHEMA)


def test_names_that_a_schema_takes():
    named = {"properties": {"a": {}}}
    for schema in (
        {}, {"properties": {}}, {**named, "additionalProperties": True}, {**named, "additionalProperties": {}},
        {**named, "patternProperties": {}}, {"properties": {"b": {}}},
    ):  # fmt: skip
        check_names("t", {"b": 1}, schema)
    for schema in (named, {**named, "additionalProperties": False}):
        with pytest.raises(click.UsageError, match="t has no argument 'b'; it takes a"):
            check_names("t", {"b": 1}, schema)
    with pytest.raises(click.UsageError, match="it takes none"):
        check_names("t", {"b": 1}, {"properties": {}, "additionalProperties": False})


HOSTILE = "\x1b]0;title\x07\x1b[2Jhidden\u202e\x9b"


def test_texts_of_servers_cannot_move_the_cursor():
    code = (
        "import json; m = json.loads(input()); "
        f"print(json.dumps({{'jsonrpc': '2.0', 'id': m['id'], 'error': {{'code': -32020, 'message': {HOSTILE!r}}}}}))"
    )
    line = plain_failure(headrace("ls", "--", sys.executable, "-c", code), 1, "hidden")
    assert line.isprintable()


def test_what_a_pipe_reads_is_unchanged_and_what_a_terminal_shows_is_harmless():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert harmless(HOSTILE, io.StringIO()) == HOSTILE
    shown = harmless(f"a\r\n\tb é{HOSTILE}", Terminal())
    assert shown.startswith("a\n\tb é") and shown.replace("\n\t", "").isprintable()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_command_behind(tmp_path, signum):
    """A command that does not end at the end of its input is ended, though nobody can wait for us."""
    pid = tmp_path / "pid"
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    with subprocess.Popen([*HEADRACE, "ls", "--", sys.executable, "-c", code, str(pid)], env=ENV) as process:
        for _ in range(3000):
            if pid.exists() and pid.read_text():
                break
            time.sleep(0.01)
        process.send_signal(signum)
        assert process.wait(30) == -signum
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
