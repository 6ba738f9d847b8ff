"""Wrong use of the hosting integration is one plain line; the SDK's settings mean the same here."""

import json
import subprocess

import pytest

from interop.sdk_hosts import environment
from interop.support import HERE

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def found(peers):
    done = subprocess.run(
        [str(peers), str(HERE / "peers" / "sdk_hosted_settings.py")], capture_output=True, timeout=50, env=environment()
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_wrong_use_is_one_line(found):
    for case in ("object", "class", "option", "twice", "timeout", "size", "address", "both"):
        kind, line = found[case]
        assert kind in ("UsageError", "TypeError"), (case, kind)
        assert line
        assert "\n" not in line
    assert "an MCPServer or Server object of mcp 2.x is needed" in found["object"][1]
    assert found["class"][1].startswith("MCPServer is a class")
    assert "unknown option 'colour'" in found["option"][1]


def test_hosts(found):
    assert found["is_host"]
    assert found["names"] == ["low", "high"]
    assert found["plain"] == {"path": "/mcp", "event_store": False}


def test_settings(found):
    assert found["settings"] == {
        "path": "/other", "stateless": True, "json_only": True, "retry_interval": 0.25, "event_store": True,
    }  # fmt: skip
    assert found["limits"] == [9, 5, 7, 1000]
    assert (found["open"]["allowed_hosts"], found["open"]["allowed_origins"]) == (["*"], ["*"])
    assert (found["listed"]["allowed_hosts"], found["listed"]["allowed_origins"]) == (["a:*"], ["http://a:*"])
    assert found["beside"] == {"none": True, "routes": True, "user": True}
    assert found["authenticate"]


@pytest.mark.parametrize("which", ["1.x", "none"])
def test_without_the_sdk(peers_1, which):
    """Without the official SDK 2 the line says what to install."""
    code = (
        "import json, sys\n"
        + ("sys.modules['mcp'] = None\n" if which == "none" else "")
        + "import headrace.integrations.mcp_sdk as sdk\n"
        "try:\n    sdk.run\nexcept Exception as exc:\n    print(json.dumps([type(exc).__name__, str(exc)]))\n"
    )
    done = subprocess.run([str(peers_1), "-c", code], capture_output=True, timeout=50, env=environment())
    kind, line = json.loads(done.stdout)
    assert kind == "UsageError"
    assert "pip install" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("generation", "code", "line"),
    [
        ("peers", "import headrace.integrations.mcp_sdk_1", "use headrace.integrations.mcp_sdk, or pip install 'mcp<2'"),
        ("peers_1", "from headrace.integrations.mcp_sdk import run", "or headrace.integrations.mcp_sdk_1 for servers of version 1"),
        (
            "peers",
            "from mcp.server import MCPServer\nfrom headrace.integrations.fastmcp import run\nrun(MCPServer('x'))",
            "MCPServer cannot be hosted here: use headrace.integrations.mcp_sdk",
        ),
        (
            "peers_1",
            "from mcp.server.fastmcp import FastMCP\nfrom headrace.integrations.fastmcp import run\nrun(FastMCP('x'))",
            "FastMCP cannot be hosted here: use headrace.integrations.mcp_sdk_1",
        ),
        (
            "peers",
            "from headrace.integrations.fastmcp import run\nrun(5)",
            "a builtins.int cannot be hosted here: a FastMCP object of the package fastmcp is needed",
        ),
    ],
)  # fmt: skip
def test_the_wrong_module_names_the_right_one(request, generation, code, line):
    python = request.getfixturevalue(generation)
    done = subprocess.run([str(python), "-c", code], capture_output=True, timeout=50, env=environment())
    assert done.returncode == 1
    assert done.stderr.decode().rstrip().endswith(line), done.stderr.decode()
