"""What stands in front of several workers: TLS that is renewed by a roll, PROXY headers, sockets and words of systemd,
nginx and HAProxy while the workers are replaced.

Strategy: `headrace serve --workers 2` as people run it; clients on threads while it rolls.
"""

import contextlib
import fcntl
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from test_cli_front import ACTIVATE, CALL, ENV, HEADERS, HTTP, SERVE, call, served
from tls_support import client_context, make_certificate

from interop.front_support import deployed, haproxy, nginx, ports

pytestmark = pytest.mark.interop

WORKERS = ["--workers", "2"]
APP = """
import os
from headrace import Server
app = Server("front", version="1.0")

@app.tool
def echo(text: str) -> str:
    return text

async def who(scope, receive, send):
    if scope["type"] == "http":
        body = f"{scope['client'][0]} {scope['scheme']} {os.getpid()}".encode()
        head = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})
"""


@pytest.fixture
def target(tmp_path):
    (tmp_path / "front.py").write_text(APP)
    return str(tmp_path / "front.py")


@contextlib.contextmanager
def working(once, threads=3):
    """Threads that do again and again what ``once()``, a context of each thread, gives; gives the counter of what was
    done. None of them may fail."""
    failures, done, over = [], [0], threading.Event()

    def work():
        with once() as step:
            while not over.is_set() and not failures:
                try:
                    step()
                    done[0] += 1
                except Exception as exc:
                    failures.append(exc)

    pool = [threading.Thread(target=work) for _ in range(threads)]
    for thread in pool:
        thread.start()
    try:
        yield done
    finally:
        over.set()
        for thread in pool:
            thread.join(20)
    assert failures == []


def more(done, count):
    """Waits for so many more."""
    wanted, end = done[0] + count, time.monotonic() + 20
    while done[0] < wanted and time.monotonic() < end:
        time.sleep(0.01)
    assert done[0] >= wanted


def roll(process):
    process.send_signal(signal.SIGHUP)
    for line in process.stderr:
        if "all 2 workers were replaced" in line:
            return
    raise AssertionError("it did not roll")


def test_a_roll_renews_the_certificate_and_fails_no_call(target, tmp_path):
    """SIGHUP while calls come, each on a connection of its own: the certificate changes, not one call fails."""
    one, two = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")
    cert, key = tmp_path / "live.crt", tmp_path / "live.key"

    def install(pair):
        cert.write_bytes(Path(pair[0]).read_bytes())
        key.write_bytes(Path(pair[1]).read_bytes())

    install(one)
    context = client_context(one[0])
    context.load_verify_locations(two[0])
    tls = ["--certfile", str(cert), "--keyfile", str(key), "--drain-timeout", "2"]
    with served(target, *HTTP, *WORKERS, *tls) as (process, lines):
        url = re.search(r"https://\S+", lines[-1])[0].replace("127.0.0.1", "localhost")

        def step():
            assert call(url, context)[0] == "hi"

        with working(lambda: contextlib.nullcontext(step)) as done:
            more(done, 20)
            install(two)
            roll(process)
            more(done, 20)
        assert call(url, client_context(two[0]))[0] == "hi"


