"""A handshake session over HTTP that the server has forgotten is made anew: once, for all callers together.

A 404 under a session id means that the session is gone (HO-32, B48). Callers that lost it wait for one
``initialize`` and send their request once more; what the server had asked for under the old session is
dropped, so that no old answer reaches the new one. Failures hold the next attempt off, for as long as the
server asks (Retry-After) or longer each time: callers then fail at once instead of asking in a storm.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.negotiation import Agreement, Offer, Phase, initialize
from headrace.errors import ConnectFailed, HeadraceError, HttpStatusError, RequestTimeout

if TYPE_CHECKING:
    from headrace.client.channels import Channel
    from headrace.limits import Limits

__all__ = ("Recovery",)

FIRST_PAUSE = 0.25
"""Seconds without a new attempt after the second failure in a row; doubled by each later one."""
LAST_PAUSE = 15.0
SHORT_LIFE = 30.0
"""A session that its event stream loses sooner than this (seconds) is renewed with a growing delay."""


class Recovery:
    """The session of one client. ``epoch`` counts sessions: a caller that fails under an older one than
    the current only has to send its request again."""

    def __init__(self, channel: Channel, agreement: Agreement, offer: Offer, limits: Limits) -> None:
        self.agreement = agreement
        self.epoch = 0
        self._channel = channel
        self._offer = offer
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._not_before = 0.0
        self._why = ""
        self._since = self._loop.time()
        self._short_lives = 0
        channel.recovery = self

    @property
    def running(self) -> bool:
        """Whether a new session is being made: requests wait for :meth:`settled` then."""
        return self._task is not None

    async def settled(self) -> None:
        """Waits for the session that is being made. Raises what :meth:`renew` raises."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def renew(self, epoch: int) -> None:
        """Returns when there is a newer session than that of ``epoch``.

        Raises what ``initialize`` fails with; :class:`ConnectFailed` at once while attempts are held off.
        """
        if epoch != self.epoch:
            return
        if self._task is None:
            wait = self._not_before - self._loop.time()
            if wait > 0:
                raise ConnectFailed(
                    f"the session was lost and the server gives no new one ({self._why}); "
                    f"it is asked again in {wait:.1f} s at the earliest"
                )
            self._task = self._loop.create_task(self._run())
            self._task.add_done_callback(_seen)
        await asyncio.shield(self._task)

    async def _run(self) -> None:
        phase = Phase()
        limit = self._limits.connect_timeout
        channel = self._channel
        # Requests of the old session end here: their answers would mean something else in the new one.
        channel.mux.cancel_all("the session ended")
        lost = channel.http.session_id
        try:
            try:
                async with asyncio.timeout(limit):
                    self.agreement = await initialize(channel, self._offer, phase)
                    await channel.session.restore(channel, phase)
            except TimeoutError as exc:
                if isinstance(exc, HeadraceError):
                    raise
                raise RequestTimeout(f"no new session within {limit:g} s, while {phase.name}") from None
        except BaseException as exc:
            channel.http.session_id = lost  # so that the next call is answered 404 and leads here again
            if isinstance(exc, HeadraceError):
                self._hold_off(exc)
            raise
        else:
            self.epoch += 1
            self._failures = 0
            self._since = self._loop.time()
        finally:
            self._task = None

    def _hold_off(self, exc: HeadraceError) -> None:
        self._failures += 1
        self._why = str(exc)
        pause = min(FIRST_PAUSE * 2 ** (self._failures - 2), LAST_PAUSE) if self._failures > 1 else 0.0
        if (asked := getattr(exc, "retry_after", None)) is not None:
            pause = max(pause, min(asked, self._limits.max_reconnect_wait))
        self._not_before = self._loop.time() + pause

    def stream_ended(self, exc: HeadraceError | None) -> None:
        """The event stream of the session is over for good. A 404 says that the session is too: it is
        renewed without waiting for the next call, later each time when sessions do not last."""
        if not isinstance(exc, HttpStatusError) or exc.status != 404 or self._channel.mux.closed:
            return
        if self._channel.http.session_id is None or not self._channel.stream.opened:
            return  # that server never had a stream there: no evidence
        if self._task is not None or self._timer is not None:
            return
        if self._loop.time() - self._since >= SHORT_LIFE:
            self._short_lives = 0
        delay = 0.0 if self._short_lives == 0 else min(2.0 ** (self._short_lives - 1), 60.0)
        self._short_lives += 1
        self._timer = self._loop.call_later(delay, self._renew_behind, self.epoch)

    def _renew_behind(self, epoch: int) -> None:
        self._timer = None
        if self._task is not None or epoch != self.epoch or self._channel.mux.closed:
            return
        if self._loop.time() >= self._not_before:
            self._task = self._loop.create_task(self._run())
            self._task.add_done_callback(_seen)

    def stop(self) -> None:
        """The client closes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _seen(task: asyncio.Task[None]) -> None:
    """Its failure belongs to the callers, also when all of them have left."""
    if not task.cancelled():
        task.exception()
