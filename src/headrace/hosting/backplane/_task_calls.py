"""The way of the task store's scripts to Redis: what waits at the same time goes in one round trip.

One who stops waiting breaks no connection: a command that is on its way comes to its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError, RedisError, ResponseError

from headrace.protocol.backplane import BackplaneLost

if TYPE_CHECKING:
    from headrace.hosting.backplane._task_scripts import Script
    from headrace.hosting.backplane.redis import RedisBackplane

__all__ = ("Calls",)

_PATIENCE = 5.0  # seconds for one script, with the wait for its turn
_LANES = 2  # round trips under way
_BATCH = 64  # scripts of one round trip

_Job = tuple["Script", tuple[Any, ...], "asyncio.Future[Any]"]


class Calls:
    """Runs scripts on ``key``, over ``backplane``. Works between :meth:`open` and :meth:`close`."""

    def __init__(self, backplane: RedisBackplane, key: bytes) -> None:
        self._backplane = backplane
        self._key = key
        self._open = False
        self._waiting: deque[_Job] = deque()
        self._lanes: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """From now on, on the running loop."""
        self._waiting.clear()
        self._lanes.clear()
        self._open = True

    def close(self) -> None:
        """Whoever waits hears that it is closed."""
        self._open = False
        for lane in list(self._lanes):
            lane.cancel()
        self._refuse(self._waiting, "is closed")
        self._waiting.clear()

    async def __call__(self, script: Script, *args: Any) -> Any:
        """What the script returns. Raises BackplaneLost, without waiting where Redis is known to be away."""
        if not self._open or not self._backplane.available:
            raise BackplaneLost(f"the task store {'cannot reach Redis' if self._open else 'is closed'}")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((script, args, future))
        if len(self._lanes) < _LANES:
            self._lanes.add(loop.create_task(self._lane()))
        try:
            async with asyncio.timeout(_PATIENCE):
                return await future
        except TimeoutError:
            raise BackplaneLost("the task store: Redis did not answer in time") from None

    async def _lane(self) -> None:
        try:
            while self._waiting:
                await self._trip()
        finally:
            # In the same step that found nothing waiting: what comes next starts a lane anew.
            self._lanes.discard(asyncio.current_task())

    async def _trip(self) -> None:
        batch: list[_Job] = []
        while self._waiting and len(batch) < _BATCH:
            job = self._waiting.popleft()
            if not job[2].done():
                batch.append(job)
        if not batch:
            return
        try:
            answers = await self._backplane.perform(lambda client: self._run(client, batch))
        except (RedisError, OSError) as exc:
            return self._refuse(batch, f": {exc or type(exc).__name__}")
        except BaseException:
            self._refuse(batch, "is closed")
            raise
        for (_, _, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(BackplaneLost(f"the task store: Redis refuses: {answer}"))
            else:
                future.set_result(answer)

    @staticmethod
    def _refuse(jobs: deque[_Job] | list[_Job], why: str) -> None:
        for _, _, future in jobs:
            if not future.done():
                future.set_exception(BackplaneLost(f"the task store{why if why[0] == ':' else ' ' + why}"))

    async def _run(self, client: Any, batch: list[_Job]) -> list[Any]:
        """The answers, an exception where Redis refuses one script."""
        if len(batch) == 1 or self._backplane.url.is_cluster:
            return [await self._alone(client, script, args) for script, args, _ in batch]
        pipe = client.pipeline(transaction=False)
        for script, args, _ in batch:
            pipe.evalsha(script.sha, 1, self._key, *args)
        answers = await pipe.execute(raise_on_error=False)
        for at, (script, args, _) in enumerate(batch):
            if isinstance(answers[at], NoScriptError):
                answers[at] = await self._alone(client, script, args)
            elif isinstance(answers[at], Exception) and not isinstance(answers[at], ResponseError):
                raise answers[at]
        return list(answers)

    async def _alone(self, client: Any, script: Script, args: tuple[Any, ...]) -> Any:
        try:
            try:
                return await client.evalsha(script.sha, 1, self._key, *args)
            except NoScriptError:
                return await client.eval(script.text, 1, self._key, *args)
        except ResponseError as exc:
            return exc
