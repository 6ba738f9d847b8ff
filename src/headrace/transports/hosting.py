"""Hosting a server: stdio, HTTP, unix and TCP line streams, alone or together, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Unpack

from headrace.transports.address import http_address, parse_address
from headrace.transports.framing import LINES, Framing, link_class
from headrace.transports.health import Health, health_of
from headrace.transports.http_options import HttpOptions, check_options, share
from headrace.transports.intake import offer, taken
from headrace.transports.run import run_until_stopped, start_made
from headrace.transports.shield import shielded

if TYPE_CHECKING:
    from headrace.transports.stdio import StdioClaim

__all__ = ("hosted", "run", "run_serving", "serve")

Address = str | int | tuple[str, int]

hosted: contextvars.ContextVar[Callable[[Any], None] | None] = contextvars.ContextVar("headrace_hosted", default=None)
"""Told of each server that :func:`serve` hosts in this context, before it runs: how what watches a process learns of
the servers behind integrations."""


async def serve(
    server: Any,
    *,
    http: Address | None = None,
    unix: str | None = None,
    tcp: Address | None = None,
    stdio: bool | None = None,
    claimed: StdioClaim | None = None,
    framing: Framing = LINES,
    on_ready: Callable[[list[str]], Any] | None = None,
    **options: Unpack[HttpOptions],
) -> None:
    """Hosts ``server`` until the task is cancelled, or until the end of stdin when stdio is served.

    ``server`` is a :class:`headrace.Server` or a host of :mod:`headrace.transports.plain`.
    ``http`` and ``tcp`` are ``"HOST:PORT"``, a port (on the loopback address) or ``(host, port)``; ``http`` is also
    ``"unix:PATH"``, ``"fd:N"``, ``"fd:NAME"`` or ``"systemd"`` (:func:`headrace.transports.address.http_address`);
    ``unix`` is a socket path for line streams; ``stdio`` is the default when none of them is given. ``claimed``
    is a claim of standard input and output made earlier, before anything could print. ``framing`` is how
    messages follow one another on stdio, unix and TCP. ``on_ready``
    is called with the addresses once all of them accept connections. ``options`` are those of the HTTP
    endpoint, see :class:`headrace.transports.http_options.HttpOptions`.

    Raises OSError when an address cannot be had, :class:`UsageError` for a wrong one, TypeError for an unknown
    option, and what the server's lifespan raises, in each case before anything is served.
    """
    check_options(options)
    health = health_of(options.get("health"))
    if health is not None:
        options["health"] = health
    if (told := hosted.get()) is not None:
        told(server)
    stdio = _wants_stdio(http=http, unix=unix, tcp=tcp, stdio=stdio)
    http_at = http_address(http) if http is not None else None
    tcp_at = parse_address(tcp) if tcp is not None else None
    intake = taken()
    share(server, options)
    async with server.running(), _Listeners(health) as listeners:
        addresses: list[str] = []
        if http_at is not None:
            from headrace.transports.http_server import place_of, serve_http

            offer(intake)
            listener = await serve_http(server, **place_of(http_at), **options)
            listeners.add(listener)
            addresses += listener.addresses if http_at.kind == "systemd" else [listener.url]
        if unix is not None or tcp_at is not None:
            from headrace.transports.stream import serve_lines

            if unix is not None:
                offer(intake)
                lines = await serve_lines(server, unix=unix, framing=framing)
                listeners.add(lines)
                addresses += lines.addresses
            if tcp_at is not None:
                offer(intake)
                lines = await serve_lines(server, host=tcp_at[0], port=tcp_at[1], framing=framing)
                listeners.add(lines)
                addresses += lines.addresses
        if health is not None:
            health.started()
        if stdio:
            if on_ready is not None:
                on_ready([*addresses, "stdio"])
            await _serve_stdio(server, claimed, framing, listeners.leave)
        else:
            if on_ready is not None:
                on_ready(addresses)
            await asyncio.get_running_loop().create_future()


class _Listeners:
    """What was opened; in the end all of it stops at once and drains together."""

    def __init__(self, health: Health | None) -> None:
        self._open: list[Any] = []
        self._health = health

    def add(self, listener: Any) -> None:
        self._open.append(listener)

    async def __aenter__(self) -> _Listeners:
        return self

    def leave(self) -> None:
        """The end has begun."""
        if self._health is not None:
            self._health.draining()

    async def __aexit__(self, *_: object) -> None:
        self.leave()
        with shielded():
            await asyncio.gather(*(listener.close() for listener in self._open))


async def _serve_stdio(
    server: Any, claimed: StdioClaim | None, framing: Framing, leaving: Callable[[], None]
) -> None:
    from headrace.transports.stdio import claim, open_stdio

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def lost(exc: Exception) -> None:
        if not ended.done():
            ended.set_result(None)

    session, mux = server.new_session()
    link = link_class(framing)(mux, server.limits, on_lost=lost)
    session.sink = link
    with contextlib.nullcontext(claimed) if claimed is not None else claim() as taken:
        open_stdio(loop, lambda: link, claimed=taken)
        try:
            await ended
        except asyncio.CancelledError:
            # Stopped by a signal: what is in flight may still be answered, briefly (ST-21).
            leaving()
            link.drain()
            with contextlib.suppress(asyncio.CancelledError), shielded():
                await asyncio.wait([ended], timeout=server.limits.drain_timeout + 1)
            raise
        finally:
            link.abort()


def run(
    server: Any, *, loop: str = "auto", on_ready: Callable[[list[str]], Any] | None = None, **where: Any
) -> None:
    """Hosts ``server``, blocking, on an event loop of its own; takes what :func:`serve` takes.

    ``loop`` is ``"uvloop"``, ``"asyncio"`` or ``"auto"`` (uvloop where it is installed). One Ctrl-C or
    SIGTERM drains and returns; a second one ends at once.
    """
    run_serving(serve, server, loop=loop, on_ready=on_ready, **where)


def run_serving(
    serving: Callable[..., Coroutine[Any, Any, None]],
    server: Any,
    *,
    loop: str = "auto",
    on_ready: Callable[[list[str]], Any] | None = None,
    **where: Any,
) -> None:
    """:func:`run` for another function with the parameters of :func:`serve`."""

    def ready(addresses: list[str]) -> None:
        start_made()
        if on_ready is not None:
            on_ready(addresses)

    with contextlib.ExitStack() as stack:
        if _wants_stdio(**where) and where.get("claimed") is None:
            # Before there is a loop: libuv aborts the process when one of descriptors 0 to 2 is closed.
            from headrace.transports.stdio import claim

            where["claimed"] = stack.enter_context(claim())
        run_until_stopped(lambda: serving(server, on_ready=ready, **where), loop=loop)


def _wants_stdio(
    *, http: object = None, unix: object = None, tcp: object = None, stdio: bool | None = None, **_: object
) -> bool:
    return stdio if stdio is not None else http is None and unix is None and tcp is None
