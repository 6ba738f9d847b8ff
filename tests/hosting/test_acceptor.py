"""Who gets a connection: workers that are stand-ins here, in one process."""

import asyncio
import os
import socket

import pytest

from headrace.hosting.workers import acceptor as module
from headrace.hosting.workers.acceptor import Acceptor, Taker
from headrace.hosting.workers.line import Line, pair


class Worker:
    """The other end of a taker: takes what it is given, unless it is told not to."""

    def __init__(self, acceptor):
        self.acceptor = acceptor
        ours, theirs = pair()
        self.theirs = Line(theirs)
        self.taker = Taker(Line(ours))
        self.taker.line.on("took", lambda fields: acceptor.took(self.taker, fields["n"]))
        self.theirs.on("take", self._take)
        self.waits = False
        self.fds = []
        self.abouts = []

    def _take(self, fields):
        self.fds += fields["fds"]
        self.abouts += fields.get("about") or [None] * len(fields["fds"])
        if not self.waits:
            self.theirs.send("took", n=len(fields["fds"]))

    def close(self):
        self.theirs.close()
        self.taker.line.close()
        for fd in self.fds:
            os.close(fd)


class Site:
    """An acceptor with workers, on a free port, and clients."""

    def __init__(self, workers):
        sock = socket.create_server(("127.0.0.1", 0))
        self.port = sock.getsockname()[1]
        self.acceptor = Acceptor([sock])
        self.acceptor.start()
        self.workers = [Worker(self.acceptor) for _ in range(workers)]
        for worker in self.workers:
            self.acceptor.add(worker.taker)
        self.clients = []

    async def connect(self, count=1):
        for _ in range(count):
            sock = socket.socket()
            self.clients.append(sock)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))

    @property
    def loads(self):
        return [worker.taker.load for worker in self.workers]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for sock in self.clients:
            sock.close()
        for worker in self.workers:
            worker.close()
        self.acceptor.close()


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_connections_are_dealt_out_evenly(run, workers):
    async def main():
        async with Site(workers) as site:
            for share in range(1, 6):
                await site.connect(workers)
                await until(lambda share=share: sum(site.loads) == share * workers)
                assert site.loads == [share] * workers

    run(main)


def test_the_one_with_the_fewest_gets_the_next(run):
    async def main():
        async with Site(3) as site:
            await site.connect(9)
            await until(lambda: site.loads == [3, 3, 3])
            site.workers[1].taker.connections -= 3
            await site.connect(3)
            await until(lambda: sum(len(worker.fds) for worker in site.workers) == 12)
            assert site.loads == [3, 3, 3]
            assert [len(worker.fds) for worker in site.workers] == [3, 6, 3]

    run(main)


def test_what_was_on_its_way_to_one_that_died_goes_to_others(run):
    async def main():
        async with Site(2) as site:
            dead, other = site.workers
            dead.waits = True
            await site.connect(6)
            await until(lambda: site.loads == [3, 3])
            dead.theirs.close()
            site.acceptor.release(dead.taker)
            await until(lambda: len(other.fds) == 6)
            await until(lambda: other.taker.connections == 6)
            # Each of them is whole: what its client sends arrives.
            for n, client in enumerate(site.clients):
                await asyncio.get_running_loop().sock_sendall(client, b"%d" % n)
            assert sorted(os.read(fd, 10) for fd in other.fds) == [b"0", b"1", b"2", b"3", b"4", b"5"]

    run(main)


def test_one_that_does_not_take_is_passed_over(run, monkeypatch):
    async def main():
        monkeypatch.setattr(module, "_SLOW", 0.02)
        async with Site(2) as site:
            site.workers[0].waits = True
            await site.connect(2)
            await until(lambda: site.loads == [1, 1])
            await asyncio.sleep(0.05)
            await site.connect(4)
            await until(lambda: sum(site.loads) == 6)
            assert site.loads == [1, 5]

    run(main)


def test_while_nobody_takes_they_wait_in_the_kernel(run, monkeypatch):
    async def main():
        monkeypatch.setattr(module, "_MOST_ON_WAY", 3)
        async with Site(1) as site:
            site.workers[0].waits = True
            await site.connect(8)
            await until(lambda: len(site.workers[0].fds) == 3)
            await asyncio.sleep(0.05)
            assert len(site.workers[0].fds) == 3
            site.workers[0].waits = False
            site.workers[0].theirs.send("took", n=3)
            await until(lambda: len(site.workers[0].fds) == 8)

    run(main)


