"""Running a coroutine on the best event loop, with signals that stop it once and cleanly."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.errors import UsageError

__all__ = ("keep_heap", "loop_factory", "run_until_stopped", "start_made")

LAST_WORDS = 1.0
"""Seconds that tasks get to end once everything is over."""
HEAP_BLOCK = 4 << 20
"""Bytes, see :func:`keep_heap`."""


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of ``"uvloop"``, ``"asyncio"`` or ``"auto"``: uvloop where it is installed (4.5)."""
    if name not in ("auto", "asyncio", "uvloop"):
        raise UsageError(f"loop {name!r}: use auto, asyncio or uvloop")
    if name != "asyncio" and sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            if name == "uvloop":
                raise UsageError("uvloop is not installed") from None
        else:
            return uvloop.new_event_loop
    return asyncio.new_event_loop


def keep_heap() -> None:
    """Lets the C library keep what large calls free instead of giving it back to the system after each of them.

    A call of 1 MB takes several blocks of that size; with the thresholds at which glibc starts, the heap is cut and
    grown some seven times a call and every page of it is made anew, which doubles the CPU of the call. glibc raises
    both thresholds by itself when a block that was mapped is freed: to its size, and to twice its size for what
    stays at the end of the heap. So a block is asked for once and never touched. At most 8 MiB stay with the process
    that way. Who sets MALLOC_TRIM_THRESHOLD_ or the like has decided otherwise, and glibc keeps to it; other C
    libraries do nothing of the kind.
    """
    bytes(HEAP_BLOCK)


def start_made() -> None:
    """To be called once what the process made at its start is complete: the garbage collector need not look at it
    again. A full collection takes some 7 ms for the 30,000 objects of a small server, and no call is answered
    meanwhile. Holds until :func:`run_until_stopped` returns; only for processes that are the server's own."""
    gc.freeze()
    keep_heap()


def run_until_stopped(
    main: Callable[[], Coroutine[Any, Any, None]],
    *,
    loop: str = "auto",
    on_stop: Callable[[], object] | None = None,
) -> None:
    """Runs ``main()`` until it returns, or until SIGINT or SIGTERM cancels it; ``on_stop`` is called just before.

    After the first signal ``main`` may clean up; a second one ends the process in the signal's
    default way. Returns normally in both orderly cases; exceptions of ``main`` are raised, and UsageError
    where a loop runs already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError("an event loop runs here already: `await serve(...)` instead of run()")
    running = loop_factory(loop)()
    asyncio.set_event_loop(running)
    stopped = False

    async def supervise() -> None:
        nonlocal stopped
        task = asyncio.current_task()
        assert task is not None

        def stop(signum: int) -> None:
            nonlocal stopped
            for each in handled:
                running.remove_signal_handler(each)
                signal.signal(each, signal.SIG_DFL)
            stopped = True
            if on_stop is not None:
                on_stop()
            task.cancel()

        handled = []
        for signum in (signal.SIGINT, signal.SIGTERM):
            try:
                running.add_signal_handler(signum, stop, signum)
            except (NotImplementedError, RuntimeError, ValueError):
                continue
            handled.append(signum)
        try:
            await main()
        except asyncio.CancelledError:
            if not stopped:
                raise

    try:
        running.run_until_complete(supervise())
    finally:
        gc.unfreeze()
        _close(running)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Ends a loop in bounded time: asyncio.Runner waits for ever for a task that ignores its cancellation (B19)."""
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            _, stubborn = loop.run_until_complete(asyncio.wait(left, timeout=LAST_WORDS))
            for task in stubborn:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.run_until_complete(asyncio.wait([loop.create_task(loop.shutdown_asyncgens())], timeout=LAST_WORDS))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
