"""The fast way for clients of the official SDK: its session on the dispatcher, the dispatcher on these transports.

Strategy: over lines nothing is added, the transport only opens the connection. Over HTTP a request brings its headers
to the call that carries it, and leaves the direct way only where an auth flow or an event hook wants to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client
from mcp.shared.exceptions import MCPError

from headrace.errors import ConnectionClosed, HeadraceError
from headrace.integrations.mcp_sdk.client_errors import error_of
from headrace.integrations.mcp_sdk.client_http import Carrier, HttpTransport, http_transport
from headrace.integrations.mcp_sdk.client_stdio import StdioTransport, stdio_transport
from headrace.integrations.mcp_sdk.contexts import RequestContext
from headrace.integrations.mcp_sdk.dispatcher import HeadraceDispatcher
from headrace.integrations.mcp_sdk.json import encode

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

    from headrace.limits import Limits
    from headrace.mux import Mux

__all__ = ("connect", "http_dispatcher", "stdio_dispatcher")


class _LineChannel:
    """A child process under a dispatcher."""

    kind = "jsonrpc"

    def __init__(self, transport: StdioTransport, link: Any) -> None:
        self.sink = link
        self._transport = transport

    async def close(self) -> None:
        await self._transport.close()


def stdio_dispatcher(transport: StdioTransport, **options: Any) -> HeadraceDispatcher[Any]:
    """A dispatcher whose :meth:`~HeadraceDispatcher.run` starts the server of ``transport`` and ends it."""

    async def opener(mux: Mux, limits: Limits) -> Any:
        mux.gate.answers_bad_input = False  # a client's answer to what is no message helps nobody (B07)
        return _LineChannel(transport, await transport.open(mux))

    return HeadraceDispatcher(opener, limits=transport.limits, **options)


class _HttpChannel:
    """An endpoint under a dispatcher."""

    kind = "jsonrpc"

    def __init__(self, transport: HttpTransport, carrier: Carrier) -> None:
        self.sink = carrier.channel
        self._transport = transport
        self._carrier = carrier

    def call_options(self, method: str, params: Mapping[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
        """What a request brings along beside its message."""
        headers, own = opts.get("headers"), opts.get("_own")
        if "resumption_token" not in opts and "on_resumption_token" not in opts:
            return {"extra": self._carrier.options(method, headers, own=own)}
        carrier = self._carrier
        extra = carrier.options(
            method,
            headers,
            own=own,
            resume=opts.get("resumption_token"),
            on_event_id=carrier.teller(opts.get("on_resumption_token")),
        )
        return {"extra": extra}

    def error_of(self, exc: HeadraceError) -> Exception:
        """What the caller of a request sees."""
        return MCPError(*error_of(exc, session=self._carrier.channel.session_id is not None))

    async def close(self) -> None:
        await self._transport.close()


class _HttpDispatcher(HeadraceDispatcher[Any]):
    """A dispatcher over HTTP: knows of headers, of the session's stream, and of auth."""

    carrier: Carrier | None = None

    async def _request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None, within: Any
    ) -> dict[str, Any]:
        carrier = self.carrier
        if within is not None or carrier is None:
            return await super()._request(method, params, opts, within)
        if carrier.timeout and (limit := carrier.time_limit(method)) and not (opts and opts.get("timeout")):
            opts = {**(opts or {}), "timeout": limit}
        failed: BaseException | None = None
        if carrier.bridge.direct:
            try:
                result = await super()._request(method, params, opts, None)
            except MCPError as exc:
                failed = exc.__cause__
                if failed is None or not carrier.bridge.disputes(failed):
                    raise
            else:
                if method == "initialize":
                    carrier.initialized(result)
                return result
        return await self._authorized(carrier, method, params, opts, failed)

    async def _authorized(
        self,
        carrier: Carrier,
        method: str,
        params: Mapping[str, Any] | None,
        opts: Mapping[str, Any] | None,
        failed: BaseException | None,
    ) -> dict[str, Any]:
        opts = opts or {}
        carrier.speak(method, opts.get("headers"))

        async def attempt(own: bytes) -> dict[str, Any]:
            try:
                return await HeadraceDispatcher._request(self, method, params, {**opts, "_own": own}, None)
            except MCPError as exc:
                if isinstance(exc.__cause__, HeadraceError):
                    raise exc.__cause__ from None
                raise

        body = encode({"jsonrpc": "2.0", "id": 0, "method": method, "params": params or {}})
        try:
            result = await carrier.bridge.send("POST", carrier.shown(opts.get("headers")), body, attempt, failed)
        except HeadraceError as exc:
            raise MCPError(*error_of(exc, session=carrier.channel.session_id is not None)) from exc
        if method == "initialize":
            carrier.initialized(result)
        return result

    async def _notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None, within: RequestContext | None
    ) -> None:
        carrier = self.carrier
        if within is not None or carrier is None or self._closed:
            await super()._notify(method, params, opts, within)
            return
        await anyio.lowlevel.checkpoint_if_cancelled()
        if method == "notifications/cancelled" and carrier.channel.modern:
            self._give_up((params or {}).get("requestId"))
            return
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await carrier.notify(method, encode(message), (opts or {}).get("headers"))

    def _give_up(self, id: Any) -> None:
        """The caller's own cancel of a request: in this era its connection is closed (HN-51)."""
        pending: dict[Any, Any] = {} if self._mux is None else self._mux.pending
        call = pending.get(id) if isinstance(id, str | int) else None
        if call is not None:
            if not call.future.done():
                call.future.set_exception(ConnectionClosed("the request was cancelled"))
            call.cancel()


