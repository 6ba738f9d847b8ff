"""Servers of other SDKs are known by the names of their classes, without an import of the SDK."""

import subprocess
import sys

import pytest

from headrace import Server
from headrace.integrations import hosts
from headrace.integrations.hosts import is_asgi, kind_of, recognise


def class_named(module, name, *bases):
    return type(name, bases, {"__module__": module})


HIGH = class_named("mcp.server.mcpserver.server", "MCPServer")
LOW = class_named("mcp.server.lowlevel.server", "Server")
FIRST = class_named("mcp.server.fastmcp.server", "FastMCP")
FAST = class_named("fastmcp.server.server", "FastMCP")


@pytest.mark.parametrize(
    ("cls", "module", "extra"),
    [
        (HIGH, "headrace.integrations.mcp_sdk", "mcp"),
        (FIRST, "headrace.integrations.mcp_sdk_1", "mcp"),
        (FAST, "headrace.integrations.fastmcp", "fastmcp"),
    ],
)
def test_servers_of_sdks_and_classes_derived_from_them(cls, module, extra):
    for each in (cls, class_named("somewhere.else", "Mine", cls)):
        kind = kind_of(each())
        assert (kind.module, kind.extra) == (module, extra)


@pytest.mark.parametrize(("second", "module"), [(True, "headrace.integrations.mcp_sdk"), (False, "headrace.integrations.mcp_sdk_1")])
def test_low_level_servers_of_both_generations(monkeypatch, second, module):
    monkeypatch.setattr(hosts.util, "find_spec", lambda name: object() if second else None)
    assert kind_of(LOW()).module == module


def test_what_is_no_server_of_an_sdk():
    for other in (None, 7, "mcp", Server("own", version="1"), HIGH, class_named("mine", "MCPServer")(), lambda: None):
        assert kind_of(other) is None and recognise(other) is None


def test_the_integration_itself(monkeypatch):
    monkeypatch.setattr(hosts, "import_module", lambda name: name)
    assert recognise(HIGH()) == "headrace.integrations.mcp_sdk"


def test_nothing_is_imported_to_find_out():
    code = (
        "import sys; from headrace.integrations.hosts import kind_of; kind_of(object());"
        "print([m for m in sys.modules if m.partition('.')[0] in ('mcp', 'fastmcp', 'anyio', 'pydantic')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done


async def asgi(scope, receive, send): ...


class Asgi:
    async def __call__(self, scope, receive, send): ...


class Other:
    def __call__(self): ...

    async def three(self, a, b, c=None): ...


async def one(a): ...


def plain(scope, receive, send): ...


def test_asgi_applications():
    assert is_asgi(asgi) and is_asgi(Asgi()) and is_asgi(Asgi().__call__)
    for other in (Asgi, Other(), Other().three, one, plain, None, 7, Server("own", version="1"), Other):
        assert not is_asgi(other)
