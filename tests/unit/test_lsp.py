"""A JSON-RPC service that is not MCP, over both framings and every link: wire and mux know nothing of MCP."""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import pytest
from lsp_echo import MANY, make_host

from headrace.errors import ConnectionClosed, RemoteProtocolError, RequestTimeout, RpcError
from headrace.limits import Limits
from headrace.mux import LSP
from headrace.transports import RpcHost, open_command, open_lines, open_memory
from headrace.transports.stream import serve_lines
from headrace.wire import LengthFramer, frame_message

FRAMINGS = ("lines", "content-length")
framings = pytest.mark.parametrize("framing", FRAMINGS)


@contextlib.asynccontextmanager
async def served(kind, framing, tmp_path, host=None, limits=MANY, **options):
    """A client's peer of the echo service."""
    host = host or make_host(limits)
    options = {"names": LSP, "framing": framing, "limits": limits} | options
    handler = options.pop("handler", None)
    if kind == "memory":
        async with open_memory(host, handler, **options) as peer:
            yield peer
        return
    if kind == "command":
        env = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        program = [sys.executable, str(Path(__file__).parent / "lsp_echo.py"), framing]
        async with open_command(program, handler, env=env, **options) as peer:
            yield peer
        return
    async with host.running():
        where = {"unix": str(tmp_path / "s")} if kind == "unix" else {"host": "127.0.0.1"}
        listener = await serve_lines(host, framing=framing, **where)
        at = {"unix": where["unix"]} if kind == "unix" else {"tcp": listener.addresses[0].removeprefix("tcp:")}
        async with open_lines(handler, **at, **options) as peer:
            yield peer
        await listener.close()


@framings
@pytest.mark.parametrize("kind", ["memory", "unix", "tcp", "command"])
def test_the_service(run, kind, framing, tmp_path):
    """Requests both ways, notifications in order, errors, big integers, any JSON as params and result."""
    heard = []

    async def handler(method, params, exchange):
        assert method == "workspace/configuration"
        return [None, {"section": params["items"][0]["section"], "n": 10**40}]

    async def main():
        async with served(
            kind, framing, tmp_path, handler=handler, on_notify=lambda *each: heard.append(each[:2])
        ) as peer:
            assert (await peer.request("initialize", {"processId": None}))["serverInfo"] == {"name": "echo"}
            for value in (None, [], [1, [2]], {"a": "é\n"}, {"big": 2**80, "list": [-(10**30), 0.5, 1e300]}):
                assert await peer.request("echo/any", value) == value
            assert await peer.request("echo/any", b'{"raw": [1,\n2]}') == {"raw": [1, 2]}
            assert await peer.request("echo/any", b'{"raw": 1}', decode=None) == b'{"raw":1}'
            found = await peer.request("echo/ask", {"section": "x"})
            assert found == {"configured": [None, {"section": "x", "n": 10**40}]}
            for n in range(500):
                assert peer.tell("echo/shout", [n])
            seen = await peer.request("echo/seen")
            assert seen["told"] == [["echo/shout", [n]] for n in range(500)]
            assert heard == [("echo/heard", [n]) for n in range(500)]
            with pytest.raises(RpcError, match="server cancelled") as refused:
                await peer.request("echo/fail")
            assert (refused.value.code, refused.value.data) == (-32802, {"retriggerRequest": True})
            with pytest.raises(RpcError, match="internal error"):
                await peer.request("echo/crash")
            with pytest.raises(RpcError, match="unhandled method a\"b"):
                await peer.request('a"b\\c')
            assert await peer.request("echo/id", id="7") == "7"
            assert await peer.request("echo/id", id="é") == "é"
            assert await peer.request("shutdown") is None

    run(main)


@framings
def test_cancelling_in_either_way(run, framing, tmp_path):
    """`$/cancelRequest` reaches the handler; the answer that LSP wants is sent and dropped."""

    async def main():
        async with served("memory", framing, tmp_path) as peer:
            call = peer.request("echo/slow", {"n": 1})
            waits = asyncio.ensure_future(_await(peer.request("echo/slow", {"n": 2}, id="by-name")))
            with pytest.raises(RequestTimeout):
                await peer.request("echo/slow", timeout=0.02)
            call.cancel()
            waits.cancel()
            await asyncio.wait([waits])
            while (await peer.request("echo/seen"))["cancelled"] < 3:
                await asyncio.sleep(0)
            assert not peer.mux.pending
            assert peer.mux.stray == 3
            assert (await peer.request("echo/seen"))["told"] == []

    run(main)


async def _await(call):
    return await call


