"""Client: calls a server over one connection, whatever the transport and the era."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.arguments import as_object, encode, members, seconds
from headrace.client.core import Options, ProgressCallback
from headrace.client.results import CallResult, decode_any, reader_of
from headrace.client.schemas import OutputSchemas
from headrace.client.subscriptions import Subscriptions
from headrace.client.tasks import TaskHandle, read_legacy_made
from headrace.errors import ConnectionClosed, HeadraceError, LocalProtocolError, NotOffered, UsageError
from headrace.jsonrpc import LOG_LEVEL, LOG_LEVELS, NAMED, R3
from headrace.mux.observer import joined

if TYPE_CHECKING:
    from headrace.client.channels import Channel
    from headrace.client.negotiation import Agreement
    from headrace.mux import Observer

__all__ = ("Client",)

_MAX_PREFIXES = 1_024


class Client(Subscriptions):
    """An open connection to a server; made by :func:`headrace.connect`.

    Belongs to the event loop it was made on. Any number of calls may run at the same time, from any task.
    """

    def __init__(self, channel: Channel, agreement: Agreement, options: Options) -> None:
        super().__init__(channel, agreement, options)
        self._prefixes = {}
        self._output_schemas = {}
        self._read_call = msgspec.json.Decoder(CallResult).decode
        self._decode_call = self._reader(CallResult, asks=True)
        if options.validate and self.protocol_version >= R3:
            self._schemas = OutputSchemas(self._limits, self._log.warning)
            self._output_schemas = self._schemas.known
            channel.session.watch.stale.append(self._schemas.changed)
        if self._http is not None and self._modern:
            from headrace.client.headers import ToolHeaders

            self._headers = ToolHeaders(self._log.warning)
            channel.session.watch.stale.append(self._headers.changed)

    def observe(self, observer: Observer) -> None:
        """Has ``observer`` told of every message of this connection from now on; ``connect(observer=...)`` does it
        from the first one on."""
        runtime = self._mux.runtime
        runtime.observer = joined(runtime.observer, observer)

    # --- tools ---------------------------------------------------------------------------------------

    async def _call_tool(
        self,
        name: str,
        arguments: Any,
        timeout: float | None,
        on_progress: ProgressCallback | None,
        reset_timeout_on_progress: bool | None,
        max_total_timeout: float | None,
        meta: Mapping[str, Any] | None,
        input_responses: Mapping[str, Any] | None,
        request_state: str | None,
    ) -> CallResult:
        """:meth:`call_tool` when it is not the plain one."""
        raw = as_object(arguments, "arguments")
        outcome: CallResult = await self._request(
            "tools/call",
            self._prefix(name) + raw + self._by_hand(input_responses, request_state),
            self._decode_call,
            timeout,
            name=name,
            on_progress=on_progress,
            extend=reset_timeout_on_progress,
            latest=max_total_timeout,
            meta=meta,
            arguments=raw,
        )
        if name in self._output_schemas:
            self._check(name, outcome)
        return outcome

    async def _call_long(
        self, name: str, body: bytes, raw: bytes, timeout: float | None, asked: Any = None, again: bool = True
    ) -> CallResult:
        """A plain call from where it stopped being plain: with ``asked`` its result is not complete yet."""
        outcome: CallResult = await self._request(
            "tools/call", body, self._decode_call, timeout, name=name, arguments=raw, asked=asked, again=again
        )
        if name in self._output_schemas:
            self._check(name, outcome)
        return outcome

    async def _call_again(
        self, name: str, raw: bytes, timeout: float | None, exc: HeadraceError, call: Any, epoch: int | None
    ) -> CallResult:
        """A plain call over HTTP that failed: once more when the cause could be cured."""
        if not await self._cured(exc, call, epoch or 0):
            raise exc
        return await self._call_long(name, self._prefix(name) + raw, raw, timeout, again=False)

    def _is_open(self, result: Any) -> bool:
        return type(result) is not CallResult

    async def start_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> TaskHandle:
        """Calls a tool and gives the handle of its task instead of waiting for it.

        ``ttl`` (seconds) is how long a 2025-11-25 server is asked to keep it; in 2026-07-28 the server alone
        decides, also whether there is a task at all: the handle may have the result already. The others
        are those of :meth:`call_tool`.

        Raises :class:`UsageError` without ``tasks=True``, :class:`NotOffered` when a handshake-era server has
        no tasks, :class:`RpcError` when it refuses to run this tool as one.
        """
        if not self._tasks:
            raise UsageError("tasks are off: connect(..., tasks=True)")
        raw = b"{}" if arguments is None else as_object(arguments, "arguments")
        body, decode = self._prefix(name) + raw, self._decode_call
        if not self._modern:
            if not self._offers_legacy_tasks:
                raise NotOffered("the server does not offer tasks")
            wish = b"" if ttl is None else b'"ttl":%d' % round(seconds(ttl, 0) * 1000)
            body, decode = body + b',"task":{' + wish + b"}", read_legacy_made
        made = await self._request(
            "tools/call", body, decode, timeout, name=name, meta=meta, arguments=raw, follow=False
        )
        return made if isinstance(made, TaskHandle) else TaskHandle(self, "", None, made)

    def task(self, task_id: str) -> TaskHandle:
        """The handle of a task whose id was kept, of this or an earlier client (TK-29). Asks nothing yet."""
        if not self._tasks:
            raise UsageError("tasks are off: connect(..., tasks=True)")
        return TaskHandle(self, task_id, None)

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
        every later request of this client in the modern era (SF-41). Raises :class:`NotOffered` when a server of
        the handshake era has no such logging, :class:`UsageError` for an unknown level."""
        if level not in LOG_LEVELS:
            raise UsageError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
        if self._modern:
            self._set_meta(self._offer.meta + b',"%b":"%b"' % (LOG_LEVEL.encode(), level.encode()))
        else:
            self._needs("logging")
            await self._request("logging/setLevel", b'"level":"%b"' % level.encode(), None, None)
            self._channel.session.log_level = level

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
        name = rest.get(NAMED.get(method, ""))
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
        if self._output_schemas and name in self._output_schemas:
            self._check(name, result)
        return result  # type: ignore[no-any-return]

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification. Raises :class:`ConnectionClosed` when the connection is gone."""
        raw = None if params is None else as_object(params, "params")
        if self._mux.closed or not self._mux.notify(method.encode(), raw, self._sink):
            raise ConnectionClosed(self._mux.close_reason or "the connection does not take the notification")

    # --- how -----------------------------------------------------------------------------------------

    def _check(self, name: str, result: Any) -> None:
        if self._schemas is not None and type(result) is CallResult:
            self._schemas.check(name, result)

    def _prefix(self, name: str) -> bytes:
        """The members before the arguments of a tool."""
        prefix: bytes | None = self._prefixes.get(name)
        if prefix is not None:
            return prefix
        prefix = b'"name":' + encode(name) + b',"arguments":'
        if len(self._prefixes) < _MAX_PREFIXES:
            self._prefixes[name] = prefix
        return prefix


def _read_raw(raw: bytes) -> Any:
    result = decode_any(raw)
    if result.get("resultType") != "input_required":
        reader_of(result, None)
    return result
