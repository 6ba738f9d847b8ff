"""Which revision to speak: modern first, then the handshake (VN-40..VN-50, CF-02).

The era is a property of the server, found out once a connection. A probe that is answered by anything
but modern evidence leads to ``initialize``; the first failure is kept for the message in case that fails
as well (B66).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from headrace.client.arguments import encode, members
from headrace.client.results import decode_any, read_implementation
from headrace.errors import (
    ConnectFailed,
    ConnectionClosed,
    HeadraceError,
    HttpStatusError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    UsageError,
)
from headrace.jsonrpc import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HANDSHAKE_REVISIONS,
    HEADER_MISMATCH,
    LATEST_HANDSHAKE,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_REVISIONS,
    PROTOCOL_VERSION,
    R5,
    REVISIONS,
    SERVER_INFO,
    UNSUPPORTED_VERSION,
)

if TYPE_CHECKING:
    from headrace.client.channels import Channel
    from headrace.types import Implementation

__all__ = ("Agreement", "LegacyServer", "Offer", "Phase", "initialize", "negotiate")

PROBE_SHARE = 1 / 6
"""Part of the connect limit that a line server gets to answer the probe; it only decides when
``initialize`` is sent behind it, not when connecting fails."""
PROBE_SHARE_KNOWN = 1 / 2
"""The same for a server that was modern the last time."""

_NO_EVIDENCE = frozenset((401, 403, 407, 408, 425, 429))
"""HTTP statuses that say nothing about the era (VN-47); nor do redirects that are not followed, nor those from
500 on."""


class Agreement(NamedTuple):
    """What a negotiation found out."""

    revision: str
    modern: bool
    server_info: Implementation | None
    capabilities: dict[str, Any]
    instructions: str | None


class Phase:
    """What a connect is doing, for the message of a timeout (B116)."""

    def __init__(self) -> None:
        self.name = "opening the connection"


class LegacyServer(Exception):
    """The probe says: speak the handshake. ``cause`` is what the server answered."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Offer:
    """What we say of ourselves, encoded once for all messages (CF-02).

    ``capabilities`` are those of the handshake era, ``modern`` those of the modern one (default: the same).
    ``meta`` holds the members of ``_meta`` that every modern request carries (VN-20).
    """

    def __init__(
        self,
        client_info: Mapping[str, Any],
        capabilities: Mapping[str, Any],
        revision: str | None,
        modern: Mapping[str, Any] | None = None,
    ) -> None:
        if revision is not None and revision not in REVISIONS:
            raise UsageError(f"revision {revision!r}: use one of {', '.join(REVISIONS)}")
        self.client_info = encode(client_info)
        self.capabilities = encode(capabilities)
        self.revision = revision
        self.meta = members(
            encode(
                {
                    PROTOCOL_VERSION: R5,
                    CLIENT_CAPABILITIES: capabilities if modern is None else modern,
                    CLIENT_INFO: msgspec.Raw(self.client_info),
                }
            )
        )


async def negotiate(
    channel: Channel, offer: Offer, phase: Phase, connect_timeout: float, *, known: bool = False
) -> Agreement:
    """Settles the era and revision of a new connection. ``known``: the server was modern before, so that
    more patience is right.

    Raises :class:`LegacyServer` when the server ended a line connection at the probe: the caller opens a
    new one for :func:`initialize`. Raises :class:`ConnectFailed` when there is no common revision, and
    the transport's own failures.
    """
    if offer.revision in HANDSHAKE_REVISIONS:
        return await initialize(channel, offer, phase)
    try:
        return await discover(channel, offer, phase, connect_timeout * (PROBE_SHARE_KNOWN if known else PROBE_SHARE))
    except LegacyServer as legacy:
        if offer.revision is not None:
            text = f"the server does not speak {offer.revision}: {legacy.cause}"
            raise ConnectFailed(text) from legacy.cause
        if channel.mux.closed:
            raise
        try:
            return await initialize(channel, offer, phase)
        except HeadraceError as exc:
            if not isinstance(exc, RpcError) or exc.code != UNSUPPORTED_VERSION:
                raise failed("initialize", exc, legacy.cause) from exc
        # The probe was only late: the server is modern (VN-42).
        try:
            return await discover(channel, offer, phase, 0)
        except LegacyServer as again:
            raise failed("server/discover", again.cause, legacy.cause) from again.cause


def failed(method: str, exc: Exception, first: Exception | None = None) -> ConnectFailed:
    """The failure of a negotiation, with what went wrong first (B66)."""
    text = str(exc) if method in str(exc) else f"{method} failed: {exc}"
    if (pause := getattr(exc, "retry_after", None)) and "again in" not in text:
        text += f"; it asks to be tried again in {pause:{'.0f' if pause >= 1 else '.2g'}} s"
    if first is not None and str(first) != str(exc):
        text += f" (before that, server/discover: {first})"
    return ConnectFailed(text, exit_code=getattr(exc, "exit_code", None))


async def _call(channel: Channel, method: str, params: bytes, timeout: float = 0) -> Any:
    """The result as a dictionary. A call that takes longer than ``timeout`` is forgotten without a word
    to the server, which may not understand it yet."""
    call = channel.mux.call(method, params, channel.sink)
    try:
        if timeout:
            await asyncio.wait([call.future], timeout=timeout)
            if not call.future.done():
                call.fail(RequestTimeout(f"{method}: no answer within {timeout:g} s"))
        result = decode_any(await call.future)
    except asyncio.CancelledError:
        call.cancel()
        raise
    if not isinstance(result, dict):
        raise RemoteProtocolError(f"the result of {method} is not an object")
    return result


