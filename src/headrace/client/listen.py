"""Listening to a server's changes in the modern era: ``subscriptions/listen`` (SF-70..SF-75, ST-31).

Strategy: a :class:`Listen` is one subscription that outlives its requests. Its task sends the request, waits for
its end, and after an unexpected one asks again with growing pauses; since nothing is replayed, everything that was
subscribed then counts as changed. Events wait in a bounded table where repeated ones fall together. The
:class:`KeptListen` is the one that callbacks and ``subscribe`` share; it changes its filter by opening the new
subscription before it ends the old one, so that no change is lost between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.arguments import encode
from headrace.client.callbacks import Relay
from headrace.client.results import check_complete, decode_any
from headrace.client.watch import ACKNOWLEDGED, TASKS, UPDATED, covers
from headrace.errors import ConnectionClosed, HeadraceError, HttpStatusError, NotOffered, RequestTimeout, RpcError
from headrace.jsonrpc import INTERNAL_ERROR

if TYPE_CHECKING:
    from types import TracebackType

    from headrace.client.watch import Watch
    from headrace.limits import Limits
    from headrace.mux import Mux, PendingCall

__all__ = ("Change", "Filter", "KeptListen", "Listen", "Wire", "as_filter")

FIRST_PAUSE = 0.5
LAST_PAUSE = 30.0
MAX_ATTEMPTS = 8
"""Attempts in a row to get a dropped subscription back, after which it has ended."""
SETTLED = 10.0
"""Seconds after which a subscription counts as one that worked: attempts are counted anew."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that changed at the server."""

    kind: str
    """``"tools"``, ``"prompts"`` or ``"resources"``: that list; ``"resource"``: the one with ``uri``;
    ``"task"``: the one with ``task_id``."""
    uri: str | None = None
    task_id: str | None = None
    params: dict[str, Any] | None = None
    """What the notification said (of tasks only)."""
    missed: bool = False
    """Not reported, but possible: the subscription was down for a while."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What to hear of (SF-70)."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()

    def wire(self) -> bytes:
        """The ``notifications`` object."""
        found: dict[str, Any] = {f"{kind}ListChanged": True for kind in _KINDS if getattr(self, kind)}
        if self.uris:
            found["resourceSubscriptions"] = sorted(self.uris)
        if self.tasks:
            found["taskIds"] = sorted(self.tasks)
        return encode(found)

    def accepted(self, wire: Any) -> Filter:
        """What of this filter the server's acknowledgement names; more than was asked for does not count."""
        if not isinstance(wire, dict):
            return Filter()
        uris, tasks = wire.get("resourceSubscriptions"), wire.get("taskIds")
        return Filter(
            tools=self.tools and wire.get("toolsListChanged") is True,
            prompts=self.prompts and wire.get("promptsListChanged") is True,
            resources=self.resources and wire.get("resourcesListChanged") is True,
            uris=self.uris & _texts(uris),
            tasks=self.tasks & _texts(tasks),
        )

    def wants(self, change: Change) -> bool:
        """Whether the server may send this."""
        if change.kind == "resource":
            uri = change.uri or ""
            return any(covers(one, uri) for one in self.uris)
        if change.kind == "task":
            return change.task_id in self.tasks
        return bool(getattr(self, change.kind))

    def everything(self) -> list[Change]:
        """A change of all of it: what may have been missed."""
        changes = [Change(kind=kind, missed=True) for kind in _KINDS if getattr(self, kind)]
        changes += [Change(kind="resource", uri=uri, missed=True) for uri in sorted(self.uris)]
        changes += [Change(kind="task", task_id=task, missed=True) for task in sorted(self.tasks)]
        return changes

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing."""
        return not (self.tools or self.prompts or self.resources or self.uris or self.tasks)


_KINDS = ("tools", "prompts", "resources")


def _texts(value: Any) -> frozenset[str]:
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()


class Wire:
    """What listens need of a connection; not the client, which must be free to go."""

    def __init__(self, mux: Mux, sink: Any, watch: Watch, limits: Limits, meta: bytes) -> None:
        self.mux = mux
        self.sink = sink
        self.watch = watch
        self.limits = limits
        self.meta = meta


class Listen:
    """One subscription: ``async with client.listen(tools=True) as changes: async for change in changes: ...``.

    Iteration ends when the server ends the subscription, and raises what made it fail: :class:`RpcError`,
    :class:`ConnectionClosed`. :attr:`accepted` says what the server agreed to send.
    """

    def __init__(
        self,
        wire: Wire,
        wanted: Filter,
        *,
        on_change: Callable[[Change], Any] | None = None,
        on_drop: Callable[[HeadraceError], Any] | None = None,
        reconnect: bool = True,
        kept: bool = False,
    ) -> None:
        self._wire = wire
        self._wanted = wanted
        failed = wire.watch.callback_failed
        self._on_change = Relay(on_change, failed) if on_change is not None else None
        self._on_drop = Relay(on_drop, failed) if on_drop is not None else None
        self._reconnect = reconnect
        self._kept = kept
        self._changes: dict[tuple[str, str | None], Change] = {}
        self._news = asyncio.Event()
        self._acknowledged: asyncio.Future[Filter] = asyncio.get_running_loop().create_future()
        self._call: PendingCall | None = None
        self._task: asyncio.Task[None] | None = None
        self._acks = 0
        self._acked = False
        self._error: HeadraceError | None = None
        self._over = False
        self._overflowed = False
        self.accepted = Filter()
        """What of the filter the server agreed to (SF-71); empty before the acknowledgement."""

    # --- use -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Listen:
        self.start()
        try:
            await self.ready()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._changes.pop(next(iter(self._changes)))

    def start(self) -> None:
        """Opens the subscription in the background."""
        if self._task is None:
            self._wire.watch.running.add(self)
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(lambda _: self._wire.watch.running.discard(self))

    async def ready(self, timeout: float | None = None) -> Filter:
        """Waits for the acknowledgement and gives what was accepted.

        ``timeout``: seconds (default ``limits.request_timeout``). Raises :class:`RpcError` when the server
        refuses, :class:`ConnectionClosed` when it ends before, :class:`RequestTimeout`.
        """
        limit = self._wire.limits.request_timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self._acknowledged)
        except TimeoutError:
            raise RequestTimeout(f"subscriptions/listen: no acknowledgement within {limit:g} s") from None

    @property
    def closed(self) -> bool:
        """True once it is over, whoever ended it."""
        return self._over

    async def close(self) -> None:
        """Ends the subscription; the server is told in the transport's way (SF-74). Safe to repeat."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """The same without waiting for its task."""
        self._finish(None)
        if self._task is not None:
            self._task.cancel()
        for relay in (self._on_change, self._on_drop):
            if relay is not None:
                relay.stop()

    # --- in ------------------------------------------------------------------------------------------

    def received(self, method: str, kind: str | None, params: Any, raw: bytes) -> None:
        """A notification that is tagged with the id of this subscription."""
        if method == ACKNOWLEDGED:
            self._acknowledge(params.notifications)
            return
        change: Change | None = None
        if kind is not None:
            change = Change(kind=kind)
        elif method == UPDATED and isinstance(params.uri, str):
            change = Change(kind="resource", uri=params.uri)
        elif method == TASKS and isinstance(params.task_id, str):
            change = Change(kind="task", task_id=params.task_id, params=decode_any(raw))
        # What was not asked for is nobody's (SF-72).
        if change is not None and self._wanted.wants(change):
            self._deliver(change)

    def _acknowledge(self, wire: Any) -> None:
        if self._acked:
            return
        self._acked = True
        self._acks += 1
        self.accepted = self._wanted.accepted(wire)
        if not self._acknowledged.done():
            self._acknowledged.set_result(self.accepted)
        if self._acks > 1:
            for change in self.accepted.everything():
                self._deliver(change)

    def _deliver(self, change: Change) -> None:
        if not self._kept:
            self._wire.watch.forget(change.kind, change.uri)
        if self._on_change is not None:
            self._on_change(change)
            return
        key = (change.kind, change.uri if change.uri is not None else change.task_id)
        if key not in self._changes and len(self._changes) >= self._wire.limits.max_listen_changes:
            self._changes.pop(next(iter(self._changes)))
            if not self._overflowed:
                self._overflowed = True
                self._wire.watch.log.warning("changes of a subscription are not read: the oldest are dropped")
        self._changes[key] = change
        self._news.set()

    def cancelled(self) -> None:
        """The server ended it by ``notifications/cancelled`` (SF-74, G-01)."""
        if self._call is not None:
            self._call.fail(_Ended())

    # --- the task ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        attempts = 0
        while not self._over:
            self._acked = False
            since = loop.time()
            end: HeadraceError | None = None
            try:
                await self._once()
            except _Ended:
                pass
            except HeadraceError as exc:
                end = exc
            if loop.time() - since > SETTLED:
                attempts = 0
            attempts += 1
            if not self._again(end) or attempts > MAX_ATTEMPTS:
                self._finish(end)
                return
            if self._on_drop is not None:
                self._on_drop(end)
            await asyncio.sleep(self._pause(attempts, end))

    def _again(self, end: HeadraceError | None) -> bool:
        """Whether to ask again after this end: not for what never worked, nor where nobody is there."""
        if self._over or not self._acks or not self._reconnect or self._wire.mux.closed:
            return False
        if end is None:
            return self._kept  # the server ended it: only callbacks that wait for changes ask again
        if isinstance(end, RpcError):
            # It starts, is full, or wants to be asked less often.
            return end.code == INTERNAL_ERROR or (end.http_status or 0) >= 500 or end.http_status == 429
        return isinstance(end, ConnectionClosed | HttpStatusError | RequestTimeout)

    def _pause(self, attempts: int, end: HeadraceError | None) -> float:
        """Seconds before the next attempt: growing, and as long as the server asks for (B40)."""
        pause = min(FIRST_PAUSE * 2.0 ** (attempts - 1), LAST_PAUSE)
        asked: float | None = getattr(end, "retry_after", None)
        return pause if asked is None else max(pause, min(asked, self._wire.limits.max_reconnect_wait))

    async def _once(self) -> None:
        """One request, from sending it to its end."""
        wire = self._wire
        mux = wire.mux
        params = b'{"notifications":' + self._wanted.wire() + b',"_meta":{' + wire.meta + b"}}"
        id = mux.next_call_id
        wire.watch.listens[id] = self  # before the first answer can come
        try:
            # It has no time limit (MX-14).
            self._call = mux.call("subscriptions/listen", params, wire.sink, decode=check_complete)
            try:
                await self._call.future
            except asyncio.CancelledError:
                self._call.cancel()
                raise
        finally:
            self._call = None
            wire.watch.listens.pop(id, None)

    def _finish(self, error: HeadraceError | None) -> None:
        if self._over:
            return
        self._over = True
        self._error = error
        if self._kept and self._acks and error is not None and not self._wire.mux.closed:
            self._wire.watch.log.warning("changes of the server are no longer heard of: %s", error)
        if not self._acknowledged.done():
            self._acknowledged.set_exception(error or ConnectionClosed("the subscription ended"))
            self._acknowledged.exception()  # nobody has to ask for it
        self._news.set()


