"""TARGETs of ``headrace serve``: which server of a module is meant, servers of other SDKs, and words behind ``--``."""

import subprocess
import sys
import types
from pathlib import Path

import click
import pytest

import headrace
from headrace import Server
from headrace.cli import guest
from headrace.cli.app import Failure
from headrace.cli.guest import AsgiGuest, Guest
from headrace.cli.target import command_of, load_server

SOURCE = str(Path(headrace.__file__).parents[1])
OWN = "from headrace import Server\n"
FOREIGN = 'FastMCP = type("FastMCP", (), {"__module__": "fastmcp.server.server", "name": "theirs"})\n'
ASGI = "async def web(scope, receive, send): ...\n"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Writes a module, and gives what is served of it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    integration = types.SimpleNamespace(serve=None)
    monkeypatch.setattr("headrace.integrations.hosts.import_module", lambda name: integration)

    def loaded(source, attribute=""):
        (tmp_path / "one.py").write_text(source)
        try:
            return load_server(str(tmp_path / "one.py") + attribute)
        finally:
            sys.modules.pop("one", None)

    return loaded


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("app = Server('a', version='1')\nmcp = Server('m', version='1')\n", "a"),
        ("other = Server('o', version='1')\nmcp = Server('m', version='1')\n", "m"),
        ("server = Server('s', version='1')\nother = Server('o', version='1')\n", "s"),
        ("weather = same = Server('w', version='1')\n", "w"),
        ("def app(): return Server('made', version='1')\nmcp = Server('m', version='1')\n", "made"),
        ("app = 7\nweather = Server('w', version='1')\n", "w"),
        ("app = FastMCP()\nmcp = Server('m', version='1')\n", "theirs"),
        ("mcp = FastMCP()\n", "theirs"),
        ("anything = FastMCP()\nclass Sub(FastMCP): ...\n", "theirs"),
        ("app = web\nmcp = FastMCP()\n", "theirs"),
    ],
)
def test_the_server_that_is_meant(load, source, name):
    found = load(OWN + FOREIGN + ASGI + source.replace("app = web", "class Web:\n    __call__ = staticmethod(web)\napp = Web()"))
    assert found.name == name
    assert isinstance(found, Server if name != "theirs" else Guest)


def test_several_servers_are_named(load):
    with pytest.raises(click.UsageError, match=r"one.py has no 'app'; it has a, b: use .*one.py:a"):
        load(OWN + FOREIGN + "a = Server('a', version='1')\nb = FastMCP()\n")
    assert load(OWN + FOREIGN + "a = Server('a', version='1')\nb = FastMCP()\n", ":b").name == "theirs"
    assert load(FOREIGN + "class Box: ...\nbox = Box()\nbox.made = lambda: FastMCP()\n", ":box.made").name == "theirs"


def test_asgi_applications(load):
    found = load(ASGI, ":web")
    assert isinstance(found, AsgiGuest) and found.name.endswith("one.py:web")
    for options, typed, text in (
        ({"http": None, "unix": None, "tcp": None}, [], "say --http HOST:PORT"),
        ({"http": "0", "unix": "x", "tcp": None}, [], "--unix is for MCP servers"),
        ({"http": "0", "unix": None, "tcp": None}, ["path", "json_only"], "--json-only is for MCP servers"),
    ):
        with pytest.raises(click.UsageError, match=text):
            found.check(options, set(typed))
    found.check({"http": "0", "unix": None, "tcp": None}, {"allow_host"})


def test_what_an_integration_needs_is_named(load, monkeypatch):
    def missing(name):
        raise ImportError("No module named 'fastmcp.new'")

    monkeypatch.setattr("headrace.integrations.hosts.import_module", missing)
    with pytest.raises(Failure, match=r"one.py:mcp is a FastMCP, which cannot be hosted here: .*headrace\[fastmcp\]"):
        load(FOREIGN + "mcp = FastMCP()\n")


@pytest.mark.parametrize("name", ["mcp", "fastmcp"])
def test_an_sdk_that_is_not_installed_is_named(load, name):
    with pytest.raises(Failure, match=rf"No module named '{name}' \(pip install 'headrace\[{name}\]'\)"):
        load(f"raise ModuleNotFoundError(\"No module named '{name}'\", name={name!r})\n")


