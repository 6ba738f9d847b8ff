"""The client's side of a connection: what the server sends besides answers (L5 of a client).

Requests of the server are answered in the handshake era (``ping`` with ``{}``, others with -32601) and
never in the modern era, where servers send none (JR-14, JR-15).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.callbacks import Coalescer, Relay
from headrace.errors import RpcError
from headrace.jsonrpc import LATEST_HANDSHAKE, METHOD_NOT_FOUND, R5
from headrace.mux import Exchange, FunctionHandler, Gate, Revision
from headrace.types import decode_relaxed
from headrace.types.v2026_07_28 import LoggingMessageNotificationParams

if TYPE_CHECKING:
    from headrace.mux import Sink
    from headrace.wire import Envelope

__all__ = ("ClientSession",)

_LISTS = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}
_decode_message = msgspec.json.Decoder(LoggingMessageNotificationParams).decode


def _ping(exchange: Exchange) -> bytes:
    return b"{}"


class ClientSession(Gate):
    """The gate of a client's mux. ``modern`` is set once the era is known."""

    answers_bad_input = False

    def __init__(
        self,
        log: logging.Logger,
        on_log: Callable[[LoggingMessageNotificationParams], Any] | None,
        on_list_changed: Callable[[str], Any] | None,
    ) -> None:
        self.log = log
        self.modern = False
        self.handshake = Revision(
            LATEST_HANDSHAKE, modern=False, requests={b"ping": FunctionHandler(_ping, urgent=True)}
        )
        self.silent = Revision(R5, modern=True)
        self.messages = Relay(on_log, self.callback_failed) if on_log is not None else None
        self.lists = Coalescer(on_list_changed, self.callback_failed) if on_list_changed is not None else None
        self.stale_lists: Callable[[str], None] | None = None
        """Told at once about a changed list: what the client remembers of it is void."""
        self._warned = False

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        return self.silent if self.modern else self.handshake

    def unknown_method(self, revision: Revision, envelope: Envelope, sink: Sink) -> RpcError | None:
        if revision.modern:
            self.log.warning("the server sent a request (%s) against the protocol: ignored", envelope.method)
            return None
        return RpcError(METHOD_NOT_FOUND, "unknown method")

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        method = envelope.method
        if method == "notifications/message":
            if self.messages is not None:
                self._message(envelope.params or b"{}")
        elif method in _LISTS:
            if self.stale_lists is not None:
                self.stale_lists(_LISTS[method])
            if self.lists is not None:
                self.lists.changed(_LISTS[method])

    def _message(self, params: bytes) -> None:
        assert self.messages is not None
        try:
            message = _decode_message(params)
        except msgspec.MsgspecError:
            try:
                message = decode_relaxed(params, LoggingMessageNotificationParams)
            except msgspec.MsgspecError as exc:
                self.log.warning("a log message of the server is not valid: %s", exc)
                return
        self.messages(message)

    def stray(self, envelope: Envelope, sink: Sink) -> None:
        self.log.debug("an answer nobody waits for was dropped")

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        # Log lines of a server on its stdout come by the thousand: one warning, then silence (B08).
        if not self._warned:
            self._warned = True
            self.log.warning("the server sent what is no message (%s); more of it is ignored", message)

    def progress_failed(self, exc: BaseException) -> None:
        self.callback_failed(exc)

    def callback_failed(self, exc: BaseException) -> None:
        """A callback of the application raised: the connection goes on."""
        self.log.error("a callback raised", exc_info=exc)

    def stop(self) -> None:
        """The client closes: no more callbacks."""
        if self.messages is not None:
            self.messages.stop()
        if self.lists is not None:
            self.lists.stop()
