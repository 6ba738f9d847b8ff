"""Changes that a server reports, led to whoever wants to know: caches, callbacks, listens (SF-54, SF-60..SF-74).

Never refers to the client, so that a client that is dropped is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.callbacks import Coalescer, Relay
from headrace.jsonrpc import SUBSCRIPTION_ID

if TYPE_CHECKING:
    from headrace.client.listen import Listen

__all__ = ("Watch", "covers")

LISTS = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TASKS = "notifications/tasks"
CANCELLED = "notifications/cancelled"


class _Meta(msgspec.Struct):
    subscription: Any = msgspec.field(default=None, name=SUBSCRIPTION_ID)


class _Params(msgspec.Struct, rename="camel"):
    meta: _Meta | None = msgspec.field(default=None, name="_meta")
    uri: Any = None
    request_id: Any = None
    notifications: Any = None
    task_id: Any = None


_read_params = msgspec.json.Decoder(_Params).decode


def covers(subscribed: str, uri: str) -> bool:
    """Whether an update of ``uri`` concerns a subscription: the same resource or one below it (SF-23)."""
    if uri == subscribed or not uri.startswith(subscribed):
        return uri == subscribed
    return subscribed.endswith("/") or uri[len(subscribed)] in "/#?"


class Watch:
    """Where the notifications of one connection go."""

    def __init__(
        self,
        log: logging.Logger,
        on_list_changed: Callable[[str], Any] | None,
        on_resource_updated: Callable[[str], Any] | None,
    ) -> None:
        self.log = log
        self.wants_lists = on_list_changed is not None
        self.wants_updates = on_resource_updated is not None
        self._lists = Coalescer(on_list_changed, self.callback_failed) if on_list_changed is not None else None
        self._updates = Relay(on_resource_updated, self.callback_failed) if on_resource_updated is not None else None
        self.stale: list[Callable[[str, str | None], None]] = []
        """Told at once what changed: (kind, None) for a list, ("resource", uri): what is remembered is void."""
        self.subscribed: dict[str, list[Relay]] = {}
        """Callbacks by subscribed URI."""
        self.listens: dict[int, Listen] = {}
        """Open listens by the id of their request."""
        self.running: set[Listen] = set()
        """Listens that are not over, those that wait to come back included."""
        self._foreign = False
        self.stopped = False

    def opened(self, opening: asyncio.Future[None]) -> None:
        """The listen behind the callbacks was opened, or not."""
        if not opening.cancelled() and (exc := opening.exception()) is not None and not self.stopped:
            self.log.warning("changes of the server are not heard of: %s", exc)

    def callback_failed(self, exc: BaseException) -> None:
        """A callback of the application raised: the connection goes on."""
        self.log.error("a callback raised", exc_info=exc)

    # --- in ------------------------------------------------------------------------------------------

    def notified(self, method: str, raw: bytes | None, modern: bool) -> bool:
        """Takes a notification; False when it is none of those that are led from here."""
        kind = LISTS.get(method)
        if kind is None and method not in (UPDATED, ACKNOWLEDGED, TASKS, CANCELLED):
            return False
        try:
            params = _read_params(raw or b"{}")
        except msgspec.MsgspecError as exc:
            self.log.warning("the server's %s is not valid: %s", method, exc)
            return True
        if method == CANCELLED:
            listen = self._listen(params.request_id)
            if listen is not None:
                listen.cancelled()
            return True
        if modern and params.meta is not None and params.meta.subscription is not None:
            listen = self._listen(params.meta.subscription)
            if listen is None:
                self._stranger(method)
            else:
                listen.received(method, kind, params, raw or b"{}")
            return True
        if kind is not None:
            self.list_changed(kind)
        elif method == UPDATED and isinstance(params.uri, str):
            self.resource_updated(params.uri)
        return True

    def _listen(self, id: Any) -> Listen | None:
        # The ids of our requests are integers: "1", 1.0 and true are not 1 (ST-31).
        return self.listens.get(id) if type(id) is int else None

    def _stranger(self, method: str) -> None:
        if not self._foreign:
            self._foreign = True
            self.log.debug("%s for a subscription that is not open was dropped; more of them are", method)

    def forget(self, kind: str, uri: str | None) -> None:
        """What is remembered of something is void (SF-54)."""
        for drop in self.stale:
            drop(kind, uri)

    # --- out -----------------------------------------------------------------------------------------

    def list_changed(self, kind: str) -> None:
        """A list changed: ``"tools"``, ``"resources"`` or ``"prompts"``."""
        self.forget(kind, None)
        if self._lists is not None:
            self._lists.changed(kind)

    def resource_updated(self, uri: str) -> None:
        """A resource changed."""
        self.forget("resource", uri)
        if self._updates is not None:
            self._updates(uri)
        for subscribed in list(self.subscribed):
            if covers(subscribed, uri):
                for relay in list(self.subscribed.get(subscribed, ())):
                    relay(uri)

    # --- subscriptions -------------------------------------------------------------------------------

    def add(self, uri: str, callback: Callable[[str], Any] | None) -> bool:
        """Notes a subscription; True when it is the first of its URI."""
        first = uri not in self.subscribed
        relays = self.subscribed.setdefault(uri, [])
        if callback is not None:
            relays.append(Relay(callback, self.callback_failed))
        return first

    def remove(self, uri: str) -> None:
        """Forgets the subscriptions of a URI."""
        for relay in self.subscribed.pop(uri, ()):
            relay.stop()

    def stop(self) -> None:
        """The client closes: no more callbacks."""
        self.stopped = True
        if self._lists is not None:
            self._lists.stop()
        if self._updates is not None:
            self._updates.stop()
        for uri in list(self.subscribed):
            self.remove(uri)
        for listen in list(self.running):
            listen.stop()
