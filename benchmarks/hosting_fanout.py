"""How long a change takes to reach 2,000 listens of one server process, on the same process and on another.

python benchmarks/hosting_fanout.py [--listens N] [--rounds N] [--loop asyncio|uvloop] [--across] [--json]

A tool call changes the list of tools; what is measured is from sending the call to the arrival of the notification
at the last of the peers, which share the machine with the server. With ``--across`` the call goes to a second
process, and the change through a Redis of its own. Mark: 200 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time

from crowd import CHANGE, HELLO, LISTEN, Crowd, hosted, many_descriptors, redis
from hosting_memory import acknowledged, answered

MARK = 200.0


def told(data: bytes) -> bool:
    return b"notifications/tools/list_changed" in data and data.endswith(b"\n\n\r\n")


def measure(loop: str, listens: int, rounds: int, across: bool = False) -> dict[str, float]:
    first, last = [], []
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(redis()) if across else ""
        port, _ = stack.enter_context(hosted(loop, url))
        other = stack.enter_context(hosted(loop, url))[0] if across else port
        crowd, caller = Crowd(port), Crowd(other)
        (fd,) = caller.join(1)
        caller.ask([fd], HELLO, answered)
        fds = crowd.join(listens)
        crowd.ask(fds, LISTEN, acknowledged)
        for _ in range(rounds):
            time.sleep(0.2)
            start = time.monotonic()
            caller.socks[fd].sendall(CHANGE)
            times = crowd.wait(fds, told)
            first.append((times[0] - start) * 1000)
            last.append((times[-1] - start) * 1000)
            caller.wait([fd], answered)
        crowd.leave()
        caller.leave()
    return {
        "listens": listens,
        "first_ms": round(statistics.median(first), 1),
        "last_ms": round(statistics.median(last), 1),
        "worst_ms": round(max(last), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listens", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], action="append")
    parser.add_argument("--across", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    many_descriptors()
    loops = options.loop or ["asyncio", "uvloop"]
    found = {loop: measure(loop, options.listens, options.rounds, options.across) for loop in loops}
    if options.json:
        print(json.dumps(found))
        return
    for loop, row in found.items():
        verdict = "" if row["last_ms"] <= MARK else "   MISSED"
        print(f"{loop:8} {row['listens']:,} listens: first {row['first_ms']} ms, all {row['last_ms']} ms, "
              f"worst of the rounds {row['worst_ms']} ms (at most {MARK:g}){verdict}")  # fmt: skip


if __name__ == "__main__":
    main()
