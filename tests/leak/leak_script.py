"""python leak_script.py WORKLOAD LOOP: runs a workload in parts of equal size and compares memory.

Prints "flat: ..." and exits with 0, or says what grew and exits with 1. Reference cycles count as growth:
the garbage collector is off while the workload runs.
"""

import asyncio
import contextlib
import gc
import sys
import tempfile
import weakref

from headrace.limits import Limits
from headrace.mux import Gate, Mux, live_objects
from headrace.server.app import Server
from headrace.transports._link import LineLink
from headrace.transports.memory import memory_pair
from headrace.transports.stream import open_lines, serve_lines

META = ('"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        '"io.modelcontextprotocol/clientCapabilities":{}}')
app = Server("t", version="1", limits=Limits(drain_timeout=0.002))


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def wait(text: str) -> str:
    await asyncio.sleep(0)
    return text


@app.tool
async def never(text: str) -> str:
    await asyncio.get_running_loop().create_future()
    return text


@app.tool
async def boom(text: str) -> str:
    await asyncio.sleep(0)
    raise ValueError(text)


def params(tool):
    return f'{{"name":"{tool}","arguments":{{"text":"hello"}},{META}}}'.encode()


class ClientGate(Gate):
    answers_bad_input = False


def pair():
    session, mux = app.new_session()
    session.sink = server = LineLink(mux, app.limits)
    client = Mux(app.runtime, ClientGate(), Limits())
    link = LineLink(client, Limits(), serves=False)
    memory_pair(server, link)
    return client, link, server


async def calls(n):
    client, link, _ = pair()
    for start in range(0, n, 100):
        running = [client.call("tools/call", params("wait" if i % 2 else "echo"), link, timeout=30, on_progress=print)
                   for i in range(start, start + 100)]
        for call in running:
            await call
    link.close()
    await asyncio.sleep(0.01)


async def cancelled(n):
    client, link, _ = pair()
    for _ in range(0, n, 100):
        running = [client.call("tools/call", params("never"), link, timeout=30) for _ in range(100)]
        await asyncio.sleep(0)
        for call in running:
            call.cancel()
        assert await client.call("ping", None, link) == b"{}"
    assert app.runtime.in_flight == 0
    link.close()
    await asyncio.sleep(0.01)


async def errors(n):
    client, link, _ = pair()
    app.log.disabled = True
    bad = [params("boom"), params("nobody"), b"[]", b'{"name":5}', params("echo").replace(b'"hello"', b"5")]
    for _ in range(0, n, 100):
        running = [client.call("tools/call", bad[i % 5], link) for i in range(100)]
        for call in running:
            with contextlib.suppress(Exception):
                await call
            del call
        running.clear()
    link.close()
    await asyncio.sleep(0.01)


async def memory_connections(n):
    for _ in range(n // 100):
        client, link, server = pair()
        running = client.call("tools/call", params("never"), link)
        await client.call("ping", None, link)
        gone = [weakref.ref(server.mux.gate)]
        link.close()
        with contextlib.suppress(ConnectionError):
            await running
        del client, link, server, running
        for _ in range(100):
            if gone[0]() is None:
                break
            await asyncio.sleep(0.002)
        else:
            raise AssertionError(gc.get_referrers(gone[0]()))
    assert app.runtime.in_flight == 0 and not app.sessions


async def unix_connections(n):
    with tempfile.TemporaryDirectory() as folder:
        listener = await serve_lines(app, unix=folder + "/s")
        for i in range(n // 100):
            client = Mux(app.runtime, ClientGate(), Limits())
            link = await open_lines(client, Limits(), unix=folder + "/s")
            running = client.call("tools/call", params("never"), link)
            await client.call("ping", None, link)
            link.close() if i % 2 else link.abort()
            with contextlib.suppress(ConnectionError):
                await running
        del client, link, running
        while listener.connections or app.runtime.in_flight:
            await asyncio.sleep(0.01)
        assert app.runtime.in_flight == 0 and not app.sessions
        await listener.close()


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


async def main(work):
    async with app.running():
        await work(20_000)
        gc.collect()
        gc.disable()
        await work(10_000)
        cyclic = work is unix_connections and sys.argv[2] == "asyncio"  # its socket transports are cycles
        if cyclic:
            gc.collect()
        before, objects = resident(), len(gc.get_objects())
        await work(100_000)
        if cyclic:
            gc.collect()
        grown, more = resident() - before, len(gc.get_objects()) - objects
        gc.enable()
        gc.collect()
        live = live_objects()
    print(f"flat: {grown} bytes, {more} objects" if grown < 3_000_000 and abs(more) < 500 and not any(live.values())
          else f"grew by {grown} bytes and {more} objects; live: {live}")
    return 0 if grown < 3_000_000 and abs(more) < 500 and not any(live.values()) else 1


if __name__ == "__main__":
    if sys.argv[2] == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    else:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        sys.exit(runner.run(main(globals()[sys.argv[1]])))
