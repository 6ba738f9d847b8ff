"""Metrics of `headrace serve --workers N`: sums of all, and nothing goes back when one dies."""

import asyncio
import contextlib
import os
import signal
import time
from types import SimpleNamespace

import pytest
from ports import free_port

from headrace import connect
from headrace.hosting.health import SupervisorHealth, WorkerHealth
from headrace.hosting.metrics import Metrics
from headrace.hosting.metrics_page import Unreadable
from headrace.hosting.metrics_workers import Collecting, asking_supervisor, telling
from headrace.hosting.workers.line import Line, pair
from headrace.mux import BUCKETS
from hosting.metrics_support import fetch, parsed, shop, total
from hosting.processes import serving

__all__ = ("shop",)

REQUESTS = "headrace_requests_total"


def scrape(port):
    status, text, _ = fetch(f"http://127.0.0.1:{port}/metrics")
    assert status == 200, text
    return parsed(text)[0]


async def until(check, timeout=20.0):
    end = time.monotonic() + timeout
    while not (found := await asyncio.to_thread(check)):
        assert time.monotonic() < end, "it did not come to that in time"
        await asyncio.sleep(0.02)
    return found


def test_sums_of_workers_survive_them(shop):
    """Connections go to both, each counts, one is killed: what it had counted and told stays, another serves."""
    http, metrics = free_port(), free_port()

    async def main():
        pids = {}
        url = f"http://127.0.0.1:{http}/mcp"
        async with contextlib.AsyncExitStack() as clients:
            everyone = []
            for _ in range(4):
                client = await clients.enter_async_context(connect(url))
                everyone.append(client)
                pid = int((await client.call_tool("who", {})).text)
                pids[pid] = pids.get(pid, 0) + 1
            assert len(pids) == 2
            for client in everyone:
                for _ in range(5):
                    await client.call_tool("echo", {"text": "a"})
            samples = await asyncio.to_thread(scrape, metrics)
            assert total(samples, REQUESTS, tool="echo", status="ok") == 20
            assert total(samples, REQUESTS, tool="who") == 4
            assert total(samples, "headrace_request_duration_seconds_count", tool="echo") == 20
            assert total(samples, "headrace_workers") == 2
            assert total(samples, "headrace_worker_restarts_total") == 0
            for worker in ("0", "1"):
                assert total(samples, "headrace_worker_connections", worker=worker) >= 1
                assert total(samples, "headrace_worker_memory_bytes", worker=worker) > 1e6
            victim = min(pids)
            os.kill(victim, signal.SIGKILL)
            await until(lambda: total(scrape(metrics), "headrace_worker_restarts_total") == 1)
            samples = await until(lambda: total(s := scrape(metrics), "headrace_workers") == 2 and s)
            assert total(samples, REQUESTS, tool="echo", status="ok") == 20
            assert total(samples, "headrace_request_duration_seconds_count", tool="echo") == 20
            assert len(samples["headrace_worker_memory_bytes"]) == 2
            async with connect(url) as client:
                await client.call_tool("echo", {"text": "a"})
            samples = await asyncio.to_thread(scrape, metrics)
            assert total(samples, REQUESTS, tool="echo", status="ok") == 21

    with serving("shop.py", "--http", http, "--metrics", metrics, "--workers", 2, cwd=shop) as it:
        it.line("serving shop on")
        asyncio.run(asyncio.wait_for(main(), 50))


def test_a_rolled_worker_tells_all_it_has_counted(shop):
    """It ends in order, so not even the last second is missing."""
    http, metrics = free_port(), free_port()

    async def main(process):
        async with connect(f"http://127.0.0.1:{http}/mcp") as client:
            for _ in range(7):
                await client.call_tool("echo", {"text": "a"})
        process.send_signal(signal.SIGHUP)
        await until(lambda: any("replaced" in line for line in it.lines))
        samples = await asyncio.to_thread(scrape, metrics)
        assert total(samples, REQUESTS, tool="echo", status="ok") == 7
        assert total(samples, "headrace_worker_restarts_total") == 0

    with serving("shop.py", "--http", http, "--metrics", metrics, "--workers", 1, cwd=shop) as it:
        it.line("serving shop on")
        asyncio.run(asyncio.wait_for(main(it.process), 50))


def test_a_path_of_the_endpoint_shows_all_workers(shop):
    """Whichever of them is asked."""
    http = free_port()

    async def main():
        url = f"http://127.0.0.1:{http}"
        async with connect(f"{url}/mcp") as one, connect(f"{url}/mcp") as other:
            assert (await one.call_tool("who", {})).text != (await other.call_tool("who", {})).text
            for _ in range(2):
                samples, _ = parsed((await asyncio.to_thread(fetch, f"{url}/numbers"))[1])
                assert total(samples, REQUESTS, tool="who", status="ok") == 2
                assert total(samples, "headrace_workers") == 2
            assert (await asyncio.to_thread(fetch, f"{url}/readyz"))[0] == 200

    with serving("shop.py", "--http", http, "--metrics", "/numbers", "--workers", 2, cwd=shop) as it:
        it.line("serving shop on")
        asyncio.run(asyncio.wait_for(main(), 50))


