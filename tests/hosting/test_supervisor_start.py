"""What keeps workers from starting, and what becomes of those that cannot live."""

import os
import re
import signal
import socket
import subprocess

import pytest

from headrace import connect
from hosting.processes import APP, ENV, HEADRACE, eventually, gone, serving

LIFESPAN = """
import contextlib, os
from headrace import Server

@contextlib.asynccontextmanager
async def lifespan(server):
    if os.path.exists("broken"):
        raise RuntimeError("no database")
    yield

app = Server("weather", version="1.0", lifespan=lifespan)

@app.tool
def pid() -> int:
    return os.getpid()
"""


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def start(app, *more, workers=2, env=None):
    return serving("app.py", "--http", "127.0.0.1:0", "--workers", str(workers), *more, cwd=app, env=env)


def failure(*arguments, cwd, status, env=None):
    """The one line of a start that fails."""
    done = subprocess.run(
        [*HEADRACE, "serve", *arguments], cwd=cwd, env=env or ENV, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("headrace: "), line
    return line


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--workers", "0", "--http", "0"), "--workers.*'0' is neither a number from 1 to 512 nor auto"),
        (("--workers", "many", "--http", "0"), "--workers.*'many' is neither a number from 1 to 512 nor auto"),
        (("--workers", "2"), "--workers is for servers on sockets: say --http HOST:PORT as well, or --unix or --tcp"),
        (("--max-requests", "5", "--http", "0"), "--max-requests is for several processes: say --workers N as well"),
        (("--max-requests", "0", "--workers", "2", "--http", "0"), "--max-requests.*0 is not in the range x>=1"),
        (("--max-requests-jitter", "5", "--workers", "2", "--http", "0"), "--max-requests-jitter is for --max-requests"),
        (("--pin-cpus", "--http", "0"), "--pin-cpus is for several processes"),
        (("--hang-timeout", "5", "--http", "0"), "--hang-timeout is for several processes: say --workers N as well"),
        (("--hang-timeout", "soon", "--workers", "2", "--http", "0"), "--hang-timeout.*'soon' is not a valid float"),
        (("--start-timeout", "0", "--workers", "2", "--http", "0"), "--start-timeout.*0.* is not in the range"),
    ],
)
def test_wrong_values(app, arguments, text):
    assert re.search(text, failure("app.py", *arguments, cwd=app, status=2))


def test_a_port_in_use_is_told_once(app):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = failure("app.py", "--http", f"127.0.0.1:{port}", "--workers", "3", cwd=app, status=1)
    assert f"127.0.0.1:{port}" in line or f"('127.0.0.1', {port})" in line
    assert "in use" in line


def test_a_unix_path_in_use_is_told_once(app):
    path = str(app / "s")
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(path)
        taken.listen()
        line = failure("app.py", "--unix", path, "--workers", "3", cwd=app, status=1)
    assert path in line


def test_a_target_that_cannot_be_loaded_is_told_once(app):
    (app / "bad.py").write_text("1/0\n")
    line = failure("bad.py", "--http", "0", "--workers", "3", cwd=app, status=1)
    assert "importing bad.py failed: ZeroDivisionError" in line
    line = failure("nowhere.py", "--http", "0", "--workers", "3", cwd=app, status=2)
    assert "there is no file 'nowhere.py'" in line


def test_a_lifespan_that_fails_is_told_once(app):
    (app / "app.py").write_text(LIFESPAN)
    (app / "broken").touch()
    line = failure("app.py", "--http", "0", "--workers", "3", cwd=app, status=1)
    assert "no database" in line


