"""Memory of connections that do nothing: 10,000 kept alive after a call, 2,000 with an open listen, and sessions.

python benchmarks/hosting_memory.py [--connections N] [--listens N] [--sessions N] [--backplane URL]
    [--loop asyncio|uvloop] [--json]

What is counted is how much the resident memory of the server's process grows, divided by the connections; a few
come and leave before, so that what is there once for all is not counted as theirs. Marks: 6 KB of an idle connection,
10 KB of a listen and its connection. A session of the handshake era is counted with the connection that began it, a
stream with its session and its connection.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from crowd import HELLO, INITIALIZE, LISTEN, Crowd, hosted, many_descriptors, resident, session_request

READY: dict[str, object] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
MARKS = {"connection": 6 * 1024, "listen": 10 * 1024}


def answered(data: bytes) -> bool:
    return data.endswith(b"}") and b'"result"' in data


def acknowledged(data: bytes) -> bool:
    return b"notifications/subscriptions/acknowledged" in data and data.endswith(b"\n\n\r\n")


def begun(data: bytes) -> bool:
    return b"Mcp-Session-Id: " in data and data.endswith(b"}")


def taken(data: bytes) -> bool:
    return b" 202 " in data and data.endswith(b"\r\n\r\n")


def opened(data: bytes) -> bool:
    return b"text/event-stream" in data and data.endswith(b"\n\n\r\n")


def begin(crowd: Crowd, fds: list[int]) -> None:
    """A session on each of the connections."""
    crowd.ask(fds, INITIALIZE, begun)
    for at in range(0, len(fds), 200):
        some = fds[at : at + 200]
        for fd in some:
            crowd.socks[fd].sendall(session_request(READY, session_of(crowd, fd)))
        crowd.wait(some, taken)


def session_of(crowd: Crowd, fd: int) -> str:
    return crowd.names.setdefault(fd, crowd.came[fd].partition(b"Mcp-Session-Id: ")[2].partition(b"\r\n")[0].decode())


def stream(crowd: Crowd, fds: list[int]) -> None:
    """A session and its stream on each of the connections."""
    begin(crowd, fds)
    for at in range(0, len(fds), 200):
        some = fds[at : at + 200]
        for fd in some:
            crowd.socks[fd].sendall(session_request(None, session_of(crowd, fd)))
        crowd.wait(some, opened)


KINDS: dict[str, Callable[[Crowd, list[int]], None]] = {
    "connection": lambda crowd, fds: crowd.ask(fds, HELLO, answered),
    "listen": lambda crowd, fds: crowd.ask(fds, LISTEN, acknowledged),
    "session": begin,
    "stream": stream,
}


def measure(loop: str, counts: dict[str, int], backplane: str = "") -> dict[str, int]:
    """Bytes of one of each kind of ``counts``."""
    found = {}
    for name, count in counts.items():
        with hosted(loop, backplane) as (port, pid):
            crowd = Crowd(port)
            KINDS[name](crowd, crowd.join(20))
            crowd.leave()
            crowd.ask(crowd.join(1), HELLO, answered)
            before = resident(pid)
            KINDS[name](crowd, crowd.join(count))
            found[name] = (resident(pid) - before) // count
            crowd.leave()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--listens", type=int, default=2_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--backplane", default="", help="URL of a Redis server")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    many_descriptors()
    counts = {
        "connection": options.connections, "listen": options.listens, "session": options.sessions,
        "stream": options.sessions,
    }  # fmt: skip
    found = {loop: measure(loop, counts, options.backplane) for loop in options.loop or ["asyncio", "uvloop"]}
    if options.json:
        print(json.dumps(found))
        return
    for loop, sizes in found.items():
        for name, size in sizes.items():
            mark = MARKS.get(name)
            verdict = "" if mark is None else f" (at most {mark:,}){'' if size <= mark else '   MISSED'}"
            print(f"{loop:8} {name:11} {size:7,} bytes{verdict}")


if __name__ == "__main__":
    main()