class _Ended(HeadraceError):
    """The server's cancel of a listen: an end like any other."""


class KeptListen:
    """The subscription behind callbacks and ``subscribe``: open while its filter asks for something."""

    def __init__(self, wire: Wire, base: Filter) -> None:
        self._wire = wire
        self._base = base
        self._uris: set[str] = set()
        self._open: Listen | None = None
        self._changing = asyncio.Lock()

    @property
    def wanted(self) -> Filter:
        """What it listens for at present."""
        return msgspec.structs.replace(self._base, uris=frozenset(self._uris))

    @property
    def error(self) -> HeadraceError | None:
        """What it has been given up for, None while it is open or comes back."""
        return self._open._error if self._open is not None and self._open.closed else None

    async def start(self) -> None:
        """Opens it. Raises what :meth:`Listen.ready` raises."""
        await self._change()

    async def add(self, uri: str) -> None:
        """Listens for a resource as well. Raises :class:`NotOffered` when the server does not accept it."""
        self._uris.add(uri)
        try:
            await self._change()
            if self._open is None or uri not in self._open.accepted.uris:
                raise NotOffered(f"the server did not accept a subscription to {uri}")
        except BaseException:
            self._uris.discard(uri)
            raise

    async def remove(self, uri: str) -> None:
        """Listens for a resource no longer."""
        self._uris.discard(uri)
        await self._change()

    async def _change(self) -> None:
        async with self._changing:
            wanted = self.wanted  # of several changes that waited here, the first makes them all
            old = self._open
            if old is not None and not old.closed and old._wanted == wanted:
                return
            if wanted.empty:
                self._open = None
            else:
                fresh = Listen(self._wire, wanted, on_change=self._changed, kept=True)
                fresh.start()
                try:
                    await fresh.ready()
                except BaseException:
                    fresh.stop()
                    raise
                self._open = fresh
            if old is not None:
                old.stop()

    def _changed(self, change: Change) -> None:
        watch = self._wire.watch
        if change.kind == "resource":
            watch.resource_updated(change.uri or "")
        elif change.kind in _KINDS:
            watch.list_changed(change.kind)

    def stop(self) -> None:
        """The client closes."""
        if self._open is not None:
            self._open.stop()


def as_filter(tools: bool, prompts: bool, resources: bool, uris: Iterable[str], task_ids: Iterable[str]) -> Filter:
    """A filter from the arguments of :meth:`headrace.Client.listen`."""
    for name, value in (("uris", uris), ("task_ids", task_ids)):
        if isinstance(value, str | Mapping):
            raise TypeError(f"{name} must be a list of strings")
    return Filter(
        tools=tools, prompts=prompts, resources=resources, uris=frozenset(uris), tasks=frozenset(task_ids)
    )

