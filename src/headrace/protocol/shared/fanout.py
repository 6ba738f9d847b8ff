"""Changes told to the other processes of a server, and heard from them (SF-23, SF-60, SF-70, TK-27).

Strategy: what is told is keys, never content: names of lists, URIs, ids of tasks. Each process tells its own
changes to all others, at most once in ``limits.notify_interval``, and has its own receivers told of those of the
others; nothing is told on. Who follows a task that another process runs is given its state as the store has it.
When messages were missed, everything that anybody here follows counts as changed: a list that is read once more
costs little, one that stays old costs the client its trust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.mux import Runtime
    from headrace.protocol.backplane import Backplane
    from headrace.protocol.subscriptions import Hub

__all__ = ("Fanout",)

_KIND = "hub"
_LIST = b"l"
_URI = b"u"
_URIS = b"*"
_TASK = b"t"

_MOST_URIS = 10_000  # of one round; beyond, all followed resources count as changed
_MESSAGE_BYTES = 64 * 1024
_READ_AGAIN = 1.0  # seconds until a task whose state could not be read is asked for once more


class Fanout:
    """One hub's side of it. Lists, resources and tasks are added from any thread, the rest is on the loop."""

    def __init__(self, hub: Hub, backplane: Backplane) -> None:
        self._hub = hub
        self.backplane = backplane
        self._kinds: dict[str, None] = {}
        self._uris: dict[str, None] = {}
        self._tasks: dict[str, None] = {}
        self._unread: dict[str, None] = {}
        """Tasks of others whose state is to be read."""
        self._reading = False
        backplane.receive(_KIND, self._received)
        backplane.on_gap(self.missed)

    # --- to others ----------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether there are changes to be told in the hub's next round."""
        return bool(self._kinds or self._uris)

    def changed(self, kind: str) -> None:
        """A list changed here."""
        self._kinds[kind] = None

    def updated(self, uri: str) -> None:
        """A resource changed here."""
        if len(self._uris) <= _MOST_URIS:
            self._uris[uri] = None

    def task(self, task_id: str) -> None:
        """A task's state changed here; it is in the store."""
        self._tasks[task_id] = None

    def tell(self) -> None:
        """Tells the others which lists and resources changed."""
        kinds, self._kinds = self._kinds, {}
        uris, self._uris = self._uris, {}
        parts = [_LIST + kind.encode() for kind in kinds]
        if len(uris) > _MOST_URIS:
            parts.append(_URIS)
        else:
            parts += [_URI + uri.encode("utf-8", "surrogatepass") for uri in list(uris)]
        self._send(parts)

    def tell_tasks(self) -> None:
        """Tells the others which tasks have another state."""
        tasks, self._tasks = self._tasks, {}
        self._send(_TASK + task_id.encode("utf-8", "surrogatepass") for task_id in tasks)

    def _send(self, parts: Iterable[bytes]) -> None:
        some: list[bytes] = []
        size = 0
        for part in parts:
            if some and size + len(part) > _MESSAGE_BYTES:
                self.backplane.tell_all(_KIND, *some)
                some, size = [], 0
            some.append(part)
            size += len(part)
        if some:
            self.backplane.tell_all(_KIND, *some)

    # --- from others --------------------------------------------------------------------------------

    def _received(self, sender: str, parts: list[bytes]) -> None:
        hub = self._hub
        kinds, uris, tasks = [], [], []
        for part in parts:
            mark, text = part[:1], part[1:].decode("utf-8", "surrogatepass")
            if mark == _LIST:
                kinds.append(text)
            elif mark == _URI:
                uris.append(text)
            elif mark == _TASK:
                tasks.append(text)
            elif mark == _URIS:
                uris += hub.followed_uris()
        hub.heard(kinds, uris)
        self._read(tasks)

    def missed(self) -> None:
        """Messages of others were lost: everything may be another now."""
        hub = self._hub
        hub.heard(None, hub.followed_uris())
        self._read(hub.followed_tasks())

    def _read(self, task_ids: Iterable[str]) -> None:
        hub = self._hub
        runtime = hub.runtime
        if runtime is None or hub.task_reader is None:
            return
        self._unread.update((task_id, None) for task_id in task_ids if hub.follows(task_id))
        if self._unread and not self._reading:
            self._reading = True
            runtime.spawn(self._read_all(runtime))

    async def _read_all(self, runtime: Runtime) -> None:
        hub = self._hub
        try:
            while self._unread:
                task_id = next(iter(self._unread))
                del self._unread[task_id]
                if hub.task_reader is None or not hub.follows(task_id):
                    continue
                try:
                    params = await hub.task_reader(task_id)
                except OSError:
                    # The store cannot be reached: nobody is told, and nobody forgets.
                    self._unread[task_id] = None
                    await self._pause(runtime)
                    continue
                if params is not None:
                    hub.task(task_id, params, everywhere=False)
        except Exception as exc:
            runtime.report("the state of a task could not be told", exc)
        finally:
            self._reading = False

    @staticmethod
    async def _pause(runtime: Runtime) -> None:
        over = runtime.create_future()
        handle = runtime.call_at(runtime.time() + _READ_AGAIN, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            handle.cancel()
