"""The gate of HTTP requests outside sessions: which era they belong to, and their mirrored headers.

Strategy: the sink itself recognises the usual modern request by comparing bytes; only what is unusual
comes here, and here the full rules run in the order of HN-30. A handshake begins a session, whose own
mux and gate serve everything that follows.
"""

from __future__ import annotations

import base64
import binascii
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import (
    HANDSHAKE_REVISIONS,
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_REVISIONS,
    R2,
)
from headrace.mux import Gate, serve_batch
from headrace.protocol.session import Hello, check_modern_meta, unsupported_version

if TYPE_CHECKING:
    from headrace.mux import Exchange, Mux, Revision
    from headrace.protocol.http_sessions import HttpSession, SessionStore
    from headrace.protocol.tables import Tables
    from headrace.wire import Envelope

__all__ = ("HttpDoor", "decode_header_value")

_VERSION = b"mcp-protocol-version"
_METHOD = b"mcp-method"
_NAME = b"mcp-name"
_PARAM = b"mcp-param-"
_MODERN = frozenset(name.encode() for name in MODERN_REVISIONS)
_HANDSHAKES = frozenset(name.encode() for name in HANDSHAKE_REVISIONS)
_NAMED = {
    "tools/call": ("name", "params.name"),
    "prompts/get": ("name", "params.name"),
    "resources/read": ("uri", "params.uri"),
    "tasks/get": ("task_id", "params.taskId"),
    "tasks/update": ("task_id", "params.taskId"),
    "tasks/cancel": ("task_id", "params.taskId"),
}
_PLAIN = re.compile(rb"[\x20-\x7e\t]*")
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?")
_MISSING: Any = object()

_decode = msgspec.json.Decoder().decode
_decode_str = msgspec.json.Decoder(str).decode


def decode_header_value(value: bytes) -> str:
    """The text a header value stands for: as it is, or behind ``=?base64?...?=`` (HN-11, HN-12).

    Raises ValueError for characters that must have been encoded, and for anything but canonical,
    padded Base64 of UTF-8 between the markers.
    """
    if value.startswith(b"=?base64?") and value.endswith(b"?=") and len(value) >= 11:
        coded = value[9:-2]
        try:
            raw = base64.b64decode(coded, validate=True)
        except binascii.Error as exc:
            raise ValueError("not Base64") from exc
        if base64.b64encode(raw) != coded:
            raise ValueError("not canonical Base64")
        return raw.decode("utf-8")
    if not _PLAIN.fullmatch(value):
        raise ValueError("characters outside printable ASCII")
    return value.decode("ascii")


class Passing:
    """What an ``initialize`` opens where nothing is kept."""

    detached = True

    def opened(self, revision: Revision, hello: Hello) -> None:
        """Every later request says for itself what it is."""


def _mismatch(message: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, message, http_status=400)


