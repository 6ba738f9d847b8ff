"""The options of `headrace serve` for what stands in front: TLS, proxies, systemd, CORS; in processes of their own."""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import client_server
import pytest
from tls_support import client_context, make_certificate

import headrace

PROGRAM = str(Path(client_server.__file__))
ENV = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1]), "COLUMNS": "100"}
SERVE = [sys.executable, "-m", "headrace", "serve"]

APP = """
from headrace import Server
app = Server("front", version="1.0")

@app.tool
def echo(text: str) -> str:
    return text
"""


@pytest.fixture
def target(tmp_path):
    (tmp_path / "front.py").write_text(APP)
    return str(tmp_path / "front.py")


@contextlib.contextmanager
def served(*arguments, env=(), **options):
    """A running server, and the lines it wrote so far once it says that it serves."""
    process = subprocess.Popen(
        [*SERVE, *arguments], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env=ENV | dict(env), **options
    )
    lines = []
    try:
        for line in process.stderr:
            lines.append(line.strip())
            if "serving " in line:
                break
        else:
            raise AssertionError(lines)
        yield process, lines
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stderr.close()


def refused(target, *arguments, status):
    done = subprocess.run([*SERVE, target, *arguments], capture_output=True, text=True, env=ENV, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done
    [line] = done.stderr.splitlines()
    assert line.startswith("headrace: ") and done.stdout == ""
    return line


HTTP = ["--http", "127.0.0.1:0"]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--certfile", "x.pem"], ["--certfile", "--http"]),
        (["--proxy-protocol"], ["--proxy-protocol", "--http"]),
        (["--cors", "https://a.example"], ["--cors ", "--http"]),
        ([*HTTP, "--keyfile", "x.pem"], ["--keyfile x.pem", "--certfile FILE"]),
        ([*HTTP, "--keyfile-password-file", "x"], ["--keyfile-password-file x", "--certfile FILE"]),
        ([*HTTP, "--forwarded-allow-ips", "localhost"], ["--forwarded-allow-ips", "'localhost'", "10.0.0.0/8"]),
        ([*HTTP, "--forwarded-allow-ips", "10.0.0.1,10.0.0.0/99"], ["--forwarded-allow-ips", "10.0.0.0/99"]),
        ([*HTTP, "--forwarded-header", "forwarded"], ["--forwarded-header", "--forwarded-allow-ips"]),
        ([*HTTP, "--forwarded-header", "x-real-ip"], ["--forwarded-header", "x-real-ip", "x-forwarded-for"]),
        ([*HTTP, "--cors", "a.example"], ["--cors ", "'a.example'", "SCHEME://HOST"]),
        ([*HTTP, "--allow-host", "http://a"], ["--allow-host", "'http://a'", "HOST:PORT"]),
        (["--http", "unix:"], ["--http", "'unix:'"]),
        (["--http", "nowhere"], ["--http", "'nowhere'", "HOST:PORT", "systemd"]),
        (["--http", "fd:77"], ["fd:77", "not an open socket"]),
        (["--http", "systemd"], ["systemd", "no socket was passed"]),
    ],
)
def test_a_wrong_value_is_one_line_and_status_2(target, arguments, texts):
    line = refused(target, *arguments, status=2)
    assert all(text in line for text in texts), line


def test_keys_that_cannot_be_used_are_one_line_and_status_1(target, tmp_path):
    cert, key = make_certificate(tmp_path)
    _, other = make_certificate(tmp_path, "other")
    _, sealed = make_certificate(tmp_path, "sealed", "secret")
    for arguments, text in [
        (["--certfile", cert, "--keyfile", "/nowhere.key"], "--keyfile /nowhere.key: No such file or directory"),
        (["--certfile", cert, "--keyfile", other], f"--keyfile {other}: this is not the key of"),
        (["--certfile", cert, "--keyfile", sealed], "it is encrypted, and no --keyfile-password-file is given"),
        (["--certfile", cert, "--keyfile", key, "--keyfile-password-file", "/no"], "--keyfile-password-file /no: No such"),
    ]:
        assert text in refused(target, *HTTP, *arguments, status=1)


