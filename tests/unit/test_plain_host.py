"""Hosts of plain handlers: lifespans, errors, order, cancelling, limits, the end of connections, `serve`."""

import asyncio
import contextlib
import contextvars
import logging
import os
import signal
import subprocess
import sys
from functools import partial

import anyio
import msgspec
import pytest

from headrace import Server
from headrace.errors import ConnectFailed, ConnectionClosed, LocalProtocolError, OverloadedError, RpcError, UsageError
from headrace.jsonrpc import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from headrace.limits import Limits
from headrace.mux import NO_NAMES
from headrace.transports import McpHost, RpcHost, hosting, open_command, open_http, open_lines, open_memory, serve
from headrace.transports.stream import serve_lines

META = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}


async def echo(method, params, exchange):
    return {"method": method, "params": params}


# --- the life around it ---------------------------------------------------------------------------------


def test_b115_a_lifespan_once_for_all_transports(run, tmp_path):
    async def main():
        events = []

        @contextlib.asynccontextmanager
        async def lifespan(host):
            async with anyio.create_task_group():  # belongs to the task that enters it
                events.append("up")
                yield {"pool": 1}
                events.append("down")

        host = RpcHost(echo, lifespan=lifespan, name="one")
        assert repr(host) == "<RpcHost one>"
        async with host.running():
            assert host.lifespan_state == {"pool": 1}
            async with host.running(), open_memory(host) as peer:
                assert await peer.request("x") == {"method": "x", "params": None}
            assert events == ["up"]
            with pytest.raises(RuntimeError, match="is running"):
                host.set_limits(Limits())
        assert events == ["up", "down"]
        assert host.lifespan_state is None
        with pytest.raises(RuntimeError, match="not running"):
            host.runtime  # noqa: B018
        async with host.running():
            assert events == ["up", "down", "up"]

    run(main)


@pytest.mark.parametrize("kind", [ValueError, lambda text: BaseExceptionGroup(text, [GeneratorExit()])])
def test_a_lifespan_that_fails_starts_nothing(run, kind):
    async def main():
        @contextlib.asynccontextmanager
        async def lifespan(host):
            if fails:
                raise kind("no database")
            yield

        fails = True
        host = McpHost(echo, lifespan=lifespan)
        with pytest.raises((ValueError, BaseExceptionGroup), match="no database"):
            async with host.running():
                raise AssertionError
        with pytest.raises((ValueError, BaseExceptionGroup), match="no database"):
            await serve(host, unix="/nowhere/at/all")
        fails = False
        async with host.running():
            pass

    run(main)


@pytest.mark.parametrize("make", [partial(RpcHost, None), partial(Server, "s", version="1")], ids=["host", "server"])
def test_a_lifespan_that_collapses_ends_its_users(run, make):
    """What fails in its background ends the server with that, as where the lifespan is entered in the same task."""

    async def main():
        fails = asyncio.Event()

        @contextlib.asynccontextmanager
        async def lifespan(host):
            async with anyio.create_task_group() as group:

                async def worker():
                    await fails.wait()
                    raise ValueError("lost the database")

                group.start_soon(worker)
                yield

        ready = asyncio.get_running_loop().create_future()
        server = asyncio.ensure_future(
            hosting.serve(make(lifespan=lifespan), tcp="127.0.0.1:0", on_ready=ready.set_result)
        )
        await ready
        fails.set()
        with pytest.raises(ExceptionGroup) as lost:
            await server
        assert [repr(each) for each in lost.value.exceptions] == ["ValueError('lost the database')"]

    run(main)


def test_context_variables_of_the_lifespan_are_the_handlers(run):
    variable = contextvars.ContextVar("variable")

    async def main():
        @contextlib.asynccontextmanager
        async def lifespan(host):
            variable.set("set")
            yield

        async def handler(method, params, exchange):
            return variable.get()

        async with open_memory(RpcHost(handler, lifespan=lifespan)) as peer:
            assert await peer.request("x") == "set"

    run(main)


