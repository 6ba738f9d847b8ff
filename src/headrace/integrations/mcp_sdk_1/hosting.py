"""``serve``, ``run`` and ``host_of`` for servers of mcp 1.x: the low-level ``Server`` and the SDK's own ``FastMCP``.

Settings have the names that the SDK gives them, and mean the same; HTTP options of headrace may be given beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from mcp.server.lowlevel import Server

from headrace.errors import UsageError
from headrace.integrations.asgi_options import guards_of, options_of, store_of
from headrace.integrations.mcp_sdk_1.host import StreamHost
from headrace.limits import DEFAULT, Limits
from headrace.server import hosting
from headrace.transports.http_options import check_options

if TYPE_CHECKING:
    from headrace.transports.hosting import Address
    from headrace.transports.stdio import StdioClaim

__all__ = ("host_of", "run", "serve")

_UNLIMITED = 1 << 40

def host_of(
    server: Any,
    *,
    limits: Limits | None = None,
    path: str | None = None,
    stateless: bool | None = None,
    json_response: bool | None = None,
    event_store: Any = None,
    retry_interval: int | None = None,
    raise_exceptions: bool = False,
    beside: Any = None,
    **http_options: Any,
) -> StreamHost:
    """The host of a server of mcp 1.x for :func:`headrace.server.hosting.serve` and the transports' own functions;
    what its settings mean for an HTTP endpoint is its ``http_options``.

    :param server: a low-level ``Server``, or a ``FastMCP`` of ``mcp.server.fastmcp``, whose settings are the defaults
        of all others.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param path: the MCP endpoint, ``/mcp`` by default.
    :param stateless: no HTTP sessions: the server runs once for every POST.
    :param json_response: answers are never event streams.
    :param event_store: the SDK's ``EventStore`` object, or what headrace's option of this name takes: True keeps
        events in memory. None: streams cannot be resumed, as in the SDK.
    :param retry_interval: milliseconds that clients of 2025-11-25 wait before they resume.
    :param raise_exceptions: as that of ``Server.run``.
    :param beside: an ASGI application for the paths that neither the endpoint nor the server's own routes have.
    :param http_options: others of :class:`headrace.transports.http_options.HttpOptions`.

    Raises UsageError for what is no such server, TypeError for an unknown option.
    """
    low = getattr(server, "_mcp_server", server)
    if not isinstance(low, Server):
        raise UsageError(
            f"a {type(server).__module__}.{type(server).__qualname__} cannot be hosted here: "
            "a Server or FastMCP object of mcp 1.x is needed"
        )
    settings = getattr(server, "settings", None)
    options: dict[str, Any] = {}
    app = None
    if settings is not None:
        own_path = settings.streamable_http_path
        path = path or own_path
        stateless = settings.stateless_http if stateless is None else stateless
        json_response = settings.json_response if json_response is None else json_response
        event_store = getattr(server, "_event_store", None) if event_store is None else event_store
        retry_interval = getattr(server, "_retry_interval", None) if retry_interval is None else retry_interval
        limits = _limits(settings, limits)
        options |= guards_of(settings.transport_security)
        app = server.streamable_http_app()
        options |= options_of(app, own_path, beside=beside)
    elif beside is not None:
        options["beside"] = beside
    options |= {
        "path": path or "/mcp",
        "stateless": bool(stateless),
        "json_only": bool(json_response),
        "retry_interval": None if retry_interval is None else retry_interval / 1000,
    }
    host = StreamHost(
        low,
        limits=limits,
        raise_exceptions=raise_exceptions,
        app=app,
        closes_streams=bool(event_store),
        http_options=options | http_options,
    )
    host.http_options["event_store"] = store_of(event_store, host)
    check_options(host.http_options)
    return host


def _limits(settings: Any, given: Limits | None) -> Limits:
    """The bounds that the settings of a ``FastMCP`` name, where the caller names none."""
    limits = given or DEFAULT
    chosen = {
        name: getattr(settings, name) or _UNLIMITED
        for name in ("max_sessions", "session_idle_timeout")
        if hasattr(settings, name) and getattr(limits, name) == getattr(DEFAULT, name)
    }
    size = getattr(settings, "max_request_body_size", _SDK_BODY)
    if size != _SDK_BODY and limits.max_message_bytes == DEFAULT.max_message_bytes:
        chosen["max_message_bytes"] = size
    return msgspec.structs.replace(limits, **chosen)


_SDK_BODY = 4 * 1024 * 1024
"""The SDK's own default of the largest body: nobody's choice, and our bound is the larger one."""


async def serve(
    server: Any,
    *,
    http: Address | None = None,
    unix: str | None = None,
    tcp: Address | None = None,
    stdio: bool | None = None,
    claimed: StdioClaim | None = None,
    on_ready: Callable[[list[str]], Any] | None = None,
    **options: Any,
) -> None:
    """Hosts a server of mcp 1.x until the task is cancelled, or until the end of stdin when stdio is served.

    Addresses are those of :func:`headrace.server.hosting.serve`, without any it is stdio; ``options`` are those of
    :func:`host_of`.

    Raises what both raise, and what the server's lifespan raises for a line connection that stands alone.
    """
    host = host_of(server, **options)
    await hosting.serve(
        host,
        http=http,
        unix=unix,
        tcp=tcp,
        stdio=stdio,
        claimed=claimed,
        on_ready=on_ready,
        **host.http_options,
    )
    if host.failure is not None:
        raise host.failure


def run(server: Any, *, loop: str = "auto", **where: Any) -> None:
    """Hosts a server of mcp 1.x, blocking, on an event loop of its own; takes what :func:`serve` takes.

    ``loop`` is as in :func:`headrace.server.hosting.run`.
    """
    hosting.run_serving(serve, server, loop=loop, **where)
