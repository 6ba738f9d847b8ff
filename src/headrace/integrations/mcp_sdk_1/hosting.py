"""``serve`` and ``run`` for servers of mcp 1.x: the low-level ``Server`` and ``mcp.server.fastmcp.FastMCP``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.integrations.asgi_options import options_of
from headrace.integrations.mcp_sdk_1.host import StreamHost
from headrace.limits import DEFAULT, Limits
from headrace.server import hosting

if TYPE_CHECKING:
    from headrace.transports.stdio import StdioClaim

__all__ = ("host_of", "run", "serve")

_UNLIMITED = 1 << 40

Address = str | int | tuple[str, int]


def host_of(
    server: Any, *, limits: Limits | None = None, raise_exceptions: bool = False, path: str = "/mcp"
) -> StreamHost:
    """The host of a server of mcp 1.x, for :func:`headrace.server.hosting.serve` and the transports' own functions.

    ``server`` is a low-level ``Server`` or a ``FastMCP`` of ``mcp.server.fastmcp``. ``path`` is what handlers see
    as the path of HTTP requests.
    """
    return StreamHost(low_level(server), limits=limits, raise_exceptions=raise_exceptions, path=path)


def low_level(server: Any) -> Any:
    """The low-level server of ``server``, which may be one itself."""
    return getattr(server, "_mcp_server", server)


def _http_options(server: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What the settings of a ``FastMCP`` say of its HTTP endpoint, under what is ``given``."""
    settings = getattr(server, "settings", None)
    if settings is None or not hasattr(server, "streamable_http_app"):
        return given
    options: dict[str, Any] = {"path": settings.streamable_http_path}
    security = settings.transport_security
    if security is not None:
        checked = security.enable_dns_rebinding_protection
        options["allowed_hosts"] = security.allowed_hosts if checked else ["*"]
        options["allowed_origins"] = security.allowed_origins if checked else ["*"]
    if given.get("path", options["path"]) == options["path"]:
        options |= options_of(server.streamable_http_app(), options["path"])
    return options | given


def _limits(settings: Any, given: Limits | None) -> Limits | None:
    """The bounds that the settings of a ``FastMCP`` name, where the caller names none."""
    limits = given or DEFAULT
    chosen = {
        "max_sessions": getattr(settings, "max_sessions", DEFAULT.max_sessions) or _UNLIMITED,
        "session_idle_timeout": getattr(settings, "session_idle_timeout", DEFAULT.session_idle_timeout) or _UNLIMITED,
    }
    changed = {name: value for name, value in chosen.items() if getattr(limits, name) == getattr(DEFAULT, name)}
    return msgspec.structs.replace(limits, **changed)


async def serve(
    server: Any,
    *,
    http: Address | None = None,
    unix: str | None = None,
    tcp: Address | None = None,
    stdio: bool | None = None,
    claimed: StdioClaim | None = None,
    on_ready: Callable[[list[str]], Any] | None = None,
    limits: Limits | None = None,
    stateless: bool | None = None,
    json_response: bool | None = None,
    raise_exceptions: bool = False,
    **http_options: Any,
) -> None:
    """Hosts a server of mcp 1.x until the task is cancelled, or until the end of stdin when stdio is served.

    The addresses are those of :func:`headrace.server.hosting.serve`, and so are ``http_options``; without any
    address it is stdio. ``stateless`` and ``json_response`` are the settings of a ``FastMCP`` unless they are
    given.
    """
    settings = getattr(server, "settings", None)
    if stateless is None:
        stateless = bool(getattr(settings, "stateless_http", False))
    if json_response is None:
        json_response = bool(getattr(settings, "json_response", False))
    options: dict[str, Any] = {}
    if http is not None:
        options = _http_options(server, http_options) | {"stateless": stateless, "json_only": json_response}
        limits = _limits(settings, limits)
    host = host_of(server, limits=limits, raise_exceptions=raise_exceptions, path=options.get("path", "/mcp"))
    await hosting.serve(
        host,  # type: ignore[arg-type]
        http=http,
        unix=unix,
        tcp=tcp,
        stdio=stdio,
        claimed=claimed,
        on_ready=on_ready,
        **options,
    )
    if host.failure is not None:
        raise host.failure


def run(server: Any, *, loop: str = "auto", **where: Any) -> None:
    """Hosts a server of mcp 1.x, blocking, on an event loop of its own; takes what :func:`serve` takes.

    ``loop`` is as in :func:`headrace.server.hosting.run`.
    """
    hosting.run_serving(serve, server, loop=loop, **where)