def test_one_loop_at_a_time(run):
    host = RpcHost(echo)

    async def use():
        async with host.running(), open_memory(host) as peer:
            return await peer.request("x", [1])

    for _ in range(2):
        assert run(use) == {"method": "x", "params": [1]}

    async def main():
        async with host.running():
            with pytest.raises(RuntimeError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, use())

    run(main)


def test_many_users_that_come_and_go(run):
    """The lifespan is entered and left in turns, never twice at a time."""

    async def main():
        inside = most = 0

        @contextlib.asynccontextmanager
        async def lifespan(host):
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            try:
                await asyncio.sleep(0.001)
                yield
                await asyncio.sleep(0.001)
            finally:
                inside -= 1

        host = RpcHost(echo, lifespan=lifespan)

        async def user(n):
            await asyncio.sleep(n % 7 * 0.001)
            async with host.running():
                assert host.runtime is not None
                await asyncio.sleep(n % 3 * 0.001)

        tasks = [asyncio.ensure_future(user(n)) for n in range(40)]
        for task in tasks[::5]:
            await asyncio.sleep(0.0005)
            task.cancel()
        await asyncio.wait(tasks)
        assert (inside, most) == (0, 1)
        async with host.running():
            pass
        assert inside == 0

    run(main)


# --- handlers -------------------------------------------------------------------------------------------


class Point(msgspec.Struct):
    x: int


@pytest.mark.parametrize(
    "result, value",
    [
        (None, None), (True, True), (0, 0), ("é", "é"), ([1, {"a": None}], [1, {"a": None}]), (Point(3), {"x": 3}),
        (b'{"raw": 1}', {"raw": 1}), (b"[1,\n2]", [1, 2]), (10**50, 10**50), ({}, {}),
    ],
)  # fmt: skip
def test_results_of_every_kind(run, result, value):
    """At once, from a coroutine, from a future, from any awaitable."""

    async def main():
        class Awaitable:
            def __await__(self):
                yield from asyncio.sleep(0).__await__()
                return result

        async def coroutine():
            await asyncio.sleep(0)
            return result

        def handler(method, params, exchange):
            if method == "coroutine":
                return coroutine()
            if method == "awaitable":
                return Awaitable()
            if method == "future":
                future = asyncio.get_running_loop().create_future()
                future.get_loop().call_soon(future.set_result, result)
                return future
            return result

        async with open_memory(handler) as peer:
            for method in ("now", "coroutine", "awaitable", "future"):
                assert await peer.request(method) == value

    run(main)


def test_errors_of_handlers(run, caplog):
    """JR-38: what was not meant for the peer stays here."""

    class NoJson:
        pass

    def handler(method, params, exchange):
        if method == "rpc":
            raise RpcError(7, "seven", [1])
        if method == "crash":
            raise ValueError("secret")
        if method == "exit":
            raise SystemExit(3)
        if method == "unjson":
            return NoJson()
        return exchange.request_id

    async def main():
        async with open_memory(handler) as peer:
            with pytest.raises(RpcError) as refused:
                await peer.request("rpc")
            assert (refused.value.code, refused.value.message, refused.value.data) == (7, "seven", [1])
            for method in ("crash", "exit", "unjson"):
                with pytest.raises(RpcError) as refused:
                    await peer.request(method)
                assert (refused.value.code, refused.value.message) == (-32603, "internal error")
            assert await peer.request("fine") == 5

    with caplog.at_level(logging.ERROR, "headrace.host"):
        run(main)
    assert "secret" in caplog.text
    assert len(caplog.records) == 3


