"""The MCP Inspector, in its command line mode, against headrace: both eras, over stdio and HTTP."""

import json
import subprocess

import pytest

from interop.support import NODE_PACKAGES

pytestmark = pytest.mark.interop

INSPECTOR = NODE_PACKAGES / "inspector" / "clients" / "launcher" / "build" / "index.js"


@pytest.fixture(params=["stdio", "http"])
def inspect(request, node, tmp_path):
    target = [request.getfixturevalue("toolbox")] if request.param == "http" else request.getfixturevalue("serving")()

    def run(*arguments):
        done = subprocess.run(
            [str(node), str(INSPECTOR), "--cli", *target, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=40,
            cwd=tmp_path,
        )
        return done

    return run


def test_list_and_call(inspect):
    listed = inspect("--method", "tools/list")
    assert listed.returncode == 0, listed.stderr.decode()
    tools = {tool["name"]: tool for tool in json.loads(listed.stdout)["tools"]}
    assert {"add", "echo", "point"} <= set(tools)
    called = inspect("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=1", "--tool-arg", "b=2")
    assert called.returncode == 0, called.stderr.decode()
    assert json.loads(called.stdout)["content"][0]["text"] == "3"


def test_a_tool_that_fails(inspect):
    done = inspect("--method", "tools/call", "--tool-name", "fail", "--tool-arg", "message=as told")
    assert "as told" in done.stdout.decode() + done.stderr.decode()