def http_dispatcher(transport: HttpTransport, **options: Any) -> HeadraceDispatcher[Any]:
    """A dispatcher whose :meth:`~HeadraceDispatcher.run` connects to the endpoint of ``transport`` and disconnects."""

    async def opener(mux: Mux, limits: Limits) -> Any:
        mux.gate.answers_bad_input = False
        dispatcher.carrier = carrier = await transport.open(mux)
        return _HttpChannel(transport, carrier)

    dispatcher = _HttpDispatcher(opener, limits=transport.limits, **options)
    return dispatcher


def connect(server: Any, **options: Any) -> Client:
    """An ``mcp.Client`` on headrace: ``async with connect(server, ...) as client``.

    ``server`` is a URL, an ``mcp`` ``StdioServerParameters``, a command as a list, or what :func:`stdio_transport` or
    :func:`http_transport` gave. ``options`` are those of ``mcp.Client``, and its class is what you get.

    The client's own way is a pair of streams below a dispatcher of the SDK. This puts headrace's dispatcher there, by
    replacing the client's ``_connect``, which is private to ``mcp`` 2.x; under a release that has it no more, or
    has it otherwise, and for an auth that signs bodies, the client is given the streams of the same transport.
    """
    if isinstance(server, StdioTransport | HttpTransport):
        transport: StdioTransport | HttpTransport = server
    elif isinstance(server, str):
        transport = http_transport(server)
    elif isinstance(server, list | tuple):
        server = transport = stdio_transport(*server)
    else:
        transport = stdio_transport(server)
    client = Client(server, **options)
    if not _connects(client) or (isinstance(transport, HttpTransport) and transport.signs_bodies):
        return client if server is transport else Client(transport, **options)
    client._connect = _connector(transport)
    return client


def _connects(client: Client) -> bool:
    """Whether this release of the SDK asks ``client._connect(exit_stack, mode, raise_exceptions)`` for a dispatcher."""
    found = getattr(client, "_connect", None)
    code = getattr(found, "__code__", None)
    return metadata.version("mcp").startswith("2.") and code is not None and code.co_argcount == 3


def _connector(transport: StdioTransport | HttpTransport) -> Callable[..., Any]:
    async def connector(exit_stack: Any, mode: Any, raise_exceptions: bool) -> HeadraceDispatcher[Any]:
        return transport.dispatcher()

    return connector
