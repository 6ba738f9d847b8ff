"""``serve`` and ``run`` for FastMCP servers, with the parameters of ``FastMCP.run`` or those of headrace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import fastmcp

from headrace.errors import UsageError
from headrace.integrations.asgi_options import options_of, store_of
from headrace.integrations.fastmcp.generations import make_host
from headrace.integrations.hosts import kind_of
from headrace.limits import Limits
from headrace.server import hosting
from headrace.transports.http_options import check_options

if TYPE_CHECKING:
    from headrace.transports.hosting import Address
    from headrace.transports.plain import McpHost
    from headrace.transports.stdio import StdioClaim

__all__ = ("host_of", "run", "serve")

_PLACES = ("http", "unix", "tcp", "stdio")

_OWN_OF_APP = ("RequestContextMiddleware",)
"""Middleware that only carries what the hosts here carry themselves."""


def host_of(
    mcp: Any,
    *,
    limits: Limits | None = None,
    path: str | None = None,
    middleware: list[Any] | None = None,
    stateless: bool | None = None,
    stateless_http: bool | None = None,
    json_response: bool | None = None,
    event_store: Any = None,
    retry_interval: int | None = None,
    host_origin_protection: bool | str | None = None,
    allowed_hosts: list[str] | None = None,
    allowed_origins: list[str] | None = None,
    beside: Any = None,
    **http_options: Any,
) -> McpHost:
    """The host of a FastMCP server for :func:`headrace.server.hosting.serve` and the transports' own functions; what
    its HTTP side is (authentication, routes, settings) is its ``http_options``.

    Those of ``FastMCP.run`` and ``FastMCP.http_app``, with the defaults of ``fastmcp.settings``:

    :param path: the MCP endpoint.
    :param middleware: ASGI middleware around the HTTP side. At the MCP endpoint it sees the head of each request and
        may refuse it.
    :param stateless, stateless_http: no HTTP sessions: every POST stands for itself.
    :param json_response: answers are never event streams.
    :param event_store: FastMCP's or the SDK's ``EventStore`` object, or what headrace's option of this name takes:
        True keeps events in memory. None: streams cannot be resumed.
    :param retry_interval: milliseconds that clients of 2025-11-25 wait before they resume.
    :param host_origin_protection, allowed_hosts, allowed_origins: see :class:`headrace.transports.guards.Guards`.

    And those of headrace:

    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param beside: an ASGI application for the paths that neither the endpoint nor the server's own routes have.
    :param http_options: others of :class:`headrace.transports.http_options.HttpOptions`.

    Raises UsageError for what is no such server, TypeError for an unknown option.
    """
    if not isinstance(mcp, fastmcp.FastMCP):
        kind = kind_of(mcp)
        raise UsageError(
            f"a {type(mcp).__module__}.{type(mcp).__qualname__} cannot be hosted here: "
            + ("a FastMCP object of the package fastmcp is needed" if kind is None else f"use {kind.module}")
        )
    settings = fastmcp.settings
    path = path if path is not None else settings.streamable_http_path
    if stateless_http is None:
        stateless_http = stateless if stateless is not None else settings.stateless_http
    if json_response is None:
        json_response = settings.json_response
    app = mcp.http_app(
        path=path,
        middleware=middleware,
        json_response=json_response,
        stateless_http=stateless_http,
        host_origin_protection=False,
    )
    options = options_of(app, path, beside=beside, ignore=_OWN_OF_APP)
    options |= _guards(host_origin_protection, allowed_hosts, allowed_origins)
    options |= {
        "path": path,
        "stateless": stateless_http,
        "json_only": json_response,
        "retry_interval": None if retry_interval is None else retry_interval / 1000,
    }
    host: Any = make_host(
        mcp, limits=limits, app=app, closes_streams=bool(event_store), http_options=options | http_options
    )
    host.http_options["event_store"] = store_of(event_store, host)
    check_options(host.http_options)
    return host


def _where(transport: str | None, host: str | None, port: int | None, where: dict[str, Any]) -> dict[str, Any]:
    """Where to serve, from FastMCP's way to say it: ``transport``, ``host`` and ``port``."""
    settings = fastmcp.settings
    if any(where[name] is not None for name in ("http", "unix", "tcp", "stdio")):
        if transport is not None or host is not None or port is not None:
            raise UsageError("say where to serve in one way: transport, host and port, or http, unix, tcp and stdio")
        return where
    if transport is None:
        transport = "http" if host is not None or port is not None else settings.transport
    if transport == "stdio":
        return where | {"stdio": True}
    if transport not in ("http", "streamable-http", "sse"):
        raise UsageError(f"transport {transport!r}: use stdio, http, streamable-http or sse")
    at = (host if host is not None else settings.host, port if port is not None else settings.port)
    return where | {"http": at, "legacy_sse": transport == "sse"}


