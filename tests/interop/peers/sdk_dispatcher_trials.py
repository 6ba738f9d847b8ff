"""Trials of HeadraceDispatcher, both roles, over every link; see trials.py. What the SDK's own contract tests hold too is
not repeated here (tests/interop/sdk_suite)."""

import asyncio
import contextlib
import contextvars
import datetime
import json
import os
import socket
import sys
import tempfile
from pathlib import Path

import anyio
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.shared.exceptions import NoBackChannelError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from opentelemetry import context as otel_context
from opentelemetry import trace
from pydantic import AnyUrl
from trials import over, run

from headrace.errors import ConnectFailed
from headrace.integrations.mcp_sdk import HeadraceDispatcher, links, memory_dispatchers
from headrace.limits import Limits
from headrace.transports.stream import serve_lines

SERVER = str(Path(__file__).with_name("sdk_server.py"))
CANCELLED = "notifications/cancelled"


def pair_memory(client, server):
    return memory_dispatchers(client=client, server=server)


def pair_pipes(client, server):
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    return (
        HeadraceDispatcher(links.pipes(from_server, to_server, serves=False), **client),
        HeadraceDispatcher(links.pipes(from_client, to_client), **server),
    )


def pair_unix(client, server):
    one, other = socket.socketpair()
    return HeadraceDispatcher(links.sock(one, serves=False), **client), HeadraceDispatcher(links.sock(other), **server)


every = over(memory=pair_memory, pipes=pair_pipes, unix=pair_unix)


async def echo(ctx, method, params):
    params = dict(params or {})
    params.pop("_meta", None)
    return {"method": method, **params}


async def ignore(ctx, method, params):
    pass


@contextlib.asynccontextmanager
async def connected(
    pair=pair_memory, on_request=echo, on_notify=ignore, *, client=None, server=None, client_notify=ignore
):
    one, other = pair(client or {}, server or {})
    async with anyio.create_task_group() as tg:
        await tg.start(one.run, echo, client_notify)
        await tg.start(other.run, on_request, on_notify)
        yield one, other
        tg.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def facing(on_request=echo, on_notify=ignore, *, serves=True, **options):
    """A dispatcher, and a reader and a writer of the lines at its other end."""
    one, other = socket.socketpair()
    dispatcher = HeadraceDispatcher(links.sock(other, serves=serves), **options)
    reader, writer = await asyncio.open_connection(sock=one)
    try:
        async with anyio.create_task_group() as tg:
            await tg.start(dispatcher.run, on_request, on_notify)
            yield dispatcher, reader, writer
            tg.cancel_scope.cancel()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def line(reader):
    return json.loads(await reader.readline())


def put(writer, **message):
    writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


async def until(condition):
    for _ in range(400):
        if condition():
            return
        await anyio.sleep(0.01)
    raise AssertionError("it did not come about")


async def refused(code, call):
    try:
        await call
    except MCPError as exc:
        assert exc.code == code, exc
        return exc
    raise AssertionError("it was answered")


# --- the way of a message ----------------------------------------------------------------------------


@every
async def trial_both_ways(pair):
    """Results, errors with their data, notifications in order, questions inside of requests and outside of them."""
    heard = []

    async def on_request(ctx, method, params):
        if method == "fail":
            raise MCPError(-32011, "no", {"why": [1, None]})
        if method == "bare":
            raise MCPError(-32012, "bare")
        if method == "ask":
            return {"asked": await ctx.send_raw_request("question", {"n": 1})}
        for n in range(100):
            await ctx.notify("count", {"n": n})
        return {"id": ctx.request_id, "kind": ctx.transport.kind, "headers": ctx.transport.headers}

    async def on_notify(ctx, method, params):
        heard.append((method, params["n"], ctx.request_id))

    async with connected(pair, on_request, client_notify=on_notify) as (client, server):
        result = await client.send_raw_request("count", None)
        assert result == {
            "id": 1,
            "kind": {pair_memory: "memory", pair_pipes: "stdio", pair_unix: "unix"}[pair],
            "headers": None,
        }
        assert heard == [("count", n, None) for n in range(100)]
        exc = await refused(-32011, client.send_raw_request("fail", {}))
        assert (exc.message, exc.data) == ("no", {"why": [1, None]})
        assert (await refused(-32012, client.send_raw_request("bare", {}))).data is None
        assert await client.send_raw_request("ask", {}) == {"asked": {"method": "question", "n": 1}}
        assert await server.send_raw_request("back", {"é": "😀\n"}) == {"method": "back", "é": "😀\n"}
        together = [client.send_raw_request("count", {"n": n}) for n in range(50)]
        assert len({each["id"] for each in await asyncio.gather(*together)}) == 50


