"""One round of the client: `headrace_client.py JSON`, prints its numbers as one line of JSON.

The calls are made as an application makes them: `in_flight` tasks, each of which awaits one `call_tool` after
the other. JSON: {"url" or "command", "revision", "in_flight", "connections", "seconds", "server_pid", "way"}.
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


async def tasks(client, in_flight, stop):
    """Calls in `in_flight` tasks until the clock says `stop`; how many were made."""
    made = 0

    async def work():
        nonlocal made
        while time.perf_counter() < stop:
            result = await client.call_tool("echo", {"text": TEXT, "n": 5})
            if result.text != TEXT:
                raise SystemExit(f"a wrong answer: {result}")
            made += 1

    if in_flight == 1:
        await work()
    else:
        await asyncio.gather(*[work() for _ in range(in_flight)])
    return made


async def gathers(client, in_flight, stop):
    """The same with a task for each call: `gather` of `in_flight` calls again and again."""
    made = 0
    while time.perf_counter() < stop:
        results = await asyncio.gather(
            *[client.call_tool("echo", {"text": TEXT, "n": 5}) for _ in range(in_flight)]
        )
        for result in results:
            if result.text != TEXT:
                raise SystemExit(f"a wrong answer: {result}")
        made += in_flight
    return made


async def main(job):
    limits = Limits(max_client_connections=job.get("connections", 64))
    target = {"target": job["url"]} if "url" in job else {"target": job["command"], "inherit_env": True}
    async with connect(**target, revision=job["revision"], limits=limits) as client:
        pid = job.get("server_pid") or child()
        load = gathers if job.get("way") == "gather" else tasks
        in_flight = job["in_flight"]
        await load(client, in_flight, time.perf_counter() + min(0.5, job["seconds"]))
        pauses = []
        began = 0.0

        def collected(phase, info):
            nonlocal began
            if phase == "start":
                began = time.perf_counter()
            else:
                pauses.append(time.perf_counter() - began)

        gc.callbacks.append(collected)
        cpu, server, start = time.process_time(), cpu_of(pid), time.perf_counter()
        made = await load(client, in_flight, start + job["seconds"])
        wall, server, cpu = time.perf_counter() - start, cpu_of(pid) - server, time.process_time() - cpu
        gc.callbacks.clear()
    print(json.dumps({
        "calls": made, "per_second": made / wall, "client_cpu_us": cpu / made * 1e6,
        "server_cpu_us": server / made * 1e6, "gc_us": sum(pauses) / made * 1e6, "gc_longest_ms": max(pauses, default=0) * 1e3,
    }))  # fmt: skip


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    uvloop.run(main(job))
