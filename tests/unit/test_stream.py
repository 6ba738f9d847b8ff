"""Line streams over unix sockets and TCP: where they listen, stale files, bounds, closing (ST-09)."""

import asyncio
import os
import socket

import pytest

from headrace.errors import ConnectFailed, ConnectionClosed, UsageError
from headrace.limits import Limits
from headrace.mux import Gate, Mux
from headrace.server.app import Server
from headrace.transports.stream import open_lines, remove_stale_socket, serve_lines


def make_app(**limits):
    app = Server("t", version="1", limits=Limits(**limits))

    @app.tool
    async def sleep(ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return "slept"

    return app


PARAMS = (b'{"name":"sleep","arguments":{"ms":%d},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
          b'"io.modelcontextprotocol/clientCapabilities":{}}}')


async def client(app, address, on_lost=None):
    mux = Mux(app.runtime, Gate(), Limits())
    kind, _, where = address.partition(":")
    if kind == "unix":
        return mux, await open_lines(mux, Limits(), unix=where, on_lost=on_lost)
    host, _, port = where.rpartition(":")
    return mux, await open_lines(mux, Limits(), host=host.strip("[]"), port=int(port), on_lost=on_lost)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_calls_over_a_socket_and_an_orderly_end(run, tmp_path, kind):
    async def main():
        app = make_app()
        async with app.running():
            if kind == "unix":
                listener = await serve_lines(app, unix=str(tmp_path / "s"))
            else:
                listener = await serve_lines(app, host="127.0.0.1", port=0)
            (address,) = listener.addresses
            assert address.startswith(kind)
            reasons = []
            mux, link = await client(app, address, reasons.append)
            assert await mux.call("ping", None, link) == b"{}"
            assert listener.connections == 1
            running = mux.call("tools/call", PARAMS % 100, link)
            while app.runtime.in_flight == 0:
                await asyncio.sleep(0.005)
            await listener.close()  # answers what is in flight first
            assert b"slept" in await running
            while not reasons:
                await asyncio.sleep(0.005)
            assert isinstance(reasons[0], ConnectionClosed)
            assert listener.connections == 0
            with pytest.raises(ConnectionClosed):
                mux.call("ping", None, link)
            with pytest.raises(ConnectFailed, match="cannot connect to " + kind):
                await client(app, address)
            if kind == "unix":
                assert not os.path.exists(tmp_path / "s")

    run(main)


def test_close_gives_up_on_handlers_that_go_on(run, tmp_path):
    async def main():
        app = make_app(drain_timeout=0.1)
        async with app.running():
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            mux, link = await client(app, listener.addresses[0])
            call = mux.call("tools/call", PARAMS % 60_000, link)
            while app.runtime.in_flight == 0:
                await asyncio.sleep(0.005)
            await listener.close()
            assert listener.connections == 0
            with pytest.raises(ConnectionClosed):
                await call
            assert app.runtime.in_flight == 0

    run(main)


def test_over_max_connections_is_closed_at_once(run, tmp_path):
    async def main():
        app = make_app(max_connections=2)
        async with app.running():
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            links = [await client(app, listener.addresses[0]) for _ in range(2)]
            for mux, link in links:
                await mux.call("ping", None, link)
            mux, link = await client(app, listener.addresses[0])
            with pytest.raises(ConnectionClosed):
                await mux.call("ping", None, link)
            links[0][1].close()
            while listener.connections == 2:
                await asyncio.sleep(0.005)
            mux, link = await client(app, listener.addresses[0])
            assert await mux.call("ping", None, link) == b"{}"
            await listener.close()

    run(main)


def test_a_stale_socket_file_is_replaced_and_others_are_not(tmp_path):
    path = str(tmp_path / "s")
    remove_stale_socket(path)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()
        with pytest.raises(OSError, match="another server"):
            remove_stale_socket(path)
    remove_stale_socket(path)
    assert not os.path.exists(path)
    (tmp_path / "f").write_text("x")
    with pytest.raises(UsageError, match="not a socket"):
        remove_stale_socket(str(tmp_path / "f"))
