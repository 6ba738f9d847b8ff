"""The memory pair behaves as a socket does: order, pause, end of input, abort; both ends end once."""

import asyncio

from headrace.transports.memory import memory_pair


class Recorder:
    def __init__(self, keep_open=False):
        self.events = []
        self.keep_open = keep_open
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("made")

    def data_received(self, data):
        self.events.append(data)

    def eof_received(self):
        self.events.append("eof")
        return self.keep_open

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")

    def connection_lost(self, exc):
        self.events.append(("lost", exc))


async def turns(n=10):
    for _ in range(n):
        await asyncio.sleep(0)


def test_data_arrives_in_order_and_later(run):
    async def main():
        a, b = Recorder(), Recorder()
        one, _ = memory_pair(a, b)
        one.write(b"1")
        one.write(bytearray(b"2"))
        one.writelines([b"3", b"", b"4"])
        assert b.events == ["made"]
        await turns()
        assert b"".join(e for e in b.events[1:]) == b"1234"

    run(main)


def test_pause_and_resume_reading(run):
    async def main():
        a, b = Recorder(), Recorder()
        one, other = memory_pair(a, b)
        other.pause_reading()
        assert not other.is_reading()
        one.write(b"1")
        await turns()
        assert b.events == ["made"]
        other.resume_reading()
        await turns()
        assert b.events == ["made", b"1"]

    run(main)


def test_write_bounds(run):
    async def main():
        a, b = Recorder(), Recorder()
        one, other = memory_pair(a, b)
        one.set_write_buffer_limits(high=10)
        other.pause_reading()
        one.write(b"x" * 5)
        one.write(b"x" * 6)
        one.write(b"x" * 6)
        assert a.events == ["made", "pause"]
        assert one.get_write_buffer_size() == 17
        other.resume_reading()
        await turns()
        assert a.events == ["made", "pause", "resume"]
        assert one.get_write_buffer_size() == 0

    run(main)


def test_close_delivers_what_was_written_and_ends_both(run):
    async def main():
        a, b = Recorder(), Recorder()
        one, other = memory_pair(a, b)
        one.write(b"1")
        one.close()
        one.close()
        assert one.is_closing()
        one.write(b"2")
        await turns()
        assert b.events == ["made", b"1", "eof", ("lost", None)]
        assert a.events == ["made", ("lost", None)]
        other.write(b"3")
        other.close()
        other.abort()
        await turns()
        assert b.events.count(("lost", None)) == a.events.count(("lost", None)) == 1

    run(main)


def test_close_waits_for_a_reader_that_paused(run):
    async def main():
        a, b = Recorder(), Recorder()
        one, other = memory_pair(a, b)
        other.pause_reading()
        one.write(b"1")
        one.close()
        await turns()
        assert b.events == ["made"]
        other.resume_reading()
        await turns()
        assert b.events == ["made", b"1", "eof", ("lost", None)]

    run(main)


def test_half_close(run):
    async def main():
        a, b = Recorder(), Recorder(keep_open=True)
        one, other = memory_pair(a, b)
        one.write_eof()
        one.write(b"too late")
        await turns()
        assert b.events == ["made", "eof"]
        other.write(b"1")
        await turns()
        assert a.events == ["made", b"1"]
        other.close()
        await turns()
        assert a.events == ["made", b"1", "eof", ("lost", None)]

    run(main)


def test_abort_drops_what_was_not_delivered_either_way(run):
    async def main():
        a, b = Recorder(), Recorder()
        one, other = memory_pair(a, b)
        one.write(b"1")
        other.write(b"2")
        one.abort()
        await turns()
        assert a.events == ["made", ("lost", None)]
        assert b.events == ["made", ("lost", b.events[1][1])]
        assert isinstance(b.events[1][1], ConnectionResetError)

    run(main)


def test_a_protocol_that_raises_is_cut_off(run):
    async def main():
        errors = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
        a, b = Recorder(), Recorder()

        def broken(data):
            raise ZeroDivisionError

        b.data_received = broken
        one, _ = memory_pair(a, b)
        one.write(b"1")
        await turns()
        assert [type(e) for e in errors] == [ZeroDivisionError]
        assert isinstance(b.events[-1][1], ZeroDivisionError)
        assert a.events[-1][0] == "lost"

    run(main)
