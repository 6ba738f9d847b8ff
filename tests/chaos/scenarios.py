"""The trials. Each gives its counts and a list of what did not hold."""

import asyncio
import collections
import contextlib
import os
import random
import signal
import time

from chaos.caller import Cut, Session, Unwanted
from chaos.machines import Hosted, Redis, kill
from headrace import connect
from headrace.errors import ConnectFailed, ConnectionClosed, HeadraceError

NEAR = 0.25
"""Seconds between a kill and the failure of a call that it cut off, at most: the machine is busy."""


class Outcome:
    """What a trial found: `counts` in order, `faults` one line each."""

    def __init__(self):
        self.counts = {}
        self.faults = []

    def hold(self, condition, text):
        if not condition:
            self.faults.append(text)


async def kill_now_and_then(hosted, workers, kills, every=1.0):
    """Kills a worker each second, whichever."""
    while True:
        await asyncio.sleep(every)
        if len(hosted.workers) >= workers:
            victim = random.choice(hosted.workers)
            kills.append(time.monotonic())
            kill(victim)


@contextlib.asynccontextmanager
async def beside(coroutine):
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def cut_by_a_kill(kills, begun, ended):
    return any(begun - NEAR <= when <= ended for when in kills)


async def sessions_outlive_workers(*, sessions=200, calls=20, workers=4, pause=0.5):
    """Sessions of the handshake era, a connection for each call, over workers that are killed: with Redis no session is
    lost, and only calls in flight on the dead worker fail."""
    outcome, kills = Outcome(), []
    seen = collections.Counter()
    answered_by = set()
    wrong = []

    async def client(port, number):
        await asyncio.sleep(pause * number / sessions)
        session = Session(port)
        while True:
            begun = time.monotonic()
            try:
                await session.open()
                break
            except Cut:
                seen["sessions begun anew"] += 1
                if not cut_by_a_kill(kills, begun, time.monotonic()):
                    wrong.append("initialize was cut off without a kill")
                session = Session(port)
        for _ in range(calls):
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            begun = time.monotonic()
            try:
                result = await session.call("look", ms=30)
            except Cut:
                seen["calls cut off"] += 1
                if not cut_by_a_kill(kills, begun, time.monotonic()):
                    wrong.append("a call was cut off without a kill")
            except Unwanted as exc:
                seen["sessions lost" if exc.status == 404 else "other failures"] += 1
                wrong.append(str(exc))
            except OSError as exc:
                seen["connections refused"] += 1
                wrong.append(str(exc))
            else:
                seen["calls answered"] += 1
                answered_by.add(result["content"][0]["text"])

    async with Redis() as redis, Hosted("--workers", str(workers), "--backplane", redis.url) as hosted:
        await hosted.all_up(workers)
        async with beside(kill_now_and_then(hosted, workers, kills)):
            await asyncio.gather(*(client(hosted.port, number) for number in range(sessions)))
    counts = {"kills": len(kills), "processes that answered": len(answered_by)}
    names = (
        "calls answered",
        "calls cut off",
        "sessions begun anew",
        "sessions lost",
        "connections refused",
        "other failures",
    )
    outcome.counts = counts | {name: seen[name] for name in names}
    outcome.hold(kills, "nothing was killed")
    outcome.hold(seen["calls answered"] + seen["calls cut off"] == sessions * calls, f"failures: {wrong[:5]}")
    outcome.hold(not wrong, f"{len(wrong)} failures that no kill explains: {wrong[:5]}")
    # What can be in flight on a quarter of the workers, at the most: 30 ms of every call's time.
    outcome.hold(
        seen["calls cut off"] <= len(kills) * sessions / 4, "more calls were cut off than a worker had in flight"
    )
    return outcome


