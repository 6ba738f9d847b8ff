"""Workers are replaced while clients call: nothing is refused, nothing fails."""

import asyncio
import importlib.util
import os
import signal
import time
from functools import partial

import pytest

from headrace import connect
from hosting.processes import APP, Busy, Caller, body_of, eventually, gone, serving


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def start(app, *more, workers=2):
    return serving("app.py", "--http", "127.0.0.1:0", "--workers", str(workers), *more, cwd=app)


class Load(Busy):
    """Threads that call again and again, each in its own way; what fails is kept."""

    def __init__(self, *ways):
        super().__init__([partial(self._run, way) for way in ways])
        self.done = 0
        self.failures = []

    def _run(self, way):
        try:
            call, close = way()
        except Exception as exc:
            self.failures.append(exc)
            return
        try:
            while not self.over.is_set() and len(self.failures) < 10:
                try:
                    call()
                    self.done += 1
                except Exception as exc:
                    self.failures.append(exc)
        finally:
            close()


def kept(port):
    """One connection, kept."""

    def way():
        caller = Caller(port)
        return caller.call, caller.close

    return way


def anew(port):
    """A connection for each call."""

    def call():
        caller = Caller(port)
        try:
            caller.call()
        finally:
            caller.close()

    return lambda: (call, lambda: None)


def now_and_then(port):
    """One connection that is idle most of the time."""

    def way():
        caller = Caller(port)

        def call():
            caller.call()
            time.sleep(0.05)

        return call, caller.close

    return way


def through_httpx(port):
    """httpx, by either of its names; it repeats no POST."""

    httpx = pytest.importorskip("httpx2" if importlib.util.find_spec("httpx2") else "httpx")

    def way():
        client = httpx.Client(timeout=30, trust_env=False)

        def call():
            answer = client.post(
                f"http://127.0.0.1:{port}/mcp", content=body_of("pid", {}),
                headers={"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                         "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "pid"},
            )  # fmt: skip
            assert answer.status_code == 200, answer.text

        return call, client.close

    return way


def through_our_client(port):
    """Our client, on a loop of its own; it repeats nothing that may have run."""

    def way():
        loop = asyncio.new_event_loop()
        connecting = connect(f"http://127.0.0.1:{port}/mcp")
        client = loop.run_until_complete(connecting.__aenter__())

        def close():
            loop.run_until_complete(connecting.__aexit__(None, None, None))
            loop.close()

        return lambda: loop.run_until_complete(client.call_tool("pid")), close

    return way


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_rolling_restart_under_load_fails_no_call(app, loop):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    with start(app, "--loop", loop) as it:
        port, before = it.port, it.workers
        ways = (kept(port), kept(port), anew(port), now_and_then(port), through_our_client(port))
        with Load(*ways) as load:
            for n in (1, 2):
                it.send(signal.SIGHUP)
                it.line("all 2 workers were replaced", n)
        assert load.failures == []
        assert load.done > 50
        assert len(it.workers) == 2
        assert not set(before) & set(it.workers)
        assert it.stop() == 0


def test_httpx_notices_nothing_of_a_roll(app):
    with start(app) as it:
        with Load(through_httpx(it.port), through_httpx(it.port)) as load:
            it.send(signal.SIGHUP)
            it.line("all 2 workers were replaced")
        assert load.failures == []
        assert load.done > 5


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_idle_connection_goes_on_with_another_worker(app, loop):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    with start(app, "--loop", loop) as it:
        callers = [it.caller() for _ in range(6)]
        before = {caller.call() for caller in callers}
        never_used = it.caller().connect()
        ports = [caller.connection.sock.getsockname() for caller in callers]
        it.send(signal.SIGHUP)
        it.line("all 2 workers were replaced")
        after = [caller.call() for caller in callers]
        assert [caller.connection.sock.getsockname() for caller in callers] == ports
        assert not before & set(after)
        assert never_used.call() in it.workers


def test_a_call_in_flight_ends_with_connection_close(app):
    with start(app, workers=1) as it:
        slow, idle = it.caller(), it.caller()
        old = slow.call()
        assert idle.call() == old
        slow.send("until", path=str(app / "over"))
        it.send(signal.SIGHUP)
        eventually(lambda: idle.call() != old)
        (app / "over").touch()
        response = slow.connection.getresponse()
        assert response.status == 200
        assert response.headers["Connection"] == "close"
        assert str(old) in response.read().decode()
        it.line("the worker was replaced")
        assert gone(old)


def test_new_code_is_served_after_a_roll(app):
    with start(app) as it:
        caller = it.caller()
        caller.call()
        (app / "app.py").write_text(APP.replace("return os.getpid()", "return -1"))
        it.send(signal.SIGHUP)
        it.line("all 2 workers were replaced")
        assert caller.call() == -1


def test_code_that_does_not_start_replaces_nothing(app):
    with start(app) as it:
        before = it.workers
        (app / "app.py").write_text("raise ValueError('half written')\n")
        it.send(signal.SIGHUP)
        it.line(r"importing app\.py failed: ValueError: half written")
        it.line("the workers were not replaced: those that serve go on")
        assert it.workers == before
        assert it.caller().call() in before
        assert it.stop() == 0


def test_a_worker_that_gets_sigterm_is_replaced_without_a_failure(app):
    with start(app) as it:
        port = it.port
        with Load(kept(port), kept(port), anew(port), now_and_then(port)) as load:
            for _ in range(3):
                pid = it.workers[0]
                os.kill(pid, signal.SIGTERM)
                eventually(lambda pid=pid: gone(pid) and len(it.workers) == 2)
        assert load.failures == []


def test_workers_are_replaced_after_max_requests(app):
    with start(app, "--max-requests", "40", "--max-requests-jitter", "20") as it:
        port = it.port
        seen = set()

        def way():
            caller = Caller(port)
            return lambda: seen.add(caller.call()), caller.close

        with Load(way, way, now_and_then(port)) as load:
            eventually(lambda: len(seen) >= 5 or load.failures)
        assert load.failures == []
        assert it.stop() == 0
