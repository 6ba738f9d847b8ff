"""The client's side of a connection: what the server sends besides answers (L5 of a client).

Requests of the server are answered in the handshake era (``ping`` with ``{}``, those with a callback by it,
others with -32601) and never in the modern era, where servers send none (JR-14, JR-15).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.arguments import encode
from headrace.client.callbacks import Relay
from headrace.client.results import decode_any
from headrace.client.watch import Watch
from headrace.errors import HeadraceError, RemoteProtocolError, RpcError
from headrace.jsonrpc import LATEST_HANDSHAKE, METHOD_NOT_FOUND, R2, R5
from headrace.limits import DEFAULT
from headrace.mux import Exchange, FunctionHandler, Gate, Handler, Revision, serve_batch
from headrace.types import decode_relaxed
from headrace.types.v2026_07_28 import LoggingMessageNotificationParams

if TYPE_CHECKING:
    from headrace.client.channels import Channel
    from headrace.client.inputs import Inputs
    from headrace.client.negotiation import Phase
    from headrace.mux import Observer, Sink
    from headrace.wire import Envelope

__all__ = ("ClientSession",)

RESTORE_TIMEOUT = 10.0
"""Seconds for each request that gives a new session what the old one had been told."""

_METHOD_SHOWN = 80
"""Characters of a method that are repeated."""

_decode_message = msgspec.json.Decoder(LoggingMessageNotificationParams).decode


def _ping(exchange: Exchange) -> bytes:
    return b"{}"


class ClientSession(Gate):
    """The gate of a client's mux. ``modern`` is set once the era is known."""

    answers_bad_input = False
    observer: Observer | None = None
    """Who is told of every message of the connection."""

    def __init__(
        self,
        log: logging.Logger,
        on_log: Callable[[LoggingMessageNotificationParams], Any] | None = None,
        on_list_changed: Callable[[str], Any] | None = None,
        on_resource_updated: Callable[[str], Any] | None = None,
        inputs: Inputs | None = None,
        on_elicitation_complete: Callable[[str], Any] | None = None,
    ) -> None:
        self.log = log
        self.modern = False
        requests: dict[bytes, Handler] = {b"ping": FunctionHandler(_ping, urgent=True)}
        if inputs is not None:
            requests.update(inputs.handlers())
        self.handshake = Revision(LATEST_HANDSHAKE, modern=False, requests=requests)
        self.silent = Revision(R5, modern=True)
        self.messages = Relay(on_log, self.callback_failed) if on_log is not None else None
        self.watch = Watch(log, on_list_changed, on_resource_updated)
        self.notes: dict[str, Callable[[bytes], None]] = {}
        """What takes other notifications of the server, by method: gets the raw params."""
        self.completions: Relay | None = None
        if on_elicitation_complete is not None:
            self.completions = Relay(on_elicitation_complete, self.callback_failed)
            self.notes["notifications/elicitation/complete"] = self._elicitation_complete
        self.log_level: str | None = None
        """The level that was asked for in the handshake era."""
        self.max_batch = DEFAULT.max_batch
        self._warned = False
        self._strangers = 0
        self._refused = 0

    def agreed(self, revision: str) -> None:
        """The handshake settled on ``revision``."""
        if revision != self.handshake.name:
            self.handshake = Revision(revision, modern=False, requests=self.handshake.requests)

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        return self.silent if self.modern else self.handshake

    def batch(self, envelope: Envelope, sink: Sink) -> bool:
        """Arrays belong to 2025-03-26 alone, once it was agreed on; their answers leave as one array (JR-20..22)."""
        mux = getattr(sink, "mux", None)
        if self.modern or self.handshake.name != R2 or mux is None:
            return False
        serve_batch(mux, envelope, sink, most=self.max_batch)
        return True

    def unknown_method(self, revision: Revision, envelope: Envelope, sink: Sink) -> RpcError | None:
        if revision.modern:
            call = getattr(sink, "receiving_call", None)
            if call is not None:  # HTTP: the request whose answer it came on is at fault (JR-15)
                text = f"{call.method}: the server sent a request ({envelope.method}) in its answer"
                call.fail(RemoteProtocolError(text))
            # One line, then silence: a peer that goes on must not fill the log.
            self._strangers += 1
            if self._strangers == 1:
                self.log.warning(
                    "the server sent a request (%s) against the protocol: ignored, as are more of them", envelope.method
                )
            return None
        method = (envelope.method or "")[:_METHOD_SHOWN]
        self._refused += 1
        if self._refused == 1:
            self.log.warning(
                "the server asked for %r, which nothing here answers: refused, as are more of them", method
            )
        return RpcError(METHOD_NOT_FOUND, f"this client does not answer {method}")

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        method = envelope.method
        if method == "notifications/message":
            if self.messages is not None:
                self._message(envelope.params or b"{}")
        elif method is not None and not self.watch.notified(method, envelope.params, self.modern):
            take = self.notes.get(method)
            if take is not None:
                take(envelope.params or b"{}")

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

    def _elicitation_complete(self, params: bytes) -> None:
        found = decode_any(params)
        id = found.get("elicitationId") if isinstance(found, dict) else None
        if self.completions is not None and isinstance(id, str):
            self.completions(id)

    def stray(self, envelope: Envelope, sink: Sink) -> None:
        self.log.debug("an answer nobody waits for was dropped")

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        if code == METHOD_NOT_FOUND:  # a message like any other: `unknown_method` has said what there is to say
            return
        # Log lines of a server on its stdout come by the thousand: one warning, then silence (B08).
        if not self._warned:
            self._warned = True
            self.log.warning("the server sent what is no message (%s); more of it is ignored", message)

    def progress_failed(self, exc: BaseException) -> None:
        self.callback_failed(exc)

    def callback_failed(self, exc: BaseException) -> None:
        """A callback of the application raised: the connection goes on."""
        self.log.error("a callback raised", exc_info=exc)

    async def restore(self, channel: Channel, phase: Phase) -> None:
        """Tells a new session what the old one had been told, and forgets what was learnt of that (B48)."""
        for kind in ("tools", "prompts", "resources"):
            self.watch.forget(kind, None)
        if self.log_level is not None:
            phase.name = "setting the log level again"
            await self._repeat(channel, "logging/setLevel", {"level": self.log_level})
        for uri in list(self.watch.subscribed):
            phase.name = "subscribing again"
            await self._repeat(channel, "resources/subscribe", {"uri": uri})

    async def _repeat(self, channel: Channel, method: str, params: dict[str, Any]) -> None:
        try:
            await channel.mux.call(method, encode(params), channel.sink, timeout=RESTORE_TIMEOUT)
        except HeadraceError as exc:
            self.log.warning("%s failed for the new session: %s", method, exc)

    def stop(self) -> None:
        """The client closes: no more callbacks."""
        if self.messages is not None:
            self.messages.stop()
        if self.completions is not None:
            self.completions.stop()
        self.watch.stop()
