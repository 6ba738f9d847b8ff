"""Subscriptions of a client in both eras: one resource by callback, or listens (SF-23, SF-60..SF-75)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.client.arguments import encode
from headrace.client.core import Options
from headrace.client.features import Features
from headrace.client.listen import Change, Filter, KeptListen, Listen, Wire, as_filter
from headrace.errors import HeadraceError, LocalProtocolError

if TYPE_CHECKING:
    from headrace.client.channels import Channel
    from headrace.client.negotiation import Agreement

__all__ = ("Subscriptions",)

ACK_WAIT = 2.0
"""Seconds that connecting waits for the acknowledgement of the callbacks' own listen; it goes on behind."""


class Subscriptions(Features):
    """Everything of a client but tools. Use :class:`headrace.Client`."""

    def __init__(self, channel: Channel, agreement: Agreement, options: Options) -> None:
        super().__init__(channel, agreement, options)
        # None of these holds the client: a client that is dropped is closed.
        self._watch = channel.session.watch
        self._wire = Wire(self._mux, self._sink, self._watch, self._limits, options.offer.meta)
        self._kept: KeptListen | None = None

    async def subscribe(
        self, uri: str, callback: Callable[[str], Any] | None = None, *, timeout: float | None = None
    ) -> None:
        """Asks to be told when a resource changes (SF-23); in the modern era by a listen of the client's own.

        ``callback(uri)`` is called for each update of the resource or one below it, after ``on_resource_updated``
        of :func:`headrace.connect`; several callbacks may be subscribed. Raises :class:`NotOffered` when the
        server has no such subscriptions or does not accept this one, else as
        :meth:`headrace.Client.request` does.
        """
        self._needs("resources", "subscribe")
        first = self._watch.add(uri, callback)
        try:
            if self._modern:
                await self._kept_listen().add(uri)
            elif first:
                await self._request("resources/subscribe", b'"uri":' + encode(uri), None, timeout)
        except BaseException:
            if first:
                self._watch.remove(uri)
            raise

    async def unsubscribe(self, uri: str, *, timeout: float | None = None) -> None:
        """Ends all subscriptions of a resource. Does nothing for one that is not subscribed."""
        if uri not in self._watch.subscribed:
            return
        self._watch.remove(uri)
        if self._modern:
            await self._kept_listen().remove(uri)
        else:
            await self._request("resources/unsubscribe", b'"uri":' + encode(uri), None, timeout)

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
        task_ids: Iterable[str] = (),
        on_change: Callable[[Change], Any] | None = None,
        on_drop: Callable[[HeadraceError | None], Any] | None = None,
        reconnect: bool = True,
    ) -> Listen:
        """Listens to changes (modern era, SF-70): ``async with client.listen(tools=True) as changes:``, then
        ``async for change in changes``. Several may be open at once.

        :param tools, prompts, resources: changes of these lists.
        :param uris: updates of these resources.
        :param task_ids: news of these tasks.
        :param on_change: called with each :class:`headrace.client.listen.Change` in place of iterating.
        :param on_drop: called with the reason when the connection of the listen was lost.
        :param reconnect: open it again after a loss, with growing pauses and at most 8 times in a row. What
            was missed meanwhile is not known: then everything listened to is reported as changed, ``missed``.

        Entering waits for the server's acknowledgement; ``accepted`` says what it agreed to. Raises
        :class:`LocalProtocolError` in the handshake era: use ``on_list_changed`` and :meth:`subscribe`.
        """
        if not self._modern:
            raise LocalProtocolError(
                f"{self.protocol_version} has no listen: use on_list_changed of connect() and subscribe()"
            )
        wanted = as_filter(tools, prompts, resources, uris, task_ids)
        return Listen(self._wire, wanted, on_change=on_change, on_drop=on_drop, reconnect=reconnect)

    # --- how -----------------------------------------------------------------------------------------

    @property
    def subscription_error(self) -> HeadraceError | None:
        """Why callbacks hear of changes no longer: the last failure, once the connection behind them was lost and
        did not come back. None while they hear, and in the handshake era, where every call may bring it back."""
        return self._kept.error if self._kept is not None else None

    def _kept_listen(self) -> KeptListen:
        if self._kept is None:
            base = Filter()
            if self._watch.wants_lists:
                base = Filter(
                    tools=self._reports("tools"), prompts=self._reports("prompts"), resources=self._reports("resources")
                )
            self._kept = KeptListen(self._wire, base)
        return self._kept

    def _reports(self, kind: str) -> bool:
        declared = self.capabilities.get(kind)
        return isinstance(declared, dict) and declared.get("listChanged") is True

    async def _start(self) -> None:
        """Opens the listen behind ``on_list_changed``, where there is something to hear of."""
        if not self._modern or not self._watch.wants_lists:
            return
        kept = self._kept_listen()
        if kept.wanted.empty:
            return
        opening = asyncio.ensure_future(kept.start())
        opening.add_done_callback(self._watch.opened)
        await asyncio.wait([opening], timeout=ACK_WAIT)