async def clients_name_what_happened(*, clients=40, seconds=8.0, workers=4):
    """The client of headrace in a session: a killed worker fails the calls in flight on it with a plain error, and the
    session goes on without a new handshake."""
    outcome, kills = Outcome(), []
    seen = collections.Counter()
    texts = collections.Counter()
    wrong = []

    async def caller(url):
        async with connect(url, revision="2025-11-25") as client:
            agreed = client._http.session_id
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                await asyncio.sleep(random.uniform(0.01, 0.05))
                begun = time.monotonic()
                try:
                    await client.call_tool("look", {"ms": 20})
                    seen["calls answered"] += 1
                except ConnectionClosed as exc:
                    seen["calls cut off"] += 1
                    texts[str(exc)] += 1
                    if isinstance(exc, ConnectFailed) or not cut_by_a_kill(kills, begun, time.monotonic()):
                        wrong.append(repr(exc))
                except HeadraceError as exc:
                    seen["other failures"] += 1
                    wrong.append(repr(exc))
            if client._http.session_id != agreed:
                seen["sessions lost"] += 1

    async with Redis() as redis, Hosted("--workers", str(workers), "--backplane", redis.url) as hosted:
        await hosted.all_up(workers)
        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(caller(hosted.url)) for _ in range(clients)]
            await asyncio.sleep(1.0)
            async with beside(kill_now_and_then(hosted, workers, kills)):
                await asyncio.wait(callers)
    outcome.counts = {"kills": len(kills)} | {
        name: seen[name] for name in ("calls answered", "calls cut off", "sessions lost", "other failures")
    }
    outcome.counts["errors"] = dict(texts)
    outcome.hold(kills and seen["calls cut off"], "no call was cut off")
    outcome.hold(not seen["sessions lost"], f"{seen['sessions lost']} sessions were lost")
    outcome.hold(not wrong, f"failures that no kill explains: {wrong[:5]}")
    return outcome


async def streams_go_on_anywhere(*, streams=60, steps=20, step=100, workers=4):
    """Event streams that their clients leave and resume, on any worker, while workers are killed: what was missed comes,
    in order and once; a call whose worker died is answered with an error that says so."""
    outcome, kills = Outcome(), []
    seen = collections.Counter()
    texts = collections.Counter()
    wrong = []

    async def follow(port, number):
        await asyncio.sleep(number * 0.05)
        session = Session(port)
        while not session.id:
            with contextlib.suppress(Cut):
                await session.open()
        got = []
        begun = time.monotonic()
        try:
            got += await session.begin("count", to=steps, ms=step, most=random.randint(2, 6))
        except (Cut, OSError):
            if not cut_by_a_kill(kills, begun, time.monotonic()):
                wrong.append("a stream that never began")
        if not got:
            seen["cut off before the first event"] += 1
            return
        while not (got[-1][1] and "id" in got[-1][1]):
            if time.monotonic() > begun + 60:
                wrong.append(f"no answer after a minute; the last event was {got[-1]}")
                return
            seen["resumed"] += 1
            try:
                events, _ = await session.resume(got[-1][0], most=random.choice((3, 10_000)))
            except (Cut, OSError):
                continue
            except Unwanted as exc:
                wrong.append(f"resuming: {exc}")
                return
            got += events
            await asyncio.sleep(0.05)
        messages = [message for _, message in got if message]
        told = [message["params"]["progress"] for message in messages if "params" in message]
        if "error" in messages[-1]:
            seen["answered with an error"] += 1
            texts[messages[-1]["error"]["message"]] += 1
            if not cut_by_a_kill(kills, begun, time.monotonic()):
                wrong.append("an error without a kill")
        else:
            seen["answered"] += 1
            if told != list(range(1, steps + 1)):
                wrong.append(f"events: {told}")
        if told != sorted(set(told)):
            wrong.append(f"events twice or out of order: {told}")

    async with Redis() as redis, Hosted("--workers", str(workers), "--backplane", redis.url) as hosted:
        await hosted.all_up(workers)
        async with beside(kill_now_and_then(hosted, workers, kills, every=1.5)):
            await asyncio.gather(*(follow(hosted.port, number) for number in range(streams)))
    names = ("resumed", "answered", "answered with an error", "cut off before the first event")
    outcome.counts = {"kills": len(kills)} | {name: seen[name] for name in names} | {"errors": dict(texts)}
    outcome.hold(kills, "nothing was killed")
    outcome.hold(seen["answered"], "no stream came to its end")
    outcome.hold(not wrong, f"{len(wrong)} streams: {wrong[:5]}")
    return outcome