def test_a_worker_that_is_killed_while_it_starts_ends_the_start(app):
    (app / "app.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    line = failure("app.py", "--http", "0", "--workers", "3", cwd=app, status=1)
    assert re.search(r"worker 0 \(pid \d+\) was ended by SIGKILL before it was ready", line)


def test_a_worker_that_takes_too_long_to_start_ends_the_start(app):
    (app / "app.py").write_text("import time\ntime.sleep(120)\n")
    line = failure("app.py", "--http", "0", "--workers", "3", "--start-timeout", "0.5", cwd=app, status=1)
    assert re.search(r"worker 0 \(pid \d+\) was not ready within 0\.5 s \(--start-timeout\)", line)


def test_a_signal_ends_a_start(app):
    (app / "app.py").write_text("import time, os\nopen('starting', 'w').close()\ntime.sleep(120)\n")
    with start(app) as it:
        eventually((app / "starting").exists)
        [pid] = it.children
        assert it.stop() == 0
        assert gone(pid)
        assert it.text.strip() == ""


def test_a_server_that_cannot_be_started_any_more_ends_all(app):
    (app / "app.py").write_text(LIFESPAN)
    with start(app) as it:
        workers = it.workers
        (app / "broken").touch()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        assert it.wait() == 1
        it.line("no worker serves, and [5-9] in a row did not start")
        assert 5 <= len(re.findall("no database", it.text)) <= 9


def test_one_that_cannot_be_started_is_tried_again_while_others_serve(app):
    (app / "app.py").write_text(LIFESPAN)
    with start(app) as it:
        killed, other = it.workers
        (app / "broken").touch()
        os.kill(killed, signal.SIGKILL)
        it.line("no database", 2)
        assert it.caller().call() == other
        (app / "broken").unlink()
        eventually(lambda: len({it.caller().call() for _ in range(2)}) == 2)
        assert it.stop() == 0


def test_workers_that_die_again_and_again_are_replaced(app):
    with start(app, workers=1) as it:
        for count in range(1, 4):
            caller = it.caller()
            with pytest.raises(OSError):
                caller.call("die", status=3)
            it.line(r"worker 0 \(pid \d+\) ended with status 3; another takes its place", count)
        assert it.caller().call() in eventually(lambda: it.children)
        assert it.stop() == 0


def test_no_variable_of_the_supervisor_reaches_a_child_of_a_worker(app):
    (app / "app.py").write_text(
        APP + "\n@app.tool\ndef variables() -> list[str]:\n"
        "    return sorted(name for name in os.environ if name.startswith('HEADRACE_'))\n"
    )
    with start(app) as it:
        caller = it.caller()
        caller.send("variables")
        answer = caller.connection.getresponse().read().decode()
        assert "HEADRACE_WORKER" not in answer
        assert "HEADRACE_SECRET" in answer


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_line_streams_are_served_by_workers(app, run, kind):
    where = str(app / "s") if kind == "unix" else "127.0.0.1:0"
    with serving("app.py", f"--{kind}", where, "--workers", "2", cwd=app) as it:
        address = it.line(r"serving weather on (\S+) with 2 workers")[1]

        async def pids():
            async with connect(address) as one, connect(address) as other:
                return {(await each.call_tool("pid")).structured_content for each in (one, other)}

        assert run(pids) == set(it.workers)
        it.send(signal.SIGHUP)
        it.line("all 2 workers were replaced")
        assert run(pids) == set(it.workers)
        assert it.stop() == 0
        assert kind == "tcp" or not os.path.exists(where)


def test_http_on_a_unix_socket_is_served_by_workers(app):
    path = str(app / "s")
    with serving("app.py", "--http", f"unix:{path}", "--workers", "2", cwd=app) as it:
        it.line("serving weather on unix:.* with 2 workers")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(30)
            sock.connect(path)
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert it.stop() == 0
        assert not os.path.exists(path)


def test_workers_auto_and_pinned(app):
    (app / "app.py").write_text(
        APP + "\n@app.tool\ndef cpus() -> list[int]:\n    return sorted(os.sched_getaffinity(0))\n"
    )
    allowed = sorted(os.sched_getaffinity(0))
    with serving("app.py", "--http", "0", "--workers", "auto", "--pin-cpus", cwd=app) as it:
        count = len(it.workers)
        assert 1 <= count <= len(allowed)
        found = [it.caller().call("cpus") for _ in range(count)]
        assert all(len(cpus) == 1 for cpus in found)
        assert sorted(cpus[0] for cpus in found) == allowed[:count]


def test_the_number_of_workers_may_stand_in_the_environment(app):
    with serving("app.py", "--http", "0", cwd=app, env={**ENV, "HEADRACE_WORKERS": "2"}) as it:
        assert "with 2 workers" in it.line("serving.*").string
        assert len(it.workers) == 2