@every
async def trial_long_messages(pair):
    """MX-01: what does not fit any buffer."""
    text = "x" * 5_000_000

    async with connected(pair) as (client, server):
        results = await asyncio.gather(*(client.send_raw_request("echo", {"text": text}) for _ in range(3)))
        assert all(each["text"] == text for each in results)
        assert (await server.send_raw_request("echo", {"text": text}))["text"] == text


async def trial_tcp_and_a_unix_path():
    """ST-09: the client's side by address; nobody listening is ConnectFailed, out of run()."""
    from headrace import Server

    app = Server("s", version="1")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        async with app.running():
            listeners = [await serve_lines(app, unix=path), await serve_lines(app)]
            port = int(listeners[1].addresses[0].rpartition(":")[2])
            for opener in (links.unix(path), links.tcp("127.0.0.1", port)):
                dispatcher = HeadraceDispatcher(opener)
                async with anyio.create_task_group() as tg:
                    await tg.start(dispatcher.run, echo, ignore)
                    assert await dispatcher.send_raw_request("ping", None) == {}
                    dispatcher.close()
            for listener in listeners:
                await listener.close()
        for opener in (links.unix(path), links.tcp("127.0.0.1", port)):
            try:
                await HeadraceDispatcher(opener).run(echo, ignore)
            except ConnectFailed as exc:
                assert "cannot connect" in str(exc)
            else:
                raise AssertionError("it ran")


async def trial_a_session_of_the_sdk_on_a_command():
    """ST-20: initialize, a tool and its progress; the child ends with the dispatcher."""
    dispatcher = HeadraceDispatcher(links.command([sys.executable, SERVER, "stdio"], inherit_env=True))
    async with ClientSession(dispatcher=dispatcher) as session:
        result = await session.initialize()
        assert result.server_info.name == "sdk-peer"
        assert (await session.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"
        child = dispatcher._channel.child
    await until(lambda: child.exit_code is not None)


async def trial_values_that_only_pydantic_knows():
    """B105: URLs and dates in params and results become the text that pydantic makes of them; integers keep their digits."""
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)

    async def on_request(ctx, method, params):
        return {"url": AnyUrl("https://example.com/a"), "when": when, "big": 2**70, "got": params["url"], "float": 1.0}

    async with connected(on_request=on_request) as (client, _):
        result = await client.send_raw_request("x", {"url": AnyUrl("https://example.com/b"), "n": 2**70})
        assert result["url"] == "https://example.com/a"
        assert result["when"] == "2026-01-02T03:04:05Z"
        assert result["big"] == 2**70
        assert result["got"] == "https://example.com/b"


async def trial_results_that_are_no_objects():
    """JR-10: the handler's fault is an error answer, and the connection goes on."""

    async def on_request(ctx, method, params):
        return [1] if method == "list" else {"set": {object()}} if method == "set" else {}

    async with connected(on_request=on_request) as (client, _):
        for method in ("list", "set"):
            try:
                await client.send_raw_request(method, None)
            except MCPError as exc:
                assert exc.code in (0, -32603), exc
            else:
                raise AssertionError(method)
        assert await client.send_raw_request("fine", None) == {}


async def trial_context_variables():
    """B29: a handler sees the variables of run(), and nothing of what another one set."""
    var = contextvars.ContextVar("var", default="none")
    seen = []

    async def on_request(ctx, method, params):
        seen.append(var.get())
        var.set("changed")
        await anyio.sleep(0)
        seen.append(var.get())
        return {}

    var.set("outer")
    async with connected(pair_unix, on_request) as (client, _):
        var.set("later")
        for _ in range(3):
            await client.send_raw_request("x", None)
    assert seen == ["outer", "changed"] * 3