async def safe_calls_never_fail(*, clients=32, seconds=8.0, workers=4):
    """Era M, with a client that repeats safe calls: nobody sees a failure."""
    outcome, kills = Outcome(), []
    seen = collections.Counter()
    wrong = []

    async def caller(url):
        async with connect(url, revision="2026-07-28", retries=6) as client:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                try:
                    await client.call_tool("look", {"ms": 5})
                    seen["calls answered"] += 1
                except HeadraceError as exc:
                    seen["failures"] += 1
                    wrong.append(repr(exc))

    async with Hosted("--workers", str(workers)) as hosted:
        await hosted.all_up(workers)
        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(caller(hosted.url)) for _ in range(clients)]
            async with beside(kill_now_and_then(hosted, workers, kills)):
                await asyncio.wait(callers)
    outcome.counts = {"kills": len(kills), "calls answered": seen["calls answered"], "failures": seen["failures"]}
    outcome.hold(kills, "nothing was killed")
    outcome.hold(not wrong, f"callers saw failures: {wrong[:5]}")
    return outcome


async def rolling_restart_fails_nothing(*, rate=1000, seconds=8.0, workers=2, clients=16, rolls=2):
    """Calls at a steady rate, on connections that are kept and on new ones, while the workers are replaced."""
    outcome = Outcome()
    seen = collections.Counter()
    pids = set()
    wrong = []

    async def call(client):
        try:
            result = await client.call_tool("look", {"ms": 2})
            seen["calls answered"] += 1
            pids.add(result.structured_content)
        except HeadraceError as exc:
            seen["failures"] += 1
            wrong.append(repr(exc))

    async def short(url, done):
        """A new client, thus a new connection, every time."""
        while not done.is_set():
            try:
                async with connect(url, revision="2026-07-28") as client:
                    await call(client)
            except HeadraceError as exc:
                seen["failures"] += 1
                wrong.append(repr(exc))
            await asyncio.sleep(0.02)

    async with Hosted("--workers", str(workers)) as hosted, contextlib.AsyncExitStack() as stack:
        await hosted.all_up(workers)
        connected = [
            await stack.enter_async_context(connect(hosted.url, revision="2026-07-28")) for _ in range(clients)
        ]
        before = set(hosted.workers)
        begun = time.monotonic()
        least = begun + seconds
        done = asyncio.Event()
        rolled = sent = 0
        async with asyncio.TaskGroup() as group:
            group.create_task(short(hosted.url, done))
            while not done.is_set():
                now = time.monotonic()
                if rolled < rolls and now - begun > 0.5 and hosted.said("were replaced") == rolled:
                    rolled += 1
                    hosted.signal(signal.SIGHUP)
                elif (now > least and hosted.said("were replaced") == rolls) or now > begun + 90:
                    done.set()
                due = int((now - begun) * rate)
                while sent < due:
                    group.create_task(call(connected[sent % clients]))
                    sent += 1
                await asyncio.sleep(0.005)
        took = time.monotonic() - begun
        left = set(hosted.workers) & before
    outcome.counts = {
        "rolls": hosted.said("were replaced"), "calls answered": seen["calls answered"], "failures": seen["failures"],
        "processes that answered": len(pids), "calls a second": round(seen["calls answered"] / took),
    }  # fmt: skip
    outcome.hold(not left and outcome.counts["rolls"] == rolls, "workers were not replaced")
    outcome.hold(len(pids) >= workers * (rolls + 1), "not every generation of workers answered")
    outcome.hold(not wrong, f"failures: {wrong[:5]}")
    return outcome


async def sessions_begin_again(port):
    """Waits until new sessions have been taken for a while, on whichever worker."""
    taken = 0
    async with asyncio.timeout(30):
        while taken < 20:
            await asyncio.sleep(0.1)
            try:
                await Session(port).open()
                taken += 1
            except Unwanted:
                taken = 0


