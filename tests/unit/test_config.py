"""Configuration files of MCP hosts, as they write them."""

import json
import os
import sys
from pathlib import Path

import client_server
import pytest

import headrace
from headrace import Server, connect
from headrace.client.config import read_config
from headrace.errors import UsageError

SOURCE = str(Path(headrace.__file__).parents[1])


def one(tmp_path, entry, **inputs):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"one": entry}}))
    return read_config(path).entry("one", inputs=inputs or None)


def test_claude_desktop_writes_command_args_env(tmp_path):
    entry = one(tmp_path, {"command": "npx", "args": ["-y", "server", 3], "env": {"KEY": "v", "N": 1, "B": True}})
    assert entry.target == ["npx", "-y", "server", "3"]
    assert entry.options == {"env": {"KEY": "v", "N": "1", "B": "true"}}


@pytest.mark.parametrize("kind", ["http", "streamable-http", None])
def test_claude_code_writes_a_url_with_headers(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("TOKEN_OF_TEST", "secret")
    monkeypatch.delenv("PORT_OF_TEST", raising=False)
    entry = {
        "url": "http://127.0.0.1:${PORT_OF_TEST:-8000}/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN_OF_TEST}"},
        **({"type": kind} if kind else {}),
    }
    found = one(tmp_path, entry)
    assert found.target == "http://127.0.0.1:8000/mcp"
    assert found.options == {"headers": {"Authorization": "Bearer secret"}}
    assert "secret" not in repr(found)


def test_a_url_of_type_sse_names_its_transport(tmp_path):
    assert one(tmp_path, {"type": "sse", "url": "http://127.0.0.1:1/sse"}).options["transport"] == "sse"


def test_copilot_cli_writes_type_local_and_tools(tmp_path):
    entry = one(tmp_path, {"type": "local", "command": "python", "args": ["x.py"], "tools": ["*"], "env": {}})
    assert entry.target == ["python", "x.py"]


def test_vs_code_writes_servers_inputs_comments_and_trailing_commas(tmp_path, monkeypatch):
    monkeypatch.setenv("NAME_OF_TEST", "n")
    folder = tmp_path / ".vscode"
    folder.mkdir()
    path = folder / "mcp.json"
    path.write_text(
        """{
  // what is asked for
  "inputs": [{"id": "key", "type": "promptString", "password": true},],
  "servers": { /* two */
    "a": {"type": "stdio", "command": "${workspaceFolder}/run", "args": ["//not a comment", "${env:NAME_OF_TEST}", "/*"],
          "env": {"KEY": "${input:key}"}, "envFile": "${workspaceFolder}/.env", "cwd": "sub",},
  },
}"""
    )
    (tmp_path / ".env").write_text("# note\nA=1\nexport B='two words'\nKEY=file\n\n")
    config = read_config(path)
    assert config.names == ["a"]
    assert config.inputs("a") == ["key"]
    with pytest.raises(UsageError, match=r"asks for the input 'key'"):
        config.entry("a")
    entry = config.entry(inputs={"key": "k"})
    assert entry.target == [f"{tmp_path}/run", "//not a comment", "n", "/*"]
    assert entry.options == {"env": {"A": "1", "B": "two words", "KEY": "k"}, "cwd": os.path.join(str(tmp_path), "sub")}


def test_settings_of_vs_code_keep_servers_below_mcp():
    assert read_config({"mcp": {"servers": {"x": {"command": "x"}}}}).names == ["x"]


def test_cursor_placeholders(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    entry = one(tmp_path, {"command": "${userHome}${/}bin", "args": ["${env:NOT_SET_ANYWHERE}", "${x y}", "$HOME", "${a:b}"]})
    assert entry.target == [f"{tmp_path}{os.sep}bin", "", "${x y}", "$HOME", "${a:b}"]


@pytest.mark.parametrize(
    "entry, text",
    [
        ([], "must be an object"),
        ({}, "needs a command or a url"),
        ({"command": ""}, "needs a command or a url"),
        ({"command": "x", "args": "-y"}, '"args" must be a list'),
        ({"command": "x", "env": [1]}, '"env" must be an object'),
        ({"command": "x", "env": {"A": {}}}, '"env" must be an object of texts'),
        ({"command": "x", "type": ["stdio"]}, "is not known"),
        ({"command": "x", "envFile": "a\0b"}, "null byte"),
        ({"command": "x", "cwd": 1}, '"cwd" must be a text'),
        ({"command": "x", "envFile": "nowhere"}, "No such file"),
        ({"command": "x", "disabled": True}, "switched off"),
        ({"url": "http://127.0.0.1:1", "type": "carrier-pigeon"}, "use stdio, http or sse"),
        ({"command": "${NOT_SET_ANYWHERE}"}, "environment variable NOT_SET_ANYWHERE, which is not set"),
    ],
)
def test_entries_that_cannot_be_used(tmp_path, entry, text):
    with pytest.raises(UsageError, match="server 'one'") as caught:
        one(tmp_path, entry)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text, message", [("{", "is not JSON"), ("[]", "mcpServers"), ('{"mcpServers": 1}', "mcpServers")])
def test_files_that_are_none(tmp_path, text, message):
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_config(path)
    with pytest.raises(UsageError, match="No such file"):
        read_config(tmp_path / "other.json")
    with pytest.raises(UsageError, match="null byte"):
        read_config(f"{path}\0")


def test_a_file_that_never_ends_is_none(tmp_path):
    with pytest.raises(UsageError, match="is no configuration"):
        read_config("/dev/zero")
    with pytest.raises(UsageError, match="is no configuration"):
        one(tmp_path, {"command": "x", "envFile": "/dev/zero"})


def test_a_host_header_that_is_none_is_refused_in_plain_words(run):
    async def main():
        entry = {"url": "http://127.0.0.1:1/mcp", "headers": {"Host": "h\u00e9"}}
        with pytest.raises(UsageError, match="is not a host"):
            async with connect({"mcpServers": {"one": entry}}, "one"):
                pass

    run(main)


def test_names(tmp_path):
    config = read_config({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    assert "a" in config and "c" not in config
    for name in (None, "c"):
        with pytest.raises(UsageError, match="a, b"):
            config.entry(name)


def test_connect_takes_a_configuration_and_a_name(run, tmp_path):
    command = {"command": sys.executable, "args": [client_server.__file__], "env": {"PYTHONPATH": SOURCE}}
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"one": command}}))

    async def main():
        for target in ((str(path), "one"), (path, None), (str(path), None), ({"mcpServers": {"one": command}}, "one")):
            async with connect(*target) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"

    run(main)


def test_connect_takes_names_for_configurations_only():
    for target in ("http://127.0.0.1:1/mcp", ["x"], Server("x", version="1")):
        with pytest.raises(UsageError, match="configurations"):
            connect(target, "name")
