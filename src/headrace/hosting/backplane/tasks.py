"""Tasks in Redis: any process of any machine answers for all of them, and one that dies leaves none unfinished.

Strategy: a task is one hash, each change one Lua script (``_task_scripts``), acknowledged when Redis has made it. The
backplane carries no data of tasks, only word that there is something: signals wait in Redis until the process that
runs the task has them, and who follows a task reads it. So a message that is lost costs time and nothing else: what
it was about is looked at with the next sweep, and when messages are known to be missing.

A process renews its lease in the backplane. The unfinished tasks of one without a lease are failed by whoever sees it
first; it must be seen twice, a lease apart, unless the death is known: when Redis comes back after a while without it,
all leases have run out, of processes that live.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.hosting.backplane._task_calls import Calls
from headrace.hosting.backplane._task_scripts import (
    CHANGE,
    CREATE,
    DELETE,
    FAIL,
    FOLLOW,
    GET,
    MEMBERS,
    PAGE,
    POST,
    SWEEP,
    TAKE,
    UNFOLLOW,
)
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.protocol.tasks.states import Task, error_object
from headrace.protocol.tasks.store import ORPHANED, Signal, TasksFull, TaskStore

if TYPE_CHECKING:
    from headrace.hosting.backplane.redis import RedisBackplane
    from headrace.limits import Limits

__all__ = ("RedisTaskStore",)

_KIND = "task"  # of messages
_CHANGED = b"c"
_SIGNALLED = b"s"
_RETURN = 5.0  # seconds, beside its lease, in which every process that lives is back after a loss of Redis
_SWEEP = 500  # tasks that are deleted by one command
_SIGNALS = 10_000  # that may wait for one process
_FOLLOWERS = 32_768  # bytes of the names of who follows one task


class _Base(msgspec.Struct, array_like=True):
    """What of a task never changes."""

    id: str
    owner: str
    name: str
    worker: str
    created: float
    ttl: int | None
    poll: int | None


_encode = msgspec.json.Encoder().encode
_decode_base = msgspec.json.Decoder(_Base).decode
_decode_inputs = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode_signal = msgspec.msgpack.Encoder().encode
_decode_signal = msgspec.msgpack.Decoder(Signal).decode

_FIELDS: dict[str, tuple[bytes, Callable[[Any], bytes]]] = {
    "status": (b"s", str.encode),
    "message": (b"m", lambda text: b"" if text is None else _encode(text)),
    "inputs": (b"i", _encode),
    "tool_failed": (b"f", lambda failed: b"1" if failed else b"0"),
    "payload": (b"p", lambda payload: payload or b""),
}
"""Field of a task: its name in the hash, and its form there; nothing is no field."""


def _owner(owner: str) -> str:
    # Of any length and with any characters: not fit for the name of a key.
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:40] if owner else ""


def _fields(values: dict[str, Any]) -> list[bytes]:
    found: list[bytes] = [b"u", repr(values.get("updated", time.time())).encode()]
    for name, value in values.items():
        if name in _FIELDS:
            key, form = _FIELDS[name]
            found += (key, form(value))
    return found


def _task(row: list[Any], payload: bytes | None = None) -> Task:
    base = _decode_base(row[0])
    return Task(
        **{name: getattr(base, name) for name in _Base.__struct_fields__},
        status=row[1].decode(),
        message=None if row[2] is None else msgspec.json.decode(row[2], type=str),
        updated=float(row[3]),
        inputs=_decode_inputs(row[4]),
        tool_failed=row[5] == b"1",
        payload=row[6] if payload is None else payload,
    )


class RedisTaskStore(TaskStore):
    """Tasks of all processes of a server.

    :param backplane: reaches Redis, carries messages between the processes and says which of them live; it is started
        before the store, and stopped behind it. Servers with the same prefix share their tasks.
    """

    shared = True
    pushes = True
    forgets = True

    def __init__(self, backplane: RedisBackplane) -> None:
        self._backplane = backplane
        self._calls = Calls(backplane, f"{{{backplane.prefix}}}:tasks".encode())
        self._limits: Limits | None = None
        self._open = False
        self._known = False  # to the backplane
        self._jobs: set[asyncio.Task[Any]] = set()
        self._suspects: dict[str, float] = {}  # processes without a lease, and since when that is known
        self._back_at = float("-inf")  # when the backplane came back
        self._taken = 0  # number of the last signal
        self._signalled: Callable[[], None] = lambda: None
        self._changed: Callable[[str], None] = lambda task_id: None
        self._missed: Callable[[], None] = lambda: None

    # --- life ---------------------------------------------------------------------------------------

    def attach(
        self, signalled: Callable[[], None], changed: Callable[[str], None], missed: Callable[[], None]
    ) -> None:
        self._signalled = signalled
        self._changed = changed
        self._missed = missed

    async def start(self, limits: Limits) -> None:
        if self._open:
            raise UsageError("this task store is in use by another server already")
        self._limits = limits
        self.worker = self._backplane.worker
        self._suspects.clear()
        self._open = True
        self._calls.open()
        try:
            if self._backplane.available:  # else it was said to be optional, and is looked for with each sweep
                await self._fail_orphans()
        except BaseException:
            self._open = False
            self._calls.close()
            raise
        if not self._known:
            self._known = True
            self._backplane.receive(_KIND, self._heard)
            self._backplane.on_death(self._died)
            self._backplane.on_gap(self._gap)
            self._backplane.on_emptied(self._gap)
            self._backplane.on_available(self._available)

    async def stop(self) -> None:
        if not self._open:
            return
        try:
            # Whatever it still has runs nowhere from here on.
            await self._fail(self.worker)
        except OSError:
            pass  # another process will find them
        finally:
            self._open = False
            self._calls.close()
            for job in list(self._jobs):
                job.cancel()

    def _heard(self, sender: str, parts: list[bytes]) -> None:
        if not self._open or not parts:
            return
        if parts[0] == _SIGNALLED:
            self._signalled()
        elif parts[0] == _CHANGED and len(parts) > 1:
            self._changed(parts[1].decode())

    def _gap(self) -> None:
        if self._open:
            self._missed()

    def _available(self, available: bool) -> None:
        if available and self._open:
            self._back_at = asyncio.get_running_loop().time()
            self._missed()

    def _died(self, worker: str) -> None:
        """A process is said to be dead."""
        if self._open and worker != self.worker:
            job = asyncio.get_running_loop().create_task(self._settle(worker))
            self._jobs.add(job)
            job.add_done_callback(self._ended)

    async def _settle(self, worker: str) -> None:
        now = asyncio.get_running_loop().time()
        with contextlib.suppress(OSError):  # with the next sweep, of whoever it is
            trusted_at = self._back_at + self._backplane.lease + _RETURN
            if now < trusted_at:
                # All leases ran out while Redis was away.
                await asyncio.sleep(trusted_at - now)
            if not await self._backplane.alive(worker):
                await self._fail(worker)

    def _ended(self, job: asyncio.Task[Any]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            job.exception()

    # --- the store ----------------------------------------------------------------------------------

    async def create(self, task: Task) -> None:
        assert self._limits is not None
        base = _Base(task.id, task.owner, task.name, task.worker, task.created, task.ttl, task.poll)
        expires = task.expires
        fields = [b"b", _encode(base)]
        values = _fields({name: getattr(task, name) for name in (*_FIELDS, "updated")})
        for key, value in zip(values[::2], values[1::2], strict=True):
            if value:
                fields += (key, value)
        outcome = await self._calls(
            CREATE,
            task.id,
            _owner(task.owner),
            task.worker,
            "" if expires is None else repr(expires),
            self._limits.max_tasks,
            self._limits.max_tasks_per_principal,
            *fields,
        )
        if outcome == b"most":
            raise TasksFull("the server holds too many tasks (limit max_tasks)")
        if outcome == b"each":
            raise TasksFull("you hold too many tasks (limit max_tasks_per_principal)", "max_tasks_per_principal")

    async def get(self, task_id: str) -> Task | None:
        row = await self._calls(GET, task_id)
        return None if row is None else _task(row)

    async def change(self, task_id: str, fields: dict[str, Any]) -> Task | None:
        assert self._limits is not None
        payload = fields.get("payload")
        row = await self._calls(CHANGE, task_id, self._limits.max_task_bytes, len(payload or b""), *_fields(fields))
        if row is None:
            return None
        if row == b"full":
            raise TasksFull("the results of all tasks are too large (limit max_task_bytes)", "max_task_bytes")
        self._tell(task_id, row[7])
        return _task(row, payload)

    def _tell(self, task_id: str, followers: bytes) -> None:
        for worker in followers.decode().split(","):
            if worker == self.worker:
                self._changed(task_id)
            elif worker:
                self._backplane.tell(worker, _KIND, _CHANGED, task_id.encode())

    async def delete(self, task_id: str) -> None:
        await self._calls(DELETE, task_id)

    async def page(self, owner: str, after: int, count: int) -> tuple[list[Task], int | None]:
        rows = await self._calls(PAGE, _owner(owner), after, count)
        more = int(float(rows[count - 1][7])) if len(rows) > count else None
        return [_task(row) for row in rows[:count]], more

    async def sweep(self) -> list[str]:
        await self._fail_orphans()
        found: list[str] = []
        while ids := await self._calls(SWEEP, _SWEEP):
            found += (task_id.decode() for task_id in ids)
            if len(ids) < _SWEEP:
                break
        return found

    async def post(self, signal: Signal) -> None:
        outcome = await self._calls(POST, signal.task_id, _encode_signal(signal), _SIGNALS)
        if outcome == b"full":
            raise OSError("the task store: the process that runs the task does not take what it is told")
        if outcome is not None:
            worker = outcome[0].decode()
            if worker == self.worker:
                self._signalled()
            else:
                self._backplane.tell(worker, _KIND, _SIGNALLED)

    async def signals(self) -> list[Signal]:
        # They stay in Redis until the next look: what comes with an answer that is lost comes again.
        rows = await self._calls(TAKE, self.worker, self._taken)
        found = []
        for row in rows:
            number, _, body = row.partition(b":")
            found.append(_decode_signal(body))
            self._taken = max(self._taken, int(number))
        return found

    async def follow(self, task_id: str) -> Task | None:
        row = await self._calls(FOLLOW, task_id, self.worker, _FOLLOWERS)
        return None if row is None else _task(row)

    async def unfollow(self, task_id: str) -> None:
        await self._calls(UNFOLLOW, task_id, self.worker)

    async def unfinished(self) -> list[str]:
        return [each.decode() for each in await self._calls(MEMBERS, f":run:{self.worker}")]

    # --- processes that died ------------------------------------------------------------------------

    async def _fail_orphans(self) -> None:
        """Fails the tasks of processes that have had no lease for as long as a lease lasts."""
        workers = [each.decode() for each in await self._calls(MEMBERS, ":workers")]
        now = asyncio.get_running_loop().time()
        suspects: dict[str, float] = {}
        for worker in workers:
            if worker != self.worker and not await self._backplane.alive(worker):
                suspects[worker] = self._suspects.get(worker, now)
        self._suspects = suspects
        for worker, since in suspects.items():
            if now - since >= self._backplane.lease + _RETURN:
                await self._fail(worker)

    async def _fail(self, worker: str) -> None:
        payload = error_object(RpcError(INTERNAL_ERROR, ORPHANED))
        left = 1
        while left:
            left, told = await self._calls(FAIL, worker, repr(time.time()), _encode(ORPHANED), payload)
            for task_id, followers in told:
                self._tell(task_id.decode(), followers)
