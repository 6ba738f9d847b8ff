"""Workers are killed under load: new connections are never refused, and only what was in flight on the dead one fails."""

import collections
import contextlib
import http.client
import os
import signal
import socket
import threading
import time

import pytest

from hosting import processes
from hosting.processes import APP, Busy, Caller, eventually, seized, serving


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


class Kills(Busy):
    """Threads that call over new connections while workers are killed; each outcome is noted."""

    def __init__(self, port, threads):
        super().__init__([self._run] * threads)
        self.port = port
        self.outcomes = collections.Counter()
        self.refused = []
        self._lock = threading.Lock()

    def _run(self):
        while not self.over.is_set():
            caller = Caller(self.port)
            try:
                caller.connect()
            except OSError as exc:
                self.refused.append(exc)
                return
            try:
                caller.call("nap", seconds=0.01)
                outcome = "answered"
            except TimeoutError:
                outcome = "silent"
            except (OSError, http.client.HTTPException):
                outcome = "cut"
            finally:
                caller.close()
            with self._lock:
                self.outcomes[outcome] += 1


def test_kills_under_load_refuse_nobody_and_fail_only_what_is_in_flight(app):
    threads, kills = 6, 5
    with serving("app.py", "--http", "127.0.0.1:0", "--workers", "3", cwd=app) as it:
        port = it.port
        with Kills(port, threads) as load:
            for _ in range(kills):
                before = load.outcomes["answered"]
                eventually(lambda before=before: load.outcomes["answered"] > before + 20)
                workers = eventually(lambda: len(it.children) == 3 and it.children)
                os.kill(workers[0], signal.SIGKILL)
                eventually(lambda pid=workers[0]: pid not in it.children and len(it.children) == 3)
        assert load.refused == []
        assert load.outcomes["silent"] == 0
        assert load.outcomes["cut"] <= threads * kills
        assert load.outcomes["answered"] > 100
        assert it.stop() == 0
        it.line("[5-9] restarts$")


def test_connections_on_their_way_to_a_worker_that_dies_go_to_another(app):
    """It is stopped, so that they are not taken; they wait and are served all the same."""
    with serving("app.py", "--http", "127.0.0.1:0", "--workers", "2", cwd=app) as it:
        stopped, other = it.workers
        os.kill(stopped, signal.SIGSTOP)
        callers = [it.caller().connect() for _ in range(4)]
        for caller in callers:
            caller.send("pid")
        time.sleep(0.2)
        os.kill(stopped, signal.SIGKILL)
        answers = [caller.answer() for caller in callers]
        assert stopped not in answers
        assert other in answers


def test_a_worker_that_does_not_take_connections_gets_no_more(app):
    with serving("app.py", "--http", "127.0.0.1:0", "--workers", "2", cwd=app) as it:
        it.caller().send("seize")
        [blocked] = eventually(lambda: list(app.glob("seized-*")))
        blocked = int(blocked.name.partition("-")[2])
        it.caller().connect()  # one of these two goes to the blocked one
        it.caller().connect()
        time.sleep(0.6)
        answers = {it.caller().call() for _ in range(6)}
        assert answers == set(it.workers) - {blocked}


def test_a_worker_that_hangs_is_replaced_where_that_is_wanted(app):
    with serving(
        "app.py", "--http", "127.0.0.1:0", "--workers", "2", "--hang-timeout", "1", "--grace", "0.3", cwd=app
    ) as it:
        workers = it.workers
        it.caller().send("seize")
        [hung] = eventually(lambda: seized(app))
        it.line(rf"worker \d \(pid {hung}\) has not turned its loop for 1 s and is killed \(--hang-timeout\)")
        it.line(rf"worker \d \(pid {hung}\) was ended by SIGKILL; another takes its place")
        eventually(lambda: len(it.children) == 2 and hung not in it.children)
        assert set(workers) - {hung} <= set(it.children)
        assert it.stop() == 0


def test_while_no_worker_is_there_connections_wait(app):
    with serving("app.py", "--http", "127.0.0.1:0", "--workers", "1", cwd=app) as it:
        [pid] = it.workers
        os.kill(pid, signal.SIGKILL)
        caller = it.caller().connect()
        assert caller.call() not in (pid, None)


def test_connections_beyond_the_descriptors_of_all_workers_wait_and_end_nobody(app, monkeypatch):
    """More connections than all may open: workers and supervisor go on, and those that wait are served in the end."""
    monkeypatch.setattr(processes, "HEADRACE", ["sh", "-c", 'ulimit -n 96; exec "$@"', "sh", *processes.HEADRACE])
    with serving("app.py", "--http", "127.0.0.1:0", "--workers", "2", cwd=app) as it, contextlib.ExitStack() as held:
        workers = it.workers
        idle = [held.enter_context(socket.create_connection(("127.0.0.1", it.port))) for _ in range(250)]
        caller = it.caller().connect()
        caller.send()
        for each in idle:
            each.close()
        assert caller.answer() in workers
        assert it.children == workers
        assert it.caller().call() in workers
        it.stop()
        assert "another takes its place" not in it.text
