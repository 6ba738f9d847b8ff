"""Binds the multiplexer's Runtime to the running event loop: asyncio and uvloop alike."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.mux import Runtime
from headrace.mux.observer import joined
from headrace.transports._rates import Rates
from headrace.transports._task import spawner

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.mux import Meter, Observer
    from headrace.transports.workers import WorkerPool

__all__ = ("make_runtime", "observe_all")

_everyone: list[Observer] = []


def make_runtime(
    limits: Limits, log: logging.Logger, workers: WorkerPool | None = None, meter: Meter | None = None
) -> Runtime:
    """A Runtime of the running loop.

    ``workers`` runs plain ``def`` handlers; without it none may be served (clients). Faults that no
    caller sees go to ``log`` with their traceback. ``meter`` counts requests. Bounds of one caller hold where there
    are ``workers``: in servers.
    """
    loop = asyncio.get_running_loop()

    def report(message: str, exc: BaseException) -> None:
        log.error("%s", message, exc_info=exc)

    runtime = Runtime(
        create_future=loop.create_future,
        call_soon=loop.call_soon,
        call_at=loop.call_at,
        time=loop.time,
        clock=time.monotonic,
        spawn=spawner(loop),
        run_thread=workers.run if workers is not None else None,
        post=workers.post if workers is not None else loop.call_soon_threadsafe,
        report=report,
        max_in_flight=limits.max_in_flight_total,
        max_unsent=limits.max_unsent_bytes,
        rates=_rates(limits) if workers is not None else None,
        max_share=limits.max_in_flight_per_principal if workers is not None else 0,
    )
    if meter is not None:
        runtime.measure(meter)
    for observer in _everyone:
        runtime.observer = joined(runtime.observer, observer)
    return runtime


def observe_all(observer: Observer) -> Callable[[], None]:
    """Has ``observer`` told of every message of all servers and clients of this process that start from now on, those
    of other SDKs that are hosted here too. Gives a function that ends that for the ones that start later."""
    _everyone.append(observer)

    def end() -> None:
        if observer in _everyone:
            _everyone.remove(observer)

    return end


def _rates(limits: Limits) -> Rates | None:
    if not limits.rate_limit:
        return None
    burst = limits.rate_burst or max(limits.rate_limit, 1.0)
    return Rates(limits.rate_limit, burst, limits.max_rate_buckets, time.monotonic)
