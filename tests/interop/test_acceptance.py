"""The commands of the README, typed as a person types them."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from ports import free_port

from interop.support import EVERYTHING, HEADRACE, HERE, TOP, end, hosted, serve_command, wait_for_port

pytestmark = pytest.mark.interop

DEMO = TOP / "examples" / "demo.py"


def type_in(*arguments, command=None, **options):
    return subprocess.run(
        command or [*HEADRACE, *arguments],
        **({"stdin": subprocess.DEVNULL} | options),
        capture_output=True,
        text=True,
        timeout=30,
    )


def plain_failure(done, status):
    """One or two plain lines on stderr, no traceback, nothing on stdout."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert 1 <= len(done.stderr.splitlines()) <= 2, done.stderr
    assert done.stderr.startswith("headrace: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_call_url():
    with hosted(DEMO) as url:
        done = type_in("call", url, "add", "a=1", "b=2")
        assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
        listed = type_in("ls", url)
        assert listed.returncode == 0
        assert "forecast" in listed.stdout
        as_json = type_in("call", url, "forecast", "city=Oslo", "--json")
        assert json.loads(as_json.stdout)["structuredContent"]["city"] == "Oslo"


def test_call_command():
    done = type_in("call", "add", "a=1", "b=2", "--", *serve_command(DEMO))
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_call_args_json():
    done = type_in("call", "add", "--args", '{"a": 20, "b": 22}', "--", *serve_command(DEMO))
    assert (done.returncode, done.stdout) == (0, "42\n")


def test_call_that_fails():
    done = type_in("call", "add", "a=1", "--", *serve_command(DEMO))
    plain_failure_text = done.stderr
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in plain_failure_text
    assert "b" in plain_failure_text


def test_file_to_file(tmp_path):
    """Three frames by printf into a server whose streams are regular files: all answered, status 0."""
    frames = tmp_path / "in"
    answers = tmp_path / "out"
    serve = " ".join(f"'{part}'" for part in serve_command(DEMO))
    script = (
        r"""printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","""
        r""""capabilities":{},"clientInfo":{"name":"printf","version":"1"}}}' """
        r"""'{"jsonrpc":"2.0","method":"notifications/initialized"}' """
        r"""'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}' """
        f"> '{frames}' && {serve} < '{frames}' > '{answers}'"
    )
    done = type_in(command=["sh", "-c", script])
    assert (done.returncode, done.stderr) == (0, "")
    raw = answers.read_bytes()
    assert raw.count(b"\n") == 2
    assert raw.endswith(b"\n")
    first, second = (json.loads(line) for line in raw.splitlines())
    assert (first["id"], first["result"]["protocolVersion"]) == (1, "2025-11-25")
    assert (second["id"], second["result"]["content"][0]["text"]) == (2, "3")


@pytest.fixture(params=["stdio", "http"])
def everything(request, node):
    """`server-everything` as the arguments of a command of ours."""
    if request.param == "stdio":
        yield [], ["--", str(node), str(EVERYTHING)]
        return
    port = free_port()
    process = subprocess.Popen(
        [str(node), str(EVERYTHING), "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, process)
        yield [f"http://127.0.0.1:{port}/mcp"], []
    finally:
        end(process, 5)


def test_reference_server(everything):
    url, command = everything
    listed = type_in("ls", *url, *command)
    assert listed.returncode == 0, listed.stderr
    assert "get-sum" in listed.stdout
    called = type_in("call", *url, "get-sum", "a=3", "b=4", *command)
    assert (called.returncode, called.stderr) == (0, "")
    assert "7" in called.stdout


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_official_sdk_server(peers, revision):
    server = ["--", str(peers), str(HERE / "peers" / "sdk_server.py"), "stdio"]
    listed = type_in("ls", "--revision", revision, *server)
    assert listed.returncode == 0, listed.stderr
    assert "read_journal" in listed.stdout
    called = type_in("call", "--revision", revision, "add", "a=1", "b=2", *server)
    assert (called.returncode, called.stdout) == (0, "3\n"), called.stderr


def test_null_device():
    """B19(a): no input at all."""
    done = type_in(command=serve_command(DEMO))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_busy_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = type_in("serve", str(DEMO), "--http", f"127.0.0.1:{taken.getsockname()[1]}")
    plain_failure(done, 1)
    assert "in use" in done.stderr


@pytest.mark.parametrize(
    "target", ["nowhere.py", "no_such_module:app", "examples/demo.py:nothing", "examples/run_demo.py", "a b:c:d"]
)
def test_unknown_target(target):
    said = plain_failure(type_in("serve", target, cwd=TOP), 2)
    assert target.partition(":")[0] in said and "headrace serve --help explains" in said


def test_target_that_raises(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('the database\\nis away')\n")
    done = type_in("serve", str(broken))
    plain_failure(done, 1)
    assert "the database" in done.stderr


def test_unreachable_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = type_in("ls", f"http://127.0.0.1:{port}/mcp")
    plain_failure(done, 1)
    done = type_in("ls", "--", sys.executable, "-c", "raise SystemExit(7)")
    plain_failure(done, 1)
    assert "7" in done.stderr


def test_bad_usage():
    for arguments in (["serve"], ["call", "http://127.0.0.1:1/mcp"], ["nonsense"], ["serve", str(DEMO), "--http", "x:y"]):
        assert "--help explains" in plain_failure(type_in(*arguments), 2)


def test_interrupt():
    """One Ctrl-C or SIGTERM ends a host with status 0 and no word."""
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            serve_command(DEMO, "--http", "127.0.0.1:0"), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0
        )
        try:
            assert b"http://" in process.stderr.readline()
            os.kill(process.pid, number)
            assert process.wait(10) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