@framings
def test_what_a_cancel_looks_like(run, framing, tmp_path):
    """On the wire: LSP's notification, and RequestCancelled as the answer; parked requests as well."""

    async def main():
        host = make_host(Limits(max_in_flight=1))
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"), framing=framing)
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))

            def send(**message):
                body = json.dumps({"jsonrpc": "2.0", **message}).encode()
                writer.write(body + b"\n" if framing == "lines" else frame_message(body))

            async def receive():
                if framing == "lines":
                    return json.loads(await reader.readline())
                head = await reader.readuntil(b"\r\n\r\n")
                return json.loads(await reader.readexactly(int(head.split()[1])))

            send(id="a", method="echo/slow")
            send(id=18446744073709551616, method="echo/slow")
            send(method="$/cancelRequest", params={"id": 18446744073709551616})
            send(method="$/cancelRequest", params={"id": "\u0061"})
            error = {"code": -32800, "message": "the request was cancelled"}
            assert await receive() == {"jsonrpc": "2.0", "id": 18446744073709551616, "error": error}
            assert await receive() == {"jsonrpc": "2.0", "id": "a", "error": error}
            for odd in ({"id": None}, {"id": 1.5}, [], {"id": {}}, {}, {"id": True}, {"id": "unknown"}):
                send(method="$/cancelRequest", params=odd)
            send(method="notifications/cancelled", params={"requestId": "a"})
            send(id=1, method="echo/seen")
            seen = (await receive())["result"]
            assert seen["cancelled"] == 1
            # What names nothing is for the handler to judge, and MCP's name is any other.
            assert [method for method, _ in seen["told"]] == ["$/cancelRequest", "notifications/cancelled"]
            writer.close()
            await listener.close()

    run(main)


def test_mcps_words_mean_nothing_here(run, tmp_path):
    """Requests whose names and members are special in MCP are requests like all others."""

    async def main():
        async with served("memory", "lines", tmp_path) as peer:
            meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 5}
            params = {"_meta": meta, "name": 5, "uri": [], "task": None, "requestState": "x"}
            assert await peer.request("echo/any", params) == params
            for method in ("ping", "initialized", "tools/call", "notifications/cancelled"):
                with pytest.raises(RpcError, match=f"unhandled method {method}"):
                    await peer.request(method, params)
            call = peer.request("initialize", None)
            call.cancel()
            assert await peer.request("echo/any", [1]) == [1]

    run(main)


@framings
def test_progress_by_tokens(run, framing, tmp_path):
    """`$/progress` finds the call that its token names; others are notifications like all others."""
    heard, done = [], []

    async def main():
        async with served("memory", framing, tmp_path, on_notify=lambda *each: heard.append(each[:2])) as peer:
            params = {"steps": 3, "workDoneToken": "w1"}
            assert await peer.request("echo/work", params, id="w1", on_progress=done.append) == 3
            assert done == [{"token": "w1", "value": {"done": n}} for n in range(3)]
            params = {"steps": 2, "workDoneToken": peer.mux.next_call_id}
            assert await peer.request("echo/work", params, on_progress=done.append) == 2
            assert len(done) == 5
            assert heard == [("window/logMessage", {"type": 3, "message": "worked"})] * 2
            heard.clear()
            assert await peer.request("echo/work", {"steps": 1, "workDoneToken": "elsewhere"}) == 1
            assert [method for method, _ in heard] == ["$/progress", "window/logMessage"]

    run(main)


@framings
def test_ten_thousand_in_flight(run, framing, tmp_path):
    async def main():
        async with served("unix", framing, tmp_path) as peer:
            calls = [peer.request("echo/slow", {"n": n}) for n in range(10_000)]
            while (await peer.request("echo/seen"))["told"]:
                pass
            assert len(peer.mux.pending) == 10_000
            await peer.request("echo/open")
            assert [each["n"] for each in [await call for call in calls]] == list(range(10_000))
            assert not any(peer.mux.debug_counts().values())

    run(main)


@framings
def test_a_batch_of_json_rpc(run, framing, tmp_path):
    """JSON-RPC 2.0 has them in both directions, with initialize and responses among the entries."""

    async def main():
        host = make_host()
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"), framing=framing)
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            batch = [
                {"jsonrpc": "2.0", "id": 1, "method": "initialize"}, {"jsonrpc": "2.0", "method": "note", "params": [1]},
                {"jsonrpc": "2.0", "id": 2, "method": "echo/any", "params": [3]}, 5,
                {"jsonrpc": "2.0", "id": 9, "result": 5},
            ]  # fmt: skip
            body = json.dumps(batch).encode()
            writer.write(body + b"\n" if framing == "lines" else frame_message(body))
            if framing == "lines":
                answers = json.loads(await reader.readline())
            else:
                head = await reader.readuntil(b"\r\n\r\n")
                answers = json.loads(await reader.readexactly(int(head.split()[1])))
            assert {answer["id"] for answer in answers} == {1, 2, None}
            assert next(a for a in answers if a["id"] == 2)["result"] == [3]
            writer.close()
            await listener.close()

    run(main)