def test_the_page_stays_up_while_workers_drain(shop):
    http, metrics = free_port(), free_port()
    ready = f"http://127.0.0.1:{metrics}/readyz"

    async def main(process):
        async with connect(f"http://127.0.0.1:{http}/mcp") as client:
            call = asyncio.ensure_future(client.call_tool("slow", {"ms": 1500}))
            await until(lambda: total(scrape(metrics), "headrace_requests_in_flight") == 1)
            assert fetch(ready)[0] == 200
            process.send_signal(signal.SIGTERM)
            await until(lambda: fetch(ready)[:2] == (503, "draining\n"))
            samples = await asyncio.to_thread(scrape, metrics)
            assert total(samples, "headrace_requests_in_flight") == 1
            assert (await call).text == "slept"

    with serving("shop.py", "--http", http, "--metrics", metrics, "--workers", 2, cwd=shop) as it:
        it.line("serving shop on")
        asyncio.run(asyncio.wait_for(main(it.process), 50))
        assert it.wait() == 0


# --- the parts, on a line of their own ------------------------------------------------------------------


class Process:
    """What a Collecting knows of a worker."""

    index, pid, ready = 0, 77, True

    def __init__(self, line):
        self.line = line


class Workers:
    """What a Collecting needs of a supervisor: one worker, at the other end of a line."""

    def __init__(self):
        ours, theirs = pair()
        self.there = Line(theirs)
        self.worker = Process(Line(ours))
        self.workers = [self.worker]
        self.current = {0: self.worker}
        self.serving = [self.worker]
        self.restarts = 3
        self.exited = []

    def on(self, kind, function):
        self.worker.line.on(kind, lambda fields: function(self.worker, fields))

    def on_exit(self, function):
        self.exited.append(function)

    def close(self):
        self.worker.line.close()
        self.there.close()


def told(number):
    """Figures of a worker that has answered so many calls."""
    metrics = Metrics()
    figures = metrics.figures()
    buckets = [number] + [0] * len(BUCKETS)
    figures["requests"] = [("tools/call", "echo", "2026-07-28", [number, 0, 0, 0], buckets, 0.1)]
    return figures


def test_a_worker_that_does_not_answer_is_shown_as_it_was(run):
    """What it pushed stands in; one that has ended is in the sums, and its gauges are gone."""

    async def main():
        workers = Workers()
        collecting = Collecting(workers)
        workers.there.send("figures", figures=told(5))
        await asyncio.sleep(0.05)
        samples, _ = parsed((await collecting.text())[0])  # it knows no `collect`
        assert total(samples, REQUESTS, tool="echo") == 5
        assert total(samples, "headrace_worker_restarts_total") == 3
        workers.there.on("collect", lambda fields: told(6))
        workers.current.clear()
        samples, _ = parsed((await collecting.text())[0])
        assert total(samples, REQUESTS, tool="echo") == 6
        assert {dict(labels)["worker"] for labels in samples["headrace_worker_connections"]} == {"0-77"}
        workers.close()
        workers.workers.clear()
        workers.exited[0](workers.worker)
        samples, _ = parsed((await collecting.text())[0])
        assert total(samples, REQUESTS, tool="echo") == 6
        assert "headrace_worker_connections" not in samples

    run(main)


def test_a_worker_tells_every_second_and_at_its_end(run):
    async def main():
        workers = Workers()
        heard = []
        workers.worker.line.on("figures", lambda fields: heard.append(fields["figures"]))
        with telling(workers.there, Metrics()):
            figures = await workers.worker.line.ask("collect")
            assert "now" in figures and figures["requests"] == []
            for _ in range(300):
                if heard:
                    break
                await asyncio.sleep(0.01)
            assert "now" not in heard[0]
        await asyncio.sleep(0.05)
        assert "now" in heard[-1]
        workers.close()

    run(main)


def test_a_page_without_its_supervisor(run):
    async def main():
        workers = Workers()
        ask = asking_supervisor(lambda: workers.there)
        with pytest.raises(Unreadable, match="nobody here knows"):
            await ask("")
        collecting = Collecting(workers)
        collecting.totals.take(workers.worker, told(1))
        workers.there.on("collect", lambda fields: told(2))
        assert b'status="ok",tool="echo"} 2.0' in (await ask("text/plain"))[0]
        workers.close()
        with pytest.raises(Unreadable, match="does not answer"):
            await ask("")
        with pytest.raises(Unreadable, match="about to end"):
            await asking_supervisor(lambda: None)("")

    run(main)


def test_readiness_of_several():
    """The supervisor is ready while somebody serves; a worker drains in silence while others go on."""
    supervisor = SimpleNamespace(serving=[])
    health = SupervisorHealth(supervisor)
    assert health.answer("/readyz") == (503, "starting\n")
    health.started()
    assert health.answer("/readyz") == (503, "no worker serves\n")
    supervisor.serving.append(1)
    assert health.ready
    worker = SimpleNamespace(handing_over=True)
    mine = WorkerHealth(worker)
    mine.started()
    mine.draining()
    assert mine.ready
    worker.handing_over = False
    mine.draining()
    assert mine.answer("/readyz") == (503, "draining\n")
