"""The hub: what changes on a server, and who is told (SF-23, SF-60, SF-70..SF-75).

Strategy: a change is a key, not a message. Keys wait in small tables until the loop's next turn, so a burst
is one notification (B113), and a receiver that does not read keeps its keys waiting instead of queueing
messages: what can wait for it is bounded by what it asked for. Nothing here is touched by a plain call.

Era H: list changes go to every initialized session, updates of a resource to those that subscribed.
Era M: both go to the ``subscriptions/listen`` requests that asked for them, tagged with their id.
Of several processes each tells its own receivers what changed on any (:mod:`headrace.protocol.shared.fanout`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, R5
from headrace.mux import Exchange, FunctionHandler, Handler
from headrace.protocol.receivers import Listen, Receiver, SessionReceiver
from headrace.protocol.shared.fanout import Fanout
from headrace.protocol.urls import uri_bytes
from headrace.protocol.wanted import Wanted, read_wanted

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.mux import Mux, Runtime
    from headrace.protocol.backplane import Backplane
    from headrace.protocol.session import ServerSession

__all__ = ("KINDS", "Hub", "Listen")

KINDS = {
    "tools": b"notifications/tools/list_changed",
    "prompts": b"notifications/prompts/list_changed",
    "resources": b"notifications/resources/list_changed",
}
_UPDATED = b"notifications/resources/updated"
_TASK = b"notifications/tasks"

_A_TURN = 200  # receivers that send in one turn of the event loop

_ENTRY = 200  # bytes that a followed resource costs beside its URI

_encode = msgspec.json.Encoder().encode


class _Host(Protocol):
    """What the hub needs of its server."""

    limits: Limits
    info: dict[str, Any]
    sessions: set[ServerSession]

    def capabilities(self, revision: str) -> dict[str, Any]: ...


class Hub:
    """Everything that is listened to on one server. Lives as long as the server, works while it runs.

    ``changed``, ``updated`` and ``task`` may be called from any thread; the rest belongs to the loop.
    """

    def __init__(self, server: _Host) -> None:
        self.server = server
        self.listens: dict[Listen, None] = {}
        """Open listens, oldest first."""
        self.task_filter: Callable[[Exchange, list[str]], list[str] | Awaitable[list[str]]] | None = None
        """Which of the ``taskIds`` a listen asks for may be followed (tasks extension); None: no such filter."""
        self.task_released: Callable[[str], None] | None = None
        """Told of each task that nobody here follows any more (tasks extension)."""
        self.task_reader: Callable[[str], Awaitable[bytes | None]] | None = None
        """Reads the state of a task as :meth:`task` takes it, wherever the task runs; None when there is none, OSError
        when it cannot be read now. Asked for tasks of other processes (tasks extension)."""
        self._fanout: Fanout | None = None
        self._made: Fanout | None = None
        self._receivers: dict[ServerSession, SessionReceiver] = {}
        self._watchers: dict[str, dict[Receiver, None]] = {}
        self._task_watchers: dict[str, dict[Listen, None]] = {}
        self._kinds: dict[str, None] = {}
        self._uris: dict[str, None] = {}
        self._tasks: list[tuple[str, bytes]] = []
        self._open: dict[Mux, int] = {}  # listens of each connection
        self._followed = 0  # bytes of the URIs in _watchers, once for each who watches
        self._queue: dict[Receiver, None] = {}
        """Receivers that are to send in this turn or the next ones."""
        self._runtime: Runtime | None = None
        self._wake: Callable[[Callable[[], None]], Any] | None = None
        self._woken = False
        self._timer: Any = None
        self._next_at = 0.0

    def start(self, runtime: Runtime, wake: Callable[[Callable[[], None]], Any]) -> None:
        """Binds it to a loop; ``wake(function)`` has a function called on the loop, from any thread."""
        self._runtime = runtime
        self._next_at = 0.0
        self._woken = False
        self._wake = wake

    def share(self, backplane: Backplane | None) -> None:
        """Has changes told to all processes of ``backplane``, and theirs told here, from :meth:`start` to
        :meth:`stop`; None: this process is alone."""
        if backplane is not None and (self._made is None or self._made.backplane is not backplane):
            self._made = Fanout(self, backplane)
        self._fanout = None if backplane is None else self._made

    def stop(self) -> None:
        """The server has stopped: nobody listens any more."""
        self._wake = None
        self._fanout = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for table in (self.listens, self._open, self._receivers, self._watchers, self._task_watchers, self._kinds,
                      self._uris, self._queue):  # fmt: skip
            table.clear()
        self._tasks.clear()
        self._followed = 0
        self._runtime = None

    # --- changes ------------------------------------------------------------------------------------

    def changed(self, kind: str) -> None:
        """The list of ``"tools"``, ``"prompts"`` or ``"resources"`` is another now (SF-60); other kinds have no
        notification. Any thread."""
        if self._wake is not None and kind in KINDS:
            self._kinds[kind] = None
            if self._fanout is not None:
                self._fanout.changed(kind)
            self._alarm()

    def updated(self, uri: str) -> None:
        """Resource ``uri`` has new content (SF-23). Any thread; costs nothing when nobody watches it and no other
        process could have somebody who does."""
        if self._wake is None:
            return
        if self._fanout is not None:
            self._fanout.updated(uri)
        elif uri not in self._watchers:
            return
        if uri in self._watchers:
            self._uris[uri] = None
        self._alarm()

    def task(self, task_id: str, params: bytes, *, everywhere: bool = True) -> None:
        """A task's state for the listens that follow it; ``params`` is the JSON object to send. Any thread.

        ``everywhere``: other processes are told as well, and read the state from the store (``task_reader``): it is
        there already. Without, it is only for those who listen here.
        """
        if self._wake is None:
            return
        here = task_id in self._task_watchers
        if here:
            self._tasks.append((task_id, params))
        if everywhere and self._fanout is not None:
            self._fanout.task(task_id)
        elif not here:
            return
        self._alarm()

    # --- from other processes -----------------------------------------------------------------------

    @property
    def runtime(self) -> Runtime | None:
        """The runtime of the loop that it works on; None while the server does not run."""
        return self._runtime

    def heard(self, kinds: Iterable[str] | None, uris: Iterable[str]) -> None:
        """Another process tells of changes; ``kinds`` None: of all lists that this server has."""
        if self._wake is None:
            return
        if kinds is None:
            kinds = self._lists()
        self._kinds.update((kind, None) for kind in kinds if kind in KINDS)
        self._uris.update((uri, None) for uri in uris if uri in self._watchers)
        if self._kinds or self._uris:
            self._alarm()

    def _lists(self) -> list[str]:
        offered = self.server.capabilities(R5)
        return [kind for kind in KINDS if offered.get(kind, {}).get("listChanged")]

    def followed_uris(self) -> list[str]:
        """Resources that somebody here follows."""
        return list(self._watchers)

    def followed_tasks(self) -> list[str]:
        """Tasks that somebody here follows."""
        return list(self._task_watchers)

    def follows(self, task_id: str) -> bool:
        """Whether somebody here follows this task."""
        return task_id in self._task_watchers

    def assume_changed(self, session: ServerSession) -> None:
        """Nobody knows what ``session`` has missed: it is told that all it hears of has changed."""
        receiver = self._receiver(session)
        for kind in self._lists():
            receiver.due["list", kind] = (KINDS[kind], b"")
        for uri in session.subscriptions:
            receiver.due["uri", uri] = (_UPDATED, b'"uri":' + _encode(uri))
        self._flush([receiver])

    # --- on the loop --------------------------------------------------------------------------------

    def _alarm(self) -> None:
        wake = self._wake
        if not self._woken and wake is not None:
            self._woken = True
            try:
                wake(self._turn)
            except RuntimeError:
                self._woken = False  # the loop is closed: the server is stopping

    def _turn(self) -> None:
        self._woken = False
        runtime = self._runtime
        if runtime is None:
            return
        fanout = self._fanout
        if fanout is not None:
            fanout.tell_tasks()
        if self._tasks:
            self._deliver_tasks()
        if not self._kinds and not self._uris and (fanout is None or not fanout.due):
            return
        now = runtime.time()
        if now < self._next_at:
            # Soon after the last ones: what comes until then is told together.
            if self._timer is None:
                self._timer = runtime.call_at(self._next_at, self._later)
            return
        self._next_at = now + self.server.limits.notify_interval
        self._deliver()

    def _later(self) -> None:
        self._timer = None
        self._turn()

    def _deliver(self) -> None:
        if self._fanout is not None:
            self._fanout.tell()
        kinds, self._kinds = self._kinds, {}
        uris, self._uris = self._uris, {}
        told: dict[Receiver, None] = {}
        for kind in kinds:
            method = KINDS[kind]
            for listen in self.listens:
                if kind in listen.kinds:
                    listen.due[("list", kind)] = (method, b"")
                    told[listen] = None
            for session in list(self.server.sessions):
                if session.ready and not session.away:
                    receiver = self._receiver(session)
                    receiver.due[("list", kind)] = (method, b"")
                    told[receiver] = None
        for uri in uris:
            members = b'"uri":' + _encode(uri)
            for watcher in self._watchers.get(uri, ()):
                if not watcher.away:
                    watcher.due[("uri", uri)] = (_UPDATED, members)
                    told[watcher] = None
        self._flush(told)

    def _flush(self, receivers: Iterable[Receiver]) -> None:
        """Has them send what is due, a part of them a turn: thousands of listeners must not hold the loop."""
        idle = not self._queue
        self._queue.update(dict.fromkeys(receivers))
        if idle:
            self._flush_some()

    def _flush_some(self) -> None:
        runtime = self._runtime
        for _ in range(_A_TURN):
            if not self._queue or runtime is None:
                return
            receiver = next(iter(self._queue))
            del self._queue[receiver]
            try:
                receiver.flush()
            except Exception as exc:
                runtime.report("a change could not be told", exc)
        if self._queue and runtime is not None:
            runtime.call_soon(self._flush_some)

    def _deliver_tasks(self) -> None:
        tasks, self._tasks = self._tasks, []
        told: dict[Receiver, None] = {}
        for task_id, params in tasks:
            members = params.strip()[1:-1].strip()
            for listen in list(self._task_watchers.get(task_id, ())):
                # The newest state takes the place of one that a slow reader has not got yet.
                listen.due[("task", task_id)] = (_TASK, members)
                told[listen] = None
        self._flush(told)

    def _receiver(self, session: ServerSession) -> SessionReceiver:
        found = self._receivers.get(session)
        if found is None:
            found = self._receivers[session] = SessionReceiver(session)
        return found

    # --- era H --------------------------------------------------------------------------------------

    def subscribe(self, session: ServerSession, uri: str) -> None:
        """``resources/subscribe`` of a session. Raises RpcError beyond ``limits.max_subscriptions``, and beyond
        ``limits.max_subscription_bytes`` of all."""
        if uri in session.subscriptions:
            return
        most = self.server.limits.max_subscriptions
        if len(session.subscriptions) >= most:
            text = f"too many subscriptions: at most {most} of one session"
            raise RpcError(INVALID_PARAMS, text, refusal="max_subscriptions")
        if not self._room_for(uri):
            text = "too many resources are followed on this server"
            raise RpcError(INTERNAL_ERROR, text, http_status=503, refusal="max_subscription_bytes")
        if isinstance(session.subscriptions, frozenset):
            session.subscriptions = set()  # most sessions never have one
        session.subscriptions.add(uri)
        self._watch(uri, self._receiver(session))

    def unsubscribe(self, session: ServerSession, uri: str) -> None:
        """``resources/unsubscribe``; unknown ones are no error."""
        receiver = self._receivers.get(session)
        if receiver is not None:
            session.subscriptions -= {uri}
            receiver.due.pop(("uri", uri), None)
            self._unwatch_uri(uri, receiver)

    def session_ended(self, session: ServerSession) -> None:
        """Forgets everything about a session."""
        receiver = self._receivers.pop(session, None)
        if receiver is not None:
            receiver.due.clear()
            for uri in session.subscriptions:
                self._unwatch_uri(uri, receiver)
            session.subscriptions = frozenset()

    def _room_for(self, uri: str) -> bool:
        return self._followed + uri_bytes(uri) + _ENTRY <= self.server.limits.max_subscription_bytes

    def _watch(self, uri: str, receiver: Receiver) -> None:
        self._watchers.setdefault(uri, {})[receiver] = None
        self._followed += uri_bytes(uri) + _ENTRY

    def _unwatch_uri(self, uri: str, receiver: Receiver) -> None:
        if self._unwatch(self._watchers, uri, receiver):
            self._followed -= uri_bytes(uri) + _ENTRY

    @staticmethod
    def _unwatch(table: dict[str, dict[Any, None]], key: str, receiver: Receiver) -> bool:
        """False when it was not there."""
        watchers = table.get(key)
        if watchers is None or receiver not in watchers:
            return False
        del watchers[receiver]
        if not watchers:
            del table[key]
        return True

    # --- era M --------------------------------------------------------------------------------------

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """``subscriptions/listen``, always served in the modern era (SF-75)."""
        return {b"subscriptions/listen": FunctionHandler(self._listen)} if revision == R5 else {}

    def capability(self, revision: str) -> dict[str, Any]:
        """None of its own: ``listChanged`` and ``subscribe`` of the features say what can be listened to."""
        return {}

    def _listen(self, exchange: Exchange) -> None:
        wanted = read_wanted(exchange.params)
        self._admit(exchange)
        tasks: list[str] | Awaitable[list[str]] = []
        if wanted.task_ids and self.task_filter is not None:
            tasks = self.task_filter(exchange, wanted.task_ids)
        exchange.release()
        assert self._runtime is not None
        future = self._runtime.create_future()
        if isinstance(tasks, list):
            self._begin(exchange, wanted, tasks, future)
        else:
            exchange.hold(future)
            self._runtime.spawn(self._begin_later(exchange, wanted, tasks, future))

    async def _begin_later(
        self, exchange: Exchange, wanted: Wanted, finding: Awaitable[list[str]], future: Any
    ) -> None:
        """:meth:`_begin` once it is known which tasks may be followed."""
        tasks: list[str] = []
        try:
            tasks = await finding
            if not future.done():
                self._admit(exchange)
                return self._begin(exchange, wanted, tasks, future)
        except Exception as exc:
            exchange.answer_error(exc)
            future.cancel()
        self._released(tasks)  # it was given up meanwhile, or refused

    def _begin(self, exchange: Exchange, wanted: Wanted, tasks: list[str], future: Any) -> None:
        accepted, listen = self._accept(exchange, wanted, tasks)
        self.listens[listen] = None
        self._open[exchange.mux] = self._open.get(exchange.mux, 0) + 1
        for uri in listen.uris:
            self._watch(uri, listen)
        for task_id in listen.tasks:
            self._task_watchers.setdefault(task_id, {})[listen] = None
        if not listen.open(accepted, future):
            text = "subscriptions/listen is answered with an event stream, which this request does not accept"
            exchange.answer_error(RpcError(INVALID_REQUEST, text, http_status=406))
            future.cancel()
        elif exchange.mux.gate.is_ending:
            listen.end()

    def _admit(self, exchange: Exchange) -> None:
        limits = self.server.limits
        if len(self.listens) >= limits.max_listens_total:
            text = "too many subscriptions are open on this server"
            raise RpcError(INTERNAL_ERROR, text, http_status=503, refusal="max_listens_total")
        if exchange.sink.persistent and self._open.get(exchange.mux, 0) >= limits.max_listens:
            text = f"too many subscriptions: at most {limits.max_listens} of one connection"
            raise RpcError(INTERNAL_ERROR, text, refusal="max_listens")

    def _accept(self, exchange: Exchange, wanted: Wanted, tasks: list[str]) -> tuple[dict[str, Any], Listen]:
        """The accepted subset (SF-71) and the listen for it."""
        offered = self.server.capabilities(R5)
        accepted: dict[str, Any] = {}
        kinds = []
        for kind in KINDS:
            if getattr(wanted, f"{kind}_list_changed") and offered.get(kind, {}).get("listChanged"):
                kinds.append(kind)
                accepted[f"{kind}ListChanged"] = True
        uris: list[str] = []
        if wanted.resource_subscriptions and offered.get("resources", {}).get("subscribe"):
            accepted["resourceSubscriptions"] = uris = self._admitted(wanted.resource_subscriptions)
        if wanted.task_ids and self.task_filter is not None:
            accepted["taskIds"] = tasks = list(dict.fromkeys(tasks))[: self.server.limits.max_subscriptions]
        return accepted, Listen(self, exchange, kinds, uris, tasks)

    def _admitted(self, wanted: list[str]) -> list[str]:
        """Those of the URIs that the bounds have room for."""
        limits = self.server.limits
        left = limits.max_subscription_bytes - self._followed
        found: dict[str, None] = {}
        for uri in wanted:
            if len(found) == limits.max_subscriptions:
                break
            size = uri_bytes(uri)
            if uri not in found and size <= limits.max_uri_bytes and size + _ENTRY <= left:
                found[uri] = None
                left -= size + _ENTRY
        return list(found)

    def forget(self, listen: Listen) -> None:
        """Called by a listen that is over."""
        if listen in self.listens:
            del self.listens[listen]
            left = self._open.pop(listen.exchange.mux, 0) - 1
            if left > 0:
                self._open[listen.exchange.mux] = left
        for uri in listen.uris:
            self._unwatch_uri(uri, listen)
        for task_id in listen.tasks:
            self._unwatch(self._task_watchers, task_id, listen)
        self._released(listen.tasks)

    def _released(self, task_ids: Iterable[str]) -> None:
        if self.task_released is not None:
            for task_id in task_ids:
                if task_id not in self._task_watchers:
                    self.task_released(task_id)

    def end(self, gate: Any) -> None:
        """Ends the listens of one connection or listener, which closes (SF-74)."""
        ending = [listen for listen in self.listens if listen.exchange.mux.gate is gate]
        if ending:
            self._deliver()  # what changed up to now is told before the end
        for listen in ending:
            listen.end()

    def close(self) -> None:
        """Ends every listen gracefully: clients get the result, and reconnect if they want more."""
        self._deliver()
        for listen in list(self.listens):
            listen.end()
