"""Memory of connections that do nothing: 10,000 kept alive after a call, and 2,000 with an open listen.

python benchmarks/hosting_memory.py [--connections N] [--listens N] [--loop asyncio|uvloop] [--json]

What is counted is how much the resident memory of the server's process grows, divided by the connections; a few
come and leave before, so that what is there once for all is not counted as theirs. Marks: 6 KB
of an idle connection, 10 KB of a listen and its connection.
"""

from __future__ import annotations

import argparse
import json

from crowd import HELLO, LISTEN, Crowd, hosted, many_descriptors, resident

MARKS = {"connection": 6 * 1024, "listen": 10 * 1024}


def answered(data: bytes) -> bool:
    return data.endswith(b"}") and b'"result"' in data


def acknowledged(data: bytes) -> bool:
    return b"notifications/subscriptions/acknowledged" in data and data.endswith(b"\n\n\r\n")


def measure(loop: str, connections: int, listens: int) -> dict[str, int]:
    found = {}
    for name, count, data, ready in (
        ("connection", connections, HELLO, answered), ("listen", listens, LISTEN, acknowledged),
    ):  # fmt: skip
        with hosted(loop) as (port, pid):
            crowd = Crowd(port)
            crowd.ask(crowd.join(20), data, ready)
            crowd.leave()
            crowd.ask(crowd.join(1), HELLO, answered)
            before = resident(pid)
            crowd.ask(crowd.join(count), data, ready)
            found[name] = (resident(pid) - before) // count
            crowd.leave()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--listens", type=int, default=2_000)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    many_descriptors()
    found = {loop: measure(loop, options.connections, options.listens) for loop in options.loop or ["asyncio", "uvloop"]}
    if options.json:
        print(json.dumps(found))
        return
    for loop, sizes in found.items():
        for name, size in sizes.items():
            verdict = "" if size <= MARKS[name] else "   MISSED"
            print(f"{loop:8} {name:11} {size:7,} bytes (at most {MARKS[name]:,}){verdict}")


if __name__ == "__main__":
    main()