class Wire:
    """The server's end of a Content-Length stream, by hand."""

    def __init__(self, path):
        self.path = path

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_unix_connection(self.path)
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        await asyncio.wait([asyncio.ensure_future(self.writer.wait_closed())])

    async def rest(self):
        """All messages up to the end of the stream."""
        framer = LengthFramer(1 << 20)
        found = framer.feed(await self.reader.read())
        return [json.loads(each) for each in found + framer.finish()]


CALL = frame_message(b'{"jsonrpc":"2.0","id":1,"method":"echo/any","params":[1]}')
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": [1]}


@pytest.mark.parametrize(
    "sent, reason",
    [
        (b"Content-Length: x\r\n\r\n", "Content-Length is no length"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', "a header line does not end in CR LF"),
        (b"X: " + b"y" * 500, "a header longer than 200 bytes"),
        (b"Content-Length: 50\r\n\r\n{", "the stream ended inside of a message"),
        (b"\r\n", "a header without Content-Length"),
    ],
)
@pytest.mark.parametrize("cut", [None, 1])
def test_hostile_headers_end_the_connection_in_order(run, tmp_path, sent, reason, cut):
    """What came before is answered, then one error that says why; nothing behind it is read."""

    async def main():
        host = make_host(Limits(max_header_bytes=200))
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"), framing="content-length")
            async with Wire(str(tmp_path / "s")) as wire:
                stream = CALL + sent
                for at in range(0, len(stream), cut or len(stream)):
                    wire.writer.write(stream[at : at + (cut or len(stream))])
                if "ended" in reason:
                    wire.writer.write_eof()
                else:
                    wire.writer.write(CALL)
                error = {"code": -32700, "message": f"{reason}; nothing more is read"}
                assert await wire.rest() == [ANSWER, {"jsonrpc": "2.0", "id": None, "error": error}]
            assert listener.connections == 0
            await listener.close()

    run(main)


def test_a_message_too_long_is_passed_over(run, tmp_path):
    async def main():
        host = make_host(Limits(max_message_bytes=100))
        async with host.running():
            listener = await serve_lines(host, unix=str(tmp_path / "s"), framing="content-length")
            async with Wire(str(tmp_path / "s")) as wire:
                wire.writer.write(frame_message(b"[" + b" " * 100_000 + b"]") + CALL)
                wire.writer.write_eof()
                refused, answer = await wire.rest()
                assert refused["error"]["message"] == "message longer than 100 bytes"
                assert answer == ANSWER
            await listener.close()

    run(main)


def test_an_answer_too_long_fails_its_call_alone(run, tmp_path):
    async def main():
        limits = Limits(max_message_bytes=1000)
        async with served("memory", "content-length", tmp_path, make_host(), limits=limits) as peer:
            with pytest.raises(RemoteProtocolError, match="longer than 1000 bytes"):
                await peer.request("echo/any", {"n": ["x" * 50] * 19})
            assert await peer.request("echo/any", [1]) == [1]

    run(main)


@framings
def test_a_child_that_speaks_something_else(run, framing):
    """A stray line is no answer to anything; under Content-Length the stream is over."""

    async def main():
        lost = asyncio.get_running_loop().create_future()
        program = [sys.executable, "-c", "print('hello'); input()"]
        async with open_command(program, names=LSP, framing=framing, on_lost=lost.set_result) as peer:
            call = peer.request("initialize")
            if framing == "lines":
                await asyncio.wait([call.future], timeout=1)
                assert (await asyncio.wait_for(lost, 10)).exit_code == 0  # it took our request for its line
                with pytest.raises(ConnectionClosed):
                    await call
            else:
                with pytest.raises(RemoteProtocolError, match="cannot be told apart: a header line does not end"):
                    await call
                assert peer.closed

    run(main)


def test_lsp_by_hand_over_names_of_ones_own(run):
    """Names are per host: this one has a cancel and no progress, and nobody answers what was cancelled."""
    from headrace.mux import Names

    names = Names(cancel="rpc.stop", cancel_id="call")
    ended = []

    async def handler(method, params, exchange):
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(exchange.cancelled)

    async def main():
        host = RpcHost(handler, names=names)
        async with open_memory(host, names=names) as peer:
            assert peer.mux.names == names
            call = peer.request("x", [])
            await asyncio.sleep(0.01)
            call.cancel()
            while not ended:
                await asyncio.sleep(0.01)
            assert ended == [True]
            assert peer.mux.stray == 0

    run(main)
