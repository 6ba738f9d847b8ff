"""The line between a supervisor and a worker."""

import asyncio
import contextlib
import errno
import os
import resource
import socket

import pytest

from headrace.hosting.workers.line import Line, LineLost, pair


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_messages_come_in_order_with_their_descriptors(run):
    async def main():
        one, other = (Line(sock) for sock in pair())
        seen = []
        other.on("note", lambda fields: seen.append(("note", fields)))
        other.on("take", lambda fields: seen.append(("take", fields)))
        pipes = [os.pipe() for _ in range(5)]
        for n, (_, write) in enumerate(pipes):
            one.send("note", n=n, k="x", i=[1, {"deep": None}])
            one.send("take", [write, write], at=n)
        for _, write in pipes:
            os.close(write)
        await until(lambda: len(seen) == 10)
        for n, (read, _) in enumerate(pipes):
            assert seen[2 * n] == ("note", {"n": n, "k": "x", "i": [1, {"deep": None}]})
            kind, fields = seen[2 * n + 1]
            assert (kind, fields["at"], len(fields["fds"])) == ("take", n, 2)
            for fd in fields["fds"]:
                assert not os.get_inheritable(fd)
                os.write(fd, b"%d" % n)
                os.close(fd)
            assert os.read(read, 10) == b"%d%d" % (n, n)
            assert os.read(read, 10) == b""
            os.close(read)
        one.close()
        await until(lambda: not other.open)

    run(main)


def test_what_the_other_end_does_not_read_waits(run):
    """Much more than a socket holds, with descriptors in the middle of it."""

    async def main():
        ours, theirs = pair()
        one = Line(ours)
        read, write = os.pipe()
        text = "x" * 50_000
        for n in range(40):
            assert one.send("long", [write] if n % 10 == 0 else (), n=n, text=text)
        os.close(write)
        assert one.backlog > 1_000_000
        seen, fds = [], []
        other = Line(theirs)

        def long(fields):
            assert fields["text"] == text
            seen.append(fields["n"])
            fds.extend(fields.get("fds", ()))

        other.on("long", long)
        await until(lambda: len(seen) == 40)
        assert seen == list(range(40))
        assert len(fds) == 4
        assert one.backlog == 0
        for fd in fds:
            os.close(fd)
        assert os.read(read, 1) == b""
        os.close(read)
        one.close()
        other.close()

    run(main)


def test_questions_are_answered(run):
    async def main():
        one, other = (Line(sock) for sock in pair())

        async def slowly(fields):
            await asyncio.sleep(0.01)
            return {"got": fields["x"]}

        def badly(fields):
            raise ValueError("no")

        other.on("slow", slowly)
        other.on("bad", badly)
        other.on("odd", lambda fields: object())
        one.on("back", lambda fields: 7)
        assert await one.ask("slow", x=3) == {"got": 3}
        assert await other.ask("back") == 7
        with pytest.raises(RuntimeError, match="ValueError: no"):
            await one.ask("bad")
        with pytest.raises(RuntimeError, match="TypeError"):
            await one.ask("odd")
        with pytest.raises(RuntimeError, match="nobody here knows 'unknown'"):
            await one.ask("unknown")
        other.on("never", lambda fields: asyncio.sleep(60))
        with pytest.raises(TimeoutError):
            await one.ask("never", timeout=0.05)
        asking = asyncio.ensure_future(one.ask("never"))
        await asyncio.sleep(0.01)
        other.close()
        with pytest.raises(LineLost):
            await asking
        with pytest.raises(LineLost):
            await one.ask("slow", x=1)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    run(main)


def test_the_end_is_told_once_and_behind_everything_that_came(run):
    async def main():
        ours, theirs = pair()
        ended, seen = [], []
        one = Line(ours, closed=lambda: ended.append(len(seen)))
        one.on("last", lambda fields: seen.append(fields["n"]))
        other = Line(theirs)
        for n in range(100):
            other.send("last", n=n)
        other.close()
        other.close()
        await until(lambda: ended)
        assert ended == [100]
        assert not one.send("late")
        one.close()
        assert ended == [100]

    run(main)


def test_noise_closes_the_line(run, caplog):
    async def main():
        ours, theirs = pair()
        one = Line(ours)
        theirs.sendall(b'["no message"]\n')
        await until(lambda: not one.open)
        theirs.close()

    run(main)
    assert "is no message" in caplog.text


