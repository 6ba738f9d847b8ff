"""A Redis of its own for a test file."""

import shutil
import socket
import subprocess
import time

import pytest


class LocalRedis:
    def __init__(self, directory, *args):
        self.directory = directory
        self.args = args
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("redis-server is not installed")
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.directory),
             *self.args],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                    sock.sendall(b"PING\r\n")
                    if sock.recv(100).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("Redis did not start")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None