async def trial_trace_context():
    """SEP-414: an ambient span is handed to the peer; without one there is nothing to hand on."""
    metas = []

    async def on_request(ctx, method, params):
        metas.append((params or {}).get("_meta") or {})
        return {}

    async with connected(on_request=on_request) as (client, _):
        await client.send_raw_request("x", {"name": "n"})
        context = trace.SpanContext(1 << 100 | 5, 7 << 50, is_remote=True, trace_flags=trace.TraceFlags(1))
        token = otel_context.attach(trace.set_span_in_context(trace.NonRecordingSpan(context)))
        try:
            await client.send_raw_request("x", {"name": "n", "_meta": {"mine": 1}})
        finally:
            otel_context.detach(token)
    assert metas[0] == {}
    assert metas[1]["mine"] == 1
    assert metas[1]["traceparent"].startswith(f"00-{1 << 100 | 5:032x}-")


# --- ids, progress, time -----------------------------------------------------------------------------


async def trial_progress_under_chosen_ids():
    """MX-01: the token is the id of the call, also where that was chosen, or skipped because it was."""
    seen, told = [], []

    async def on_request(ctx, method, params):
        seen.append((ctx.request_id, params["_meta"]["progressToken"]))
        await ctx.progress(0.5, 2, "half")
        if method == "park":
            await anyio.sleep_forever()
        return {}

    async def on_progress(progress, total, message):
        told.append((progress, total, message))

    async with connected(on_request=on_request) as (client, _), anyio.create_task_group() as tg:
        for id in ("2", 3, "listen"):
            tg.start_soon(client.send_raw_request, "park", {}, {"request_id": id, "on_progress": on_progress})
        await until(lambda: len(told) == 3)
        for _ in range(2):
            await client.send_raw_request("x", {}, {"on_progress": on_progress})
        tg.cancel_scope.cancel()
    assert seen == [("2", "2"), (3, 3), ("listen", "listen"), (1, 1), (4, 4)]
    assert told == [(0.5, 2.0, "half")] * 5


async def trial_correlated_notifications_are_heard_too():
    """Progress and cancels reach on_notify after they took effect; malformed ones do no harm (MX-12)."""
    heard, told, answers = [], [], []

    async def on_notify(ctx, method, params):
        heard.append(method)

    async def on_progress(progress, total, message):
        told.append(progress)
        raise ValueError("its own fault")

    async with facing(on_notify=on_notify) as (dispatcher, reader, writer):
        async with anyio.create_task_group() as tg:

            async def call():
                answers.append(await dispatcher.send_raw_request("x", None, {"on_progress": on_progress}))

            tg.start_soon(call)
            request = await line(reader)
            assert request["params"]["_meta"]["progressToken"] == 1
            for params in (
                {"progressToken": 1, "progress": 0.25},
                {"progressToken": "1", "progress": 1},
                {"progress": "x"},
                {},
            ):
                put(writer, method="notifications/progress", params=params)
            put(writer, method=CANCELLED, params={"requestId": [1]})
            put(writer, method=CANCELLED)
            put(writer, id="1", result={})
        await until(lambda: len(heard) == 6)
    assert told == [0.25, 1.0]
    assert answers == [{}]


async def trial_time_limits():
    """MX-13: the error's words, and what the peer is told; nothing where the request may not be cancelled (VN-06)."""
    async with facing(serves=False) as (dispatcher, reader, writer):
        for opts, note in (
            ({"timeout": 0.02}, "timed out after 0.02s"),
            ({"timeout": 0}, "timed out after 0s"),
            ({"timeout": 0.02, "cancel_on_abandon": False}, None),
            ({"timeout": 0.02, "resumption_token": "t"}, None),
        ):
            exc = await refused(REQUEST_TIMEOUT, dispatcher.send_raw_request("slow", None, opts))
            assert exc.message == "Request 'slow' timed out"
            request = await line(reader)
            if note is not None:
                assert await line(reader) == {
                    "jsonrpc": "2.0",
                    "method": CANCELLED,
                    "params": {"requestId": request["id"], "reason": note},
                }
            put(writer, id=request["id"], result={"late": True})  # finds nobody
        with anyio.move_on_after(0.02):
            await dispatcher.send_raw_request("slow", None)
        request = await line(reader)
        assert (await line(reader))["params"] == {"requestId": request["id"], "reason": "caller cancelled"}
        with anyio.CancelScope() as scope:
            scope.cancel()
            await dispatcher.send_raw_request("never sent", None)
        assert scope.cancelled_caught
        await dispatcher.notify("end", None)
        assert (await line(reader))["method"] == "end"


