"""Client: calls a server over one connection, whatever the transport and the era."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.client.arguments import as_object, encode, members, seconds
from headrace.client.core import Options, ProgressCallback
from headrace.client.results import CallResult, decode_any, reader_of
from headrace.client.schemas import OutputSchemas
from headrace.client.subscriptions import Subscriptions
from headrace.client.tasks import TaskHandle, read_legacy_made
from headrace.errors import ConnectionClosed, LocalProtocolError, NotOffered, UsageError
from headrace.jsonrpc import LOG_LEVEL, LOG_LEVELS, NAMED, R3

if TYPE_CHECKING:
    from headrace.client.channels import Channel
    from headrace.client.negotiation import Agreement

__all__ = ("Client",)

_MAX_PREFIXES = 1_024


class Client(Subscriptions):
    """An open connection to a server; made by :func:`headrace.connect`.

    Belongs to the event loop it was made on. Any number of calls may run at the same time, from any task.
    """

    def __init__(self, channel: Channel, agreement: Agreement, options: Options) -> None:
        super().__init__(channel, agreement, options)
        self._prefixes: dict[str, bytes] = {}
        self._output_schemas: dict[str, Any] = {}
        self._decode_call = self._reader(CallResult, asks=True)
        if options.validate and self.protocol_version >= R3:
            self._schemas = OutputSchemas(self._limits, self._log.warning)
            self._output_schemas = self._schemas.known
            channel.session.watch.stale.append(self._schemas.changed)
        if self._http is not None and self._modern:
            from headrace.client.headers import ToolHeaders

            self._headers = ToolHeaders(self._log.warning)
            channel.session.watch.stale.append(self._headers.changed)

    # --- tools ---------------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        reset_timeout_on_progress: bool | None = None,
        max_total_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
    ) -> CallResult:
        """Calls a tool.

        :param arguments: a dict, or a Struct, dataclass or pydantic model that becomes a JSON object.
        :param timeout: seconds without an answer (default: that of the connection; infinity: no limit).
        :param on_progress: called with ``(progress, total, message)`` in order and before this returns;
            may be async, then the calls are awaited one after the other.
        :param reset_timeout_on_progress: progress restarts the clock of ``timeout`` (B80); the default is that
            of the connection.
        :param max_total_timeout: seconds in all, whatever the progress (default: that of the connection, else
            one hour with ``reset_timeout_on_progress``, else none).
        :param meta: members for the request's ``_meta``.
        :param input_responses, request_state: answers by key and the server's state, to go on by hand after
            :class:`InputRequired`.

        When the server asks for client input in the modern era, the callbacks of :func:`headrace.connect`
        answer and the call goes on by itself (MX-32). With ``tasks=True`` a call that the server makes a task
        is followed to its end; ``timeout`` is then for each look at it, ``max_total_timeout`` for all of it,
        and whoever stops waiting cancels the task.

        A tool that fails gives a result with ``is_error``. Raises :class:`RpcError` for the server's error
        answer, :class:`RequestTimeout` (the server is told), :class:`ConnectionClosed` when the connection
        ends first, :class:`RemoteProtocolError` for an answer that is no tool result, or whose structured
        content does not fit the output schema that the tool was last listed with (SF-06). Cancelling the
        waiting task cancels the call at the server (B75). Raises :class:`InputRequired` when the server asks
        for input that has no callback, :class:`InputRefused` when a callback refuses or fails.
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
            or input_responses is not None
            or request_state is not None
            or not self._direct
        ):
            outcome: CallResult = await self._request(
                "tools/call",
                prefix + raw + self._by_hand(input_responses, request_state),
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
        # The common call of a line connection, without a detour.
        call = self._mux.call(
            "tools/call",
            b"{" + prefix + raw + self._tail,
            self._sink,
            decode=self._decode_call,
            timeout=self._timeout if timeout is None else seconds(timeout, 0),
        )
        try:
            result = await call.future
        except asyncio.CancelledError:
            call.cancel()
            raise
        if type(result) is not CallResult:
            result = await self._request(
                "tools/call", prefix + raw, self._decode_call, timeout, name=name, asked=result
            )
        if self._output_schemas and name in self._output_schemas:
            self._check(name, result)
        return result  # type: ignore[no-any-return]

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
        prefix = b'"name":' + encode(name) + b',"arguments":'
        if len(self._prefixes) < _MAX_PREFIXES:
            self._prefixes[name] = prefix
        return prefix


def _read_raw(raw: bytes) -> Any:
    result = decode_any(raw)
    if result.get("resultType") != "input_required":
        reader_of(result, None)
    return result
