"""How evenly connections spread over processes, and what passing them on costs: our acceptor against SO_REUSEPORT.

python benchmarks/hosting_balance.py [--workers N] [--rounds N] [--loop asyncio|uvloop] [--json]

Balance: N connections are opened and stay open; the share of the busiest process is what counts, since it is where
calls wait. The kernel chooses by a hash of the addresses; the mean and the worst of the rounds are shown. Cost: the
CPU time of all server processes for a connection that is opened, used for one request and closed, over many of them in
a row.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
APP = """
import os
from headrace import Server
app = Server("balance", version="1")

@app.tool
async def pid() -> int:
    return os.getpid()
"""
BODY = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "pid",
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "b", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    }
).encode()
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
    f"Mcp-Method: tools/call\r\nMcp-Name: pid\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode()
COUNTS = (2, 4, 8, 16, 64)


@contextlib.contextmanager
def accepted(workers: int, loop: str) -> Iterator[tuple[int, list[int]]]:
    """``headrace serve --workers``: its port, and the processes that it is made of."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(APP)
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "serve", "app.py", "--http", "127.0.0.1:0", "--loop", loop,
             "--workers", str(workers)],
            cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "serving" in line)
            port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield port, [process.pid, *map(int, children)]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


@contextlib.contextmanager
def by_the_kernel(workers: int, loop: str) -> Iterator[tuple[int, list[int]]]:
    """The same server in processes that each listen on one port with SO_REUSEPORT."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--one-of-many", str(port), "--loop", loop],
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
            for _ in range(workers)
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                process.stdout.readline()
            yield port, [process.pid for process in processes]
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.communicate(timeout=30)


def one_of_many(port: int, loop: str) -> None:
    from headrace.transports.http_server import serve_http
    from headrace.transports.run import run_until_stopped

    names: dict[str, object] = {}
    exec(APP, names)
    server = names["app"]

    async def main() -> None:
        async with server.running():  # type: ignore[attr-defined]
            listener = await serve_http(server, host="127.0.0.1", port=port, reuse_port=True)
            print("ready", flush=True)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await listener.close()

    run_until_stopped(main, loop=loop)


def opened(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.settimeout(10)
    return sock


def asked(sock: socket.socket) -> int:
    """Which process answers on a connection."""
    sock.sendall(HEAD + BODY)
    data = b""
    while not data.endswith(b"}}"):
        piece = sock.recv(65536)
        if not piece:
            raise ConnectionError("no answer")
        data += piece
        if data.endswith(b"}"):
            break
    return int(json.loads(data.partition(b"\r\n\r\n")[2])["result"]["structuredContent"])


def busiest(port: int, count: int) -> float:
    """The share of the process with the most of ``count`` connections."""
    socks = [opened(port) for _ in range(count)]
    try:
        by = collections.Counter(asked(sock) for sock in socks)
        return max(by.values()) / count
    finally:
        for sock in socks:
            sock.close()
        time.sleep(0.1)


def cpu(pids: list[int]) -> float:
    """Seconds of CPU that processes have used, as finely as the kernel counts them."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def cost(port: int, pids: list[int], connections: int) -> float:
    """Microseconds of CPU of the servers for one connection with one request, less those of a request alone."""
    for _ in range(100):
        with opened(port) as sock:
            asked(sock)
    before = cpu(pids)
    for _ in range(connections):
        with opened(port) as sock:
            asked(sock)
    whole = cpu(pids) - before
    with opened(port) as sock:
        before = cpu(pids)
        for _ in range(connections):
            asked(sock)
        alone = cpu(pids) - before
    return (whole - alone) / connections * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=1_000, help="for the cost")
    parser.add_argument("--loop", default="uvloop")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one-of-many", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_of_many is not None:
        one_of_many(given.one_of_many, given.loop)
        return
    found: dict[str, dict[str, object]] = {}
    for name, site in (("acceptor", accepted), ("SO_REUSEPORT", by_the_kernel)):
        with site(given.workers, given.loop) as (port, pids):
            shares = {count: [busiest(port, count) for _ in range(given.rounds)] for count in COUNTS}
            found[name] = {
                "busiest_mean": {count: round(statistics.mean(all_), 3) for count, all_ in shares.items()},
                "busiest_worst": {count: round(max(all_), 3) for count, all_ in shares.items()},
                "cpu_us_per_connection": round(cost(port, pids, given.connections), 1),
            }
    if given.json:
        print(json.dumps({"workers": given.workers, "loop": given.loop, **found}, indent=1))
        return
    print(f"{given.workers} processes, {given.loop}: share of the busiest, mean (worst) of {given.rounds} rounds")
    for name, figures in found.items():
        mean, worst = figures["busiest_mean"], figures["busiest_worst"]
        shares_ = "  ".join(f"{count}: {mean[count]:.0%} ({worst[count]:.0%})" for count in COUNTS)  # type: ignore[index]
        print(f"{name:>13}  {shares_}  {figures['cpu_us_per_connection']} us of CPU a connection")


if __name__ == "__main__":
    main()