def test_an_mcp_result_is_an_object(run, caplog):
    """JR-10; MCP on lines, both eras on one connection (VN-61)."""

    async def handler(method, params, exchange):
        if method == "initialize":
            return {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}
        if method == "era":
            return {"revision": exchange.revision, "session": exchange.session is not None, "mine": exchange.session.mine}
        exchange.session.mine = 5
        return [1]

    async def main():
        ended = []
        host = McpHost(handler, on_session_end=ended.append)
        async with open_memory(host) as peer:
            with pytest.raises(RpcError) as refused:
                await peer.request("era", {})
            assert refused.value.code == -32602  # no handshake and no _meta
            await peer.request("initialize", {"protocolVersion": "2025-06-18"})
            peer.tell("notifications/initialized")
            with pytest.raises(RpcError, match="internal error"):
                await peer.request("list", {})
            with pytest.raises(RpcError, match="params must be an object"):
                await peer.request("era", [1])
            assert await peer.request("era") == {"revision": "2025-06-18", "session": True, "mine": 5}
            assert (await peer.request("era", {"_meta": META}))["revision"] == "2026-07-28"
            with pytest.raises(RpcError, match="initialized already"):
                await peer.request("initialize", {"protocolVersion": "2025-06-18"})
            (session,) = host.sessions
            assert session.ready
        assert ended == [session]

    with caplog.at_level(logging.CRITICAL, "headrace.host"):
        run(main)


def test_raw_params_and_results(run):
    async def main():
        seen = []

        async def handler(method, params, exchange):
            seen.append(params)
            return params

        host = RpcHost(handler, raw=True, on_notify=lambda method, params, exchange: seen.append(params))
        async with open_memory(host) as peer:
            assert await peer.request("x", b'{"n":1.50}', decode=None) == b'{"n":1.50}'
            assert await peer.request("x", [1]) == [1]
            peer.tell("note", b"[1.50]")
            peer.tell("note")
            assert await peer.request("x") is None  # no params, handed back
        assert seen == [b'{"n":1.50}', b"[1]", b"[1.50]", None, None]

    run(main)


def test_notifications_come_in_order_and_before_later_requests(run):
    async def main():
        seen = []

        async def note(method, params, exchange):
            assert exchange.request_id is None and exchange.progress_token is None and not exchange.modern
            seen.append(params[0])
            await asyncio.sleep(0.001)
            seen.append(-params[0])

        async def handler(method, params, exchange):
            return list(seen)

        async with open_memory(RpcHost(handler, on_notify=note)) as peer:
            for n in range(1, 21):
                peer.tell("note", [n])
            assert await peer.request("seen") == list(range(1, 21))
            while len(seen) < 40:
                await asyncio.sleep(0.001)
            assert seen[20:] == [-n for n in range(1, 21)]

    run(main)


def test_notifications_that_fail_or_cannot_be_read(run, caplog):
    async def main():
        def note(method, params, exchange):
            if method == "late":
                return late()
            raise ValueError("note failed")

        async def late():
            await asyncio.sleep(0)
            raise ValueError("late note failed")

        async with open_memory(RpcHost(echo, on_notify=note)) as peer:
            peer.tell("now")
            peer.tell("late")
            peer.tell("unreadable", b'{"n":' + b"9" * 5000 + b"}")
            await peer.request("x")
            await asyncio.sleep(0.01)

    with caplog.at_level(logging.ERROR, "headrace.host"):
        run(main)
    assert "'now' failed" in caplog.text and "'late' failed" in caplog.text and "unreadable" not in caplog.text


def test_params_that_cannot_be_read(run):
    """B105: more digits than Python makes an integer of are the peer's fault."""

    async def main():
        async with open_memory(echo) as peer:
            with pytest.raises(RpcError, match="params cannot be read") as refused:
                await peer.request("x", b'{"n":' + b"9" * 5000 + b"}")
            assert refused.value.code == -32602

    run(main)


@pytest.mark.parametrize("method", ['a"b', "a\\b", "line\nbreak", "é", "", "\x00", "\x7f"])
def test_methods_of_any_text(run, method):
    async def main():
        told = []
        host = RpcHost(echo, on_notify=lambda method, params, exchange: told.append(method))
        async with open_memory(host) as peer:
            assert (await peer.request(method))["method"] == method
            peer.tell(method)
            await peer.request("x")
            assert told == [method]
            with pytest.raises(LocalProtocolError, match="lone surrogate"):
                peer.request("\ud800")

    run(main)


