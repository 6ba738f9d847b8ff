"""Bytes of one request in flight: 10,000 of them on one line connection, beyond the handler's own coroutine.

python benchmarks/micro_inflight_memory.py [--count N] [--json]

What is counted is everything that a request holds while its handler waits: table entries, the exchange, the
task with its context and callback. Beside it stands the same number of coroutines in plain asyncio tasks.
"""

import argparse
import asyncio
import gc
import json
import tracemalloc

from headrace.limits import Limits
from headrace.mux import FrameSink
from headrace.server.app import Server

META = ('"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        '"io.modelcontextprotocol/clientCapabilities":{},"progressToken":%d}')


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


async def body(future: asyncio.Future[None], text: str) -> str:
    await future
    return text


async def measure(count: int) -> dict[str, float]:
    app = Server("t", version="1", limits=Limits(max_in_flight=count))
    loop = asyncio.get_running_loop()
    gate = loop.create_future()

    @app.tool
    async def wait(text: str) -> str:
        await gate
        return text

    frames = [
        f'{{"jsonrpc":"2.0","id":{n},"method":"tools/call","params":{{"name":"wait","arguments":{{"text":"{n}"}},'
        f'{META % n}}}}}'.encode()
        for n in range(count)
    ]
    async with app.running():
        session, mux = app.new_session()
        sent: list[bytes] = []
        sink = session.sink = FrameSink(sent.append)
        mux.receive_frame(frames[0].replace(b'"wait"', b'"nobody"'), sink)
        gc.collect()
        tracemalloc.start()
        before, rss = tracemalloc.get_traced_memory()[0], resident()
        for frame in frames:
            mux.receive_frame(frame, sink)
        gc.collect()
        whole = (tracemalloc.get_traced_memory()[0] - before) / count
        tracemalloc.stop()
        grown = (resident() - rss) / count
        assert mux.in_flight == count
        gate.set_result(None)
        while mux.in_flight:
            await asyncio.sleep(0)
        assert len(sent) == count + 1

    gate = loop.create_future()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    coroutines = [body(gate, str(n)) for n in range(count)]
    for coroutine in coroutines:
        coroutine.send(None)
        gate._asyncio_future_blocking = False  # what a task does
    gc.collect()
    bare = (tracemalloc.get_traced_memory()[0] - before) / count
    tracemalloc.stop()
    for coroutine in coroutines:
        coroutine.close()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tasks = [loop.create_task(body(gate, str(n))) for n in range(count)]
    await asyncio.sleep(0)
    gc.collect()
    plain = (tracemalloc.get_traced_memory()[0] - before) / count
    tracemalloc.stop()
    gate.set_result(None)
    await asyncio.wait(tasks)
    return {
        "requests": count,
        "bytes_per_request": round(whole),
        "coroutine_bytes": round(bare),
        "bytes_beyond_coroutine": round(whole - bare),
        "asyncio_task_beyond_coroutine": round(plain - bare),
        "resident_per_request_while_traced": round(grown),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = asyncio.run(measure(options.count))
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:36} {value:10}")


if __name__ == "__main__":
    main()
