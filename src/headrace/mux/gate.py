"""What the multiplexer asks of the protocol layer above it.

The mux knows JSON-RPC and the two notifications that correlate (``cancelled``, ``progress``);
everything else that is unusual goes through one :class:`Gate`. None of this is on the fast path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.errors import RpcError
from headrace.jsonrpc import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from headrace.mux import Revision, Sink
    from headrace.wire import Envelope

__all__ = ("Gate",)


class Gate:
    """Defaults: answers bad input, knows no revision, drops what nobody asked for."""

    no_channel = ""
    """Why the other side cannot be sent requests of ours, whatever it can do; empty where it can."""

    answers_bad_input = True
    """Whether input that is no request is answered. A client never does (B07)."""

    is_ending = False
    """The connection closes: what came is answered, nothing new is kept open."""

    def ending(self) -> None:
        """Told when the connection begins to close, before requests in flight are waited for."""

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        """The revision to serve this request under, when the fast decision did not apply.

        Raises :class:`RpcError` for the answer to give instead (VN-61, VN-62, HN-30).
        """
        raise RpcError(METHOD_NOT_FOUND, "no such method")

    def unknown_method(self, revision: Revision, envelope: Envelope, sink: Sink) -> RpcError | None:
        """The answer to a request without a handler (JR-32); None answers nothing (JR-15)."""
        return RpcError(METHOD_NOT_FOUND, "unknown method", http_status=404 if revision.modern else None)

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        """A notification other than ``cancelled`` and ``progress``. Never answered (JR-07)."""

    def stray(self, error: Any, sink: Sink) -> None:
        """An answer nobody waits for, or an error without a usable id (MX-01, JR-13).

        ``error`` is the raw ``error`` member, None for a result, or the Envelope of a malformed answer.
        """

    def answer_elsewhere(self, id: str, frame: bytes, sink: Sink) -> bool:
        """An answer to none of the requests of a mux that has a ``prefix``; False when it is for nobody. ``sink.taken``
        may be set to a future that says when it is in safe hands."""
        return False

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        """Told about every unreadable or malformed message, for the log."""

    def batch(self, envelope: Envelope, sink: Sink) -> bool:
        """A JSON array. True when it was served (JR-20), see :func:`headrace.mux.serve_batch`; else the mux
        refuses it with one error."""
        return False

    def progress_failed(self, exc: BaseException) -> None:
        """A progress callback of ours raised; the call goes on."""

    def lost(self, reason: Any) -> None:
        """The connection of a scoped mux ended. ``reason`` is a text or an exception."""
