"""Task stores in Redis for tests: each with a client and a backplane of its own."""

import logging
import secrets

from redis.asyncio import Redis

from headrace import Limits
from headrace.hosting.backplane import MemoryBackplane, MemoryHub
from headrace.hosting.backplane.tasks import RedisTaskStore


class OwnRedisStore(RedisTaskStore):
    """A store with all that it needs. ``hub`` and ``prefix`` are shared by those that belong together."""

    def __init__(self, url: str, hub: MemoryHub | None = None, prefix: str | None = None) -> None:
        self.client = Redis.from_url(url, socket_connect_timeout=2, health_check_interval=0)
        self.backplane = MemoryBackplane(hub or MemoryHub())
        super().__init__(self.client, self.backplane, prefix or f"t{secrets.token_hex(4)}")

    async def start(self, limits: Limits) -> None:
        if not self._open:
            await self.backplane.start(limits, logging.getLogger("headrace.tests"))
        await super().start(limits)

    async def stop(self) -> None:
        await super().stop()
        await self.backplane.stop()
        await self.client.aclose()
