"""What ``headrace serve`` hosts beside a headrace.Server: servers of other SDKs, and ASGI applications."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app import Failure
from headrace.errors import UsageError
from headrace.limits import DEFAULT, Limits

if TYPE_CHECKING:
    from headrace.integrations.hosts import Kind
    from headrace.transports.health import Health

__all__ = ("AsgiGuest", "Guest", "guest_of", "is_guest")

_MILLISECONDS = ("headrace.integrations.mcp_sdk",)
"""Integrations whose ``retry_interval`` is their SDK's: in milliseconds."""
_FRONT = ("ssl", "proxy_protocol", "forwarded_allow_ips", "forwarded_header")
"""Options of an endpoint that are those of its listener: an ASGI application has them too."""


def is_guest(obj: Any) -> bool:
    """Whether ``obj`` is a server of an SDK that an integration hosts."""
    from headrace.integrations.hosts import kind_of

    return kind_of(obj) is not None


def guest_of(obj: Any, name: str) -> Guest | AsgiGuest | None:
    """What hosts ``obj``, which messages call ``name``; None where nothing does. Raises Failure where something that
    hosting needs is not installed."""
    from headrace.integrations.hosts import is_asgi, kind_of

    kind = kind_of(obj)
    if kind is not None:
        try:
            return Guest(obj, kind, kind.integration())
        except (ImportError, UsageError) as exc:
            text = f"{name} is a {kind.name}, which cannot be hosted here: {exc}"
            raise Failure(f"{text} (pip install 'headrace[{kind.extra}]')") from exc
    return AsgiGuest(obj, name) if is_asgi(obj) else None


class Guest:
    """A server of another SDK, unchanged, behind the integration that hosts it."""

    def __init__(self, server: Any, kind: Kind, integration: ModuleType) -> None:
        self.name = str(getattr(server, "name", None) or kind.name)
        self.limits: Limits = DEFAULT
        self._server = server
        self._kind = kind
        self._serve = integration.serve

    def set_limits(self, limits: Limits) -> None:
        """Replaces the bounds before it is served."""
        self.limits = limits

    @property
    def stateless(self) -> bool:
        """Whether its own settings say that it has no HTTP sessions."""
        settings = [getattr(self._server, "settings", None)]
        if self._kind.extra == "fastmcp":
            settings.append(getattr(sys.modules.get("fastmcp"), "settings", None))
        return any(getattr(each, "stateless_http", False) is True for each in settings)

    @property
    def sessions_stay(self) -> str:
        """Why other processes cannot go on with them."""
        return f"a session of this {self._kind.name} lives in its process"

    def check(self, options: dict[str, Any], typed: set[str]) -> None:
        """Raises click.UsageError for what cannot be had for this kind of server."""
        if "sealed_sessions" in typed:
            raise click.UsageError(f"--sealed-sessions: {self.sessions_stay}; use --stateless")

    async def serve(
        self, *, http: Any, unix: Any, tcp: Any, claimed: Any, on_ready: Callable[[list[str]], Any], **options: Any
    ) -> None:
        """Hosts it. ``options``: those of the HTTP endpoint that were asked for; the server's own settings hold
        elsewhere."""
        if options.pop("json_only", False):
            options["json_response"] = True
        if self._kind.module in _MILLISECONDS and "retry_interval" in options:
            options["retry_interval"] = round(options["retry_interval"] * 1000)
        if self._kind.extra == "fastmcp" and {"allowed_hosts", "allowed_origins"} & options.keys():
            options["host_origin_protection"] = True  # off by default there, and then lists mean nothing
        # Said, so that no setting of the SDK decides otherwise.
        stdio = True if not (http or unix or tcp) else None
        where = {"http": http, "unix": unix, "tcp": tcp, "stdio": stdio, "claimed": claimed}
        await self._serve(self._server, on_ready=on_ready, limits=self.limits, **where, **options)


class AsgiGuest:
    """An ASGI application, alone on an HTTP server of ours."""

    def __init__(self, app: Any, name: str) -> None:
        self.name = str(getattr(app, "title", None) or name)
        self.limits: Limits = DEFAULT
        self._app = app
        self._called = name

    def set_limits(self, limits: Limits) -> None:
        """Replaces the bounds before it is served."""
        self.limits = limits

    def put_behind(self, make: Callable[[Any], Any]) -> None:
        """Serves what ``make(application)`` gives in its place."""
        self._app = make(self._app)

    def check(self, options: dict[str, Any], typed: set[str]) -> None:
        """Raises click.UsageError for what is no matter of an ASGI application."""
        what = f"{self._called} is an ASGI application"
        if not options["http"]:
            raise click.UsageError(f"{what}, which is served over HTTP: say --http HOST:PORT")
        typed = typed - {"allow_host"}
        other = next((name for name in ("unix", "tcp") if options[name]), None) or next(iter(sorted(typed)), None)
        if other is not None:
            raise click.UsageError(f"{what}: --{other.replace('_', '-')} is for MCP servers")

    async def serve(
        self,
        *,
        http: Any,
        on_ready: Callable[[list[str]], Any],
        allowed_hosts: list[str] | None = None,
        health: Health | None = None,
        **options: Any,
    ) -> None:
        """Hosts it until the task is cancelled."""
        from headrace.transports.address import http_address
        from headrace.transports.asgi import serve
        from headrace.transports.http_server import place_of

        place = place_of(http_address(http))
        front = {name: options[name] for name in _FRONT if name in options}
        listener = await serve(
            self._app, **place, **front, allowed_hosts=allowed_hosts, limits=self.limits, health=health
        )
        try:
            on_ready([listener.url])
            await asyncio.get_running_loop().create_future()
        finally:
            await listener.close()
