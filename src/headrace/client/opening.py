"""From a target to an open, negotiated connection: which transport and which era, and what to fall back to.

Order over HTTP: a modern POST, ``initialize`` by POST, the event stream of HTTP+SSE (VN-40..VN-50, LS-07).
What a server was found to speak is remembered, so that the next connect begins there. The first failure
stays in the message of the last one (B66).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING

from headrace.client import eras
from headrace.client.negotiation import Agreement, LegacyServer, Offer, Phase, failed, initialize, negotiate
from headrace.errors import (
    ConnectFailed,
    ConnectionClosed,
    HeadraceError,
    HttpStatusError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from headrace.jsonrpc import HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, MODERN_REVISIONS, UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from headrace.client.channels import Channel, Target
    from headrace.client.session import ClientSession
    from headrace.limits import Limits

__all__ = ("close_quietly", "open_server")

HURRY = 0.1
"""Seconds for each polite step of ending a child that never served."""
SSE_SHARE = 1 / 3
"""Part of the connect limit that a server gets to begin an HTTP+SSE stream when nobody asked for one."""

_MODERN_ERRORS = (UNSUPPORTED_VERSION, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY)
_NOT_THE_CHILDS = frozenset((2, 126, 127))
"""Exit statuses of wrong arguments and of shells that found no program: no sign of an older server."""


async def open_server(
    target: Target, session: ClientSession, offer: Offer, limits: Limits, phase: Phase
) -> tuple[Channel, Agreement]:
    """An open connection and what was agreed on.

    Raises :class:`ConnectFailed` and the transport's own failures; nothing is left open then.
    """
    opening = _Opening(target, session, offer, limits, phase)
    try:
        return await opening.run()
    except BaseException:
        if opening.channel is not None:
            await close_quietly(opening.channel)
        raise


class _Opening:
    """One connect. ``channel`` is what is open now."""

    def __init__(
        self, target: Target, session: ClientSession, offer: Offer, limits: Limits, phase: Phase
    ) -> None:
        self.channel: Channel | None = None
        self._target = target
        self._session = session
        self._offer = offer
        self._limits = limits
        self._phase = phase

    async def run(self) -> tuple[Channel, Agreement]:
        target = self._target
        key = target.key if self._offer.revision is None else None
        if target.transport == "sse":
            return await self._sse()
        era = eras.recall(key)
        if era == "sse" or era == "handshake":
            found = await self._as_remembered(key, era)
            if found is not None:
                return found
        try:
            channel, agreement = await self._negotiate(known=era == "modern")
            era = "modern" if agreement.modern else "handshake"
        except HeadraceError as exc:
            if not self._may_be_sse(exc):
                raise
            await self._close()
            channel, agreement = await self._fall_back_to_sse(exc)
            era = "sse"
        eras.remember(key, era)
        return channel, agreement

    async def _open(self) -> Channel:
        self.channel = await self._target.open(self._session, self._limits)
        return self.channel

    async def _close(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None:
            await close_quietly(channel)

    async def _as_remembered(self, key: Hashable, era: eras.Era) -> tuple[Channel, Agreement] | None:
        """The connection, or None when the server has changed and is to be found out about anew."""
        try:
            if era == "sse":
                return await self._sse()
            channel = await self._open()
            try:
                return channel, await initialize(channel, self._offer, self._phase)
            except ConnectFailed as exc:
                raise RemoteProtocolError(str(exc)) from exc  # no common revision: it was reached
        except HeadraceError as exc:
            if isinstance(exc, ConnectFailed) or _says_nothing(exc):
                raise
            eras.forget(key)
            if getattr(exc, "exit_code", None) is not None:
                raise  # a program that ended at its usual first message: a second start would end the same way
            await self._close()
            return None
        except asyncio.CancelledError:
            eras.forget(key)  # the limit of the connect is over, perhaps because of it
            raise

    # --- the eras ------------------------------------------------------------------------------------

    async def _negotiate(self, *, known: bool) -> tuple[Channel, Agreement]:
        channel = await self._open()
        try:
            agreement = await negotiate(channel, self._offer, self._phase, self._limits.connect_timeout, known=known)
            return channel, agreement
        except LegacyServer as legacy:
            return await self._open_again(channel, legacy.cause)

    async def _open_again(self, channel: Channel, cause: Exception) -> tuple[Channel, Agreement]:
        """The server ended the connection because of the probe: the handshake gets a fresh one."""
        await channel.close()
        self.channel = None
        code = getattr(cause, "exit_code", None)
        if channel.unheard and code == 0:
            why = "the program ended without serving; does it call app.run()?"
            raise ConnectFailed(why, exit_code=0) from cause
        if not self._target.reopens or channel.unheard or (code is not None and (code < 0 or code in _NOT_THE_CHILDS)):
            # It never came to the probe, or a signal or its arguments ended it: a second start would end
            # the same way.
            raise cause
        self._phase.name = "opening the connection again, after the server closed it at server/discover"
        try:
            channel = await self._open()
        except HeadraceError as exc:
            raise failed("opening the connection again", exc, cause) from exc
        try:
            return channel, await initialize(channel, self._offer, self._phase)
        except HeadraceError as exc:
            raise failed("initialize", exc, cause) from exc

    # --- the transport of 2024-11-05 -----------------------------------------------------------------

    def _may_be_sse(self, exc: HeadraceError) -> bool:
        """Whether ``initialize`` failed as it does where only HTTP+SSE is served (VN-48): 404 or 405, or 400
        without a JSON-RPC error in its body."""
        if self._target.transport is not None or not self._target.may_be_sse:
            return False
        if self._offer.revision in MODERN_REVISIONS:
            return False
        cause = exc.__cause__ if type(exc) is ConnectFailed else exc
        if isinstance(cause, HttpStatusError):
            return cause.status in (400, 404, 405)
        return (
            isinstance(cause, RpcError) and cause.http_status in (404, 405) and cause.code not in _MODERN_ERRORS
        )

    async def _fall_back_to_sse(self, first: HeadraceError) -> tuple[Channel, Agreement]:
        limit = self._limits.connect_timeout * SSE_SHARE
        try:
            try:
                async with asyncio.timeout(limit):
                    return await self._sse()
            except TimeoutError as exc:
                if isinstance(exc, HeadraceError):
                    raise
                raise RequestTimeout(f"not done within {limit:g} s, while {self._phase.name}") from None
        except HeadraceError as exc:
            refused = isinstance(exc, HttpStatusError) and exc.status in (401, 403)
            raise ConnectFailed(f"{first}; as HTTP+SSE: {exc}") from (exc if refused else first.__cause__ or first)

    async def _sse(self) -> tuple[Channel, Agreement]:
        self._phase.name = "waiting for the endpoint event of HTTP+SSE"
        channel = self.channel = await self._target.open_sse(self._session, self._limits)
        return channel, await initialize(channel, self._offer, self._phase)


def _says_nothing(exc: HeadraceError) -> bool:
    """Whether a failure is no evidence of an era (VN-47): nobody there, not allowed, overloaded, too late."""
    if isinstance(exc, RequestTimeout):
        return True
    status = getattr(exc, "status", None)
    return status is not None and (status >= 500 or status in (401, 403, 407, 408, 425, 429))


async def close_quietly(channel: Channel) -> None:
    """Closes after a failure, also while the task is being cancelled again and again."""
    channel.stop(ConnectionClosed("the connection was given up"))
    channel.grace = HURRY  # the time limit of the connect is over or near: B116
    closing = asyncio.ensure_future(channel.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        _keep(closing)
        raise


_background: set[asyncio.Future[None]] = set()


def _keep(closing: asyncio.Future[None]) -> None:
    _background.add(closing)
    closing.add_done_callback(_background.discard)