async def discover(channel: Channel, offer: Offer, phase: Phase, patience: float) -> Agreement:
    """Probes with ``server/discover``. A line server gets ``patience`` seconds for the answer, without a
    limit of its own when that is 0.

    Raises :class:`LegacyServer` for everything that is evidence of the handshake era.
    """
    phase.name = "waiting for the answer to server/discover"
    http = channel.http
    channel.reset(modern=True)
    params = b'{"_meta":{' + offer.meta + b"}}"
    timeout = 0.0 if http is not None or offer.revision is not None else patience
    retried = False
    while True:
        try:
            result = await _call(channel, "server/discover", params, timeout)
        except RpcError as exc:
            if exc.code == UNSUPPORTED_VERSION and not retried and R5 in _supported(exc):
                retried = True  # once per version, with a new id (VN-23)
                continue
            raise _judge(exc, http is not None) from exc
        except ConnectFailed:
            raise
        except HttpStatusError as exc:
            raise _judge(exc, True) from exc
        except RemoteProtocolError as exc:
            raise LegacyServer(exc) from exc
        except (RequestTimeout, ConnectionClosed) as exc:
            # Over HTTP neither is evidence of an era (VN-47).
            if http is not None or offer.revision is not None:
                raise
            raise LegacyServer(exc) from exc
        break
    versions = result.get("supportedVersions")
    if not isinstance(versions, list):
        raise LegacyServer(RemoteProtocolError("the answer to server/discover names no versions"))
    if R5 not in versions:
        raise _no_modern(versions, f"the server offers {_names(versions)}")
    meta = result.get("_meta")
    channel.session.modern = True
    return Agreement(
        R5,
        True,
        read_implementation(meta.get(SERVER_INFO) if isinstance(meta, dict) else None),
        _object(result.get("capabilities")),
        _text(result.get("instructions")),
    )


def _judge(exc: HeadraceError, over_http: bool) -> Exception:
    """What an error answer to the probe means: an exception to raise (VN-43..VN-47, JR-33)."""
    status = exc.status if isinstance(exc, HttpStatusError) else getattr(exc, "http_status", None)
    if isinstance(exc, RpcError):
        if exc.code == UNSUPPORTED_VERSION:
            return _no_modern(_supported(exc), str(exc))
        if exc.code in (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY) or (exc.retry_after is not None and not over_http):
            return failed("server/discover", exc)
        if exc.code == METHOD_NOT_FOUND or not over_http:
            return LegacyServer(exc)
    if status is not None and (300 <= status < 400 or status >= 500 or status in _NO_EVIDENCE):
        return failed("server/discover", exc)
    return LegacyServer(exc)


def _no_modern(versions: list[Any], text: str) -> Exception:
    """Modern evidence without our modern revision: the handshake if that is common, else the end."""
    if any(version in HANDSHAKE_REVISIONS for version in versions):
        return LegacyServer(RemoteProtocolError(text))
    ours = ", ".join((*MODERN_REVISIONS, *reversed(HANDSHAKE_REVISIONS)))
    theirs = _names(versions)
    return ConnectFailed(f"no common protocol revision: the server speaks {theirs}, we speak {ours}")


def _supported(exc: RpcError) -> list[Any]:
    supported = exc.data.get("supported") if isinstance(exc.data, dict) else None
    return supported if isinstance(supported, list) else []


def _names(versions: list[Any]) -> str:
    return ", ".join(str(v)[:32] for v in versions[:8]) or "none"


async def initialize(channel: Channel, offer: Offer, phase: Phase) -> Agreement:
    """The handshake of the older revisions (VN-01..VN-04, VN-08, VN-49).

    Raises :class:`RpcError` for an error answer, :class:`ConnectFailed` for an answer that cannot be used.
    """
    phase.name = "waiting for the answer to initialize"
    session = channel.session
    session.modern = False
    channel.reset(modern=False)
    revision = offer.revision if offer.revision in HANDSHAKE_REVISIONS else LATEST_HANDSHAKE
    params = b'{"protocolVersion":"%b","capabilities":%b,"clientInfo":%b}' % (
        str(revision).encode(),
        offer.capabilities,
        offer.client_info,
    )
    result = await _call(channel, "initialize", params)
    version = result.get("protocolVersion")
    if version not in HANDSHAKE_REVISIONS:
        raise ConnectFailed(
            f"no common protocol revision: the server answered initialize with {str(version)[:32]!r}, "
            f"we speak {', '.join(reversed(HANDSHAKE_REVISIONS))}"
        )
    if offer.revision is not None and version != offer.revision:
        raise ConnectFailed(f"the server does not speak {offer.revision}; it answered initialize with {version}")
    session.agreed(version)
    channel.mux.current = session.handshake
    channel.mux.null_ids = version < "2025-11-25"
    phase.name = "waiting until notifications/initialized is accepted"
    await channel.begin(version)
    return Agreement(
        version,
        False,
        read_implementation(result.get("serverInfo")),
        _object(result.get("capabilities")),
        _text(result.get("instructions")),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
