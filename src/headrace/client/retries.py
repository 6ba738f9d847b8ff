"""Repeating requests that failed on the way: ``connect(..., retries=3)``.

What may be repeated depends on whether the server can have run it. A request that never left, or was turned away at
the door (429), did not run: any is sent again. One whose connection broke, or that a server or a proxy gave up (502,
503, 504, or an error -32603 with ``retryAfter`` in its data), may have run: it is sent again only if running it twice
does no harm. That is every method of the protocol but ``tools/call``, and tools that say so (``readOnlyHint`` or
``idempotentHint``, SF-03); the list of tools is read for that when it is not known yet, and never before something
failed.

The first repetition follows at once, as a server with several workers has another one ready; later ones wait as long
as Retry-After asks, else ``limits.reconnect_delay``, doubled each time. Errors that are answers, and time limits of
the caller, are never repeated.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectFailed, ConnectionClosed, HeadraceError, HttpStatusError, RpcError
from headrace.jsonrpc import INTERNAL_ERROR

if TYPE_CHECKING:
    from headrace.client.middleware import ClientCall, Next
    from headrace.limits import Limits

__all__ = ("Retries",)

MAX_PAUSE = 30.0
"""Seconds between two tries where the server names no time."""
_HARMLESS = frozenset((
    "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
    "completion/complete", "server/discover", "ping", "logging/setLevel", "resources/subscribe",
    "resources/unsubscribe", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel",
))  # fmt: skip
_MAYBE_RUN = frozenset((502, 503, 504))


class Retries:
    """A middleware that repeats failed requests of ``client`` up to ``times`` times."""

    def __init__(self, client: Any, times: int, limits: Limits) -> None:
        self._client = client
        client._harmless = {}
        self._times = times
        self._limits = limits

    async def __call__(self, call: ClientCall, next: Next) -> Any:
        """See :mod:`headrace.client.middleware`."""
        tries = 0
        while True:
            try:
                return await next(call)
            except (ConnectionClosed, HttpStatusError, RpcError) as exc:
                if tries >= self._times or not await self._may_repeat(call, exc):
                    raise
                pause = self._pause(exc, tries)
            tries += 1
            await asyncio.sleep(pause)

    async def _may_repeat(self, call: ClientCall, exc: HeadraceError) -> bool:
        if self._client.closed:
            return False
        status = exc.status if isinstance(exc, HttpStatusError) else getattr(exc, "http_status", None)
        if isinstance(exc, ConnectFailed) or status == 429:
            return True
        if isinstance(exc, RpcError) and exc.code != INTERNAL_ERROR:
            return False  # an answer, whatever status carries it
        asks = isinstance(exc, RpcError) and status is None and exc.retry_after is not None
        if not isinstance(exc, ConnectionClosed) and status not in _MAYBE_RUN and not asks:
            return False
        if call.method != "tools/call":
            return call.method in _HARMLESS
        try:
            return bool(await self._client._is_harmless(call.name))
        except HeadraceError:
            return False  # the list cannot be had either: the first failure says more

    def _pause(self, exc: HeadraceError, tries: int) -> float:
        asked: float | None = getattr(exc, "retry_after", None)
        if asked is not None:
            return min(asked, self._limits.max_reconnect_wait)
        if tries == 0:
            return 0.0
        pause: float = self._limits.reconnect_delay * 2 ** (tries - 1)
        return min(pause, MAX_PAUSE) * random.uniform(1.0, 1.25)
