"""Processes that can be killed: a Redis server, and a headrace server with its workers."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).with_name("target.py")
START = 30.0
"""Seconds that anything has to start or to end."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Redis:
    """A Redis server of its own on a loopback port; what it acknowledged is in its append-only file."""

    def __init__(self):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-chaos-")
        self._process = None

    @staticmethod
    def installed():
        return shutil.which("redis-server") is not None

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *exc):
        await self.kill()
        self._folder.cleanup()

    async def start(self):
        self._process = await asyncio.create_subprocess_exec(
            "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._folder.name,
            "--save", "", "--appendonly", "yes", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(START):
            while True:
                with contextlib.suppress(OSError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.write(b"PING\r\n")
                    answer = await reader.readline()
                    writer.close()
                    if answer == b"+PONG\r\n":
                        return
                await asyncio.sleep(0.02)

    async def kill(self):
        """At once, as a crash would."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Hosted:
    """`headrace serve` with workers; `log` is what it wrote to stderr so far."""

    def __init__(self, *options, target=TARGET, env=None):
        self._options = options
        self._target = target
        self._env = {**os.environ, **(env or {})}
        self._reading = None
        self._process = None
        self.log = []
        self.url = ""

    async def __aenter__(self):
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headrace", "serve", str(self._target), "--http", "127.0.0.1:0", *self._options,
            stderr=asyncio.subprocess.PIPE, env=self._env, limit=1 << 20,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(START):
                while not self.url:
                    if self._process.returncode is not None:
                        raise SystemExit("the server did not start: " + "\n".join(self.log[-5:]))
                    await asyncio.sleep(0.02)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _read(self):
        while line := await self._process.stderr.readline():
            text = line.decode(errors="replace").rstrip()
            self.log.append(text)
            if not self.url and "serving " in text and " on http://" in text:
                self.url = text.split(" on ")[1].split()[0]

    async def __aexit__(self, *exc):
        if self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), START)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        await asyncio.wait_for(self._reading, START)

    @property
    def status(self):
        """The exit status once it has ended."""
        return self._process.returncode

    @property
    def port(self):
        return int(self.url.split(":")[2].split("/")[0])

    @property
    def workers(self):
        """Process ids of the workers, oldest first."""
        pid = self._process.pid
        try:
            return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
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
        self._process.send_signal(number)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
