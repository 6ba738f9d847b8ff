"""The prepared tables of a server: one Revision per revision, one set of handlers rendered for each.

Era H starts from the ``handshake`` table (initialize, and ping before it); era M has ``modern``. What
every modern result carries is appended from prepared bytes, so handlers do not know the era (VN-67).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import (
    INVALID_PARAMS,
    LATEST_HANDSHAKE,
    LOG_LEVELS,
    MODERN_REVISIONS,
    R1,
    R2,
    R3,
    R4,
    R5,
    SERVER_INFO,
)
from headrace.mux import Exchange, FunctionHandler, Handler, Revision
from headrace.protocol.session import Hello

if TYPE_CHECKING:
    from headrace.protocol.session import ServerSession

__all__ = ("SERVED_HANDSHAKES", "Features", "Tables", "detached_capabilities", "implementation")

SERVED_HANDSHAKES = (R4, R3, R2, R1)
"""Handshake revisions that ``initialize`` can agree on, newest first."""

_NEED_A_SESSION = frozenset({b"logging/setLevel", b"resources/subscribe", b"resources/unsubscribe"})

_HELLOS = 256  # kinds of clients that are remembered
_SHORT = 1024  # bytes of what they say; longer params are not remembered

_encode = msgspec.json.Encoder().encode


class _InitializeParams(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Any] = {}
    client_info: dict[str, Any] = {}


class _SetLevelParams(msgspec.Struct):
    level: str


_decode_initialize = msgspec.json.Decoder(_InitializeParams).decode
_decode_set_level = msgspec.json.Decoder(_SetLevelParams).decode


def implementation(info: dict[str, Any], revision: str) -> dict[str, Any]:
    """The ``Implementation`` object ``info`` with the members that ``revision`` knows (SF-07)."""
    members = {"name", "version"}
    if revision >= R3:
        members.add("title")
    if revision >= R4:
        return info
    return {name: value for name, value in info.items() if name in members}


def detached_capabilities(capabilities: dict[str, Any]) -> dict[str, Any]:
    """What of ``capabilities`` holds where nothing is kept between two requests of a client (HO-35)."""
    return {
        name: {key: value for key, value in each.items() if key not in ("listChanged", "subscribe")}
        if isinstance(each, dict)
        else each
        for name, each in capabilities.items()
        if name != "logging"
    }


def _replace(revision: Revision, requests: dict[bytes, Handler]) -> None:
    # Any thread may register: what stays is never missing in between.
    for gone in revision.requests.keys() - requests.keys():
        del revision.requests[gone]
    revision.requests.update(requests)
    revision.changed()


class Features:
    """What a server offers, as the tables need it.

    ``info`` is the ``Implementation`` object; ``capabilities(revision)`` makes the capabilities
    object; ``handlers(revision)`` maps method names to handlers of the server's features; ``hints()`` are
    the caching members of ``server/discover`` (SF-51).
    """

    def __init__(
        self,
        info: dict[str, Any],
        instructions: str | None,
        capabilities: Callable[[str], dict[str, Any]],
        handlers: Callable[[str], dict[bytes, Handler]],
        hints: Callable[[], dict[str, Any]] = lambda: {"ttlMs": 0, "cacheScope": "private"},
    ) -> None:
        self.info = info
        self.instructions = instructions
        self.capabilities = capabilities
        self.handlers = handlers
        self.hints = hints


class Tables:
    """Revisions of one server, shared by all its connections and sessions."""

    def __init__(self, features: Features) -> None:
        self.features = features
        tail = b',"resultType":"complete","_meta":' + _encode({SERVER_INFO: features.info}) + b"}"
        self.modern = Revision(R5, modern=True, tail=tail)
        ping = FunctionHandler(self._ping, urgent=True)
        self._modern_own = {b"server/discover": FunctionHandler(self._discover, urgent=True)}
        self._handshake_own = {b"ping": ping, b"logging/setLevel": FunctionHandler(self._set_level)}
        self.by_name = {name: Revision(name, modern=False) for name in SERVED_HANDSHAKES}
        self.detached = {name: Revision(name, modern=False) for name in SERVED_HANDSHAKES}
        """The same where nothing is kept between two requests of a client (HO-35)."""
        self._welcomes: dict[tuple[str, bool], bytes] = {}
        self._hellos: dict[bytes, Hello] = {}
        self.render()
        self.handshake = Revision(
            LATEST_HANDSHAKE,
            modern=False,
            requests={
                b"initialize": FunctionHandler(self._initialize, urgent=True, cancellable=False),
                b"ping": ping,
            },
        )

    def render(self) -> None:
        """Makes the handlers anew, in place: features or what is around them changed."""
        self._welcomes.clear()
        for revision in (self.modern, *self.by_name.values()):
            own = self._modern_own if revision.modern else self._handshake_own
            requests = {**self.features.handlers(revision.name), **own}
            for name, handler in requests.items():
                handler.method = name.decode()
            _replace(revision, requests)
            if not revision.modern:
                kept = {name: each for name, each in requests.items() if name not in _NEED_A_SESSION}
                _replace(self.detached[revision.name], kept)

    def _discover(self, exchange: Exchange) -> bytes:
        body: dict[str, Any] = {
            "supportedVersions": list(MODERN_REVISIONS),
            "capabilities": self.features.capabilities(R5),
            **self.features.hints(),
        }
        if self.features.instructions is not None:
            body["instructions"] = self.features.instructions
        return _encode(body)

    def _ping(self, exchange: Exchange) -> bytes:
        return b"{}"

    def _initialize(self, exchange: Exchange) -> Any:
        raw = exchange.params or b"{}"
        hello = self._hellos.get(raw) or self._read_hello(raw)
        session: ServerSession = exchange.mux.gate.begin(exchange)
        revision = hello.revision
        kept = session.opened(revision, hello)
        name, detached = revision.name, session.detached
        welcome = self._welcomes.get((name, detached)) or self._welcome(name, detached)
        return welcome if kept is None else _after(kept, welcome)

    def _read_hello(self, raw: bytes) -> Hello:
        """Checks the params of ``initialize`` and agrees on a revision; the usual ones are remembered."""
        try:
            params = _decode_initialize(raw)
        except msgspec.ValidationError as exc:
            # VN-09: without a usable protocolVersion there is nothing to agree on.
            raise RpcError(INVALID_PARAMS, f"initialize: {exc}", {"supported": list(SERVED_HANDSHAKES)}) from None
        revision = self.by_name.get(params.protocol_version) or self.by_name[SERVED_HANDSHAKES[0]]
        hello = Hello(revision, raw)
        if len(raw) <= _SHORT:
            if len(self._hellos) >= _HELLOS:
                self._hellos.clear()
            self._hellos[raw] = hello
        return hello

    def _welcome(self, name: str, detached: bool) -> bytes:
        """The result of ``initialize``; the same for every client of a revision."""
        capabilities = self.features.capabilities(name)
        body: dict[str, Any] = {
            "protocolVersion": name,
            "capabilities": detached_capabilities(capabilities) if detached else capabilities,
            "serverInfo": implementation(self.features.info, name),
        }
        if self.features.instructions is not None:
            body["instructions"] = self.features.instructions
        made = self._welcomes[name, detached] = _encode(body)
        return made

    def _set_level(self, exchange: Exchange) -> Any:
        try:
            level = _decode_set_level(exchange.params or b"{}").level
        except msgspec.ValidationError as exc:
            raise RpcError(INVALID_PARAMS, f"logging/setLevel: {exc}") from None
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"unknown log level; use one of {', '.join(LOG_LEVELS)}")
        kept = exchange.mux.gate.set_log_level(level)
        return b"{}" if kept is None else _after(kept, b"{}")


async def _after(kept: Awaitable[None], result: bytes) -> bytes:
    """The result, once what it says is kept."""
    await kept
    return result