def test_a_handler_that_fails_is_logged_and_the_line_goes_on(run, caplog):
    async def main():
        one, other = (Line(sock) for sock in pair())
        seen = []

        def handler(fields):
            if not fields["n"]:
                raise KeyError("n")
            seen.append(fields["n"])

        other.on("x", handler)
        one.send("x", n=0)
        one.send("x", n=1)
        one.send("nobody waits for it", [one._sock.fileno()])
        one.send("x", n=2)
        await until(lambda: seen == [1, 2])
        one.close()
        other.close()

    run(main)
    assert caplog.text.count("a message 'x' between processes failed") == 1


def test_what_a_dead_process_had_said_is_read_though_its_child_holds_the_line(run):
    async def main():
        ours, theirs = pair()
        seen = []
        one = Line(ours)
        one.on("word", lambda fields: seen.append(fields["n"]))
        kept = theirs.dup()
        theirs.sendall(b'{"_k":"word","n":1}\n{"_k":"word","n":2}\n')
        theirs.close()
        one.read_rest()
        assert seen == [1, 2]
        assert not one.open
        kept.close()

    run(main)


def test_too_many_descriptors_are_refused(run):
    async def main():
        one, other = (Line(sock) for sock in pair())
        with socket.socket() as sock, pytest.raises(ValueError, match="at most 64"):
            one.send("take", [sock.fileno()] * 65)
        one.close()
        other.close()

    run(main)


@contextlib.contextmanager
def no_descriptor_free(but=0):
    """Opens what this process may open, except for some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(but):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)


def test_descriptors_for_which_there_is_no_room_are_missing_from_their_message_alone(run):
    async def main():
        one, other = (Line(sock) for sock in pair())
        seen = []
        other.on("take", seen.append)
        read, write = os.pipe()
        one.send("take", [write] * 3, n=1)
        one.send("take", [write] * 2, n=2)
        one.send("take", n=3)
        with no_descriptor_free(but=2):
            await until(lambda: len(seen) == 3)
        one.send("take", [write], n=4)
        await until(lambda: len(seen) == 4)
        assert [(len(each.get("fds", ())), each.get("short", 0)) for each in seen] == [(2, 1), (0, 2), (0, 0), (1, 0)]
        for fd in [read, write, *(fd for each in seen for fd in each.get("fds", ()))]:
            os.close(fd)
        one.close()
        other.close()

    run(main)


def test_descriptors_that_have_to_wait_where_none_is_free_are_refused_and_nothing_is_sent(run):
    async def main():
        ours, theirs = pair()
        one = Line(ours)
        while not one.backlog:
            one.send("long", text="x" * 50_000)
        read, write = os.pipe()
        with no_descriptor_free(), pytest.raises(OSError, match="open files"):
            one.send("take", [write])
        kinds, fds = [], []
        other = Line(theirs)
        other.on("long", lambda fields: kinds.append("long"))
        other.on("take", lambda fields: (kinds.append("take"), fds.extend(fields["fds"])))
        one.send("take", [write])
        await until(lambda: "take" in kinds)
        assert kinds.count("take") == len(fds) == 1
        for fd in (read, write, *fds):
            os.close(fd)
        one.close()
        other.close()

    run(main)


@pytest.mark.parametrize("number", [errno.ETOOMANYREFS, errno.ENOBUFS])
def test_what_the_system_does_not_pass_now_is_passed_later(run, monkeypatch, number):
    async def main():
        one, other = (Line(sock) for sock in pair())
        seen = []
        other.on("take", seen.append)
        real, left = one._write, [3]

        def write_(data, fds):
            if left[0]:
                left[0] -= 1
                raise OSError(number, os.strerror(number))
            return real(data, fds)

        monkeypatch.setattr(one, "_write", write_)
        read, write = os.pipe()
        for n in range(3):
            assert one.send("take", [write], n=n)
        await until(lambda: len(seen) == 3)
        assert [each["n"] for each in seen] == [0, 1, 2] and one.open and not one.backlog
        for fd in (read, write, *(fd for each in seen for fd in each["fds"])):
            os.close(fd)
        one.close()
        other.close()

    run(main)