# --- cancelled handlers ------------------------------------------------------------------------------


async def trial_interrupted_handlers():
    """B75: a scope's cancel, again at every await, kept off by a shield; the request is not answered (MX-15)."""
    seen = []

    async def on_request(ctx, method, params):
        seen.append("started")
        try:
            await anyio.sleep_forever()
        finally:
            assert ctx.cancel_requested.is_set()
            for _ in range(2):
                try:
                    await anyio.sleep(0)
                except anyio.get_cancelled_exc_class():
                    seen.append("again")
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
                seen.append("shielded")
            await ctx.notify("late", None)

    async with facing(on_request) as (dispatcher, reader, writer):
        put(writer, id="a", method="x")
        await until(lambda: seen)
        put(writer, method=CANCELLED, params={"requestId": "a"})
        await until(lambda: "shielded" in seen)
        put(writer, id="a", method="x")  # the id is free again
        put(writer, method=CANCELLED, params={"requestId": "a"})
        await until(lambda: seen.count("shielded") == 2)
        for id, named in ((7, "7"), ("8", 8)):
            put(writer, id=id, method="x")
            put(writer, method=CANCELLED, params={"requestId": named})
        await until(lambda: seen.count("shielded") == 4)
        await dispatcher.notify("end", None)
        assert (await line(reader))["method"] == "end"
    assert seen[:8] == ["started", "again", "again", "shielded"] * 2
    assert sorted(seen) == sorted(seen[:8] * 2)


async def trial_signalled_handlers():
    """peer_cancel_mode="signal": the handler is told, and its result is dropped."""
    seen = []

    async def on_request(ctx, method, params):
        if method == "y":
            return {}
        seen.append("started")
        await ctx.cancel_requested.wait()
        await anyio.sleep(0)
        seen.append("done")
        return {}

    async with facing(on_request, peer_cancel_mode="signal") as (_, reader, writer):
        put(writer, id=1, method="x")
        put(writer, method=CANCELLED, params={"requestId": 1})
        await until(lambda: "done" in seen)
        put(writer, id=2, method="y")
        assert (await line(reader))["id"] == 2


async def trial_handlers_that_do_not_end():
    """The end of run() waits for handlers that take their time, and for those of notifications."""
    seen = []

    async def slow(*_):
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.03)
            seen.append("ended")
        return {}

    async with facing(slow, slow) as (_, _, writer):
        put(writer, id=1, method="x")
        put(writer, method="note")
        await until(lambda: True)
        await anyio.sleep(0.02)
    assert seen == ["ended", "ended"]


# --- order -------------------------------------------------------------------------------------------


async def trial_inline_methods():
    """What comes behind an inline request is handled after it, in its order; what is cancelled meanwhile never is."""
    seen = []

    async def on_request(ctx, method, params):
        seen.append(method)
        if method == "initialize":
            await anyio.sleep(0.02)
            seen.append("initialized")
        return {}

    async def on_notify(ctx, method, params):
        seen.append(method)

    async with facing(on_request, on_notify, inline_methods=frozenset({"initialize"})) as (_, reader, writer):
        put(writer, id=1, method="initialize")
        put(writer, method="first")
        put(writer, id=2, method="second")
        put(writer, id=3, method="cancelled")
        put(writer, method="third")
        put(writer, id=4, method="initialize")
        put(writer, id=5, method="last")
        put(writer, method=CANCELLED, params={"requestId": 3})
        assert [(await line(reader))["id"] for _ in range(4)] == [1, 2, 4, 5]
    order = ["initialize", "initialized", "first", "second", "third", "initialize", "initialized", CANCELLED, "last"]
    assert [each for each in seen if each != CANCELLED] == [each for each in order if each != CANCELLED]


