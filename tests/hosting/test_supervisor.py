"""`headrace serve --workers`: processes on one address, kept alive, replaced and ended together."""

import os
import signal

import pytest

from hosting.processes import APP, eventually, gone, serving


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def start(app, *more, workers=2):
    return serving("app.py", "--http", "127.0.0.1:0", "--workers", str(workers), *more, cwd=app)


def test_workers_serve_and_say_so(app):
    with start(app, workers=3) as it:
        it.line(r"^headrace: serving weather on http://127\.0\.0\.1:\d+/mcp with 3 workers$")
        assert len(it.workers) == 3
        callers = [it.caller() for _ in range(3)]
        assert sorted(caller.call() for caller in callers) == it.workers
        workers = it.workers
        assert it.stop() == 0
        assert all(gone(pid) for pid in workers)
        for index, pid in enumerate(workers):
            it.line(rf"worker {index} \(pid {pid}\) served 1 request on 1 connection in [\d.]+ s, [\d.]+ s of CPU, \d+ MiB")
        it.line(r"3 workers served 3 requests on 3 connections in [\d.]+ s, [\d.]+ s of CPU, \d+ MiB$")


@pytest.mark.parametrize("count", [2, 4, 8, 16, 32])
def test_connections_spread_evenly(app, count):
    with start(app, workers=2) as it:
        callers = [it.caller().connect() for _ in range(count)]
        by = [caller.call() for caller in callers]
        assert {by.count(pid) for pid in it.workers} == {count // 2}
        # Those that end make room for others with the same worker.
        for caller, pid in zip(callers, by, strict=True):
            if pid == it.workers[0]:
                caller.close()

        def all_to_the_first():
            more = [it.caller() for _ in range(count // 2)]
            if [caller.call() for caller in more] == [it.workers[0]] * len(more):
                return True
            for caller in more:
                caller.close()
            return False

        eventually(all_to_the_first)


def test_a_killed_worker_is_replaced(app):
    with start(app) as it:
        killed = it.workers[0]
        os.kill(killed, signal.SIGKILL)
        it.line(rf"worker \d \(pid {killed}\) was ended by SIGKILL; another takes its place")
        eventually(lambda: len(it.workers) == 2 and killed not in it.workers)
        eventually(lambda: {it.caller().call() for _ in range(2)} == set(it.workers))
        assert it.stop() == 0
        it.line(r"2 workers served .*, 1 restart$")