def test_cancelling(run):
    """MX-12, MX-15: the handler is cancelled once, nothing is sent for it, `cancelled` says so."""

    async def main():
        seen = []

        async def handler(method, params, exchange):
            if method == "x":
                return len(seen)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                seen.append((exchange.cancelled, exchange.open, exchange.tell("late")))
                if method == "stubborn":
                    return {"late": True}
                raise

        async with open_memory(handler) as peer:
            for method in ("slow", "stubborn"):
                call = peer.request(method)
                await peer.request("x")
                call.cancel("not needed")
                call.cancel()
                assert call.future.cancelled()
            while await peer.request("x") < 2:
                pass
            assert seen == [(True, False, False)] * 2
            assert peer.mux.stray == 0

    run(main)


def test_without_names_a_cancel_is_only_forgotten(run):
    async def main():
        told, gate = [], asyncio.Event()

        async def handler(method, params, exchange):
            if method == "open":
                gate.set()
                return None
            await gate.wait()
            return method

        host = RpcHost(handler, names=NO_NAMES, on_notify=lambda *each: told.append(each[:2]))
        async with open_memory(host, names=NO_NAMES) as peer:
            call = peer.request("slow")
            call.cancel()
            peer.tell("notifications/cancelled", {"requestId": 1})
            await peer.request("open")
            await peer.request("x")
            assert told == [("notifications/cancelled", {"requestId": 1})]
            assert peer.mux.stray == 1

    run(main)


# --- bounds ---------------------------------------------------------------------------------------------


def test_b70_more_than_max_in_flight_wait(run):
    async def main():
        running = most = 0

        async def handler(method, params, exchange):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            return params

        host = RpcHost(handler, limits=Limits(max_in_flight=5, max_parked=10))
        async with open_memory(host) as peer:
            calls = [peer.request("x", [n]) for n in range(200)]
            assert [(await call)[0] for call in calls] == list(range(200))
            assert most == 5

    run(main)


def test_max_pending_refuses_the_caller(run):
    async def main():
        async def handler(method, params, exchange):
            await asyncio.sleep(30)

        async with open_memory(handler, limits=Limits(max_pending=3)) as peer:
            calls = [peer.request("x") for _ in range(3)]
            with pytest.raises(OverloadedError):
                peer.request("x")
            calls[0].cancel()
            peer.request("x").cancel()

    run(main)


def test_messages_too_long_and_too_deep(run):
    async def main():
        host = RpcHost(echo, limits=Limits(max_message_bytes=1000, max_depth=8))
        async with open_memory(host, limits=Limits()) as peer:
            with pytest.raises(RpcError, match="nested deeper than 8"):
                await peer.request("x", b"[" * 9 + b"]" * 9)
            call = peer.request("x", ["y" * 2000], timeout=5)
            while not peer.mux.stray:  # an error without an id: nobody can know whose
                await asyncio.sleep(0.001)
            call.cancel()
            assert (await peer.request("x", [1]))["params"] == [1]

    run(main)


def test_a_peer_that_does_not_read_holds_whoever_waits(run, tmp_path):
    """Telling goes on to four times the bound, then says False; notify and drained wait."""

    async def main():
        limits = Limits(max_output_bytes=32 * 1024)
        host = RpcHost(echo, limits=limits)
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"))
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"), limit=2048)
            while not host.peers:
                await asyncio.sleep(0.001)
            (peer,) = host.peers
            told = 0
            while peer.tell("note", ["x" * 1000]):
                told += 1
                if told % 20 == 0:
                    await asyncio.sleep(0)
                assert told < 10_000
            waiting = asyncio.ensure_future(peer.drained())
            await asyncio.sleep(0.01)
            assert not waiting.done()
            for _ in range(told):
                await reader.readline()
            await waiting
            assert await peer.notify("note", [1])
            writer.close()
            await listener.close()

    run(main)


