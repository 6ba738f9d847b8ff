"""Resident bytes of one waiting `sleep` handler alone: its coroutine, future and timer on uvloop, no task, no request.

`handlers_alone.py COUNT SECONDS`
"""

import gc
import sys

import uvloop

from tools import sleep


def resident() -> int:
    with open("/proc/self/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Rss:")) * 1024


async def main() -> None:
    count, seconds = int(sys.argv[1]), float(sys.argv[2])
    kept = [None] * count
    gc.collect()
    before = resident()
    for n in range(count):
        coroutine = sleep(seconds)
        future = coroutine.send(None)
        future._asyncio_future_blocking = False  # what a task does
        kept[n] = coroutine
    print((resident() - before) / count)
    for coroutine in kept:
        coroutine.close()


if __name__ == "__main__":
    uvloop.run(main())