async def trial_an_inline_handler_that_ends_at_once():
    """It holds nothing back."""

    async def on_request(ctx, method, params):
        return {}

    async with facing(on_request, inline_methods=frozenset({"initialize"})) as (_, reader, writer):
        for n in range(4):
            put(writer, id=n, method="initialize" if n % 2 == 0 else "x")
        assert [(await line(reader))["id"] for _ in range(4)] == [0, 1, 2, 3]


async def trial_a_flood_of_notifications():
    """B70: a handler that only sends lets others run, and waits for a peer that does not read."""
    sent = []
    other = []

    async def on_request(ctx, method, params):
        if method == "other":
            other.append(len(sent))
            return {}
        for n in range(400):
            await ctx.notify("note", {"n": n, "text": "x" * 10_000})
            sent.append(n)
        return {}

    async with facing(on_request, limits=Limits(max_output_bytes=100_000)) as (_, reader, writer):
        put(writer, id=1, method="flood")
        await until(lambda: sent)
        await anyio.sleep(0.05)
        assert len(sent) < 200, "it does not wait for its peer"
        put(writer, id=2, method="other")
        ids = []
        while len(ids) < 2:
            message = await line(reader)
            if "id" in message:
                ids.append(message["id"])
        assert sorted(ids) == [1, 2]
        assert len(sent) == 400


async def trial_notifications_that_are_kept():
    """Told before run(), they are sent once there is a connection; afterwards they are dropped."""
    one, other = socket.socketpair()
    dispatcher = HeadraceDispatcher(links.sock(other))
    await dispatcher.notify("early", {"n": 1})
    try:
        await dispatcher.send_raw_request("x", None)
    except RuntimeError as exc:
        assert "before run()" in str(exc)
    else:
        raise AssertionError("it was sent")
    reader, writer = await asyncio.open_connection(sock=one)
    async with anyio.create_task_group() as tg:
        await tg.start(dispatcher.run, echo, ignore)
        assert await line(reader) == {"jsonrpc": "2.0", "method": "early", "params": {"n": 1}}
        dispatcher.close()
    await dispatcher.notify("late", None)
    await refused(CONNECTION_CLOSED, dispatcher.send_raw_request("x", None))
    assert await reader.read() == b""
    writer.close()
    try:
        await dispatcher.run(echo, ignore)
    except RuntimeError as exc:
        assert "once" in str(exc)
    else:
        raise AssertionError("it ran twice")


async def trial_closed_before_it_ran():
    """run() returns at once, and opens nothing."""
    opened = []

    async def opener(mux, limits):
        opened.append(mux)

    dispatcher = HeadraceDispatcher(opener)
    dispatcher.close()
    async with anyio.create_task_group() as tg:
        await tg.start(dispatcher.run, echo, ignore)
    assert opened == []
    await refused(CONNECTION_CLOSED, dispatcher.send_raw_request("x", None))


async def trial_what_opening_raises_comes_out_of_run():
    """A channel that was opened is closed when the start is cancelled."""
    closed = []

    class Slow:
        def __init__(self, mux):
            self.sink = None

        async def close(self):
            closed.append(True)

    async def refusing(mux, limits):
        raise ConnectFailed("not today")

    async def hanging(mux, limits):
        await anyio.sleep_forever()

    async def slow(mux, limits):
        return Slow(mux)

    for opener in (refusing, hanging, slow):
        with anyio.move_on_after(0.03):
            try:
                await HeadraceDispatcher(opener).run(echo, ignore)
            except ConnectFailed as exc:
                assert str(exc) == "not today"
                closed.append("refused")
    assert closed == ["refused", True]


# --- the end -----------------------------------------------------------------------------------------


