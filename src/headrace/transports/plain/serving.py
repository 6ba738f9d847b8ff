"""Serving a plain handler: one call for every transport."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Unpack

from headrace.errors import UsageError
from headrace.limits import Limits
from headrace.mux import Names
from headrace.transports import hosting
from headrace.transports.framing import LINES, Framing
from headrace.transports.http_options import HttpOptions, check_options
from headrace.transports.plain.host import Handler, Host, Notified
from headrace.transports.plain.mcp import McpHost
from headrace.transports.plain.opening import given, own_host
from headrace.transports.plain.peer import RpcHost

if TYPE_CHECKING:
    from headrace.transports.hosting import Address
    from headrace.transports.stdio import StdioClaim

__all__ = ("serve", "serve_blocking")


async def serve(
    handler: Handler | Host,
    *,
    protocol: Literal["mcp", "jsonrpc"] = "mcp",
    http: Address | None = None,
    unix: str | None = None,
    tcp: Address | None = None,
    stdio: bool | None = None,
    claimed: StdioClaim | None = None,
    framing: Framing = LINES,
    on_ready: Callable[[list[str]], Any] | None = None,
    on_notify: Notified | None = None,
    names: Names | None = None,
    raw: bool = False,
    name: str | None = None,
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
    limits: Limits | None = None,
    **http_options: Unpack[HttpOptions],
) -> None:
    """Serves a plain handler on any transports at once, until the task is cancelled, or until the end of stdin when
    stdio is served.

    :param handler: ``handler(method, params, exchange)``, see :data:`headrace.transports.plain.host.Handler`; or a
        host made before, which then brings its own ``on_notify``, ``names``, ``raw``, ``name``, ``lifespan`` and
        ``limits``.
    :param protocol: ``"mcp"``: eras, sessions, headers and streams are kept here
        (:class:`~headrace.transports.plain.McpHost`); ``"jsonrpc"``: bare JSON-RPC 2.0
        (:class:`~headrace.transports.plain.RpcHost`), which HTTP does not carry.
    :param http, unix, tcp, stdio, claimed, on_ready: as for :func:`headrace.transports.hosting.serve`.
    :param framing: how messages follow one another on stdio, unix and TCP: ``"lines"``, or ``"content-length"`` as in
        LSP.
    :param names: of ``"jsonrpc"``: what the peers call cancelling and progress.

    Raises OSError when an address cannot be had, :class:`UsageError` for wrong arguments, TypeError for an unknown
    option, and what the lifespan raises, in each case before anything is served.
    """
    check_options(http_options)
    options = {"on_notify": on_notify, "raw": raw, "name": name, "lifespan": lifespan, "limits": limits, "names": names}
    host = make_host(handler, protocol, options)
    if http is not None and isinstance(host, RpcHost):
        raise UsageError("bare JSON-RPC is served on stdio, unix and TCP; HTTP carries protocol='mcp'")
    await hosting.serve(
        host,
        http=http,
        unix=unix,
        tcp=tcp,
        stdio=stdio,
        claimed=claimed,
        framing=framing,
        on_ready=on_ready,
        **http_options,
    )


def make_host(handler: Any, protocol: str, options: dict[str, Any]) -> Host:
    """The host that serves a handler, or the one that is given."""
    if isinstance(handler, Host):
        host: Host = own_host(handler, options)
        return host
    if not callable(handler):
        raise UsageError(
            f"a {type(handler).__name__} is no handler: a function of (method, params, exchange), or a host, is needed"
        )
    if protocol == "jsonrpc":
        return RpcHost(handler, **given(options))
    if protocol != "mcp":
        raise UsageError(f"protocol {protocol!r}: use 'mcp' or 'jsonrpc'")
    if options.pop("names", None) is not None:
        raise UsageError("names of notifications can be chosen with protocol='jsonrpc' only")
    return McpHost(handler, **given(options))


def serve_blocking(handler: Handler | Host, *, loop: str = "auto", **where: Any) -> None:
    """Serves a plain handler, blocking, on an event loop of its own; takes what :func:`serve` takes.

    ``loop`` is ``"uvloop"``, ``"asyncio"`` or ``"auto"`` (uvloop where it is installed). One Ctrl-C or SIGTERM
    drains and returns; a second one ends at once.
    """
    hosting.run_serving(serve, handler, loop=loop, **where)
