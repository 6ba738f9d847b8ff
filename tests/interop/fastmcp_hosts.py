"""Starts `peers/fastmcp_features.py` on FastMCP's own transports or on headrace's, and FastMCP's client against it."""

import contextlib
import json
import os
import subprocess
import tempfile
import urllib.error
import urllib.request

from interop import support

SERVER = support.HERE / "peers" / "fastmcp_features.py"
CLIENT = support.HERE / "peers" / "fastmcp_features_client.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(support.SOURCE)}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


def command(python, host, *words):
    """The command of a server; launchers of other SDKs pass few variables on."""
    return ["/usr/bin/env", f"PYTHONPATH={support.SOURCE}", str(python), str(SERVER), host, *map(str, words)]


@contextlib.contextmanager
def started(python, host, *words):
    """A server that starts on a port; gives a function that waits for it and gives its URL."""
    with ready(python, host, *words) as (port, process):

        def url():
            support.wait_for_port(port, process)
            return f"http://127.0.0.1:{port}/mcp"

        yield url


@contextlib.contextmanager
def hosted(python, host, *words):
    """A server on a port; gives its URL and the process, whose stderr is in the file `process.log`."""
    with ready(python, host, *words) as (port, process):
        support.wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}/mcp", process


@contextlib.contextmanager
def ready(python, host, *words):
    """A server that starts on a port; gives the port and the process."""
    port = support.free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(python), str(SERVER), host, "http", str(port), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=ENVIRONMENT,
        )
        process.log = log
        try:
            yield port, process
            assert process.poll() is None, "the server ended by itself"
            if host == "headrace":
                assert support.end(process) == 0
                assert b"Traceback" not in said(process), said(process).decode()
        finally:
            if process.poll() is None:
                support.end(process, 5)


def said(process):
    """What the server wrote to stderr."""
    process.log.seek(0)
    return process.log.read()


def clients(python, targets, *options, script=CLIENT):
    """What a client saw of each of several servers."""
    done = subprocess.run(
        [str(python), str(script), *targets, *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=150,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr.decode()[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()[-len(targets) :]]


def client(python, target, *options):
    """What FastMCP's client saw of a server."""
    return clients(python, [target], *options)[0]


def on_both(python, kind, *words):
    """What the client saw of a server on its own transports, and of the same on ours; words with "=" are the
    client's."""
    options = [word for word in words if "=" in word]
    words = [word for word in words if "=" not in word]
    if kind == "stdio":
        targets = [json.dumps(command(python, host, "stdio", *words)) for host in ("own", "headrace")]
        return clients(python, targets, *options)
    with started(python, "own", *words) as own, started(python, "headrace", *words) as ours:
        return clients(python, [own(), ours()], *options)


class Raw:
    """A POST of one message, by hand."""

    def __init__(self, url, message=None, *, method="POST", path=None, text=None, **headers):
        if path is not None:
            url = url.removesuffix("/mcp") + path
        data = text.encode() if text is not None else None if message is None else json.dumps(message).encode()
        fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(url, data, fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                self.status, self.headers, self.body = answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as exc:
            self.status, self.headers, self.body = exc.code, exc.headers, exc.read().decode()

    @property
    def message(self):
        """The answer, in whichever form it came."""
        if self.headers.get_content_type() == "text/event-stream":
            data = [line[5:].strip() for line in self.body.splitlines() if line.startswith("data:")]
            return json.loads([each for each in data if each][-1])
        return json.loads(self.body)


def call(name, arguments=None, id=2):
    """A tools/call."""
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments or {}}}


def begin(url, **headers):
    """The id of a session."""
    answer = Raw(url, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}, **headers)
    assert answer.status == 200, answer.body
    return answer.headers["mcp-session-id"]