@every
async def trial_the_peer_goes_away(pair):
    """B82: calls that wait fail, handlers that run are cancelled, and run() returns by itself."""
    seen = []

    async def on_request(ctx, method, params):
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(ctx.cancel_requested.is_set())

    client, server = pair({}, {})
    async with anyio.create_task_group() as tg:
        await tg.start(client.run, echo, ignore)
        await tg.start(server.run, on_request, ignore)

        async def calls():
            exc = await refused(CONNECTION_CLOSED, client.send_raw_request("x", None))
            seen.append(exc.message)

        tg.start_soon(calls)
        await anyio.sleep(0.02)
        client.close()
    assert sorted(seen, key=str) == ["Connection closed", False]
    await refused(CONNECTION_CLOSED, server.send_raw_request("x", None))


async def trial_answers_at_the_end():
    """What is cancelled because the peer's input ended is answered with that, to who still reads; or may be finished."""
    for drain in (False, True):

        async def on_request(ctx, method, params):
            await anyio.sleep(0.05)
            return {"done": True}

        async with facing(on_request, drain=drain) as (_, reader, writer):
            put(writer, id=1, method="x")
            await writer.drain()
            writer.write_eof()
            answer = await line(reader)
            if drain:
                assert answer["result"] == {"done": True}
            else:
                assert answer["error"] == {"code": CONNECTION_CLOSED, "message": "Connection closed"}
            assert await reader.read() == b""


async def trial_raised_handler_exceptions():
    """They end run(), once they were answered."""

    async def on_request(ctx, method, params):
        await anyio.sleep(0)
        raise KeyError("mine")

    for raises in (False, True):
        one, other = memory_dispatchers(server={"raise_handler_exceptions": raises})
        failure = None
        try:
            async with anyio.create_task_group() as tg:
                await tg.start(one.run, echo, ignore)
                await tg.start(other.run, on_request, ignore)
                exc = await refused(0, one.send_raw_request("x", None))
                assert exc.message == "'mine'"
                if raises:
                    await anyio.sleep_forever()
                tg.cancel_scope.cancel()
        except ExceptionGroup as group:
            failure = group
        assert (failure is not None) == raises
        if failure is not None:
            assert failure.split(KeyError)[1] is None


async def trial_input_that_is_no_message():
    """B07, JR-08: the observer hears of it, a server answers it, and the connection goes on."""
    heard = []

    async def observer(exc):
        heard.append(exc)
        raise ValueError("its own fault")

    for serves in (True, False):
        heard.clear()
        async with facing(serves=serves, on_stream_exception=observer) as (_, reader, writer):
            writer.write(b"what\n[]\n")
            put(writer, method="note", params=[1])
            put(writer, id=1, method="x")
            answers = [await line(reader)]
            while "result" not in answers[-1]:
                answers.append(await line(reader))
            await until(lambda: len(heard) == 3)
            assert [each["error"]["code"] for each in answers[:-1]] == ([-32700, -32600] if serves else [])


async def trial_a_transport_builder_that_fails():
    """It costs one message."""
    fails = []

    def builder(metadata):
        if not fails:
            fails.append(metadata)
            raise ValueError("no")
        return links_context

    from mcp.shared.transport_context import TransportContext

    links_context = TransportContext(kind="mine", can_send_request=False)

    async def on_request(ctx, method, params):
        assert ctx.transport is links_context
        try:
            await ctx.send_raw_request("x", None)
        except NoBackChannelError:
            return {"refused": True}

    async with facing(on_request, transport_builder=builder) as (_, reader, writer):
        put(writer, id=1, method="x")
        put(writer, id=2, method="x")
        assert (await line(reader))["error"] == {"code": -32603, "message": "transport context unavailable"}
        assert (await line(reader))["result"] == {"refused": True}


async def trial_contexts_that_outlive_their_request():
    """Nothing is sent inside of a request that is over."""
    kept = []

    async def on_request(ctx, method, params):
        kept.append(ctx)
        return {}

    async with facing(on_request) as (dispatcher, reader, writer):
        put(writer, id=1, method="x", params={"_meta": {"progressToken": "t"}})
        assert (await line(reader))["id"] == 1
        (ctx,) = kept
        assert not ctx.can_send_request
        await ctx.notify("late", None)
        await ctx.progress(1)
        try:
            await ctx.send_raw_request("late", None)
        except NoBackChannelError:
            pass
        await dispatcher.notify("end", None)
        assert (await line(reader))["method"] == "end"


if __name__ == "__main__":
    run(globals())