# --- ends -----------------------------------------------------------------------------------------------


def test_st21_what_came_is_answered_before_the_end(run, tmp_path):
    """A client that half-closes gets its answers; so do those whose listener closes."""

    async def main():
        async def handler(method, params, exchange):
            await asyncio.sleep(0.02)
            return method

        host = RpcHost(handler)
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"))
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            writer.write(b'{"jsonrpc":"2.0","id":1,"method":"a"}\n{"jsonrpc":"2.0","id":2,"method":"b"}')
            writer.write_eof()
            assert len((await reader.read()).splitlines()) == 2
            writer.close()
            async with open_lines(unix=str(tmp_path / "s")) as peer:
                call = peer.request("c")
                await asyncio.sleep(0.005)
                closing = asyncio.ensure_future(listener.close())
                assert await call == "c"
                await closing
            assert not host.peers

    run(main)


def test_drain_timeout_cancels_what_stays(run, tmp_path):
    async def main():
        ended = []

        async def handler(method, params, exchange):
            try:
                await asyncio.sleep(30)
            finally:
                ended.append(method)

        host = RpcHost(handler, limits=Limits(drain_timeout=0.05))
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"))
            async with open_lines(unix=str(tmp_path / "s")) as peer:
                call = peer.request("slow")
                await asyncio.sleep(0.01)
                await listener.close()
                assert ended == ["slow"]
                with pytest.raises(ConnectionClosed):
                    await call

    run(main)


def test_on_lost_and_on_session_end(run, tmp_path):
    async def main():
        gone, lost = [], []
        host = RpcHost(echo, on_session_end=gone.append)
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"))
            async with open_lines(unix=str(tmp_path / "s"), on_lost=lost.append) as peer:
                await peer.request("x")
                (far,) = host.peers
                far.state = "mine"
                await far.close()
                while not lost:
                    await asyncio.sleep(0.001)
                assert peer.closed and gone == [far] and gone[0].state == "mine"
                assert "closed" in repr(peer) and isinstance(peer.reason, ConnectionClosed)
                with pytest.raises(ConnectionClosed):
                    peer.request("x")
                assert not peer.tell("x") and not await peer.notify("x")
                await peer.drained()
            await listener.close()

    run(main)


def test_closing_a_pair_cancels_what_still_runs(run):
    async def main():
        ended = []

        async def handler(method, params, exchange):
            try:
                await asyncio.sleep(30)
            finally:
                ended.append(method)

        told = []
        host = RpcHost(handler, on_notify=lambda method, params, exchange: told.append(method))
        async with open_memory(host) as peer:
            call = peer.request("slow")
            peer.tell("last words")
        assert (ended, told) == (["slow"], ["last words"])
        with pytest.raises(ConnectionClosed):
            await call

    run(main)


def test_b21_closing_under_a_cancelled_scope(run):
    """And from another task than the one that opened."""

    async def main():
        events = []

        @contextlib.asynccontextmanager
        async def lifespan(host):
            yield
            await asyncio.sleep(0.01)
            events.append("down")

        host = RpcHost(echo, lifespan=lifespan)
        with anyio.move_on_after(0.05) as scope:
            async with open_memory(host):
                await anyio.sleep(30)
        assert scope.cancelled_caught and events == ["down"]
        peer = await open_memory(host)
        await asyncio.create_task(peer.close())
        assert events == ["down"] * 2

    run(main)


def test_b82_a_program_that_ends(run):
    async def main():
        lost = []
        program = [sys.executable, "-c", "import sys; sys.stdin.readline(); print('bye', file=sys.stderr); sys.exit(4)"]
        async with open_command(program, on_lost=lost.append) as peer:
            with pytest.raises(ConnectionClosed) as closed:
                await peer.request("x")
            assert closed.value.exit_code == 4 and "bye" in str(closed.value)
        assert len(lost) == 1
        with pytest.raises(ConnectFailed):
            await open_command(["/no/such/program"])
        with pytest.raises(ConnectFailed):
            async with open_lines(unix="/no/such/socket"):
                raise AssertionError

    run(main)


