"""Client: calls a server over one connection, whatever the transport and the era."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.client.arguments import as_object, encode, join_members, members, meta_members, seconds
from headrace.client.callbacks import Relay
from headrace.client.negotiation import Agreement, Offer
from headrace.client.results import CallResult, check_type, decode_any, decoder, tools_decoder
from headrace.errors import (
    ConnectionClosed,
    HeadraceError,
    HttpStatusError,
    LocalProtocolError,
    RemoteProtocolError,
    RpcError,
    UsageError,
)
from headrace.jsonrpc import HEADER_MISMATCH, LOG_LEVEL, LOG_LEVELS

if TYPE_CHECKING:
    from headrace.client.channels import Channel
    from headrace.client.headers import ToolHeaders
    from headrace.client.recovery import Recovery
    from headrace.client.results import ToolsPage
    from headrace.limits import Limits
    from headrace.mux import PendingCall
    from headrace.types import Implementation, Tool

__all__ = ("Client",)

ProgressCallback = Callable[[float, float | None, str | None], Any]

MAX_PAGES = 10_000
"""Pages of one list, after which the server is taken to be in a loop."""
MAX_TOTAL = 3_600.0
"""Seconds a call may take in all when progress restarts its clock and nothing else was said (MX-13)."""

_MAX_PREFIXES = 1_024
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Client:
    """An open connection to a server; made by :func:`headrace.connect`.

    Belongs to the event loop it was made on. Any number of calls may run at the same time, from any task.
    """

    def __init__(self, channel: Channel, agreement: Agreement, offer: Offer, limits: Limits, timeout: float) -> None:
        self._channel = channel
        self._mux = channel.mux
        self._sink = channel.sink
        self._http = channel.http
        self._offer = offer
        self._limits = limits
        self._timeout = timeout
        self._log = channel.session.log
        self._modern = agreement.modern
        self._agreement = agreement
        self._meta = b""
        self._tail = b""
        self._prefixes: dict[str, bytes] = {}
        self._headers: ToolHeaders | None = None
        self._decode_call = decoder(CallResult, modern=self._modern)
        self._decode_tools = tools_decoder(modern=self._modern, skipped=self._log.warning)
        self._closing: asyncio.Task[None] | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        self._recovery: Recovery | None = None
        if self._http is not None and not self._modern:
            from headrace.client.recovery import Recovery

            self._recovery = Recovery(channel, agreement, offer, limits)
        if self._http is not None and self._modern:
            from headrace.client.headers import ToolHeaders

            self._headers = ToolHeaders(self._log.warning)
            # The session must not hold the client: a client that is dropped is closed.
            channel.session.stale_lists = self._headers.list_changed
        self._set_meta(offer.meta if self._modern else b"")

    def __repr__(self) -> str:
        info = self.server_info
        who = f"{info.name} {info.version}" if info is not None else "a server"
        return f"<Client of {who}, {self.protocol_version}{', closed' if self.closed else ''}>"

    # --- what is known of the server -----------------------------------------------------------------

    @property
    def server_info(self) -> Implementation | None:
        """What the server says of itself, or None. Self-declared: decide nothing by it (JR-43)."""
        return self._agreement.server_info

    @property
    def protocol_version(self) -> str:
        """The revision that was agreed on, such as ``"2026-07-28"``."""
        return self._agreement.revision

    @property
    def capabilities(self) -> dict[str, Any]:
        """The server's capabilities object."""
        return self._agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """How a model should use the server, or None."""
        return self._agreement.instructions

    @property
    def closed(self) -> bool:
        """True once the connection is gone, whoever ended it."""
        return self._mux.closed or self._closing is not None

    # --- tools ---------------------------------------------------------------------------------------

    async def list_tools(self, *, timeout: float | None = None) -> list[Tool]:
        """All tools, from all pages (SF-50). Invalid definitions are left out and logged (HN-22).

        ``timeout`` (seconds) is for each page. Raises :class:`RpcError` for the server's error answer.
        """
        tools: list[Tool] = []
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            body = b"" if cursor is None else b'"cursor":' + encode(cursor)
            page: ToolsPage = await self._request("tools/list", body, self._decode_tools, timeout)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
            if cursor in seen or len(seen) >= MAX_PAGES:
                raise RemoteProtocolError("tools/list: the pages of the server do not end")
            seen.add(cursor)
        return tools if self._headers is None else self._headers.learn(tools)

    async def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        reset_timeout_on_progress: bool = False,
        max_total_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallResult:
        """Calls a tool.

        :param arguments: a dict, or a Struct, dataclass or pydantic model that becomes a JSON object.
        :param timeout: seconds without an answer (default: that of the connection; infinity: no limit).
        :param on_progress: called with ``(progress, total, message)`` in order and before this returns;
            may be async, then the calls are awaited one after the other.
        :param reset_timeout_on_progress: progress restarts the clock of ``timeout`` (B80).
        :param max_total_timeout: seconds in all, whatever the progress (default one hour with
            ``reset_timeout_on_progress``, else none).
        :param meta: members for the request's ``_meta``.

        A tool that fails gives a result with ``is_error``. Raises :class:`RpcError` for the server's error
        answer, :class:`RequestTimeout` (the server is told), :class:`ConnectionClosed` when the connection
        ends first, :class:`RemoteProtocolError` for an answer that is no tool result. Cancelling the
        waiting task cancels the call at the server (B75).
        """
        prefix = self._prefixes.get(name)
        if prefix is None:
            prefix = self._prefix(name)
        raw = b"{}" if arguments is None else as_object(arguments, "arguments")
        if (
            on_progress is not None
            or meta is not None
            or reset_timeout_on_progress
            or max_total_timeout is not None
            or self._http is not None
        ):
            outcome: CallResult = await self._request(
                "tools/call",
                prefix + raw,
                self._decode_call,
                timeout,
                name=name,
                on_progress=on_progress,
                extend=reset_timeout_on_progress,
                latest=max_total_timeout,
                meta=meta,
                arguments=raw,
            )
            return outcome
        # The common call of a line connection, without a detour.
        call = self._mux.call(
            "tools/call",
            b"{" + prefix + raw + self._tail,
            self._sink,
            decode=self._decode_call,
            timeout=self._timeout if timeout is None else seconds(timeout, 0),
        )
        try:
            result: CallResult = await call.future
            return result
        except asyncio.CancelledError:
            call.cancel()
            raise

    # --- the rest ------------------------------------------------------------------------------------

    async def ping(self, *, timeout: float | None = None) -> None:
        """Asks the server for a sign of life (MX-20); handshake era only.

        Raises :class:`LocalProtocolError` in the modern era, which has no ping.
        """
        if self._modern:
            raise LocalProtocolError(f"{self.protocol_version} has no ping")
        await self._request("ping", b"", None, timeout)

    async def set_log_level(self, level: str) -> None:
        """Asks for log messages from ``level`` on: for the connection in the handshake era (SF-40), with
        every later request of this client in the modern era (SF-41)."""
        if level not in LOG_LEVELS:
            raise UsageError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
        if self._modern:
            self._set_meta(self._offer.meta + b',"%b":"%b"' % (LOG_LEVEL.encode(), level.encode()))
        else:
            await self._request("logging/setLevel", b'"level":"%b"' % level.encode(), None, None)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> dict[str, Any]:
        """Sends any request and gives its result as it came, also one that is ``input_required``.

        A ``_meta`` in ``params`` is sent beside what the era demands; ``timeout`` and ``on_progress`` are
        those of :meth:`call_tool`. Raises as :meth:`call_tool` does, and
        :class:`LocalProtocolError` for ``initialize``, which is done already.
        """
        if method == "initialize":
            raise LocalProtocolError("initialize was sent already, or does not exist in this era")
        rest = dict(params) if params is not None else {}
        meta = rest.pop("_meta", None)
        name = rest.get(_NAMED.get(method, ""))
        result = await self._request(
            method,
            members(as_object(rest, "params")),
            _read_raw,
            timeout,
            name=name if isinstance(name, str) else None,
            on_progress=on_progress,
            meta=meta,
            arguments=as_object(rest.get("arguments"), "arguments") if method == "tools/call" else b"{}",
        )
        return result  # type: ignore[no-any-return]

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification. Raises :class:`ConnectionClosed` when the connection is gone."""
        raw = None if params is None else as_object(params, "params")
        if self._mux.closed or not self._mux.notify(method.encode(), raw, self._sink):
            raise ConnectionClosed(self._mux.close_reason or "the connection does not take the notification")

    # --- end -----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends the connection; calls that wait raise :class:`ConnectionClosed` at once. Safe to call again,
        from any task, and in any order among clients (B21)."""
        if self._closing is None:
            self._channel.session.stop()
            self._channel.stop(ConnectionClosed("the client was closed"))
            # A task of its own: it goes on when whoever closes is cancelled meanwhile.
            self._closing = asyncio.get_running_loop().create_task(self._channel.close())
        await asyncio.shield(self._closing)
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.aclose()

    # --- how -----------------------------------------------------------------------------------------

    def _set_meta(self, meta: bytes) -> None:
        """Members of ``_meta`` of every request, and what closes the params of a plain call."""
        self._meta = meta
        self._tail = b',"_meta":{' + meta + b"}}" if meta else b"}"

    def _prefix(self, name: str) -> bytes:
        """The members before the arguments of a tool."""
        prefix = b'"name":' + encode(name) + b',"arguments":'
        if len(self._prefixes) < _MAX_PREFIXES:
            self._prefixes[name] = prefix
        return prefix

    async def _request(
        self,
        method: str,
        body: bytes,
        decode: Callable[[bytes], Any] | None,
        timeout: float | None,
        *,
        name: str | None = None,
        on_progress: ProgressCallback | None = None,
        extend: bool = False,
        latest: float | None = None,
        meta: Mapping[str, Any] | None = None,
        arguments: bytes = b"{}",
    ) -> Any:
        """Sends one request; over HTTP once more when the session was lost (B48) or headers were stale."""
        limit = seconds(timeout, self._timeout)
        total = seconds(latest, MAX_TOTAL if extend else 0)
        own = meta_members(meta)
        relay = Relay(on_progress, self._channel.session.callback_failed) if on_progress is not None else None
        again = True
        while True:
            token = b""
            if relay is not None or extend:
                token = b'"progressToken":%d' % self._mux.next_call_id
            meta_body = b",".join([part for part in (token, own, self._meta) if part])
            params = join_members(body, b'"_meta":{' + meta_body + b"}" if meta_body else b"")
            recovery = self._recovery
            epoch = 0
            if recovery is not None:
                if recovery.running:
                    await recovery.settled()
                epoch = recovery.epoch
            extra = self._headers.lines(name, arguments) if self._headers is not None else None
            call = self._mux.call(
                method,
                params if len(params) > 2 else None,
                self._sink,
                decode=decode,
                timeout=limit,
                on_progress=relay,
                extend=extend,
                latest=total,
                name=name,
                extra=extra,
            )
            try:
                result = await call.future
                if relay is not None:
                    await relay.finish()
                return result
            except asyncio.CancelledError:
                call.cancel()
                if relay is not None:
                    relay.stop()
                raise
            except HeadraceError as exc:
                if relay is not None:
                    # The peer's own error comes behind its progress; a call that failed here fails now.
                    if isinstance(exc, RpcError):
                        await relay.finish()
                    else:
                        relay.stop()
                if self._http is None or not again or self._mux.closed:
                    raise
                again = False
                if not await self._cured(exc, call, epoch):
                    raise

    async def _cured(self, exc: HeadraceError, call: PendingCall, epoch: int) -> bool:
        """Whether what made a request over HTTP fail was put right, so that it may be sent once more."""
        if self._modern:
            if call.method != "tools/call" or getattr(exc, "code", None) != HEADER_MISMATCH:
                return False
            await self.list_tools()  # HN-24: the schema has changed, or was never read
            return True
        status = exc.status if isinstance(exc, HttpStatusError) else getattr(exc, "http_status", None)
        if status != 404 or call.attached is None or call.attached.session_id is None:
            return False
        assert self._recovery is not None
        await self._recovery.renew(epoch)  # one new session for all callers that lost the old one (B48)
        self._agreement = self._recovery.agreement
        return True


def _read_raw(raw: bytes) -> Any:
    result = decode_any(raw)
    if result.get("resultType") != "input_required":
        check_type(result)
    return result
