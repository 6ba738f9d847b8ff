"""A command with a reader in between: standard input and output pass unchanged, each message is shown.

Strategy: one thread a direction copies bytes as they come, so nothing is delayed by more than the copying;
what is shown is cut into lines beside it. The command shares our terminal and process group: Ctrl-C reaches
it as well. Its end is ours, with its exit status.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from headrace.cli.app import Failure
from headrace.cli.traffic import TrafficPrinter

__all__ = ("run_between",)

_CHUNK = 1 << 16
_LAST_WORDS = 2.0  # seconds the rest of the output may take after the command has ended


def run_between(command: list[str], printer: TrafficPrinter) -> int:
    """Runs ``command`` between our standard input and output. Gives its exit status."""
    from headrace.limits import DEFAULT
    from headrace.wire import LineFramer

    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    except OSError as exc:
        raise Failure(f"cannot start {command[0]!r}: {exc.strerror}") from exc
    lock = threading.Lock()

    def shower(sent: bool) -> Callable[[bytes | None], None]:
        framer = LineFramer(DEFAULT.max_message_bytes)

        def show(data: bytes | None) -> None:
            for line in framer.finish() if data is None else framer.feed(data):
                # What cannot be shown must not end the session.
                with lock, contextlib.suppress(OSError, ValueError, RecursionError, MemoryError):
                    printer.show(time.monotonic(), sent, line if isinstance(line, bytes) else str(line).encode(), None)

        return show

    assert child.stdin is not None and child.stdout is not None
    previous = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    feeding = threading.Thread(
        target=_copy, args=(sys.stdin.fileno(), child.stdin.fileno(), shower(True), child.stdin.close), daemon=True
    )
    # With its reader gone the command has to hear of it, or it would wait for ever to be read.
    reading = threading.Thread(
        target=_copy,
        args=(child.stdout.fileno(), sys.stdout.fileno(), shower(False), child.stdout.close),
        daemon=True,
    )
    feeding.start()
    reading.start()
    try:
        while True:
            try:
                status = child.wait()
                break
            except KeyboardInterrupt:
                continue  # the command got it too and decides
    finally:
        signal.signal(signal.SIGTERM, previous)
    reading.join(_LAST_WORDS)
    return status if status >= 0 else 128 - status


def _copy(
    source: int, target: int, show: Callable[[bytes | None], None], done: Callable[[], object] | None = None
) -> None:
    """Copies until the end; a target that is gone ends it as well."""
    with contextlib.suppress(OSError):
        while data := os.read(source, _CHUNK):
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(target, view) :]
            finally:
                show(data)  # delivered first: a long message takes its time to be shown
    if done is not None:
        with contextlib.suppress(OSError):
            done()
    show(None)
