"""Output that peers do not take is bounded over all connections of a server (SE-08, limit max_unsent_bytes)."""

import asyncio
import json
import socket

import pytest
from http_support import make_server, site
from mux_support import Bench

from headrace.limits import Limits
from headrace.transports.stream import serve_lines

MIB = 1024 * 1024


class Load:
    """A connection as the runtime sees it."""

    def __init__(self, size):
        self.unsent_bytes = size
        self.ended = False

    def shed(self):
        self.ended = True
        self.unsent_bytes = 0


def weighed(sizes, bound):
    runtime = Bench(max_unsent=bound).runtime
    loads = [Load(size) for size in sizes]
    runtime.links.update(loads)
    runtime.weigh()
    return [load.ended for load in loads]


def test_se08_those_that_hold_the_most_are_ended_first():
    assert weighed([10, 50, 0, 30, 20], 100) == [False, True, False, False, False]
    assert weighed([10, 50, 0, 30, 20], 55) == [False, True, False, True, False]
    assert weighed([10, 50, 0, 30, 20], 110) == [False] * 5
    assert weighed([], 1) == []


async def connect(address, family=socket.AF_INET):
    sock = socket.socket(family)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.get_running_loop().sock_connect(sock, address)
    return sock


async def over(sock):
    """Reads to the end; False when the connection was reset."""
    loop = asyncio.get_running_loop()
    try:
        while await asyncio.wait_for(loop.sock_recv(sock, 1 << 20), 10):
            pass
    except ConnectionError:
        return False
    return True


def test_se08_http_answers_nobody_reads_do_not_add_up(run):
    """Each is within its own connection's bound; a client that reads gets its answer whole all the same."""
    limits = Limits(max_unsent_bytes=48 * MIB)

    async def main():
        async with site(make_server(limits)) as s:
            loop = asyncio.get_running_loop()
            address = ("127.0.0.1", s.port)
            idle = []
            for _ in range(8):
                sock = await connect(address)
                await loop.sock_sendall(sock, s.call("big", {"n": 16 * MIB}))
                idle.append(sock)
            peer = await s.connect()
            for _ in range(100):
                assert (await peer.ask(s.call("echo", {"text": "hi"}))).status == 200
                if s.listener.connections < 9:
                    break
                await asyncio.sleep(0.01)
            held = sum(link.unsent_bytes for link in s.server.runtime.links)
            assert held <= limits.max_unsent_bytes
            assert 1 < s.listener.connections < 9
            answer = await peer.ask(s.call("big", {"n": 4 * MIB}))
            assert len(answer.json["result"]["content"][0]["text"]) == 4 * MIB
            for sock in idle:
                sock.close()
            peer.close()
            await s.settled(lambda: not s.server.runtime.links)

    run(main)


@pytest.mark.parametrize("at_once", [True, False])
def test_se08_answers_of_one_line_connection_that_reads_nothing(run, tmp_path, at_once):
    """Handlers that were running when the peer stopped reading all come to their end."""
    limits = Limits(max_unsent_bytes=16 * MIB)

    async def main():
        app = make_server(limits)
        most = 0

        @app.tool
        async def large(n: int) -> str:
            nonlocal most
            await asyncio.sleep(0.05 if at_once else 0.01 * n)
            most = max(most, sum(link.unsent_bytes for link in app.runtime.links))
            return "x" * MIB

        async with app.running():
            path = str(tmp_path / "s")
            listener = await serve_lines(app, unix=path)
            sock, other = await connect(path, socket.AF_UNIX), await connect(path, socket.AF_UNIX)
            loop = asyncio.get_running_loop()

            def call(n, tool, arguments):
                meta = {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
                params = {"name": tool, "arguments": arguments, "_meta": meta}
                body = {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}
                return json.dumps(body).encode() + b"\n"

            await loop.sock_sendall(sock, b"".join(call(n, "large", {"n": n}) for n in range(64)))
            for _ in range(500):
                if len(app.runtime.links) == 1 and not app.runtime.in_flight:
                    break
                await asyncio.sleep(0.01)
            assert len(app.runtime.links) == 1 and app.runtime.in_flight == 0
            assert most <= limits.max_unsent_bytes + 8 * MIB
            await over(sock)  # it has ended, one way or the other
            await loop.sock_sendall(other, call(1, "echo", {"text": "hi"}))
            assert b'"hi"' in await asyncio.wait_for(loop.sock_recv(other, 65536), 10)
            sock.close()
            other.close()
            await listener.close()
            assert not app.runtime.links

    run(main)