async def redis_may_go(*, outage=5.0, workers=2, clients=8, measured=True):
    """Redis is killed for some seconds under load: plain calls go on, the rest fails clearly and comes back by itself,
    and nothing acknowledged is lost. `measured`: throughput must hold, too."""
    outcome = Outcome()
    seen = collections.Counter()
    wrong = []
    plain = []

    async def plain_calls(url, stop):
        async with connect(url, revision="2026-07-28") as client:
            while not stop.is_set():
                try:
                    await client.call_tool("echo", {"text": "x"})
                    plain.append(time.monotonic())
                except HeadraceError as exc:
                    wrong.append(f"a plain call: {exc!r}")

    async def known_session(url, stop):
        """Its worker knows the session: its calls need nothing of Redis."""
        async with connect(url, revision="2025-11-25") as client:
            while not stop.is_set():
                await asyncio.sleep(0.02)
                try:
                    await client.call_tool("echo", {"text": "x"})
                    seen["calls of known sessions"] += 1
                except HeadraceError as exc:
                    wrong.append(f"a call of a known session: {exc!r}")

    async def new_sessions(port, stop, down):
        while not stop.is_set():
            await asyncio.sleep(0.1)
            was_down = down.is_set()
            try:
                await (await Session(port).open()).call("echo", text="x")
                seen["new sessions"] += 1
            except Unwanted as exc:
                seen["new sessions refused"] += 1
                # Redis may go while the request is on its way: it overlaps the outage then.
                if exc.status != 503 or not (was_down or down.is_set()):
                    wrong.append(f"a new session: {exc}")
            except (Cut, OSError) as exc:
                wrong.append(f"a new session: {exc!r}")

    async with Redis() as redis, Hosted("--workers", str(workers), "--backplane", redis.url) as hosted:
        await hosted.all_up(workers)
        stop, down = asyncio.Event(), asyncio.Event()
        async with connect(hosted.url, tasks=True, revision="2026-07-28") as client, asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(plain_calls(hosted.url, stop))
            group.create_task(known_session(hosted.url, stop))
            group.create_task(new_sessions(hosted.port, stop, down))
            handles = [await client.start_tool("job", {"number": n, "ms": 20}) for n in range(50)]
            running = [await client.start_tool("job", {"number": n, "ms": 1000 * (outage + 4)}) for n in range(10)]
            await asyncio.gather(*(handle.wait() for handle in handles))
            left = await Session(hosted.port).open()
            first = await left.begin("count", to=10, ms=(outage + 4) * 100, most=2)
            await asyncio.sleep(1.0)
            begun = time.monotonic()
            await asyncio.sleep(outage)
            lost = time.monotonic()
            down.set()
            await redis.kill()
            await asyncio.sleep(0.3)
            try:
                await client.start_tool("job", {"number": 1})
                wrong.append("a task was acknowledged without Redis")
            except HeadraceError as exc:
                outcome.counts["a task without Redis"] = str(exc)
            await asyncio.sleep(outage - 0.3)
            back = time.monotonic()
            await redis.start()
            await sessions_begin_again(hosted.port)
            down.clear()
            await asyncio.sleep(1.0)
            kept = [(await handle.result()).structured_content for handle in handles]
            ended = [(await handle.result()).structured_content for handle in running]
            rest, whole = await left.resume(first[-1][0])
            stop.set()
    steps = [message["params"]["progress"] for _, message in first + rest if message and "params" in message]
    normal = sum(begun <= when < lost for when in plain) / (lost - begun)
    without = sum(lost <= when < back for when in plain) / (back - lost)
    outcome.counts |= {
        "plain calls a second before": round(normal), "while Redis was down": round(without),
        "share": f"{without / normal:.0%}",
        **{name: seen[name] for name in ("calls of known sessions", "new sessions", "new sessions refused")},
        "task results kept": sum(value == n * n for n, value in enumerate(kept)),
        "events of a stream left": len(steps),
        "tasks that ran through": sum(value == n * n for n, value in enumerate(ended)),
    }  # fmt: skip
    outcome.hold(not measured or without >= 0.95 * normal, f"plain calls fell to {without / normal:.0%}")
    outcome.hold(kept == [n * n for n in range(50)], "results of tasks were lost")
    outcome.hold(ended == [n * n for n in range(10)], "tasks that ran meanwhile were lost")
    outcome.hold(whole and steps == list(range(1, 11)), f"events of a stream that was left before are missing: {steps}")
    outcome.hold(seen["new sessions refused"] and seen["new sessions"], "new sessions were not tried in both states")
    outcome.hold(not wrong, f"{len(wrong)} failures: {wrong[:5]}")
    return outcome


TRIALS = {
    "sessions": sessions_outlive_workers,
    "clients": clients_name_what_happened,
    "streams": streams_go_on_anywhere,
    "safe-calls": safe_calls_never_fail,
    "rolling": rolling_restart_fails_nothing,
    "redis": redis_may_go,
}
"""Name on the command line: trial."""


def needs_redis(name):
    return name in ("sessions", "clients", "streams", "redis")


assert os.name == "posix", "workers and signals are for POSIX systems"
