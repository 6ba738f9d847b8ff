"""Starts `peers/sdk_hosted.py` under the official SDK's own host or under headrace's, and its client against it."""

import contextlib
import json
import os
import subprocess

from interop import support

SERVER = support.HERE / "peers" / "sdk_hosted.py"
CLIENT = support.HERE / "peers" / "sdk_hosted_client.py"


def environment(journal=None):
    """The environment of counterparts that host with headrace."""
    env = {**os.environ, "PYTHONPATH": str(support.SOURCE)}
    if journal is not None:
        env["SDK_HOSTED_JOURNAL"] = str(journal)
    return env


def command(host, *where):
    """The command of a server."""
    return [str(part) for part in (support.PEERS, SERVER, host, *where)]


@contextlib.contextmanager
def hosted(host, wire, place, *options, journal=None, log=None):
    """A server on a port or a unix socket; gives its process."""
    with open(log or os.devnull, "wb") as stderr:
        process = subprocess.Popen(
            command(host, wire, place, *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(journal),
        )
    try:
        if wire == "http":
            support.wait_for_port(place, process)
        else:
            support.wait_for_file(place, process)
        yield process
        assert process.poll() is None, "the server ended by itself"
        if host == "ours":
            assert support.end(process) == 0
    finally:
        if process.poll() is None:
            support.end(process, 5)


def client(mode, target):
    """What the client saw."""
    command = [str(support.PEERS), str(CLIENT), mode, target]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=55, env=environment())
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr.decode()[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def spoken(host, transport, mode, *options):
    """What the client saw of a server that is there for it alone."""
    if transport == "stdio":
        return client(mode, json.dumps(command(host, "stdio", *options)))
    port = support.free_port()
    with hosted(host, "http", port, *options):
        return client(mode, f"http://127.0.0.1:{port}/mcp")


def journal_of(path):
    """What was written to a journal file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