def test_an_address_in_use_is_one_line_and_status_1(target, tmp_path):
    """Also where connections arrive by TLS, and on a unix socket."""
    cert, key = make_certificate(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket(socket.AF_UNIX) as unix:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        assert at in refused(target, "--http", at, "--certfile", cert, "--keyfile", key, status=1)
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        assert "another server listens there" in refused(target, "--http", f"unix:{tmp_path}/s", status=1)
    (tmp_path / "file").write_text("x")
    assert "is not a socket" in refused(target, "--http", f"unix:{tmp_path}/file", status=2)


CALL = json.dumps({
    "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}},
}).encode()  # fmt: skip
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
           "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}  # fmt: skip


def call(url, context=None, **headers):
    request = urllib.request.Request(url, CALL, HEADERS | headers)
    with urllib.request.urlopen(request, context=context, timeout=20) as answer:
        return json.load(answer)["result"]["content"][0]["text"], answer.headers


def curl_unix(path):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(20)
        peer.connect(path)
        head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
        peer.sendall(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}Content-Length: {len(CALL)}\r\n\r\n".encode() + CALL)
        return b"".join(iter(lambda: peer.recv(65536), b"")).decode()


def test_https_with_a_certificate_that_is_renewed(target, tmp_path):
    """SIGHUP reads the files again; what cannot be used changes nothing, and says so."""
    one, two = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")
    cert, key = tmp_path / "live.crt", tmp_path / "live.key"

    def install(certificate, private):
        cert.write_bytes(Path(certificate).read_bytes())
        key.write_bytes(Path(private).read_bytes())

    install(*one)
    with served(target, *HTTP, "--certfile", str(cert), "--keyfile", str(key)) as (process, lines):
        url = re.search(r"https://\S+", lines[-1])[0].replace("127.0.0.1", "localhost")
        assert call(url, client_context(one[0]))[0] == "hi"
        install(two[0], one[1])
        process.send_signal(signal.SIGHUP)
        assert "the certificate stays as it was" in process.stderr.readline()
        assert call(url, client_context(one[0]))[0] == "hi"
        install(*two)
        process.send_signal(signal.SIGHUP)
        assert process.stderr.readline().strip() == f"headrace: the certificate was read again: {cert}"
        assert call(url, client_context(two[0]))[0] == "hi"
        with pytest.raises(OSError) as failed:
            call(url, client_context(one[0]))
        assert isinstance(failed.value.reason, ssl.SSLCertVerificationError)
    assert process.returncode == 0


def test_http_on_a_unix_socket(target, tmp_path):
    path = str(tmp_path / "h.sock")
    with served(target, "--http", f"unix:{path}") as (process, lines):
        assert lines[-1] == f"headrace: serving front on unix:{path}"
        assert '"text":"hi"' in curl_unix(path)
    assert process.returncode == 0 and not os.path.exists(path)


def test_an_inherited_socket(target):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.set_inheritable(True)
        fd = sock.fileno()
        with served(target, "--http", f"fd:{fd}", pass_fds=[fd]) as (process, lines):
            assert call(re.search(r"http://\S+", lines[-1])[0])[0] == "hi"
            assert str(sock.getsockname()[1]) in lines[-1]
        assert process.returncode == 0


ACTIVATE = """
import os, socket, sys
names, command = sys.argv[1], sys.argv[2:]
for at, name in enumerate(names.split(":")):
    os.dup2(int(os.environ["PASS"].split()[at]), 3 + at, inheritable=True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(names.split(":"))), "LISTEN_FDNAMES": names}
os.execv(command[0], command)
"""


def started_by_systemd(target, sockets, names, *arguments):
    """What systemd does for a socket unit: descriptors from 3 on, and the variables that name them."""
    copies = [fcntl.fcntl(sock, fcntl.F_DUPFD, 50) for sock in sockets]
    for fd in copies:
        os.set_inheritable(fd, True)
    return copies, [sys.executable, "-c", ACTIVATE, names, *SERVE, target, *arguments]


@pytest.mark.parametrize("how", ["systemd", "fd:web"])
def test_socket_activation(target, tmp_path, how):
    """Calls that came before the server was started are answered; the sockets outlive it."""
    path = str(tmp_path / "s")
    with socket.create_server(("127.0.0.1", 0)) as web, socket.socket(socket.AF_UNIX) as local:
        local.bind(path)
        local.listen()
        copies, command = started_by_systemd(target, [web, local], "web:local", "--http", how)
        early = socket.create_connection(web.getsockname())
        early.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, pass_fds=copies,
                                   env=ENV | {"PASS": " ".join(map(str, copies))})  # fmt: skip
        try:
            early.settimeout(20)
            assert early.recv(100).startswith(b"HTTP/1.1 405")
            early.close()
            lines = [process.stderr.readline().strip() for _ in range(2 if how == "systemd" else 1)]
            url = re.search(r"http://\S+", lines[0])[0]
            assert call(url)[0] == "hi"
            if how == "systemd":
                assert lines[1] == f"headrace: serving front on unix:{path}"
                assert '"text":"hi"' in curl_unix(path)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            process.stderr.close()
            for fd in copies:
                os.close(fd)
        assert process.returncode == 0 and os.path.exists(path)


def test_the_service_manager_hears_of_every_step(target, tmp_path):
    """READY once connections are accepted, WATCHDOG from the loop that serves, RELOADING and READY around a SIGHUP,
    STOPPING when the drain begins."""
    cert, key = make_certificate(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}

        def until(wanted):
            seen = []
            while not any(each.startswith(wanted) for each in seen):
                seen.append(manager.recv(1000).decode())
            return seen

        with served(target, *HTTP, "--certfile", cert, "--keyfile", key, env=env) as (process, _):
            first = until("READY=1")
            assert "STATUS=serving front on https://127.0.0.1:" in first[-1]
            until("WATCHDOG=1")
            until("WATCHDOG=1")
            process.send_signal(signal.SIGHUP)
            assert "\nMONOTONIC_USEC=" in until("RELOADING=1")[-1]
            until("READY=1")
            process.send_signal(signal.SIGTERM)
            until("STOPPING=1")
            process.wait(20)
        assert process.returncode == 0


