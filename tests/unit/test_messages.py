"""Streams of whole messages over every link: order, types, back-pressure both ways, ends and errors."""

import asyncio
import sys

import anyio
import msgspec
import pytest

from headrace.errors import ConnectFailed, ConnectionClosed, RemoteProtocolError, UsageError
from headrace.limits import Limits
from headrace.transports import messages
from headrace.wire import BrokenFraming, LineTooLong

FRAMINGS = ("lines", "content-length")
framings = pytest.mark.parametrize("framing", FRAMINGS)

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""


class Add(msgspec.Struct, tag="add", tag_field="kind"):
    a: int
    b: int


class Sum(msgspec.Struct, tag="sum", tag_field="kind"):
    value: int


async def echo(stream):
    async for message in stream:
        await stream.send(message)


@framings
def test_memory(run, framing):
    async def main():
        one, other = messages.open_memory(framing=framing)
        values = [{"n": n, "text": "é\n"} for n in range(100)] + [[1, None], 10**30]
        for value in values:
            await one.send(value)
        assert [await other.receive() for _ in values] == values
        await other.send(b'{"raw":\n1}')
        assert await one.receive() == {"raw": 1}
        await one.aclose()
        with pytest.raises(anyio.EndOfStream):
            await other.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await one.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await one.send({})
        await other.aclose()
        await other.aclose()

    run(main)


@framings
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_sockets(run, framing, kind, tmp_path):
    async def main():
        where = {"unix": str(tmp_path / "s")} if kind == "unix" else {"tcp": "127.0.0.1:0"}
        async with await messages.serve_lines(echo, framing=framing, **where) as listener:
            at = where if kind == "unix" else {"tcp": listener.addresses[0].removeprefix("tcp:")}
            async with messages.open_lines(framing=framing, **at) as stream:
                for n in range(50):
                    await stream.send({"n": n})
                await stream.send_eof()
                assert [message["n"] async for message in stream] == list(range(50))
                with pytest.raises(anyio.ClosedResourceError):
                    await stream.send({})
        with pytest.raises(ConnectFailed):
            await messages.open_lines(framing=framing, **at)

    run(main)


def test_a_child(run):
    async def main():
        async with messages.open_command([sys.executable, "-c", ECHO]) as stream:
            await stream.send({"a": 1})
            assert await stream.receive() == {"a": 1}
            await stream.send_eof()
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()

    run(main)


def test_b82_a_child_that_dies_says_how(run):
    async def main():
        async with messages.open_command([sys.executable, "-c", "import sys; input(); sys.exit(3)"]) as stream:
            await stream.send({})
            with pytest.raises(anyio.BrokenResourceError) as broken:
                await stream.receive()
            assert isinstance(broken.value.__cause__, ConnectionClosed)
            assert broken.value.__cause__.exit_code == 3
            with pytest.raises(anyio.BrokenResourceError):
                await stream.send({})

    run(main)


@framings
def test_typed_messages(run, framing):
    """A message of another type is told and passed over; the stream goes on."""

    async def main():
        one, other = messages.open_memory(Add | Sum, framing=framing)
        await one.send(Add(1, 2))
        await one.send({"kind": "mul"})
        await one.send(b"{]")
        await one.send(Sum(3))
        assert await other.receive() == Add(1, 2)
        with pytest.raises(RemoteProtocolError, match="not a message of this stream") as wrong:
            await other.receive()
        assert wrong.value.rpc_code == -32600
        with pytest.raises(RemoteProtocolError, match="not a JSON text") as wrong:
            await other.receive()
        assert wrong.value.rpc_code == -32700
        assert await other.receive() == Sum(3)
        await one.aclose()
        await other.aclose()

    run(main)


@framings
def test_messages_too_long_are_passed_over(run, framing):
    async def main():
        one, other = messages.open_memory(framing=framing, limits=Limits(max_message_bytes=50))
        await one.send("x" * 100)
        await one.send("y")
        with pytest.raises(LineTooLong):
            await other.receive()
        assert await other.receive() == "y"
        await one.aclose()
        await other.aclose()

    run(main)


def test_broken_framing_ends_the_stream(run, tmp_path):
    async def main():
        async def handler(reader, writer):
            writer.write(b'Content-Length: 2\r\n\r\n{}{"a":1}\n')
            await reader.read()
            writer.close()

        server = await asyncio.start_unix_server(handler, str(tmp_path / "s"))
        async with messages.open_lines(unix=str(tmp_path / "s"), framing="content-length") as stream:
            assert await stream.receive() == {}
            with pytest.raises(BrokenFraming, match="CR LF"):
                await stream.receive()
            with pytest.raises(anyio.BrokenResourceError) as broken:
                await stream.receive()
            assert isinstance(broken.value.__cause__, BrokenFraming)
        server.close()
        await server.wait_closed()

    run(main)


