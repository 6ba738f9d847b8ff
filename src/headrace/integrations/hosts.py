"""Which integration hosts an object: told by the names of its classes, so that nothing foreign is imported to find out.

An object of an SDK exists only where its SDK is loaded already; its integration is imported once it is recognised.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module, util
from types import ModuleType
from typing import Any

__all__ = ("Kind", "is_asgi", "kind_of", "recognise")


@dataclass(frozen=True)
class Kind:
    """A kind of server: what people call it, and the integration that hosts it."""

    name: str
    module: str
    extra: str
    """The extra of headrace that installs its SDK."""

    def integration(self) -> ModuleType:
        """The module with ``serve``, ``run`` and ``host_of``. ImportError where something that it needs is missing."""
        return import_module(self.module)


_SDK_2 = "headrace.integrations.mcp_sdk"
_SDK_1 = "headrace.integrations.mcp_sdk_1"

_KINDS = {
    ("mcp.server.mcpserver.server", "MCPServer"): Kind("MCPServer of the official SDK", _SDK_2, "mcp"),
    ("mcp.server.fastmcp.server", "FastMCP"): Kind("FastMCP of the official SDK 1", _SDK_1, "mcp"),
    ("fastmcp.server.server", "FastMCP"): Kind("FastMCP", "headrace.integrations.fastmcp", "fastmcp"),
}
_LOW_LEVEL = ("mcp.server.lowlevel.server", "Server")
_LOW_2 = Kind("low-level Server of the official SDK", _SDK_2, "mcp")
_LOW_1 = Kind("low-level Server of the official SDK 1", _SDK_1, "mcp")


def kind_of(obj: Any) -> Kind | None:
    """The kind of server that ``obj`` is, or None: by its class and the classes that this is derived from."""
    for cls in type(obj).__mro__:
        key = (cls.__module__, cls.__name__)
        if key == _LOW_LEVEL:  # both generations have a class of this name
            return _LOW_2 if util.find_spec("mcp.server.mcpserver") is not None else _LOW_1
        if (kind := _KINDS.get(key)) is not None:
            return kind
    return None


def recognise(obj: Any) -> ModuleType | None:
    """The integration that can host ``obj``: a module with ``serve(obj, ...)``, ``run(obj, ...)`` and
    ``host_of(obj)``. None for objects that are no server of an SDK known here; ImportError where the integration
    needs something that is not installed."""
    kind = kind_of(obj)
    return None if kind is None else kind.integration()


def is_asgi(obj: Any) -> bool:
    """Whether ``obj`` looks like an ASGI 3 application: it is called with scope, receive and send, and is awaited."""
    if inspect.isclass(obj):
        return False
    function = obj if inspect.isroutine(obj) else getattr(obj, "__call__", None)  # noqa: B004
    if function is None or not inspect.iscoroutinefunction(inspect.unwrap(function)):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    positional = [p for p in required if p.kind is not p.KEYWORD_ONLY]
    return len(required) == len(positional) == 3
