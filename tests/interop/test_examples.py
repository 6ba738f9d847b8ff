"""The example servers of other SDKs, hosted unchanged by `headrace serve`, with the SDKs' own clients."""

import contextlib

import pytest

from interop import support
from interop.support import HERE, TOP, command_text, run_json

pytestmark = pytest.mark.interop

CLIENT = HERE / "peers" / "example_client.py"
LIBRARY = TOP / "examples" / "official_sdk_server.py"
KITCHEN = TOP / "examples" / "fastmcp_server.py"
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@contextlib.contextmanager
def places(python, target, log):
    """The TARGET over HTTP and on standard streams, hosted on this Python."""
    with support.hosted(target, python=python, log=log) as url:
        yield {"http": url, "stdio": command_text(support.serve_command(target, python=python))}


def seen_by(python, kind, example, *where):
    """What one client saw at each of the places, in each of the modes."""
    return run_json([python, CLIENT, kind, example, *(word for pair in where for word in pair)])


@pytest.fixture(scope="module")
def library(peers, tmp_path_factory):
    with places(peers, LIBRARY, tmp_path_factory.mktemp("library") / "log") as found:
        combinations = [(transport, mode) for transport in found for mode in MODES]
        seen = seen_by(peers, "sdk", "library", *((found[transport], mode) for transport, mode in combinations))
        yield dict(zip(combinations, seen, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_official_sdk(library, transport, mode):
    seen = library[transport, mode]
    assert (seen["name"], seen["protocol"]) == ("library", MODES[mode])
    assert seen["tools"] == ["add", "echo", "lend", "read_aloud"]
    echo, add, lent, missing, read, wrong = seen["calls"]
    assert echo == [False, "é€😀", {"result": "é€😀"}] and add[1] == "3"
    assert lent[2] == {"title": "Emma", "pages": 400}  # by way of the lifespan's state
    assert missing[0] and "Ulysses is not here" in missing[1]
    assert read[1] == "read 3 pages" and seen["progress"] == [[n, 3, f"page {n}"] for n in (1, 2, 3)]
    assert wrong[0] and "valid" in wrong[1]
    assert seen["resource"] == "It was a dark and stormy night in Emma."
    assert seen["prompt"] == "Write a review of Emma."


@pytest.fixture(scope="module", params=["peers", "peers_1"], ids=["FastMCP 4", "FastMCP 3"])
def kitchen(request, tmp_path_factory):
    """What FastMCP's client saw, and with FastMCP 4 the official one in both eras."""
    python = request.getfixturevalue(request.param)
    with places(python, KITCHEN, tmp_path_factory.mktemp("kitchen") / "log") as found:
        seen = dict(zip(found, seen_by(python, "fastmcp", "kitchen", *((each, "") for each in found.values())), strict=True))
        if request.param == "peers":
            official = seen_by(python, "sdk", "kitchen", *((found["http"], mode) for mode in MODES))
            seen["official"] = dict(zip(MODES, official, strict=True))
        yield seen


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_fastmcp(kitchen, transport):
    seen = kitchen[transport]
    assert seen["tools"] == ["add", "calls_so_far", "cook", "echo", "pantry_stock"]
    echo, add, stock, cooked, refused, calls, wrong = seen["calls"]
    assert echo[1] == "é€😀" and add[1] == "3" and stock[1] == "4"
    assert cooked[2] == {"name": "rice", "minutes": 30} and seen["progress"] == [[n, 3, f"step {n}"] for n in (1, 2, 3)]
    assert refused[0] and "no stones left" in refused[1]
    assert int(calls[1]) >= 5  # its middleware has seen them
    assert wrong[0]
    assert seen["resource"] == "Take some rice." and seen["prompt"] == "Write a menu for 3 guests."


def test_the_official_client_and_fastmcp(kitchen):
    """Of one generation: the newest client needs to be tried against one of them only."""
    assert kitchen.keys() in ({"http", "stdio"}, {"http", "stdio", "official"})
    for mode, seen in kitchen.get("official", {}).items():
        assert (seen["name"], seen["protocol"]) == ("kitchen", MODES[mode])
        assert seen["calls"][3][2] == {"name": "rice", "minutes": 30}
