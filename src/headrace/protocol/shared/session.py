"""One handshake-era session of which other processes have a part too (B95, HO-30..HO-34).

What the session is stands in its record: the negotiated revision, what the client said of itself, whose it is, and in
parts beside that its log level and what it is subscribed to. Each process that is asked for it makes a session object
of its own from the record. An answer of the client to a question of another process is passed on to that one, which
the id of the question names; what the client cancels, and may run anywhere, is told to all.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from headrace.protocol.backplane import BackplaneLost
from headrace.protocol.http_sessions import HttpSession
from headrace.protocol.shared.session_streams import StreamSharing

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from headrace.mux import Revision, Sink
    from headrace.protocol.session import Hello
    from headrace.protocol.shared.sessions import SharedSessions
    from headrace.wire import Envelope

__all__ = ("LEVEL", "MAX_HELLO", "NOT_REACHED", "URI", "Record", "SharedSession", "binding_of")

LEVEL = "level"
"""The part of a record that holds the log level."""
URI = "u:"
"""Begins the name of the part for one subscription."""
MAX_HELLO = 64 * 1024
"""Bytes of what a client says of itself, in a record."""
MAX_NOTE = 4 * 1024
"""Bytes of a cancellation, or of progress, that is told to other processes: each is kept for all of them."""
MAX_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer that is passed on to the process that asked."""
NOT_REACHED = "what the processes of this server share cannot be reached now: try again"


class Record(msgspec.Struct, array_like=True):
    """What a record holds."""

    version: str
    hello: bytes
    """The params of ``initialize`` as they came."""
    binding: bytes
    """See :func:`binding_of`."""
    creator: str
    """The process on which it began."""


def binding_of(principal: Any) -> bytes:
    """What stands for a principal in a record: nothing that can be read back. ``str()`` tells principals apart."""
    if principal is None:
        return b""
    return hashlib.sha256(b"principal " + str(principal).encode("utf-8", "surrogatepass")).digest()


def unreachable() -> RpcError:
    """The answer to what needs the others while they cannot be reached."""
    return RpcError(INTERNAL_ERROR, NOT_REACHED, http_status=503, refusal="backplane")


class SharedSession(StreamSharing, HttpSession):
    """One session as this process sees it."""

    creator = ""
    """The process on which it began."""
    binding = b""
    bound = False
    """``principal`` is known, and not only its binding."""
    generation = 0
    """Messages were missed since the session was looked up when the store has another one."""
    touched = 0.0
    """When its record was told last that it is used."""
    touching = False
    unsaved = False
    """Its record may be gone, because everything that was kept is."""
    feeding = False
    """A message that another process passed on is being taken: it is not passed on again."""

    def __init__(self, server: Any, store: SharedSessions) -> None:
        super().__init__(server, store)
        self.store = store
        assert self.mux is not None
        self.mux.prefix = store.backplane.worker

    def belongs_to(self, principal: Any) -> bool:
        """Whether it is a session of ``principal`` (HO-34)."""
        if self.bound:
            return bool(self.principal == principal)
        if binding_of(principal) != self.binding:
            return False
        self.principal = principal
        self.bound = True
        return True

    @property
    def in_use(self) -> bool:
        return super().in_use or bool(self.followers) or (self.mux is not None and bool(self.mux.pending))

    # --- what is kept -------------------------------------------------------------------------------

    def opened(self, revision: Revision, hello: Hello) -> Awaitable[None]:
        super().opened(revision, hello)
        if len(hello.raw) > MAX_HELLO:
            raise RpcError(INVALID_PARAMS, f"initialize says more than {MAX_HELLO} bytes: it cannot be kept")
        return self.store.keep(self)

    def render(self) -> bytes:
        """The record."""
        assert self.hello is not None
        record = Record(self.version.decode(), self.hello.raw, self.binding, self.creator)
        return msgspec.msgpack.encode(record)

    def parts(self) -> dict[str, bytes]:
        """The parts beside it that are this room's."""
        found = {URI + uri: b"" for uri in self.subscriptions}
        if self.log_level is not None and self.log_level != type(self).log_level:
            found[LEVEL] = self.log_level.encode()
        return found

    def apply(self, name: str, value: bytes | None) -> None:
        """Another process changed a part."""
        if name == LEVEL and value is not None:
            self.log_level = value.decode()
        elif name.startswith(URI):
            try:
                super().follow(name[len(URI) :], value is not None)
            except RpcError as exc:
                self.store.log.debug("a subscription of another process is not followed here: %s", exc.message)

    async def _change(self, name: str, value: bytes | None) -> None:
        """Keeps a part, and tells the others. Raises the answer."""
        try:
            if not await self.store.backplane.put_part(self.record, name, value):
                raise RpcError(INVALID_REQUEST, "the session has ended", http_status=404)
        except BackplaneLost:
            raise unreachable() from None
        self.store.tell_part(self, name, value)

    async def _set_level(self, level: str) -> None:
        await self._change(LEVEL, level.encode())
        self.log_level = level

    async def _follow(self, uri: str, wanted: bool) -> None:
        if wanted:
            super().follow(uri, True)  # the bounds are its own
        try:
            await self._change(URI + uri, b"" if wanted else None)
        except RpcError:
            if wanted and not self.ended:
                super().follow(uri, False)
            raise
        if not wanted:
            super().follow(uri, False)

    def set_log_level(self, level: str) -> Awaitable[None]:
        return self._set_level(level)

    def follow(self, uri: str, wanted: bool) -> Awaitable[None] | None:
        if wanted == (uri in self.subscriptions):
            return None
        return self._follow(uri, wanted)

    def stream_opened(self, sink: Any) -> None:
        self.ready = True  # whichever process was told
        super().stream_opened(sink)

    # --- what is for other processes ----------------------------------------------------------------

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        method = envelope.method
        if method not in ("notifications/cancelled", "notifications/progress"):
            super().notify(envelope, sink)
            if method == "notifications/initialized":
                self.store.tell_ready(self)
        elif not self.feeding:
            # Of a request, or for one, that is not this process's.
            params = envelope.params or b"{}"
            if len(params) > MAX_NOTE and method == "notifications/cancelled":
                params = _without_reason(params)
            if len(params) <= MAX_NOTE:
                self.store.pass_note(self, b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params))

    def answer_elsewhere(self, id: str, frame: bytes, sink: Sink) -> bool:
        if len(frame) > MAX_ANSWER:
            error = {"code": INVALID_REQUEST, "message": f"the client's answer has more than {MAX_ANSWER} bytes"}
            frame = msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})
        return not self.feeding and self.store.pass_answer(self, id, frame, sink)


class _Cancelled(msgspec.Struct):
    requestId: msgspec.Raw


def _without_reason(params: bytes) -> bytes:
    """What a cancellation has to say: which request."""
    try:
        return msgspec.json.encode(msgspec.json.decode(params, type=_Cancelled))
    except msgspec.DecodeError:
        return params
