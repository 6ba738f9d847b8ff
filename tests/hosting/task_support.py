"""Task stores in Redis for tests: each with a backplane of its own, which it starts and stops."""

import logging
import secrets

from headrace import Limits
from headrace.hosting.backplane import RedisBackplane
from headrace.hosting.backplane.tasks import RedisTaskStore


class OwnRedisStore(RedisTaskStore):
    """Stores with the same prefix belong together."""

    def __init__(self, url: str, prefix: str | None = None, **settings) -> None:
        self.backplane = RedisBackplane(url, prefix=prefix or f"t{secrets.token_hex(4)}", **settings)
        super().__init__(self.backplane)

    async def start(self, limits: Limits) -> None:
        if not self._open:
            await self.backplane.start(limits, logging.getLogger("headrace.tests"))
        await super().start(limits)

    async def stop(self) -> None:
        await super().stop()
        await self.backplane.stop()