# --- serve ----------------------------------------------------------------------------------------------


def test_serve_on_everything_at_once(run, tmp_path):
    async def main():
        ready = asyncio.get_running_loop().create_future()

        async def handler(method, params, exchange):
            return {"resultType": "complete", "transport": bool(exchange.headers)}

        server = asyncio.ensure_future(
            serve(handler, http="127.0.0.1:0", tcp="127.0.0.1:0", unix=str(tmp_path / "s"), on_ready=ready.set_result)
        )
        url, unix, tcp = await ready
        async with open_http(url) as peer:
            assert (await peer.request("x", {"_meta": META}))["transport"] is True
        async with open_lines(unix=unix.removeprefix("unix:")) as peer:
            assert (await peer.request("x", {"_meta": META}))["transport"] is False
        async with open_lines(tcp=tcp.removeprefix("tcp:")) as peer:
            assert (await peer.request("x", {"_meta": META}))["transport"] is False
        server.cancel()
        await asyncio.wait([server])
        assert server.cancelled()

    run(main)


@pytest.mark.parametrize("framing", ["lines", "content-length"])
def test_serve_blocking_on_standard_streams(framing):
    program = f"""
from headrace.transports import serve_blocking

def handler(method, params, exchange):
    print("a stray line")
    return [method, params]

serve_blocking(handler, protocol="jsonrpc", framing={framing!r})
"""

    async def main():
        env = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        async with open_command([sys.executable, "-c", program], env=env, framing=framing) as peer:
            assert await peer.request("x", [1]) == ["x", [1]]

    asyncio.run(asyncio.wait_for(main(), 30))


def test_serve_blocking_stops_at_a_signal(tmp_path):
    program = f"""
from headrace.transports import serve_blocking
serve_blocking(lambda *_: {{}}, unix={str(tmp_path / "s")!r}, on_ready=lambda where: print(where, flush=True))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert "unix:" in child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert child.wait(15) == 0
        assert not (tmp_path / "s").exists()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_wrong_arguments(run):
    async def main():
        host = RpcHost(echo)
        with pytest.raises(UsageError, match="HTTP carries protocol='mcp'"):
            await serve(echo, protocol="jsonrpc", http="127.0.0.1:0")
        with pytest.raises(UsageError, match="on_notify, raw: set when the host is made"):
            await serve(host, raw=True, on_notify=echo, tcp=0)
        with pytest.raises(UsageError, match="protocol 'x'"):
            await serve(echo, protocol="x", tcp=0)
        with pytest.raises(UsageError, match="a Server is no handler: a function of"):
            await serve(Server("x", version="1"), tcp=0)
        with pytest.raises(TypeError, match="unknown option 'port': serve and run are told where by http="):
            await serve(echo, port=8000)
        with pytest.raises(UsageError, match="names of notifications"):
            await serve(echo, names=NO_NAMES, tcp=0)
        with pytest.raises(TypeError, match="unknown option"):
            await serve(echo, tcp=0, nonsense=1)
        with pytest.raises(UsageError, match="framing 'x'"):
            await serve(host, tcp=0, framing="x")
        with pytest.raises(UsageError, match="one of unix and tcp"):
            open_lines()
        with pytest.raises(UsageError, match="an McpHost only serves"):
            await open_memory(host, McpHost(echo))
        with pytest.raises(UsageError, match="raw: set when"):
            await open_memory(host, host, raw=True)
        async with host.running():
            peer, _ = host.new_session()
            with pytest.raises(LocalProtocolError, match="not connected yet"):
                peer.request("x")
            assert not peer.tell("x")
            await peer.close()

    run(main)
