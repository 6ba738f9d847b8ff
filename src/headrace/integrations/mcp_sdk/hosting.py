"""``serve``, ``run`` and ``host_of`` for servers of the official SDK 2.x: ``MCPServer`` and the low-level ``Server``.

Settings have the names that the SDK gives them, and mean the same; HTTP options of headrace may be given beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware

from headrace.errors import UsageError
from headrace.integrations.asgi_options import guards_of, store_of
from headrace.integrations.mcp_sdk.auth import Authenticator
from headrace.integrations.mcp_sdk.beside import beside_of
from headrace.integrations.mcp_sdk.kernel import SdkHost
from headrace.integrations.mcp_sdk.sdk import lowlevel_of
from headrace.limits import DEFAULT, Limits
from headrace.server import hosting
from headrace.transports.http_options import check_options

if TYPE_CHECKING:
    from headrace.transports.hosting import Address
    from headrace.transports.stdio import StdioClaim

__all__ = ("host_of", "run", "serve")

def host_of(
    server: Any,
    *,
    limits: Limits | None = None,
    path: str | None = None,
    stateless: bool = False,
    json_response: bool = False,
    event_store: Any = None,
    retry_interval: int | None = None,
    session_idle_timeout: float | None = None,
    max_sessions: int | None = None,
    max_request_body_size: int | None = None,
    transport_security: Any = None,
    auth: Any = None,
    token_verifier: Any = None,
    auth_server_provider: Any = None,
    custom_starlette_routes: Any = None,
    debug: bool = False,
    initialization_options: Any = None,
    beside: Any = None,
    streamable_http_path: str | None = None,
    stateless_http: bool | None = None,
    host_class: type[SdkHost] = SdkHost,
    **http_options: Any,
) -> SdkHost:
    """The host of ``server`` for :func:`headrace.server.hosting.serve` and the transports' own functions; what its
    settings mean for an HTTP endpoint is its ``http_options``.

    :param server: an ``MCPServer``, a low-level ``Server`` of mcp 2.x, or what holds one.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param path: the MCP endpoint, ``/mcp`` by default.
    :param stateless: the handshake era without sessions: every POST stands for itself.
    :param json_response: answers are never event streams.
    :param event_store: the SDK's ``EventStore`` object, or what headrace's option of this name takes: True keeps
        events in memory. None: streams cannot be resumed, as in the SDK.
    :param retry_interval: milliseconds that clients of 2025-11-25 wait before they resume.
    :param session_idle_timeout: seconds; ``limits.session_idle_timeout`` by default.
    :param max_sessions: open sessions of the handshake era; ``limits.max_sessions`` by default.
    :param max_request_body_size: bytes of a message; ``limits.max_message_bytes`` by default.
    :param transport_security: the SDK's ``TransportSecuritySettings``; None: the local names on loopback addresses.
    :param auth, token_verifier, auth_server_provider, custom_starlette_routes, debug: as of
        ``Server.streamable_http_app``; an ``MCPServer`` has its own.
    :param initialization_options: what ``initialize`` answers; ``create_initialization_options()`` by default.
    :param beside: an ASGI application for the paths that neither the endpoint nor the server's own routes have.
    :param streamable_http_path, stateless_http: the SDK's names of ``path`` and ``stateless``.
    :param host_class: the class of the host.
    :param http_options: others of :class:`headrace.transports.http_options.HttpOptions`.

    Raises UsageError for what is no such server or setting, TypeError for an unknown option.
    """
    app = lowlevel_of(server)
    path = path or streamable_http_path or "/mcp"
    stateless = stateless if stateless_http is None else stateless_http
    options: dict[str, Any] = dict(http_options)
    options["path"] = path
    if stateless:
        options["stateless"] = True
    if json_response:
        options["json_only"] = True
    if retry_interval is not None:
        options["retry_interval"] = retry_interval / 1000
    options = guards_of(transport_security) | options
    bounds = {
        "session_idle_timeout": session_idle_timeout,
        "max_sessions": max_sessions,
        "max_message_bytes": max_request_body_size,
    }
    for name, value in bounds.items():
        if value is not None and value <= 0:
            raise UsageError(f"{name} must be a positive number, not {value!r}")
    found = {name: value for name, value in bounds.items() if value is not None}
    limits = msgspec.structs.replace(limits or DEFAULT, **found) if found or limits is None else limits

    settings = {
        "auth": auth,
        "token_verifier": token_verifier,
        "auth_server_provider": auth_server_provider,
        "custom_starlette_routes": custom_starlette_routes,
    }
    routes = _routes(server, app, path, debug, {name: value for name, value in settings.items() if value is not None})
    authenticator = None if routes is None else _authenticator(routes, path)
    if authenticator is not None:
        if options.get("authenticate") is not None or options.get("principal_of") is not None:
            raise UsageError("the server has authorization settings of its own: authenticate cannot be given as well")
        options["authenticate"] = authenticator
    others = beside_of(routes, path, beside)
    if others is not None:
        options["beside"] = others
    host = host_class(
        server,
        limits=limits,
        initialization_options=initialization_options,
        http_options=options,
        closes_streams=bool(event_store),
        routes=routes,
    )
    host.http_options["event_store"] = store_of(event_store, host)
    check_options(host.http_options)
    return host


def _routes(server: Any, app: Any, path: str, debug: bool, settings: dict[str, Any]) -> Starlette | None:
    """The SDK's own web application of the server, for its routes and its authorization. It is never started."""
    if server is app:
        if not settings:
            return None
        made: Starlette = app.streamable_http_app(streamable_http_path=path, debug=debug, **settings)
        return made
    if settings:
        raise UsageError(
            f"{', '.join(settings)}: a {type(server).__name__} has settings of its own; give them to it when it is made"
        )
    has_own = getattr(server, "_custom_starlette_routes", None) or getattr(server, "_token_verifier", None)
    if not has_own and getattr(getattr(server, "settings", None), "auth", None) is None:
        return None
    make = getattr(server, "streamable_http_app", None)
    if make is None:
        return None
    made = make(streamable_http_path=path)
    return made


def _authenticator(app: Starlette, path: str) -> Authenticator | None:
    """What the web application does before a request reaches the endpoint."""
    backend = next(
        (each.kwargs.get("backend") for each in app.user_middleware if each.cls is AuthenticationMiddleware), None
    )
    endpoints = [getattr(route, "endpoint", None) for route in app.routes if getattr(route, "path", None) == path]
    guard: Any = next((each for each in endpoints if isinstance(each, RequireAuthMiddleware)), None)
    if backend is None and guard is None:
        return None
    if guard is None:
        return Authenticator(backend, None, None)
    return Authenticator(backend, list(guard.required_scopes), guard.resource_metadata_url)


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
    """Hosts ``server`` until the task is cancelled, or until the end of stdin when stdio is served.

    Addresses are those of :func:`headrace.server.hosting.serve`, without any it is stdio; ``options`` are those of
    :func:`host_of`.

    Raises what both raise, each before anything is served.
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


def run(server: Any, *, loop: str = "auto", **where: Any) -> None:
    """Hosts ``server``, blocking, on an event loop of its own; takes what :func:`serve` takes. ``loop`` is as in
    :func:`headrace.server.hosting.run`."""
    lowlevel_of(server)
    hosting.run_serving(serve, server, loop=loop, **where)