def test_a_roll_keeps_whose_connection_it_is(target):
    """What a PROXY header said goes with a connection that another worker goes on with."""
    at = f"{Path(target).parent}/front.py:who"
    with served(target, *HTTP, *WORKERS, "--proxy-protocol", "--beside", at) as (process, lines):
        host, port = re.search(r"http://([\d.]+):(\d+)", lines[-1]).groups()
        with socket.create_connection((host, int(port))) as sock:
            sock.settimeout(20)
            sock.sendall(b"PROXY TCP4 198.51.100.1 10.0.0.1 4711 443\r\n")

            def ask():
                sock.sendall(b"GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while b"\r\n\r\n" not in answer or not answer.rpartition(b"\r\n\r\n")[2]:
                    piece = sock.recv(4096)
                    assert piece, answer
                    answer += piece
                return answer.rpartition(b"\r\n\r\n")[2].decode().split()

            first = ask()
            assert first[:2] == ["198.51.100.1", "http"]
            roll(process)
            second = ask()
            assert second[:2] == first[:2] and second[2] != first[2]


def test_the_supervisor_speaks_with_systemd(target, tmp_path):
    """Sockets that systemd passed, READY once the workers serve, RELOADING around a roll, STOPPING; the workers are
    silent."""
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        manager = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        copy = fcntl.fcntl(web, fcntl.F_DUPFD, 50)
        stack.callback(os.close, copy)
        command = [sys.executable, "-c", ACTIVATE, "web", *SERVE, target, "--http", "fd:web", *WORKERS]
        env = ENV | {"PASS": str(copy), "NOTIFY_SOCKET": str(tmp_path / "notify")}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env, pass_fds=[copy])
        try:
            assert manager.recv(1000).startswith(b"READY=1\nSTATUS=serving")
            port = web.getsockname()[1]
            assert call(f"http://127.0.0.1:{port}/mcp")[0] == "hi"
            roll(process)
            assert manager.recv(1000).startswith(b"RELOADING=1")
            assert manager.recv(1000) == b"READY=1"
            assert call(f"http://127.0.0.1:{port}/mcp")[0] == "hi"
            process.send_signal(signal.SIGTERM)
            assert manager.recv(1000).startswith(b"STOPPING=1")
            assert process.wait(20) == 0
            manager.setblocking(False)
            with pytest.raises(BlockingIOError):
                manager.recv(1000)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)
            process.stderr.close()


def kept_client(port, cert):
    """A function that makes calls on one kept connection to a front that speaks TLS."""

    @contextlib.contextmanager
    def once():
        connection = http.client.HTTPSConnection("localhost", port, context=client_context(cert), timeout=20)

        def step():
            connection.request("POST", "/mcp", CALL, HEADERS)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, (answer.status, body)
            assert json.loads(body)["result"]["content"][0]["text"] == "hi"

        with contextlib.closing(connection):
            yield step

    return once


@pytest.mark.parametrize("front", ["nginx", "haproxy"])
def test_no_call_behind_a_proxy_fails_while_workers_are_replaced(target, tmp_path, front):
    """The connections that a proxy keeps to the server go on in other workers, so it never meets a closing one."""
    cert, key = make_certificate(tmp_path, "mcp.example.com")
    path = str(tmp_path / "mcp.sock")
    [port] = ports(1)
    options = ["--http", f"unix:{path}", "--forwarded-allow-ips", "unix", "--allow-host", "localhost"]
    with contextlib.ExitStack() as stack:
        process, _ = stack.enter_context(served(target, *options, *WORKERS))
        if front == "nginx":
            text = deployed(
                "nginx.conf", listen=("listen 443", f"listen 127.0.0.1:{port}"),
                tcp=("    server 127.0.0.1:8000;\n    server 127.0.0.1:8001;\n", ""), unix=("unix:/run/headrace/mcp.sock", f"unix:{path}"),
                cert=("/etc/ssl/mcp.example.com.crt", cert), key=("/etc/ssl/mcp.example.com.key", key),
                server=("server_name mcp.example.com", "server_name localhost"),
            )  # fmt: skip
            stack.enter_context(nginx(tmp_path, text, port))
        else:
            both = tmp_path / "both.pem"
            both.write_bytes(Path(cert).read_bytes() + Path(key).read_bytes())
            [through] = ports(1)
            text = deployed(
                "haproxy.cfg", bind=("bind :443", f"bind 127.0.0.1:{port}"), through=("bind :8443", f"bind 127.0.0.1:{through}"),
                tcp=("    server one 127.0.0.1:8000\n    server two 127.0.0.1:8001\n", ""), cert=("/etc/haproxy/mcp.example.com.pem", str(both)),
                unix=("unix@/run/headrace/mcp.sock", f"unix@{path}"), descriptors=("maxconn 20000", "maxconn 500"),
            )  # fmt: skip
            stack.enter_context(haproxy(tmp_path, text, [port]))
        with working(kept_client(port, cert), threads=4) as done:
            more(done, 50)
            roll(process)
            before = done[0]
            more(done, 50)
            assert done[0] >= before + 50