@framings
def test_back_pressure_both_ways(run, framing, tmp_path):
    """Nobody receives: the sender waits, and neither side holds much more than its bound."""
    limits = Limits(max_output_bytes=64 * 1024)

    async def main():
        far = asyncio.get_running_loop().create_future()
        hold = asyncio.Event()

        async def keep(stream):
            far.set_result(stream)
            await hold.wait()

        async with await messages.serve_lines(keep, unix=str(tmp_path / "s"), framing=framing, limits=limits):
            async with messages.open_lines(unix=str(tmp_path / "s"), framing=framing, limits=limits) as stream:
                other = await far
                sent = 0

                async def flood():
                    nonlocal sent
                    while sent < 1500:
                        await stream.send({"n": sent, "pad": "x" * 10_000})
                        sent += 1

                task = asyncio.ensure_future(flood())
                last = -1
                while last != sent:  # until it stands still
                    last = sent
                    await asyncio.sleep(0.1)
                assert 0 < sent < 1000 and not task.done()
                assert other._held <= limits.max_output_bytes + 300_000
                for n in range(1500):
                    assert (await other.receive())["n"] == n
                await task
            hold.set()

    run(main)


def test_many_small_messages_are_bounded_as_well(run):
    async def main():
        one, other = messages.open_memory(limits=Limits(max_in_flight=10, max_output_bytes=100))
        one._transport.set_write_buffer_limits(high=1 << 20)
        for n in range(1000):
            await one.send(n)
        await asyncio.sleep(0.01)
        assert len(other._inbox) < 1000
        assert [await other.receive() for _ in range(1000)] == list(range(1000))
        await one.aclose()
        await other.aclose()

    run(main)


def test_one_task_receives_at_a_time_and_cancelling_loses_nothing(run):
    async def main():
        one, other = messages.open_memory()
        first = asyncio.ensure_future(other.receive())
        await asyncio.sleep(0)
        with pytest.raises(anyio.BusyResourceError):
            await other.receive()
        first.cancel()
        await asyncio.wait([first])
        await one.send(1)
        with anyio.move_on_after(0):
            await other.receive()
            raise AssertionError("a cancelled scope receives nothing")
        assert await other.receive() == 1
        waiting = asyncio.ensure_future(other.receive())
        await asyncio.sleep(0)
        await other.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await waiting
        await one.aclose()

    run(main)


def test_a_sender_that_waits_when_the_connection_goes(run):
    async def main():
        one, other = messages.open_memory(limits=Limits(max_output_bytes=100))
        other._transport.pause_reading()

        async def flood():
            while True:
                await one.send("x" * 50)

        task = asyncio.ensure_future(flood())
        await asyncio.sleep(0.01)
        assert not task.done()
        other._transport.abort()
        with pytest.raises(anyio.BrokenResourceError):
            await task
        await one.aclose()
        await other.aclose()

    run(main)


def test_listeners_end_their_connections(run, tmp_path):
    """Handlers get what came, then the end; those that stay are cancelled after drain_timeout."""

    async def main():
        ended = []

        async def handler(stream):
            try:
                async for message in stream:
                    await stream.send(message)
                ended.append("end")
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        listener = await messages.serve_lines(handler, unix=str(tmp_path / "s"), limits=Limits(drain_timeout=0.05))
        assert listener.addresses == [f"unix:{tmp_path / 's'}"]
        stream = await messages.open_lines(unix=str(tmp_path / "s"))
        await stream.send(1)
        assert await stream.receive() == 1
        await listener.close()
        assert ended == ["end", "cancelled"]
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        await stream.aclose()

    run(main)


def test_connections_over_the_limit_are_closed(run, tmp_path):
    async def main():
        listener = await messages.serve_lines(echo, unix=str(tmp_path / "s"), limits=Limits(max_connections=1))
        async with messages.open_lines(unix=str(tmp_path / "s")) as stream:
            await stream.send(1)
            assert await stream.receive() == 1
            async with messages.open_lines(unix=str(tmp_path / "s")) as refused:
                with pytest.raises(anyio.EndOfStream):
                    await refused.receive()
        await listener.close()

    run(main)


def test_standard_streams():
    """A program whose standard input and output are a message stream; what it prints goes elsewhere."""
    program = """
import asyncio
from headrace.transports import messages

async def main():
    async with messages.open_stdio() as stream:
        print("not a message")
        async for message in stream:
            await stream.send({"got": message})

asyncio.run(main())
"""

    async def main():
        env = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
        async with messages.open_command([sys.executable, "-c", program], env=env) as stream:
            await stream.send([1])
            assert await stream.receive() == {"got": [1]}

    asyncio.run(asyncio.wait_for(main(), 30))


def test_wrong_framings():
    async def main():
        with pytest.raises(UsageError, match="framing 'x'"):
            messages.open_memory(framing="x")

    asyncio.run(main())
