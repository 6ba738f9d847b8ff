"""Tasks in an SQLite file: they outlive the process, and several processes of one machine may share them.

Strategy: one thread owns the connection. It takes all jobs that wait, runs each in a savepoint of one
transaction and commits once; only then are they acknowledged, so a crash loses nothing that was (WAL,
``synchronous=FULL``). Each process holds a lock file as long as it lives; the tasks of one whose lock is free
are failed, by whoever opens or sweeps the store next.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.protocol.tasks.states import FAILED, INPUT_REQUIRED, WORKING, Task, error_object
from headrace.protocol.tasks.store import ORPHANED, Signal, TasksFull, TaskStore

if TYPE_CHECKING:
    from headrace.limits import Limits

__all__ = ("SqliteTaskStore",)

_VERSION = 1
_SCHEMA = """
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, status TEXT NOT NULL,
    worker TEXT NOT NULL, expires REAL, size INTEGER NOT NULL, record BLOB NOT NULL, payload BLOB
);
CREATE INDEX tasks_owner ON tasks (owner, seq);
CREATE INDEX tasks_expires ON tasks (expires);
CREATE INDEX tasks_open ON tasks (worker) WHERE status IN ('working', 'input_required');
CREATE TABLE signals (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, worker TEXT NOT NULL, task TEXT NOT NULL, kind TEXT NOT NULL,
    key TEXT NOT NULL, body BLOB NOT NULL
);
"""
_BATCH = 64  # jobs of one transaction
_BUSY = 10.0  # seconds to wait for another process that writes
_OPEN = (WORKING, INPUT_REQUIRED)

_T = TypeVar("_T")
_Job = Callable[[sqlite3.Connection], Any]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Task).decode


class SqliteTaskStore(TaskStore):
    """Tasks in the file ``path`` on a local disk, made with mode 0600 where it does not exist.

    Beside it appear SQLite's own ``-wal`` and ``-shm`` files and ``path.workers``, a directory with one lock
    file a process.
    """

    shared = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if str(path) == ":memory:":
            raise UsageError("SqliteTaskStore wants a file; MemoryTaskStore keeps tasks in memory")
        self._jobs: SimpleQueue[tuple[_Job | None, asyncio.Future[Any]]] | None = None
        self._limits: Limits | None = None
        self._lock = -1

    # --- the thread ---------------------------------------------------------------------------------

    async def start(self, limits: Limits) -> None:
        if self._jobs is not None:
            raise UsageError("this task store is in use by another server already")
        self._limits = limits
        self.worker, self._lock = _register(self._workers)
        jobs: SimpleQueue[tuple[_Job | None, asyncio.Future[Any]]] = SimpleQueue()
        self._jobs = jobs
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        thread = threading.Thread(target=self._serve, args=(loop, jobs, ready), name="headrace-tasks", daemon=True)
        thread.start()
        try:
            await ready
        except BaseException:
            self._released()
            raise

    async def stop(self) -> None:
        jobs = self._jobs
        if jobs is None:
            return
        ended = asyncio.get_running_loop().create_future()
        jobs.put((None, ended))
        try:
            await asyncio.shield(ended)
        finally:
            self._released()

    def _released(self) -> None:
        self._jobs = None
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                (self._workers / self.worker).unlink()
            os.close(self._lock)
            self._lock = -1

    @property
    def _workers(self) -> Path:
        return self.path.with_name(self.path.name + ".workers")

    def _serve(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: SimpleQueue[tuple[_Job | None, asyncio.Future[Any]]],
        ready: asyncio.Future[None],
    ) -> None:
        try:
            db = _open(self.path)
        except Exception as exc:
            _tell(loop, [(ready, None, self._wrapped(exc))])
            return
        file = _file_of(self.path)
        # The tasks of dead processes are settled before anybody asks for them.
        outcomes = self._transact(db, [(self._fail_orphans, ready)])
        _tell(loop, outcomes)
        stopping = None
        while stopping is None:
            batch: list[tuple[_Job, asyncio.Future[Any]]] = []
            job, future = jobs.get()
            while True:
                if job is None:
                    stopping = future
                    break
                batch.append((job, future))
                if len(batch) >= _BATCH:
                    break
                try:
                    job, future = jobs.get_nowait()
                except Empty:
                    break
            if batch:
                if _file_of(self.path) != file:
                    # Deleted or replaced: what goes to the old file would be acknowledged and lost.
                    with contextlib.suppress(Exception):  # the old one says what is wrong, or serves on
                        fresh = _open(self.path)
                        db.close()
                        db = fresh
                        file = _file_of(self.path)
                _tell(loop, self._transact(db, batch))
        db.close()
        _tell(loop, [(stopping, None, None)])

    def _transact(
        self, db: sqlite3.Connection, batch: list[tuple[_Job, asyncio.Future[Any]]]
    ) -> list[tuple[asyncio.Future[Any], Any, Exception | None]]:
        """Runs the jobs in one transaction; a job that raises leaves nothing of itself in it."""
        outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]] = []
        try:
            db.execute("BEGIN IMMEDIATE")
            for job, future in batch:
                db.execute("SAVEPOINT job")
                try:
                    outcomes.append((future, job(db), None))
                except Exception as exc:
                    db.execute("ROLLBACK TO job")
                    outcomes.append((future, None, self._wrapped(exc)))
                db.execute("RELEASE job")
            db.execute("COMMIT")
        except Exception as exc:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            fault = self._wrapped(exc)
            return [(future, None, fault) for _, future in batch]
        return outcomes

    def _wrapped(self, exc: Exception) -> Exception:
        if isinstance(exc, sqlite3.Error):
            return OSError(f"task store {self.path}: {exc}")
        return exc

    async def _do(self, job: Callable[[sqlite3.Connection], _T]) -> _T:
        if self._jobs is None:
            raise OSError(f"task store {self.path} is closed")
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._jobs.put((job, future))
        return await future

    # --- the store ----------------------------------------------------------------------------------

    async def create(self, task: Task) -> None:
        limits = self._limits
        assert limits is not None

        def job(db: sqlite3.Connection) -> None:
            if _one(db, "SELECT COUNT(*) FROM tasks") >= limits.max_tasks:
                self._expire(db)
                if _one(db, "SELECT COUNT(*) FROM tasks") >= limits.max_tasks:
                    raise TasksFull("the server holds too many tasks (limit max_tasks)")
            owned = _one(db, "SELECT COUNT(*) FROM tasks WHERE owner = ?", task.owner)
            if owned >= limits.max_tasks_per_principal:
                raise TasksFull("you hold too many tasks (limit max_tasks_per_principal)", "max_tasks_per_principal")
            db.execute(
                "INSERT INTO tasks (id, owner, status, worker, expires, size, record, payload)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (task.id, task.owner, task.status, task.worker, task.expires, 0, _encode(task), None),
            )

        await self._do(job)

    async def get(self, task_id: str) -> Task | None:
        def job(db: sqlite3.Connection) -> Task | None:
            row = db.execute(
                "SELECT record, payload FROM tasks WHERE id = ? AND (expires IS NULL OR expires > ?)",
                (task_id, time.time()),
            ).fetchone()
            return None if row is None else _task(*row)

        return await self._do(job)

    async def change(self, task_id: str, fields: dict[str, Any]) -> Task | None:
        limits = self._limits
        assert limits is not None

        def job(db: sqlite3.Connection) -> Task | None:
            row = db.execute("SELECT record, payload FROM tasks WHERE id = ?", (task_id,)).fetchone()
            task = None if row is None else _task(*row)
            if task is None or task.terminal:
                return None
            more = len(fields.get("payload") or b"")
            if more and _one(db, "SELECT TOTAL(size) FROM tasks") + more > limits.max_task_bytes:
                self._expire(db)
                if _one(db, "SELECT TOTAL(size) FROM tasks") + more > limits.max_task_bytes:
                    raise TasksFull("the results of all tasks are too large (limit max_task_bytes)", "max_task_bytes")
            task = task.changed(**fields)
            _write(db, task)
            return task

        return await self._do(job)

    async def delete(self, task_id: str) -> None:
        await self._do(lambda db: db.execute("DELETE FROM tasks WHERE id = ?", (task_id,)) and None)

    async def page(self, owner: str, after: int, count: int) -> tuple[list[Task], int | None]:
        def job(db: sqlite3.Connection) -> tuple[list[Task], int | None]:
            rows = db.execute(
                "SELECT seq, record FROM tasks WHERE owner = ? AND seq > ? AND (expires IS NULL OR expires > ?)"
                " ORDER BY seq LIMIT ?",
                (owner, after, time.time(), count + 1),
            ).fetchall()
            more = rows[count - 1][0] if len(rows) > count else None
            return [_task(record, None) for _, record in rows[:count]], more

        return await self._do(job)

    async def sweep(self) -> list[str]:
        def job(db: sqlite3.Connection) -> list[str]:
            self._fail_orphans(db)
            return self._expire(db)

        return await self._do(job)

    async def post(self, signal: Signal) -> None:
        def job(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT worker FROM tasks WHERE id = ?", (signal.task_id,)).fetchone()
            if row is not None:
                db.execute(
                    "INSERT INTO signals (worker, task, kind, key, body) VALUES (?, ?, ?, ?, ?)", (row[0], *signal)
                )

        await self._do(job)

    async def signals(self) -> list[Signal]:
        def job(db: sqlite3.Connection) -> list[Signal]:
            rows = db.execute(
                "SELECT task, kind, key, body FROM signals WHERE worker = ? ORDER BY seq", (self.worker,)
            ).fetchall()
            if rows:
                db.execute("DELETE FROM signals WHERE worker = ?", (self.worker,))
            return [Signal(*row) for row in rows]

        return await self._do(job)

    # --- in the thread ------------------------------------------------------------------------------

    def _expire(self, db: sqlite3.Connection) -> list[str]:
        rows = db.execute("DELETE FROM tasks WHERE expires <= ? RETURNING id", (time.time(),)).fetchall()
        return [row[0] for row in rows]

    def _fail_orphans(self, db: sqlite3.Connection) -> None:
        """Tasks of processes that are gone end as failed: nobody runs them any more."""
        workers = db.execute(
            f"SELECT DISTINCT worker FROM tasks WHERE status IN {_OPEN} AND worker <> ?", (self.worker,)
        ).fetchall()
        payload = error_object(RpcError(INTERNAL_ERROR, ORPHANED))
        for (worker,) in workers:
            if _alive(self._workers, worker):
                continue
            rows = db.execute(
                f"SELECT record, payload FROM tasks WHERE worker = ? AND status IN {_OPEN}", (worker,)
            ).fetchall()
            for row in rows:
                _write(db, _task(*row).changed(status=FAILED, message=ORPHANED, inputs={}, payload=payload))
            db.execute("DELETE FROM signals WHERE worker = ?", (worker,))


def _file_of(path: Path) -> tuple[int, int] | None:
    """What the name stands for now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open(path: Path) -> sqlite3.Connection:
    # Results may be anybody's secrets: the file is the owner's alone.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        version = _one(db, "PRAGMA user_version")
        if version == 0:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")
        if version not in (0, _VERSION):
            raise OSError(f"task store {path} has layout {version}; this version of headrace knows {_VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def _one(db: sqlite3.Connection, statement: str, *values: Any) -> Any:
    return db.execute(statement, values).fetchone()[0]


def _task(record: bytes, payload: bytes | None) -> Task:
    task = _decode(record)
    return task if payload is None else msgspec.structs.replace(task, payload=payload)


def _write(db: sqlite3.Connection, task: Task) -> None:
    payload = task.payload
    db.execute(
        "UPDATE tasks SET status = ?, expires = ?, size = ?, record = ?, payload = ? WHERE id = ?",
        (
            task.status,
            task.expires,
            len(payload or b""),
            _encode(msgspec.structs.replace(task, payload=None)),
            payload,
            task.id,
        ),
    )


def _tell(loop: asyncio.AbstractEventLoop, outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    def settle() -> None:
        for future, value, error in outcomes:
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle)


def _register(directory: Path) -> tuple[str, int]:
    """A name for this process, and the descriptor whose lock says that it lives."""
    directory.mkdir(mode=0o700, exist_ok=True)
    while True:
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Between the two somebody may have taken it for a dead one's and removed it.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(directory / name).st_ino == os.fstat(fd).st_ino:
                return name, fd
        os.close(fd)


def _alive(directory: Path, worker: str) -> bool:
    """Whether the process of that name lives. The lock file of a dead one is removed."""
    try:
        fd = os.open(directory / worker, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, ValueError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(directory / worker)
        return False
    finally:
        os.close(fd)
