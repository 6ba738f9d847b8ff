"""Observers: who is told of every message that a runtime's connections carry, for tracing and for logs.

Without one nothing is told and nothing costs. All methods are called on the loop, inside of what they tell about, so
they must be quick and never wait; what they raise is reported and changes nothing. ``begin`` and ``leave`` enclose the
first step of a handler: context variables set in between are what the handler, its tasks and its threads see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.errors import RpcError
    from headrace.mux import Mux, Observed, PendingCall, Runtime, Sink

__all__ = ("Observer", "Observers", "joined")


class Observer:
    """Does nothing about anything: to be subclassed."""

    def begin(self, request: Observed) -> Any:
        """A request of the peer begins. What it gives comes back in :meth:`leave` and :meth:`end`."""

    def leave(self, request: Observed, seen: Any) -> None:
        """The first step of its handler is over; the request may be, too."""

    def end(self, request: Observed, seen: Any) -> None:
        """The request was answered or cancelled: ``request.outcome`` says how. May come before :meth:`leave`, and
        in any context."""

    def refused(self, mux: Mux, sink: Sink, method: str, id: bytes | None, meta: bytes | None, error: RpcError) -> None:
        """A request was answered with ``error`` before it began. ``id`` and ``meta`` are raw."""

    def turned_away(self, runtime: Runtime, peer: str, status: int) -> None:
        """An HTTP request of ``peer`` is answered with an error status before there is any message."""

    def notified(self, mux: Mux, sink: Sink, method: str, meta: bytes | None) -> Any:
        """A notification of the peer is about to be taken; what it gives comes back in :meth:`noted`."""

    def noted(self, seen: Any) -> None:
        """The notification was taken."""

    def answered(self, call: PendingCall, failed: bool) -> None:
        """The answer to a request of ours has come; ``failed``: it is a tool's result with ``isError``."""

    def sending(self, mux: Mux, call: PendingCall, params: bytes | None, name: str | None) -> bytes | None:
        """A request of ours leaves: gives its raw params, others where it likes. ``name`` is the tool or prompt, or
        the URI, where one is known. ``call.future`` ends with it."""
        return params


class Observers(Observer):
    """Several, one inside the other: the first begins first and ends last. One that fails does not disturb others."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def begin(self, request: Observed) -> Any:
        seen = []
        for observer in self.observers:
            try:
                seen.append(observer.begin(request))
            except Exception as exc:
                request.mux.runtime.report("an observer failed at the beginning of a request", exc)
                seen.append(_FAILED)
        return seen

    def leave(self, request: Observed, seen: Any) -> None:
        self._backwards(request.mux.runtime, seen or (), lambda observer, each: observer.leave(request, each))

    def end(self, request: Observed, seen: Any) -> None:
        self._backwards(request.mux.runtime, seen, lambda observer, each: observer.end(request, each))

    def refused(self, mux: Mux, sink: Sink, method: str, id: bytes | None, meta: bytes | None, error: RpcError) -> None:
        self._each(mux.runtime, lambda observer: observer.refused(mux, sink, method, id, meta, error))

    def turned_away(self, runtime: Runtime, peer: str, status: int) -> None:
        self._each(runtime, lambda observer: observer.turned_away(runtime, peer, status))

    def notified(self, mux: Mux, sink: Sink, method: str, meta: bytes | None) -> Any:
        seen: list[Any] = []
        self._each(mux.runtime, lambda observer: seen.append((observer, observer.notified(mux, sink, method, meta))))
        return mux.runtime, seen

    def noted(self, seen: Any) -> None:
        runtime, each = seen
        for observer, one in reversed(each):
            try:
                observer.noted(one)
            except Exception as exc:
                runtime.report("an observer failed at the end of a notification", exc)

    def answered(self, call: PendingCall, failed: bool) -> None:
        self._each(call.mux.runtime, lambda observer: observer.answered(call, failed))

    def sending(self, mux: Mux, call: PendingCall, params: bytes | None, name: str | None) -> bytes | None:
        for observer in self.observers:
            try:
                params = observer.sending(mux, call, params, name)
            except Exception as exc:
                mux.runtime.report("an observer failed on a request that is sent", exc)
        return params

    def _each(self, runtime: Runtime, tell: Callable[[Observer], Any]) -> None:
        for observer in self.observers:
            try:
                tell(observer)
            except Exception as exc:
                runtime.report("an observer failed", exc)

    def _backwards(self, runtime: Runtime, seen: Sequence[Any], tell: Callable[[Observer, Any], Any]) -> None:
        for observer, each in zip(reversed(self.observers), reversed(seen), strict=False):
            if each is not _FAILED:
                try:
                    tell(observer, each)
                except Exception as exc:
                    runtime.report("an observer failed at the end of a request", exc)


_FAILED = object()


def joined(first: Observer | None, second: Observer) -> Observer:
    """Both, where there is a first. Adding one that is there already changes nothing."""
    if first is None or first is second:
        return second
    known = first.observers if isinstance(first, Observers) else (first,)
    return first if second in known else Observers(*known, second)