def test_without_a_worker_connections_wait_for_one(run):
    async def main():
        async with Site(0) as site:
            await site.connect(3)
            site.workers.append(worker := Worker(site.acceptor))
            site.acceptor.add(worker.taker)
            await until(lambda: len(worker.fds) == 3)
            assert site.loads == [3]

    run(main)


def test_one_that_is_handed_back_goes_on_with_what_is_known_of_it(run):
    async def main():
        async with Site(2) as site:
            await site.connect(1)
            await until(lambda: any(worker.fds for worker in site.workers))
            first = next(worker for worker in site.workers if worker.fds)
            site.acceptor.remove(first.taker)
            site.acceptor.give(0, first.fds.pop(), {"came": ["198.51.100.7", 4711, "http"]})
            other = next(worker for worker in site.workers if worker is not first)
            await until(lambda: other.fds)
            assert other.abouts == [{"came": ["198.51.100.7", 4711, "http"]}]

    run(main)


def test_stop_gives_out_what_waits_and_refuses_the_rest(run):
    async def main():
        async with Site(1) as site:
            await site.connect(5)
            site.acceptor.stop()
            await until(lambda: len(site.workers[0].fds) == 5)
            with pytest.raises(OSError):
                await site.connect()

    run(main)


def test_no_descriptor_free_is_waited_out(run, monkeypatch, caplog):
    async def main():
        import resource

        async with Site(1) as site:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            await site.connect(1)
            await until(lambda: site.workers[0].fds)
            held = []
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
                client = socket.socket()
                client.setblocking(False)
                site.clients.append(client)
                while True:
                    try:
                        held.append(os.open(os.devnull, os.O_RDONLY))
                    except OSError:
                        break
                await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", site.port))
                await until(lambda: "cannot be accepted now" in caplog.text)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for fd in held:
                    os.close(fd)
            await until(lambda: len(site.workers[0].fds) == 2)
            assert site.loads == [2]

    run(main)


def test_one_that_has_all_it_can_have_gets_no_more_and_all_others_wait(run):
    async def main():
        async with Site(2) as site:
            for worker in site.workers:
                worker.taker.room = 3
            await site.connect(10)
            await until(lambda: site.loads == [3, 3])
            await asyncio.sleep(0.05)
            assert site.loads == [3, 3]
            site.acceptor.ended(site.workers[0].taker, 2)
            await until(lambda: len(site.workers[0].fds) == 5)
            assert site.loads == [3, 3]

    run(main)


def test_what_one_has_no_descriptors_for_goes_to_another(run):
    async def main():
        async with Site(2) as site:
            full, other = site.workers
            full.waits = True
            await site.connect(4)
            await until(lambda: len(full.fds) == len(other.fds) == 2)
            site.acceptor.took(full.taker, 1)
            site.acceptor.short(full.taker, 1)
            await until(lambda: len(other.fds) == 3)
            assert site.loads == [1, 3]
            await site.connect(1)
            await until(lambda: len(other.fds) == 4)  # for now it gets nothing
            site.acceptor.ended(other.taker, 4)
            await until(lambda: not full.taker.shut_until)
            full.waits = False
            await site.connect(2)
            await until(lambda: len(full.fds) + len(other.fds) == 8)

    run(main)


def test_some_descriptors_stay_free_for_other_things(run, monkeypatch):
    monkeypatch.setattr(module, "room", lambda: 5)

    async def main():
        async with Site(1) as site:
            site.workers[0].waits = True
            await site.connect(12)
            await until(lambda: len(site.workers[0].fds) == 5)
            await asyncio.sleep(0.05)
            assert site.loads == [5] and not site.acceptor.waiting
            site.acceptor.took(site.workers[0].taker, 5)
            await until(lambda: len(site.workers[0].fds) == 10)
            site.acceptor.took(site.workers[0].taker, 5)
            await until(lambda: len(site.workers[0].fds) == 12)

    run(main)
