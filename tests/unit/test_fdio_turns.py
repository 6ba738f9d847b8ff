"""FdTransport: messages that follow an answer at once are taken in the same turn of the loop, within bounds."""

import asyncio
import os

import pytest

from headrace.transports._fdio import FdTransport

TURN = 8  # as in _fdio.pyx


class Talk:
    """Answers each message and, being its own peer, sends the next one while it answers."""

    def __init__(self, feed, *, answers=True, size=16):
        self.feed = feed
        self.answers = answers
        self.message = b"m" * size
        self.got = 0
        self.turns = [0]
        self.left = 0

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += 1
        self.turns[-1] += 1
        if self.left:
            self.left -= 1
            os.write(self.feed, self.message)
        if self.answers:
            self.transport.write(b"answer")

    def tick(self):
        """Runs once a turn of the loop."""
        if self.turns[-1]:
            self.turns.append(0)
        if not self.transport.is_closing():
            asyncio.get_running_loop().call_soon(self.tick)

    def eof_received(self):
        return False

    def connection_lost(self, exc):
        pass

    def pause_writing(self):
        pass

    def resume_writing(self):
        pass


async def talk(count, **options):
    """`count` messages in a row; the protocol, with how many were taken in each turn of the loop."""
    strategy = options.pop("strategy", None)
    loop = asyncio.get_running_loop()
    near_read, far_write = os.pipe()
    far_read, near_write = os.pipe()
    protocol = Talk(far_write, **options)
    protocol.left = count - 1
    transport = FdTransport(loop, protocol, near_read, near_write, strategy=strategy)
    transport.start()
    protocol.tick()
    os.write(far_write, protocol.message)
    end = loop.time() + 10
    while protocol.got < count and loop.time() < end:
        await asyncio.sleep(0)
    doubt = transport.r.doubt
    transport.abort()
    await asyncio.sleep(0)
    os.close(far_write)
    os.close(far_read)
    assert protocol.got == count
    return protocol, doubt


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="nothing is waited for awake on one processor")
@pytest.mark.parametrize("strategy", [None, "nowait", "poll"])
def test_messages_in_turn_share_a_turn_of_the_loop(run, strategy):
    """They do, and the loop gets its turn after TURN of them all the same (B10: one peer never holds it)."""

    async def main():
        return await talk(40, strategy=strategy)

    protocol, doubt = run(main)
    assert max(protocol.turns) == TURN
    assert sum(protocol.turns) == 40
    assert doubt <= 2  # the last of them was not followed


def test_one_read_a_turn_where_nothing_is_answered(run):
    async def main():
        return await talk(20, answers=False)

    protocol, doubt = run(main)
    assert set(protocol.turns) <= {0, 1}
    assert doubt == 0


def test_one_read_a_turn_where_messages_are_sent_ahead(run):
    """What comes in large pieces comes without waiting for the answer: it is not waited for awake."""

    async def main():
        return await talk(20, size=8192)

    protocol, doubt = run(main)
    assert set(protocol.turns) <= {0, 1}
    assert doubt == 0


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="nothing is waited for awake on one processor")
def test_waiting_awake_in_vain_is_given_up(run):
    """A peer that takes its time is asked about less and less often."""

    async def main():
        loop = asyncio.get_running_loop()
        near_read, far_write = os.pipe()
        far_read, near_write = os.pipe()
        protocol = Talk(far_write)
        transport = FdTransport(loop, protocol, near_read, near_write)
        transport.start()
        seen = [transport.r.doubt]
        for number in range(1, 41):
            os.write(far_write, b"question")
            while protocol.got < number:
                await asyncio.sleep(0)
            seen.append(transport.r.doubt)
            os.read(far_read, 100)
        transport.abort()
        await asyncio.sleep(0)
        os.close(far_write)
        os.close(far_read)
        return seen

    seen = run(main)
    assert seen == sorted(seen) and seen[1] > 0
    steps = [i for i in range(1, len(seen)) if seen[i] != seen[i - 1]]
    assert len(steps) <= 4, seen  # after 1, 4, 16 and 64 messages


def test_reading_pauses_inside_an_answer(run):
    """A protocol that pauses reading while it answers gets nothing more in this turn."""

    async def main():
        loop = asyncio.get_running_loop()
        near_read, far_write = os.pipe()
        far_read, near_write = os.pipe()
        protocol = Talk(far_write)
        protocol.left = 5
        answer = protocol.data_received

        def pausing(data):
            answer(data)
            protocol.transport.pause_reading()

        protocol.data_received = pausing
        transport = FdTransport(loop, protocol, near_read, near_write)
        transport.start()
        os.write(far_write, b"question")
        for _ in range(20):
            await asyncio.sleep(0)
        held = protocol.got
        for _ in range(5):
            transport.resume_reading()
            await asyncio.sleep(0.01)
        all_ = protocol.got
        transport.abort()
        await asyncio.sleep(0)
        os.close(far_write)
        os.close(far_read)
        return held, all_

    held, all_ = run(main)
    assert (held, all_) == (1, 6)
