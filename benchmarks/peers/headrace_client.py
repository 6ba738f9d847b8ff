"""One round of the client: `headrace_client.py JSON`, prints its numbers as one line of JSON.

The calls are made as an application makes them: `in_flight` tasks, each of which awaits one `call_tool` after
the other, started before the measured time. JSON: {"url" or "command", "revision", "in_flight", "connections",
"seconds", "server_pid"}.
"""

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path

import uvloop

from headrace import connect
from headrace.limits import Limits

TEXT = "a text of ordinary length"


def cpu_of(pid):
    return time.clock_gettime((~pid << 3) | 2)


def child():
    """The process id of the only child."""
    return int(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()[0])


class Load:
    """`in_flight` tasks, each of which awaits one call after the other until `over`."""

    def __init__(self, client, in_flight):
        self.client = client
        self.made = 0
        self.over = False
        self.tasks = [asyncio.ensure_future(self.work()) for _ in range(in_flight)]

    async def work(self):
        call_tool = self.client.call_tool
        while not self.over:
            result = await call_tool("echo", {"text": TEXT, "n": 5})
            if result.text != TEXT:
                raise SystemExit(f"a wrong answer: {result}")
            self.made += 1


async def passes(load, seconds):
    """Waits so long, or until a task of the load fails."""
    done, _ = await asyncio.wait(load.tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


async def main(job):
    limits = Limits(max_client_connections=job.get("connections", 64))
    target = {"target": job["url"]} if "url" in job else {"target": job["command"], "inherit_env": True}
    async with connect(**target, revision=job["revision"], limits=limits) as client:
        pid = job.get("server_pid") or child()
        load = Load(client, job["in_flight"])
        await passes(load, min(1.0, job["seconds"]))
        pauses = []
        began = 0.0

        def collected(phase, info):
            nonlocal began
            if phase == "start":
                began = time.perf_counter()
            else:
                pauses.append(time.perf_counter() - began)

        gc.callbacks.append(collected)
        made, cpu, server, start = load.made, time.process_time(), cpu_of(pid), time.perf_counter()
        await passes(load, job["seconds"])
        wall, server, cpu = time.perf_counter() - start, cpu_of(pid) - server, time.process_time() - cpu
        made = load.made - made
        gc.callbacks.clear()
        load.over = True
        await asyncio.gather(*load.tasks)
    print(json.dumps({
        "calls": made, "per_second": made / wall, "client_cpu_us": cpu / made * 1e6,
        "server_cpu_us": server / made * 1e6, "client_over_server": cpu / server,
        "gc_us": sum(pauses) / made * 1e6, "gc_longest_ms": max(pauses, default=0) * 1e3,
    }))  # fmt: skip


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    uvloop.run(main(job))
