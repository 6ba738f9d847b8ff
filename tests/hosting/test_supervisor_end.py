"""The end of a supervisor and its workers: orderly, at once, or without the one of the two."""

import os
import signal
import socket

import pytest

from hosting.processes import APP, eventually, gone, seized, serving


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def start(app, *more, workers=2):
    return serving("app.py", "--http", "127.0.0.1:0", "--workers", str(workers), *more, cwd=app)


def refused(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_calls_in_flight_are_answered_while_nobody_new_gets_in(app, signum):
    with start(app) as it:
        port, workers = it.port, it.workers
        caller = it.caller()
        caller.send("until", path=str(app / "over"))
        eventually(lambda: it.caller().call())
        it.send(signum)
        eventually(lambda: refused(port))
        (app / "over").touch()
        assert caller.answer() in workers
        assert it.wait() == 0
        assert all(gone(pid) for pid in workers)


def test_a_request_that_has_been_sent_is_answered_after_the_signal(app):
    """The worker learns of its end behind the request that lies in its socket."""
    with start(app, workers=1) as it:
        [pid] = it.workers
        caller = it.caller()
        caller.call()
        os.kill(pid, signal.SIGSTOP)
        caller.send("pid")
        it.send(signal.SIGTERM)
        eventually(lambda: refused(it.port))
        os.kill(pid, signal.SIGCONT)
        assert caller.answer() == pid
        assert it.wait() == 0


@pytest.mark.parametrize("what", ["nap", "block"])
def test_grace_ends_what_takes_longer(app, what):
    """B19: a thread that is blocked keeps nobody."""
    with start(app, "--grace", "0.3") as it:
        workers = it.workers
        it.caller().send(what, seconds=120)
        eventually(lambda: it.caller().call())
        assert it.stop() == 0
        assert all(gone(pid) for pid in workers)


def test_workers_that_are_stopped_or_blocked_are_killed_after_the_grace(app):
    with start(app, "--grace", "0.3") as it:
        workers = it.workers
        it.caller().send("seize")
        [blocked] = eventually(lambda: seized(app))
        [stopped] = set(workers) - {blocked}
        os.kill(stopped, signal.SIGSTOP)
        assert it.stop() == 0
        for pid in workers:
            it.line(rf"worker \d \(pid {pid}\) did not end within 0\.3 s and is killed")
            assert gone(pid)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_everything_in_its_own_way(app, signum):
    with start(app, "--grace", "600") as it:
        workers = it.workers
        it.caller().send("nap", seconds=600)
        it.caller().send("block", seconds=600)
        eventually(lambda: it.caller().call())
        os.kill(workers[0], signal.SIGSTOP)
        it.send(signum)
        eventually(lambda: refused(it.port))
        it.send(signum)
        assert it.wait() == -signum
        assert all(gone(pid) for pid in workers)


def test_workers_end_when_their_supervisor_is_killed(app):
    with start(app) as it:
        port, workers = it.port, it.workers
        caller = it.caller()
        caller.send("until", path=str(app / "over"))
        eventually(lambda: it.caller().call())
        it.process.kill()
        it.process.wait()
        eventually(lambda: refused(port))
        (app / "over").touch()
        assert caller.answer() in workers
        eventually(lambda: all(gone(pid) for pid in workers))


def test_a_blocked_worker_ends_too_when_its_supervisor_is_killed(app):
    with start(app, "--grace", "0.2") as it:
        workers = it.workers
        for _ in workers:
            it.caller().send("seize")
        eventually(lambda: seized(app) == workers)
        it.process.kill()
        it.process.wait()
        assert eventually(lambda: all(gone(pid) for pid in workers), "the end of the workers")