async def serve(
    mcp: Any,
    *,
    transport: str | None = None,
    host: str | None = None,
    port: int | None = None,
    http: Address | None = None,
    unix: str | None = None,
    tcp: Address | None = None,
    stdio: bool | None = None,
    claimed: StdioClaim | None = None,
    on_ready: Callable[[list[str]], Any] | None = None,
    **options: Any,
) -> None:
    """Hosts a FastMCP server until the task is cancelled, or until the end of stdin when stdio is served.

    Where: ``http``, ``unix``, ``tcp`` and ``stdio`` as in :func:`headrace.server.hosting.serve`, or ``transport``,
    ``host`` and ``port`` as in ``FastMCP.run``; without any of them what ``fastmcp.settings`` say. ``options`` are
    those of :func:`host_of`.

    Raises :class:`UsageError` for arguments that do not go together, OSError for an address that cannot be had, and
    what the server's lifespan raises.
    """
    if claimed is not None and stdio is None and transport is None and http is unix is tcp is None:
        stdio = True
    where = _where(transport, host, port, {"http": http, "unix": unix, "tcp": tcp, "stdio": stdio})
    made: Any = host_of(mcp, **{"legacy_sse": where.pop("legacy_sse", False)} | options)
    await hosting.serve(made, claimed=claimed, on_ready=on_ready, **where, **made.http_options)
    failure = getattr(made, "failure", None)
    if failure is not None:
        raise failure


def _guards(protection: bool | str | None, hosts: list[str] | None, origins: list[str] | None) -> dict[str, Any]:
    """Host and Origin checks, from FastMCP's settings. What its "auto" leaves unchecked on addresses that others
    can reach is an ``Origin`` that nobody allowed; the protocol wants it refused, and it is here."""
    settings = fastmcp.settings
    if (protection if protection is not None else settings.http_host_origin_protection) is False:
        return {"allowed_hosts": ["*"], "allowed_origins": ["*"]}
    return {
        "allowed_hosts": _any_port(hosts if hosts is not None else settings.http_allowed_hosts),
        "allowed_origins": origins if origins is not None else settings.http_allowed_origins,
    }


def _any_port(hosts: list[str] | None) -> list[str] | None:
    """FastMCP compares hosts without their port."""
    if hosts is None:
        return None
    return [host if host == "*" or host.rpartition(":")[2].isdigit() else f"{host}:*" for host in hosts]


def run(
    mcp: Any,
    transport: str | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    loop: str = "auto",
    show_banner: bool | None = None,
    **options: Any,
) -> None:
    """Hosts a FastMCP server, blocking, on an event loop of its own; takes what :func:`serve` takes.

    ``loop`` is as in :func:`headrace.server.hosting.run`; ``show_banner`` is taken as by ``FastMCP.run``, and there is
    none.
    """
    where = _where(transport, host, port, {name: options.pop(name, None) for name in _PLACES})
    hosting.run_serving(serve, mcp, loop=loop, **where, **options)
