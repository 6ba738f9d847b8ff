"""nginx and HAProxy for tests: started with the files of docs/deploy, their addresses replaced, stopped by pid."""

import asyncio
import contextlib
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from ports import free_port

from interop.support import TOP

DEPLOY = TOP / "docs" / "deploy"


def deployed(file, /, **changes):
    """The text of a file of docs/deploy with ``changes``, (old, new) pairs, each of which must be there."""
    text = (DEPLOY / file).read_text()
    for old, new in changes.values():
        assert old in text, f"{file} has no {old!r}"
        text = text.replace(old, new)
    return text


def need(program):
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed (make system)")
    return found


@contextlib.contextmanager
def running(command, ports, log):
    """A program that accepts connections on ``ports`` once it is ready."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        end = time.monotonic() + 20
        for port in ports:
            while not _accepts(port):
                assert process.poll() is None and time.monotonic() < end, Path(log).read_text()
                time.sleep(0.02)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _accepts(port):
    """Looks without connecting: a connection would be one that tests see."""
    wanted = f"{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 3 and fields[3] == "0A" and fields[1].endswith(":" + wanted):
                    return True
    return False


MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
worker_processes 1;
{user}
events {{ worker_connections 4096; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@contextlib.contextmanager
def nginx(folder, site, port):
    """nginx with ``site`` inside its http block."""
    program = need("nginx")
    (folder / "site.conf").write_text(site)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user))
    command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=20)
    assert checked.returncode == 0, checked.stderr
    with running(command, [port], folder / "out.log") as process:
        yield process


@contextlib.contextmanager
def haproxy(folder, config, ports):
    program = need("haproxy")
    (folder / "haproxy.cfg").write_text(config)
    checked = subprocess.run([program, "-c", "-f", str(folder / "haproxy.cfg")], capture_output=True, text=True, timeout=20)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with running([program, "-db", "-f", str(folder / "haproxy.cfg")], ports, folder / "out.log") as process:
        yield process


def ports(count):
    found = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


async def refusals_and_a_break(place, peer):
    """What ``peer`` meets in front of ``place``: refusals as they were made, then an answer that breaks in the middle."""
    for changes, status in [({"accept": "text/html"}, 406), ({"mcp_method": "tools/list"}, 400), ({"origin": "https://evil.example"}, 403)]:
        answer = await peer.ask(place.call("echo", {"text": "x"}, **({"host": "localhost"} | changes)))
        assert answer.status == status and "error" in answer.json
    answer = await peer.ask(place.request("GET", "/mcp", host="localhost"))
    assert answer.status == 405 and answer.get("allow") == "POST"
    peer.send(place.call("progress", {"n": 3, "gap_ms": 5000}, meta={"progressToken": 1}, host="localhost"))
    assert (await peer.head())[0] == 200
    assert b"progress" in await peer.chunk()
    for link in list(place.endpoint.links):
        link.abort()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        while await peer.chunk():
            pass
    await place.settled(lambda: place.server.seen.cancelled == 1)


class H2:
    """A client of HTTP/2 as far as tests need it: requests on streams, their data, and resets (RFC 9113)."""

    DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.next = 1
        self.ended = set()
        self.limit = 100  # of streams at once, until the peer says
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(self.SETTINGS, 0, 0, b""))

    @classmethod
    async def connect(cls, port, context):
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        return cls(reader, writer)

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload

    @staticmethod
    def literal(name, value):
        """A header field without indexing and without compression (RFC 7541 6.2.2)."""

        def text(each):
            each = each.encode()
            assert len(each) < 127
            return bytes([len(each)]) + each

        return b"\x00" + text(name) + text(value)

    def request(self, method, path, headers, body=b"", authority="localhost"):
        """Sends a request; gives its stream."""
        stream, self.next = self.next, self.next + 2
        fields = {":method": method, ":scheme": "https", ":authority": authority, ":path": path} | headers
        block = b"".join(self.literal(name, value) for name, value in fields.items())
        self.writer.write(self.frame(self.HEADERS, 4 if body else 5, stream, block))
        if body:
            self.writer.write(self.frame(self.DATA, 1, stream, body))
        return stream

    def reset(self, stream):
        self.writer.write(self.frame(self.RST, 0, stream, struct.pack("!I", 8)))

    async def next_frame(self):
        """(kind, flags, stream, payload) of the next frame that is the test's matter; None at the end."""
        while True:
            try:
                head = await self.reader.readexactly(9)
                payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF
            if kind == self.SETTINGS and not flags & 1:
                for at in range(0, len(payload), 6):
                    name, value = struct.unpack_from("!HI", payload, at)
                    if name == 3:
                        self.limit = value
                self.writer.write(self.frame(self.SETTINGS, 1, 0, b""))
            elif kind == self.PING and not flags & 1:
                self.writer.write(self.frame(self.PING, 1, 0, payload))
            elif kind == self.DATA:
                if payload:
                    for each in (0, stream):
                        self.writer.write(self.frame(self.WINDOW, 0, each, struct.pack("!I", len(payload))))
                return kind, flags, stream, payload
            elif kind in (self.HEADERS, self.RST, self.GOAWAY):
                return kind, flags, stream, payload

    async def data(self, stream):
        """The next data of ``stream``, b"" at its end, None when it was reset."""
        while stream not in self.ended:
            frame = await asyncio.wait_for(self.next_frame(), 10)
            if frame is None:
                return None
            kind, flags, which, payload = frame
            if which == stream and kind == self.RST:
                return None
            if kind in (self.DATA, self.HEADERS) and flags & 1:
                self.ended.add(which)
            if which == stream and payload and kind == self.DATA:
                return payload
        return b""

    def close(self):
        self.writer.transport.abort()
