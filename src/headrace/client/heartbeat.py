"""Regular pings of a handshake-era connection (MX-20): a server that does not answer one in time is taken for dead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.errors import ConnectionClosed, HeadraceError, RequestTimeout

if TYPE_CHECKING:
    from headrace.client.client import Client

__all__ = ("Heartbeat",)


class Heartbeat:
    """Pings ``client`` every ``interval`` seconds until it is closed. A ping has as long to be answered; then the
    connection is given up: calls that wait raise :class:`ConnectionClosed`. An answer that is an error is one."""

    def __init__(self, client: Client, interval: float) -> None:
        self._client = client
        self._interval = interval
        self._task = asyncio.get_running_loop().create_task(self._beat())

    def stop(self) -> None:
        """No more pings. Safe to call again."""
        self._task.cancel()

    async def _beat(self) -> None:
        client = self._client
        while not client.closed:
            await asyncio.sleep(self._interval)
            try:
                await client.ping(timeout=self._interval)
            except RequestTimeout:
                client._give_up(ConnectionClosed(f"the server answered no ping within {self._interval:g} s"))
            except HeadraceError:
                continue