class HttpDoor(Gate):
    """Gate of the mux that serves everything outside sessions.

    ``server`` offers ``tables``, ``log``, ``lifespan_state`` and ``header_parameters(name)``;
    ``sessions`` is the store in which a handshake begins one. ``stateless``: no session begins, and each
    request of the handshake era is served by itself, under its version header (HO-35). ``mux`` is
    set by the endpoint.
    """

    log_level = None
    client_info = None
    no_channel = "outside of sessions a server sends no requests"

    def __init__(self, server: Any, sessions: SessionStore, *, stateless: bool = False) -> None:
        self.server = server
        self.stateless = stateless
        self.mux: Mux | None = None
        self.client_capabilities: dict[str, Any] = {}
        self.tables: Tables = server.tables
        self.sessions = sessions

    def ending(self) -> None:
        """The listener closes: its listens get their result (SF-74)."""
        self.is_ending = True
        self.server.hub.end(self)

    def begin(self, exchange: Exchange) -> HttpSession | Passing:
        """The session that an ``initialize`` opens; the sink names it in the answer (HO-30)."""
        if self.stateless:
            return Passing()
        session = self.sessions.begin(exchange.principal)
        exchange.sink.opened(session)  # type: ignore[attr-defined]
        return session

    def classify(self, envelope: Envelope, sink: Any) -> Revision:
        """VN-62, then HN-30 steps 7, 8, 9 and 11; raises the answer to the first fault."""
        fields: list[tuple[bytes, bytes]] = sink.fields()
        versions = [value for name, value in fields if name == _VERSION]
        header = versions[0] if versions and versions[0] else None
        modern_body = envelope.protocol_version is not None
        if len(versions) < 2 and header not in _MODERN:
            first = envelope.method == "initialize"
            if header in _HANDSHAKES or (header is None and not modern_body):
                if first:
                    return self.tables.handshake
                if self.stateless:
                    # HO-41, VN-63: without a header nothing is known.
                    return self.tables.detached[R2 if header is None else header.decode("ascii")]
                raise RpcError(
                    INVALID_REQUEST,
                    "no session: send the Mcp-Session-Id that initialize gave, or the headers and _meta of "
                    + MODERN_REVISIONS[0],
                    http_status=400,
                )
            if first and not modern_body:
                # B61: the header of an initialize is not looked at, its body decides.
                return self.tables.handshake
        version = check_modern_meta(envelope)
        self._check_version(versions, version)
        self._check_mirror(_METHOD, "Mcp-Method", "the method", envelope.method or "", fields)
        source = _NAMED.get(envelope.method or "")
        if source is not None:
            raw = getattr(envelope, source[0])
            # A name that is missing or no string is the method's own error, once the header agrees.
            if raw is not None and raw.startswith(b'"'):
                self._check_mirror(_NAME, "Mcp-Name", source[1], _decode_str(raw), fields)
        if version not in MODERN_REVISIONS:
            raise unsupported_version(version)
        revision: Revision = self.tables.modern
        if envelope.method == "tools/call" and b"tools/call" in revision.requests:
            self._check_params(envelope, fields)
        return revision

    def _check_version(self, values: list[bytes], version: str) -> None:
        if len(values) != 1:
            raise _mismatch("MCP-Protocol-Version must be sent once, with the version that _meta names")
        if values[0] != version.encode("utf-8", "surrogatepass"):
            raise _mismatch("MCP-Protocol-Version and the version in _meta differ")

    def _check_mirror(
        self, name: bytes, title: str, what: str, expected: str, fields: list[tuple[bytes, bytes]]
    ) -> None:
        values = [value for key, value in fields if key == name]
        if len(values) != 1:
            raise _mismatch(f"{title} must be sent once, equal to {what}")
        try:
            text = decode_header_value(values[0])
        except ValueError as exc:
            raise _mismatch(f"{title} cannot be read: {_reason(exc)}") from None
        if text != expected:
            raise _mismatch(f"{title} and {what} differ")

    def _check_params(self, envelope: Envelope, fields: list[tuple[bytes, bytes]]) -> None:
        """HN-25: parameters that the tool mirrors, against its arguments."""
        raw = envelope.name
        if raw is None or not raw.startswith(b'"'):
            return
        parameters = self.server.header_parameters(_decode_str(raw))
        if not parameters:
            return
        given: dict[bytes, list[bytes]] = {}
        for key, value in fields:
            if key.startswith(_PARAM):
                given.setdefault(key, []).append(value)
        try:
            arguments = _decode(envelope.arguments or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # the method's own decoder answers that
        for header, path, _ in parameters:
            title = f"Mcp-Param-{header}"
            values = given.get(title.lower().encode("ascii"), [])
            wanted = _at(arguments, path)
            if wanted is _MISSING or wanted is None:
                if values:
                    raise _mismatch(f"{title} is sent but the argument is absent")
                continue
            if isinstance(wanted, (list, dict)):
                continue  # no header can mirror it; the tool refuses it
            if len(values) != 1:
                raise _mismatch(f"{title} must be sent once, equal to the argument")
            try:
                text = decode_header_value(values[0])
            except ValueError as exc:
                raise _mismatch(f"{title} cannot be read: {_reason(exc)}") from None
            if not _same(text, wanted):
                raise _mismatch(f"{title} and the argument differ")

    def unknown_method(self, revision: Revision, envelope: Envelope, sink: Any) -> RpcError | None:
        """JR-32; only the modern era has a status for it."""
        return RpcError(METHOD_NOT_FOUND, "unknown method", http_status=404 if revision.modern else 200)

    def notify(self, envelope: Envelope, sink: Any) -> None:
        """A notification outside of sessions says nothing to anybody, but to a host of plain handlers that keeps
        none: of the handshake era it has them served like its requests."""
        told = getattr(self.server, "told_alone", None) if self.stateless else None
        if told is None:
            return
        versions = [value for name, value in sink.fields() if name == _VERSION]
        header = versions[0] if versions and versions[0] else R2.encode()
        if len(versions) < 2 and header in _HANDSHAKES:
            told(envelope, sink, header.decode("ascii"))

    def batch(self, envelope: Envelope, sink: Any) -> bool:
        """Arrays of 2025-03-26 (JR-20): without a session that is what the header says, or its absence."""
        if not self.stateless or self.mux is None:
            return False
        versions = [value for name, value in sink.fields() if name == _VERSION]
        if versions not in ([], [b""], [R2.encode()]):
            return False
        serve_batch(self.mux, envelope, sink, most=self.server.limits.max_batch, mixed=False)
        return True

    def bad_input(self, code: int, message: str, sink: Any) -> None:
        self.server.log.debug("refused: %s (%d)", message, code)


def _reason(exc: ValueError) -> str:
    return "not UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _same(text: str, value: Any) -> bool:
    """HN-10: strings as they are, booleans in lower case, numbers by their value."""
    if isinstance(value, str):
        return text == value
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if not _NUMBER.fullmatch(text):
        return False
    try:
        return Decimal(text) == Decimal(value if isinstance(value, int) else repr(value))
    except InvalidOperation:
        return False
