"""Servers of the official SDK under its own host and under headrace's: one server, one client, the same observations."""

import pytest

from interop import support
from interop.sdk_hosts import client, hosted, spoken

pytestmark = pytest.mark.interop

WAYS = ("http-legacy", "http-auto", "stdio-auto")  # lines of the handshake era: `over_unix`


@pytest.fixture(scope="module", params=WAYS)
def both(request, peers):
    """What the client saw of the SDK's own host, and of ours."""
    transport, _, mode = request.param.partition("-")
    return transport, mode, spoken("theirs", transport, mode), spoken("ours", transport, mode)


@pytest.fixture(scope="module", params=["auto-legacy", "asyncio-auto"])
def over_unix(request, peers, tmp_path_factory):
    """What the client saw over a unix socket, each era on one of the loops."""
    loop, _, mode = request.param.partition("-")
    path = str(tmp_path_factory.mktemp("unix") / "s")
    with hosted("ours", "unix", path, loop):
        return mode, client(mode, f"unix:{path}")


def test_everything_is_as_under_their_own_host(both):
    """Whatever a client can see of a server: results, errors, order, progress, logs, cancellation, questions."""
    _, _, theirs, ours = both
    assert {key: ours.get(key) for key in theirs} == theirs
    assert set(ours) == set(theirs)


def test_the_client_has_seen_something(both):
    """The comparison above is one of full observations."""
    transport, mode, _, ours = both
    assert ours["protocol"] == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert ours["server"] == ["hosted", "1.2.3"]
    assert ours["together"]
    assert ours["progress"] == [[n, 50, f"at {n}"] for n in range(1, 51)]
    assert ours["mixed_progress"] == [1, 2]
    assert [text for level, text in ours["logs"]][:3] == ["one", "two", "three"]
    if mode == "legacy":
        assert ours["ask_name"]["text"] == ["Hello Ada"]
        assert ours["think"]["text"] == ours["think_alone"]["text"] == ["thought of cats"]
        assert ours["where"]["text"] == ["file:///work"]
        assert ours["level"] == [["level", "error"]]
        assert ours["roots_changed"] == [["roots changed", transport == "http"]]
        assert "notifications/tools/list_changed" in ours["messages"]
    else:
        assert ours["events"] == ["ToolsListChanged", "ResourceUpdated"]
        assert ours["honored"] == {"toolsListChanged": True, "resourceSubscriptions": ["note://one"]}
        assert ours["ask_name"]["code"] == -32600


def test_cancellation_is_of_a_scope(both):
    """A request that is given up cancels again at every wait; a shielded clean-up is left to end."""
    *_, ours = both
    assert ours["scope_cancelled"]
    assert ours["cancelled"] == [["scope", "cancelled", "CancelledError"], ["scope", "cleaned up", 3]]


def test_contexts_are_apart(both):
    """What a handler sets in its context no other sees; what a middleware set is there, in threads as well."""
    *_, ours = both
    assert ours["holds"] == [["nothing", f"key {n}"] for n in range(8)]
    context = ours["context"]["structured"]
    assert context["middleware"] == f"tools/call {context['request_id']}"
    assert ours["plain"]["text"][0].startswith("in a thread tools/call ")


def test_b100_trace_context(both):
    """B100: each message has its own parent, a bad one is dropped, keys of others reach the handler."""
    *_, ours = both
    assert ours["context"]["structured"]["trace"] == "0af7651916cd43dd8448eb211c80319c"
    assert ours["context_2"]["structured"]["trace"] is None
    assert {"traceparent", "com.example/own"} <= set(ours["context"]["structured"]["meta"])


def test_b113_bursts_of_changes(both):
    """B113: a hundred changes at once reach a listener, and the list is still served."""
    _, mode, _, ours = both
    if mode == "legacy":
        assert "announce" in ours["tools"]
    else:
        assert ours["after_burst"] == len(ours["tools"])


def test_request_of_http(both):
    """`ctx.request` is a starlette Request over HTTP, and absent elsewhere."""
    transport, *_, ours = both
    request = ours["context"]["structured"]["request"]
    if transport != "http":
        assert request is None
        return
    assert request["kind"]
    assert (request["method"], request["path"], request["host"]) == ("POST", "/mcp", "127.0.0.1")
    assert request["peer"] == "127.0.0.1"
    assert request["body"] == ["tools/call", "context"]
    assert not request["gone"]


def test_over_unix(over_unix, peers):
    """A unix socket speaks both eras, as standard streams do."""
    mode, seen = over_unix
    assert seen["server"] == ["hosted", "1.2.3"]
    assert seen["together"]
    assert seen["cancelled"] == [["scope", "cancelled", "CancelledError"], ["scope", "cleaned up", 3]]
    assert len(seen["progress"]) == 50
    if mode == "legacy":
        assert seen["think_alone"]["text"] == ["thought of cats"]
        assert seen["where"]["text"] == ["file:///work"]
    else:
        assert seen["events"] == ["ToolsListChanged", "ResourceUpdated"]


def test_on_the_other_loop(peers):
    """The same over HTTP on asyncio's own loop."""
    port = support.free_port()
    with hosted("ours", "http", port, "asyncio"):
        seen = client("legacy", f"http://127.0.0.1:{port}/mcp")
    assert seen["together"]
    assert seen["cancelled"] == [["scope", "cancelled", "CancelledError"], ["scope", "cleaned up", 3]]
    assert seen["holds"] == [["nothing", f"key {n}"] for n in range(8)]
