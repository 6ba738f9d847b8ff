"""headrace: a high-performance MCP (Model Context Protocol) transport core.

``Server`` hosts tools, ``connect`` talks to servers. Everything is imported on first use, so that
``import headrace`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace._version import __version__

if TYPE_CHECKING:
    from headrace import errors
    from headrace.client import Client, connect
    from headrace.client.tasks import TaskHandle
    from headrace.errors import (
        AuthenticationFailed,
        CannotAsk,
        ClientCapabilityMissing,
        ClientRefused,
        ConnectFailed,
        ConnectionClosed,
        Declined,
        HeadraceError,
        HttpStatusError,
        InputRefused,
        InputRequired,
        InvalidAnswer,
        LocalProtocolError,
        NotOffered,
        OverloadedError,
        RemoteProtocolError,
        RequestTimeout,
        ResourceNotFound,
        RpcError,
        TaskCancelled,
        ToolError,
        UsageError,
    )
    from headrace.limits import Limits
    from headrace.protocol.context import Context
    from headrace.protocol.elicited import Elicited
    from headrace.protocol.forms import titled
    from headrace.protocol.input_needed import (
        InputNeeded,
        UrlElicitationRequired,
        ask_elicit,
        ask_elicit_url,
        ask_roots,
        ask_sample,
    )
    from headrace.protocol.tasks.store import MemoryTaskStore
    from headrace.server.app import Server
    from headrace.server.completion import Completion
    from headrace.server.content import Audio, Image, ToolResult
    from headrace.server.features import CacheHint
    from headrace.server.prompts import AssistantMessage, UserMessage
    from headrace.server.schema import Header
    from headrace.server.tasks.sqlite_store import SqliteTaskStore

__all__ = (
    "AssistantMessage", "Audio", "AuthenticationFailed", "CacheHint", "CannotAsk", "Client",
    "ClientCapabilityMissing", "ClientRefused", "Completion", "ConnectFailed", "ConnectionClosed",
    "Context", "Declined", "Elicited", "Header", "HeadraceError", "HttpStatusError", "Image",
    "InputNeeded", "InputRefused", "InputRequired", "InvalidAnswer", "Limits", "LocalProtocolError",
    "MemoryTaskStore", "NotOffered", "OverloadedError", "RemoteProtocolError", "RequestTimeout",
    "ResourceNotFound", "RpcError", "Server", "SqliteTaskStore", "TaskCancelled", "TaskHandle",
    "ToolError", "ToolResult", "UrlElicitationRequired", "UsageError", "UserMessage", "__version__",
    "ask_elicit", "ask_elicit_url", "ask_roots", "ask_sample", "connect", "errors", "titled",
)  # fmt: skip

_HOMES = {
    "AssistantMessage": "headrace.server.prompts",
    "Audio": "headrace.server.content",
    "CacheHint": "headrace.server.features",
    "Client": "headrace.client",
    "Completion": "headrace.server.completion",
    "Context": "headrace.protocol.context",
    "Elicited": "headrace.protocol.elicited",
    "Header": "headrace.server.schema",
    "Image": "headrace.server.content",
    "InputNeeded": "headrace.protocol.input_needed",
    "Limits": "headrace.limits",
    "MemoryTaskStore": "headrace.protocol.tasks.store",
    "Server": "headrace.server.app",
    "SqliteTaskStore": "headrace.server.tasks.sqlite_store",
    "TaskHandle": "headrace.client.tasks",
    "ToolResult": "headrace.server.content",
    "UserMessage": "headrace.server.prompts",
    "UrlElicitationRequired": "headrace.protocol.input_needed",
    "ask_elicit": "headrace.protocol.input_needed",
    "ask_elicit_url": "headrace.protocol.input_needed",
    "ask_roots": "headrace.protocol.input_needed",
    "ask_sample": "headrace.protocol.input_needed",
    "connect": "headrace.client",
    "titled": "headrace.protocol.forms",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("headrace.errors")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "headrace.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
