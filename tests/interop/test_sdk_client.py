"""The official SDK's Client on headrace's transports sees what it sees on its own: both ways, both eras, both servers."""

import contextlib
import json

import pytest

from interop.support import (
    HERE,
    SOURCE,
    TOOLBOX,
    command_text,
    hosted,
    peer_over_http,
    run_json,
    run_lines,
    serve_command,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

SERVER = HERE / "peers" / "sdk_server.py"
CLIENT = HERE / "peers" / "sdk_client_ways.py"
WAYS = {"sdk": "asyncio", "streams": "asyncio", "dispatcher": "uvloop"}


@contextlib.contextmanager
def target(peers, place):
    """A server of one's own, ours or the SDK's, as the client's script takes it."""
    if place == "ours-stdio":
        yield command_text(serve_command())
    elif place == "ours-http":
        with hosted() as url:
            yield url
    elif place == "theirs-stdio":
        yield command_text([peers, SERVER, "stdio"])
    else:
        with peer_over_http([peers, SERVER]) as url:
            yield url


PLACES = [
    *(("legacy", "ours-http"), ("legacy", "theirs-stdio"), ("legacy", "theirs-http")),
    *(("auto", "ours-stdio"), ("auto", "theirs-http")),
]


@pytest.fixture(scope="module", params=PLACES, ids="-".join)
def look(request, peers):
    """What the client saw in each of its ways."""
    mode, place = request.param
    paged = command_text(serve_command(f"{TOOLBOX}:paged"))
    with contextlib.ExitStack() as stack:
        ways = [(way, loop, stack.enter_context(target(peers, place))) for way, loop in WAYS.items()]
        command = [peers, CLIENT, mode, paged, *(word for way in ways for word in way)]
        seen = run_lines(command, timeout=150, env={"PYTHONPATH": str(SOURCE)})
    return dict(zip(WAYS, map(json.loads, seen), strict=True))


@pytest.mark.parametrize("way", ["streams", "dispatcher"])
def test_the_same_as_on_its_own_transports(look, way):
    """Results, errors, progress, logs, questions both ways, cancels and what the server saw of them (B75, B80, MX-11)."""
    expected, seen = look["sdk"], look[way]
    assert set(seen) == set(expected)
    assert len(expected["progress"]) == 20
    assert expected["together"]
    for key, value in expected.items():
        assert seen[key] == value, key


@pytest.mark.parametrize(("transport", "loop"), [("stdio", "uvloop"), ("http", "asyncio")])
def test_first_generation(peers_1, transport, loop):
    """ClientSession(read, write) of version 1 of the SDK, with its third value over HTTP."""

    def run(way, loop):
        with hosted() if transport == "http" else contextlib.nullcontext(command_text(serve_command())) as target:
            command = [peers_1, HERE / "peers" / "sdk1_client_ways.py", way, loop, target]
            return run_json(command, env={"PYTHONPATH": str(SOURCE)})

    expected, seen = run("sdk", "asyncio"), run("streams", loop)
    assert len(expected["progress"]) == 20
    assert seen == expected