def test_a_loop_that_is_blocked_is_not_called_alive(tmp_path):
    """The watchdog speaks of what serves, not of the process."""
    target = tmp_path / "blocked.py"
    target.write_text(APP + "\nimport time\n\n@app.tool(inline=True)\ndef block() -> str:\n    time.sleep(1.5)\n    return 'free'\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(0.7)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
        with served(str(target), *HTTP, env=env) as (_, lines):
            host, port = re.search(r"http://([\d.]+):(\d+)", lines[-1]).groups()
            body = CALL.replace(b'"echo", "arguments": {"text": "hi"}', b'"block", "arguments": {}')
            head = "".join(f"{name}: {value}\r\n" for name, value in (HEADERS | {"Mcp-Name": "block"}).items())
            with socket.create_connection((host, int(port))) as peer:
                peer.sendall(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                silent = False
                end = time.monotonic() + 20
                while not silent and time.monotonic() < end:
                    try:
                        manager.recv(1000)
                    except TimeoutError:
                        silent = True
                assert silent
                peer.settimeout(20)
                assert b'"text":"free"' in peer.recv(65536)
                assert manager.recv(1000) == b"WATCHDOG=1"


@pytest.mark.parametrize("option", ["--cors", "--cors-origin"])
def test_b60_cors_is_one_switch(target, option):
    """`--cors ORIGIN`, and its first name. What it does is in test_http_server and test_cors."""
    with served(target, *HTTP, option, "https://app.example") as (_, lines):
        url = re.search(r"http://\S+", lines[-1])[0]
        _, headers = call(url, Origin="https://app.example")
        assert headers["Access-Control-Allow-Origin"] == "https://app.example"
        with pytest.raises(OSError, match="403"):
            call(url, Origin="https://evil.example")


def test_forwarded_options_reach_an_asgi_application_too(tmp_path):
    (tmp_path / "page.py").write_text(
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'http':\n"
        "        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "        await send({'type': 'http.response.body', 'body': (scope['client'][0] + scope['scheme']).encode()})\n"
    )
    with served(str(tmp_path / "page.py"), *HTTP, "--forwarded-allow-ips", "10.0.0.0/8,127.0.0.1") as (_, lines):
        url = re.search(r"http://[\d.:]+", lines[-1])[0]
        request = urllib.request.Request(url + "/x", headers={"X-Forwarded-For": "1.1.1.1, 198.51.100.1", "X-Forwarded-Proto": "https"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.read() == b"198.51.100.1https"


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_values_that_cannot_be_name_their_option(target, workers):
    """Status 2 and one line, before anything is bound or any worker starts."""
    for arguments, text in [
        (["--unix", ""], "--unix '': the path of a socket is needed"),
        (["--tcp", "here"], "--tcp address 'here': use HOST:PORT"),
        (["--path", "mcp"], "--path 'mcp' must begin with a slash"),
        (["--allow-host", "http://x"], "--allow-host 'http://x': use HOST"),
        (["--cors", "x"], "--cors 'x': use SCHEME://HOST"),
        (["--forwarded-allow-ips", "x"], "--forwarded-allow-ips 'x': use an IP address"),
        (["--beside", "none_such:app"], "--beside 'none_such:app': there is no module"),
        (["--sealed-sessions", "--stateless"], "--stateless excludes --sealed-sessions"),
    ]:
        assert text in refused(target, *HTTP, *arguments, *workers, status=2)


def test_a_secret_that_is_too_short_ends_the_start(target):
    """And not the first call that has something to seal."""
    done = subprocess.run(
        [*SERVE, target, *HTTP], capture_output=True, text=True, timeout=30, env=ENV | {"HEADRACE_SECRET": "short"}
    )
    assert done.returncode == 2 and done.stderr.startswith("headrace: HEADRACE_SECRET: the secret has 5 bytes")
    assert done.stderr.count("\n") == 1


def test_serve_without_a_target_says_so():
    done = subprocess.run(SERVE, capture_output=True, text=True, timeout=30, env=ENV)
    assert (done.returncode, done.stderr) == (2, "headrace: Missing argument 'TARGET' (headrace serve --help explains)\n")


def test_json_lines_have_levels(target):
    """What went wrong can be told from what is only said, also before the server runs."""
    done = subprocess.run(
        [*SERVE, target, "--http", "x", "--log-format", "json"], capture_output=True, text=True, timeout=30, env=ENV
    )
    said = json.loads(done.stderr)
    assert done.returncode == 2 and said["level"] == "error" and said["message"].startswith("--http address 'x'")
    with served(target, *HTTP, "--workers", "2", "--log-format", "json") as (_, lines):
        [warned, serving] = map(json.loads, lines)
    assert warned["level"] == "warning" and warned["message"].startswith("several workers without --backplane")
    assert serving["level"] == "notice"
