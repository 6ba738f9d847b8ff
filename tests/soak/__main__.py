"""python -m soak [SECONDS [CALLERS]]: visits of all kinds for so long, so many at a time; then everything must be back
where it was. Status 1: it is not."""

import asyncio
import collections
import contextlib
import sys
import time

from chaos.machines import Hosted, Redis

from headrace import connect
from soak.load import load
from soak.target import __file__ as TARGET

WORKERS = 2
IDLE = 2.0
"""Seconds until the server forgets a session that nobody uses, and what the measurements wait for."""
MEMORY = 6 * 1024
"""Kilobytes that a worker may have grown by, and a tenth of what it had: allocators keep some of what they got."""
REDIS = 40
"""Connections to Redis that a worker may have: it opens them as it needs them, and keeps them."""
THREADS = 40
"""Threads of a worker: those of plain tools come with the work and stay."""
LEVEL = ("descriptors", "tasks", "sessions", "listens", "in flight")


async def states(url, redis_port):
    """What each worker holds, by process id; connections to Redis apart."""
    found = {}
    async with asyncio.timeout(60):
        while len(found) < WORKERS:
            async with connect(url, revision="2026-07-28") as client:
                state = (await client.call_tool("state")).structured_content
                state["to redis"] = sum(n for kind, n in state["kinds"].items() if kind.endswith(f" from {redis_port}"))
                state["descriptors"] -= state["to redis"]
                found[state["pid"]] = state
    return found


async def settled(url, redis_port):
    """The states once nothing changes any more, or after a while."""
    last = None
    for _ in range(20):
        await asyncio.sleep(IDLE / 2)
        now = await states(url, redis_port)
        level = {pid: [state[name] for name in LEVEL] for pid, state in now.items()}
        if level == last:
            break
        last = level
    return now


async def run(seconds, callers):
    seen, wrong = collections.Counter(), collections.Counter()
    async with contextlib.AsyncExitStack() as stack:
        options = [
            "--workers",
            str(WORKERS),
            "--session-idle-timeout",
            str(IDLE),
            "--header-timeout",
            "2",
            "--body-timeout",
            "2",
        ]
        redis_port = 0
        if Redis.installed():
            redis = await stack.enter_async_context(Redis())
            redis_port = redis.port
            options += ["--backplane", redis.url]
        hosted = await stack.enter_async_context(Hosted(*options, target=TARGET))
        await hosted.all_up(WORKERS)
        warm = max(seconds / 6, 5.0)
        print(
            f"soak: {seconds:g} s after {warm:g} s of the same, {WORKERS} workers{'' if len(options) > 8 else ', without Redis'}",
            flush=True,
        )
        await load(hosted.url, hosted.port, warm, callers, collections.Counter(), wrong)
        before = await settled(hosted.url, redis_port)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await load(hosted.url, hosted.port, min(left, 60.0), callers, seen, wrong)
            print(f"  {seconds - max(until - time.monotonic(), 0):5.0f} s, {sum(seen.values()):,} visits", flush=True)
        after = await settled(hosted.url, redis_port)
        log = hosted.log
    failed = seen.pop("failed", 0)
    visits = sum(seen.values())
    print(f"  {visits:,} visits: {', '.join(f'{name} {count:,}' for name, count in sorted(seen.items()))}")
    print(f"  failed: {failed}" + "".join(f"\n    {count} x {text}" for text, count in wrong.most_common(8)))
    faults = []
    for number, (pid, was) in enumerate(sorted(before.items()), 1):
        now = after.get(pid)
        if now is None:
            faults.append(f"worker {number} is another process now")
            continue
        for name in (*LEVEL, "kilobytes"):
            print(f"  worker {number}: {name:12} {was[name]:>9,} -> {now[name]:>9,}")
            most = was[name] + (MEMORY + was[name] // 10 if name == "kilobytes" else 0)
            if now[name] > most:
                faults.append(f"worker {number}: {name} grew from {was[name]} to {now[name]}")
        if now["threads"] > THREADS:
            faults.append(f"worker {number}: {now['threads']} threads")
        if now["to redis"] > REDIS:
            faults.append(f"worker {number}: {now['to redis']} connections to Redis")
    if failed > visits / 50:
        faults.append(f"{failed} of {visits} visits failed")
    faults += [f"logged: {line}" for line in log if "Traceback" in line or " ERROR " in line][:5]
    if hosted.status != 0:
        faults.append(f"the server ended with status {hosted.status}")
    for fault in faults:
        print(f"  BROKEN: {fault}")
    print("  everything is back where it was" if not faults else "  not everything is back where it was")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        given = [float(word) for word in sys.argv[1:3]]
    except ValueError as exc:
        print(f"soak: {exc}; use: python -m soak [SECONDS [CALLERS]]", file=sys.stderr)
        sys.exit(2)
    sys.exit(asyncio.run(run(given[0] if given else 3600.0, int(given[1]) if len(given) > 1 else 8)))
