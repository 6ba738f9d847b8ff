"""Processes that can be killed, for trials that never wait without going on: Redis, and a headrace server with workers."""

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

from hosting.processes import Serving
from hosting.redis_support import RedisServer

TARGET = Path(__file__).with_name("target.py")
START = 120.0
"""Seconds that anything has to start or to end."""


class Redis:
    """A Redis server of its own on a loopback port; what it acknowledged is in its append-only file."""

    def __init__(self):
        # A kill loses nothing that was written; to wait for the disk each time would be what is measured.
        self._server = RedisServer(options=["--appendfsync", "everysec"])
        self.port = self._server.port
        self.url = self._server.url

    @staticmethod
    def installed():
        return shutil.which("redis-server") is not None

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *exc):
        await asyncio.to_thread(self._server.close)

    async def start(self):
        await asyncio.to_thread(self._server.start)

    async def kill(self):
        """At once, as a crash would."""
        await asyncio.to_thread(self._server.kill)


class Hosted:
    """`headrace serve` with workers; `log` is what it wrote to stderr so far."""

    def __init__(self, *options, target=TARGET, env=None):
        self._options = options
        self._target = target
        self._env = env
        self._serving = None
        self.url = ""

    async def __aenter__(self):
        self._serving = Serving(self._target, "--http", "127.0.0.1:0", *self._options, cwd=None, env=self._env)
        try:
            self.url = (await asyncio.to_thread(self._serving.line, r"serving .* on (http://\S+)"))[1]
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc):
        await asyncio.to_thread(self._serving.end)

    @property
    def log(self):
        return self._serving.lines

    @property
    def status(self):
        """The exit status once it has ended."""
        return self._serving.process.poll()

    @property
    def port(self):
        return int(self.url.split(":")[2].split("/")[0])

    @property
    def workers(self):
        """Process ids of the workers."""
        try:
            return self._serving.children
        except FileNotFoundError:
            return []

    def said(self, text):
        """How often the log says so."""
        return sum(text in line for line in self.log)

    async def all_up(self, count):
        """Waits until there are so many workers."""
        async with asyncio.timeout(START):
            while len(self.workers) < count:
                await asyncio.sleep(0.05)

    def signal(self, number):
        self._serving.send(number)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
