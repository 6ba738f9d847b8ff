"""The backplane in Redis: between processes and machines.

Strategy: messages are entries of two Redis streams for each process, one that all read and one of its own, whose ids
are numbers without holes, so a lost one is noticed. One connection reads both; one task writes what was told, in
batches that are one script each. Leases, records and counts are scripts with Redis's own time. After a failure nothing
is tried but to reach Redis again, with pauses that grow: whoever asks meanwhile hears at once that it is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headrace.hosting.backplane import redis_scripts as scripts
from headrace.hosting.backplane.base import Listening, new_name
from headrace.hosting.backplane.redis_queue import Event, Message, WriteQueue
from headrace.hosting.backplane.redis_reader import Reader
from headrace.hosting.backplane.redis_url import RedisUrl
from headrace.hosting.backplane.redis_writer import Refused, Writer
from headrace.protocol.backplane import BackplaneLost

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.protocol.tasks.store import TaskStore

__all__ = ("RedisBackplane",)

_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder().encode

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_AT_ONCE = 16  # commands on their way to Redis
_LEAVING = 1.0  # seconds that the end may take


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1)


class RedisBackplane(Listening):
    """One process's access to what is shared in Redis.

    :param url: see :mod:`headrace.hosting.backplane.redis_url`.
    :param prefix: begins the name of every key; servers that share nothing have different ones.
    :param optional: start without Redis when it cannot be reached, and go on trying.
    :param lease: seconds after which a process that does not say that it lives is thought to be dead.
    :param timeout: seconds that Redis may take for one command; beyond, it is lost.

    Raises :class:`UsageError` for a wrong URL, and where the package ``redis`` is missing.
    """

    def __init__(
        self, url: str, *, prefix: str = "headrace", optional: bool = False, lease: float = 6.0, timeout: float = 2.0
    ) -> None:
        super().__init__()
        self.url = RedisUrl(url)
        self.prefix = prefix
        self.optional = optional
        self.lease = lease
        self.timeout = timeout
        self.queue = WriteQueue()
        self.epoch = b""
        self._client: Any = None
        self._reading: Any = None
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._work = asyncio.Event()
        self.leaving = False
        """It is being stopped: the tasks end."""
        self._places: asyncio.Semaphore | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._number = 0
        self._task_store: TaskStore | None = None
        self._reader = Reader(self)
        self._writer = Writer(self)
        base = "{" + prefix + "}"
        self.key_state, self.key_workers, self.key_dead = f"{base}:state", f"{base}:workers", f"{base}:dead"
        self.key_all, self.inboxes = f"{base}:all", f"{base}:in:"

    def __repr__(self) -> str:
        return f"<RedisBackplane {self.url.shown}, {'up' if self.available else 'lost'}>"

    @property
    def client(self) -> Any:
        """The client of redis.asyncio (``Redis`` or ``RedisCluster``) while started; see :meth:`perform`."""
        if self._client is None:
            raise BackplaneLost("the backplane is not started")
        return self._client

    @property
    def inbox(self) -> str:
        """The stream of messages to this process."""
        return self.inboxes + self.worker

    @property
    def available(self) -> bool:
        return self._up.is_set()

    # --- life ---------------------------------------------------------------------------------------

    async def start(self, limits: Limits, log: logging.Logger) -> None:
        self.rated.log = log
        self.leaving = False
        self.worker = new_name()
        self.epoch = b""
        self.queue.clear()
        self._number = 0
        self._reader.forget()
        # Bound to the loop that is used first.
        self._up, self._down, self._work = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._places = asyncio.Semaphore(_AT_ONCE)
        name = f"headrace-{self.worker}"
        self._client = self.url.open(socket_timeout=self.timeout, connect_timeout=self.timeout, name=name)
        self._reading = self.url.open(
            socket_timeout=self.timeout + self._reader.block, connect_timeout=self.timeout, name=name
        )
        try:
            await self._join()
            self._up.set()
        except BackplaneLost as exc:
            if not self.optional:
                await self._close()
                raise
            self.rated(logging.WARNING, "start", "%s; going on without it, and trying again", exc)
        except BaseException:
            await self._close()
            raise
        loop = asyncio.get_running_loop()
        for function in (self._keep_up, self._writer.run, self._reader.run):
            self._tasks.append(loop.create_task(function()))

    async def stop(self) -> None:
        if self._client is None:
            return
        if self.available:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LEAVING):
                    await self.flushed()
        self.leaving = True
        await self._end_tasks()
        if self.available:
            keys = [self.key_state, self.key_workers, self.key_dead, self.inbox]
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LEAVING):
                    await self.run_script(scripts.LEAVE, keys, [self.worker])
        await self._close()

    async def _end_tasks(self) -> None:
        """Ends the tasks, however often they have to be told: a client library may take a cancellation for its own."""
        tasks, self._tasks = set(self._tasks), []
        for _ in range(20):
            for task in tasks:
                task.cancel()
            if not tasks:
                return
            _, tasks = await asyncio.wait(tasks, timeout=0.1)

    async def _close(self) -> None:
        self._up.clear()
        self.queue.refuse(BackplaneLost("the backplane is stopped"))
        clients, self._client, self._reading = [self._client, self._reading], None, None
        for client in clients:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LEAVING):
                    await self.url.close(client)

    async def _join(self) -> Callable[[], None] | None:
        """Takes or renews the lease; raises BackplaneLost. Gives what is to be called once Redis can be used, if it
        has lost something."""
        keys = [self.key_state, self.key_workers, self.key_dead, self.key_all, self.inbox]
        values = [
            self.worker, _ms(self.lease), secrets.token_hex(8), self._writer.most_all, self.inboxes,
            self._writer.inbox_ms(), self._reader.at_inbox,
        ]  # fmt: skip
        at = self._reader.at_all, self._reader.at_inbox
        epoch, newest, newest_inbox, revived = await self._guarded(
            lambda client: self._eval(client, scripts.JOIN, keys, values), shared=True
        )
        before, self.epoch = self.epoch, epoch
        if epoch != before:
            self._reader.begin(int(newest), first=not before)
            if before:
                self.rated(logging.WARNING, "emptied", "%s came back empty: what it kept is lost", self.url.shown)
                return self._gone
        elif self._reader.went_back(int(newest), at[0], int(newest_inbox), at[1]):
            self.rated(logging.WARNING, "back", "%s has lost messages between processes", self.url.shown)
            return self._missed
        elif revived:
            # Told of as dead while it was only slow: what was for it is lost.
            self.rated(logging.WARNING, "revived", "this process was thought to be dead: it was too slow for its lease")
            return self._missed
        return None

    async def _keep_up(self) -> None:
        """Renews the lease; after a failure tries to reach Redis again."""
        pause = _FIRST_PAUSE
        while not self.leaving:
            if self._up.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.lease / 3):
                        await self._down.wait()
            if not self._up.is_set():
                await asyncio.sleep(pause * random.uniform(0.75, 1.25))
                pause = min(pause * 2, _LONGEST_PAUSE)
            was_up, joined = self._up.is_set(), bool(self.epoch)
            try:
                if not was_up:
                    await self._hang_up()
                lost = await self._join()
                if not was_up and joined and lost is None and not await self._guarded(self._reader.still_there):
                    lost = self._missed
            except Exception as exc:  # whatever it is: the lease has to be renewed
                self.lost(exc)
                continue
            if was_up:
                pause = _FIRST_PAUSE  # it has held for a while
            found = not self._up.is_set()
            if found:
                self.rated(logging.WARNING, "found", "%s can be reached again", self.url.shown)
                self._down.clear()
                self._up.set()
                self._work.set()
            if lost is not None:
                lost()
            if found:
                self._reachable(True)

    async def _hang_up(self) -> None:
        """Closes connections of before: whatever answers now shall not be mistaken for what was."""
        for client in (self._client, self._reading):
            if not self.url.is_cluster:
                await client.connection_pool.disconnect(inuse_connections=False)

    def lost(self, exc: BaseException) -> None:
        """Redis did not do what it was asked: from now on it is lost, until it can be reached again."""
        if not self._up.is_set():
            return
        self._up.clear()
        self._down.set()
        text = self._text(exc)
        self.rated(logging.WARNING, "lost", "%s; trying again", text)
        self.queue.refuse(BackplaneLost(text))
        self._reachable(False)

    def _text(self, exc: BaseException) -> str:
        if isinstance(exc, BackplaneLost):
            return str(exc)
        said = str(exc).partition("\n")[0][:200] or type(exc).__name__
        return f"Redis at {self.url.shown} cannot be used: {said.rstrip(' .')}"

    # --- commands -----------------------------------------------------------------------------------

    async def perform(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        """Awaits ``work(client)``: commands of the same Redis for something of one's own. Raises
        :class:`BackplaneLost`, at once while Redis is lost; an answer of Redis that refuses one command
        (``redis.exceptions.ResponseError``) comes through."""
        if not self._up.is_set():
            raise BackplaneLost(f"Redis at {self.url.shown} cannot be reached")
        assert self._places is not None
        async with self._places:
            if not self._up.is_set():
                raise BackplaneLost(f"Redis at {self.url.shown} cannot be reached")
            try:
                return await self._guarded(work)
            except BackplaneLost as exc:
                self.lost(exc)
                raise

    async def _guarded(self, work: Callable[[Any], Awaitable[_T]], *, shared: bool = False) -> _T:
        """Awaits work; what says that Redis is lost becomes BackplaneLost. Of keys that all processes ``shared``,
        without which none can do anything, every refusal says that."""
        from redis import exceptions

        try:
            return await work(self._client)
        except exceptions.ResponseError as exc:
            if shared or Refused.lasts(exc):
                hint = f" (are the keys {{{self.prefix}}}:* of another program?)" if "WRONGTYPE" in str(exc) else ""
                raise BackplaneLost(self._text(exc) + hint) from exc
            raise
        except (exceptions.RedisError, OSError) as exc:
            raise BackplaneLost(self._text(exc)) from exc
        except (AttributeError, RuntimeError) as exc:
            if self._client is None:
                raise BackplaneLost("the backplane is stopped") from exc
            raise

    async def _eval(self, client: Any, script: scripts.Script, keys: Sequence[str], values: Sequence[Any]) -> Any:
        from redis.exceptions import NoScriptError

        try:
            return await client.evalsha(script.sha, len(keys), *keys, *values)
        except NoScriptError:
            return await client.eval(script.source, len(keys), *keys, *values)

    async def run_script(self, script: scripts.Script, keys: Sequence[str], values: Sequence[Any]) -> Any:
        """What a script gives. Raises as :meth:`perform`."""
        return await self.perform(lambda client: self._eval(client, script, keys, values))

    # --- messages -----------------------------------------------------------------------------------

    def tell(self, worker: str, kind: str, *parts: bytes) -> None:
        self._number += 1
        self._add(Message(worker, _encode((self.worker, self._number, kind, parts))))

    def tell_all(self, kind: str, *parts: bytes) -> None:
        self.tell("", kind, *parts)

    def append(self, key: str, number: int, data: bytes, *, most: int, seconds: float) -> None:
        self._add(Event(key, number, data, most, _ms(seconds)))

    def _add(self, entry: Message | Event) -> None:
        if self._client is None:
            return
        if not self.queue.add(entry):
            self.rated(logging.WARNING, "full", "%s: too much waits to be written, the oldest is lost", self.url.shown)
        self._work.set()

    async def flushed(self) -> None:
        if not self._up.is_set():
            raise BackplaneLost(f"Redis at {self.url.shown} cannot be reached")
        if not self.queue:
            return
        future = asyncio.get_running_loop().create_future()
        self.queue.wait(future)
        try:
            await future
        except OverflowError as exc:
            raise BackplaneLost(self._text(exc)) from None

    # --- processes ----------------------------------------------------------------------------------

    async def alive(self, worker: str) -> bool:
        keys = [self.key_state, self.key_workers, self.key_dead]
        return bool(await self.run_script(scripts.ALIVE, keys, [worker, _ms(self.lease)]))

    async def bury(self, worker: str) -> None:
        keys = [self.key_state, self.key_workers, self.key_dead, self.key_all]
        await self.run_script(scripts.BURY, keys, [worker, self._writer.most_all, self.inboxes])

    def buried(self, worker: str) -> None:
        """The reader read that a process has died."""
        if worker != self.worker:
            self._died(worker)

    # --- records ------------------------------------------------------------------------------------

    def _record(self, key: str) -> str:
        return f"{self.prefix}:r:{key}"

    async def put(
        self,
        key: str,
        value: bytes,
        seconds: float,
        *,
        new: bool = False,
        parts: Mapping[str, bytes] | None = None,
    ) -> bool:
        values: list[Any] = [value, _ms(seconds), int(new)]
        for name, part in (parts or {}).items():
            values += (name, part)
        return bool(await self.run_script(scripts.PUT, [self._record(key)], values))

    async def get(self, key: str) -> bytes | None:
        found: bytes | None = await self.perform(lambda client: client.hget(self._record(key), ""))
        return found

    async def put_part(self, key: str, name: str, value: bytes | None) -> bool:
        values = [name] if value is None else [name, value]
        return bool(await self.run_script(scripts.PART, [self._record(key)], values))

    async def parts(self, key: str) -> dict[str, bytes]:
        from redis.exceptions import ResponseError

        try:
            found = await self.perform(lambda client: client.hgetall(self._record(key)))
        except ResponseError as exc:
            if "WRONGTYPE" not in str(exc):
                raise
            return {}  # somebody else's key: no record
        return {name.decode("utf-8", "replace"): value for name, value in found.items()}

    async def touch(self, key: str, seconds: float) -> bool:
        return bool(await self.perform(lambda client: client.pexpire(self._record(key), _ms(seconds))))

    async def delete(self, key: str) -> bool:
        return bool(await self.perform(lambda client: client.delete(self._record(key))))

    async def count(self, group: str, member: str | None, seconds: float) -> int:
        values = [] if member is None else [member, _ms(seconds) if seconds > 0 else 0]
        return int(await self.run_script(scripts.COUNT, [f"{self.prefix}:g:{group}"], values))

    # --- logs ---------------------------------------------------------------------------------------

    def log_key(self, key: str) -> str:
        """The Redis stream of a log."""
        return f"{self.prefix}:l:{key}"

    async def read(self, key: str, after: int, most: int) -> list[tuple[int, bytes]]:
        found = await self.perform(lambda client: client.xrange(self.log_key(key), f"{after + 1}-0", "+", most))
        return [(int(id.partition(b"-")[0]), fields[b"e"]) for id, fields in found]

    async def drop(self, key: str) -> None:
        await self.perform(lambda client: client.delete(self.log_key(key)))

    # --- tasks --------------------------------------------------------------------------------------

    def task_store(self) -> TaskStore:
        if self._task_store is None:
            from headrace.hosting.backplane.tasks import RedisTaskStore

            self._task_store = RedisTaskStore(self)
        return self._task_store