def test_what_a_guest_is_asked(run, load, monkeypatch):
    """Options that were typed reach the integration, others stay its own."""
    asked = {}

    async def serve(server, **options):
        asked.update(options, server=server)

    found = load(FOREIGN + "mcp = FastMCP()\n")
    with pytest.raises(click.UsageError, match="--sealed-sessions: a session of this FastMCP lives in its process"):
        found.check({}, {"sealed_sessions"})
    found.check({}, {"path", "json_only"})
    found._serve = serve

    async def trial():
        where = {"http": "8000", "unix": None, "tcp": None, "claimed": None, "on_ready": print}
        await found.serve(**where, path="/x", json_only=True)

    run(trial)
    assert type(asked.pop("server")).__name__ == "FastMCP" and asked.pop("limits") is found.limits
    assert asked.pop("on_ready") is print
    assert asked == {"http": "8000", "unix": None, "tcp": None, "stdio": None, "claimed": None, "path": "/x", "json_response": True}


def test_an_async_function_makes_no_server(load):
    with pytest.raises(click.UsageError, match="make is an async function: the function that makes a server"):
        load("async def make():\n    return 1\n", ":make")


@pytest.mark.parametrize(("module", "cls", "given"), [("mcp.server.mcpserver.server", "MCPServer", 1500), ("fastmcp.server.server", "FastMCP", 1.5)])
def test_what_a_guest_is_asked_on_stdio(run, load, module, cls, given):
    """Standard streams are said, whatever the settings of the SDK say; times are in the unit of the integration."""
    asked = {}

    async def serve(server, **options):
        asked.update(options)

    found = load(f"mcp = type({cls!r}, (), {{'__module__': {module!r}}})()\n")
    assert found.name.startswith(cls)
    found._serve = serve
    run(lambda: found.serve(http=None, unix=None, tcp=None, claimed=None, on_ready=print, retry_interval=1.5))
    assert asked["stdio"] is True and asked["retry_interval"] == given


def test_what_is_known_is_no_guest():
    assert guest.guest_of(7, "x") is None and not guest.is_guest(Server("s", version="1"))


# --- a single word behind "--" ------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["weather.py", "./weather.py", "/a b/weather.py:app", "weather:app", "weather.sub:make.it"])
def test_words_that_are_hosted(word):
    assert command_of([word]) == [sys.executable, "-m", "headrace", "serve", word]


@pytest.mark.parametrize(
    "command", [["weather.py", "x"], ["python", "weather.py"], ["server"], ["c:8000"], ["a/b"], ["weather.pyc"], [":x"]]
)
def test_commands_that_are_not(command):
    assert command_of(command) == command


def test_a_program_of_this_name_is_started(tmp_path, monkeypatch):
    program = tmp_path / "weather.py"
    program.write_text("#!/bin/sh\n")
    assert command_of([str(program)]) != [str(program)]
    program.chmod(0o755)
    assert command_of([str(program)]) == [str(program)]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command_of(["weather.py"]) == ["weather.py"]


@pytest.mark.parametrize("command", [["ls", "--"], ["call", "echo", "text=hello", "--"], ["trace", "echo", "text=hello", "--"],
                                     ["bench", "echo", "text=hello", "--expect", "hello", "--requests", "20", "--"]])  # fmt: skip
def test_commands_on_a_hosted_file(tmp_path, command):
    (tmp_path / "one.py").write_text(
        OWN + "tools = Server('one', version='1')\n@tools.tool\ndef echo(text: str) -> str:\n    return text\n"
    )
    for word in ("one.py", "one:tools"):
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *command, word], capture_output=True, text=True, cwd=tmp_path, timeout=60,
            env={"PYTHONPATH": SOURCE, "PATH": ""},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert {"ls": "echo(", "bench": "20 right, 0 failed"}.get(command[0], "hello") in done.stdout


def test_a_hosted_file_that_cannot_be_served(tmp_path):
    (tmp_path / "one.py").write_text("app = 7\n")
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "ls", "--", "one.py"], capture_output=True, text=True, cwd=tmp_path, timeout=60,
        env={"PYTHONPATH": SOURCE, "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 1 and "one.py:app is a int, not a headrace.Server" in done.stderr
