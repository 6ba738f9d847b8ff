"""PROXY protocol, versions 1 and 2: the header by which a balancer of plain TCP says whose connection it is.

It comes before everything else, TLS included, so it is read from the socket itself, and not one byte more than the
header is taken. Where it is switched on every connection must begin with it: a connection without one is closed,
or a client could write its own. So a port that expects it must be reachable by the balancer alone.
(https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt)
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from typing import NamedTuple

from headrace.errors import RemoteProtocolError
from headrace.transports.forwarded import plain_host

__all__ = ("Announced", "ProxyHeaderError", "parse_v1", "parse_v2", "read_header")

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
MAX_V1 = 107
MAX_V2 = 4096
"""Bytes behind the fixed part of a version 2 header; real ones have up to some hundred."""

_V1 = re.compile(rb"PROXY (TCP4|TCP6) ([0-9A-Fa-f:.]{2,45}) ([0-9A-Fa-f:.]{2,45}) (\d{1,5}) (\d{1,5})\r\n")
_TLV_SSL, _TLV_CRC32C = 0x20, 0x03
_CLIENT_SSL = 0x01


class ProxyHeaderError(RemoteProtocolError):
    """What came is no PROXY header."""


class Announced(NamedTuple):
    """What a header says."""

    host: str | None
    """The client's address, ``"unix"`` for a unix socket; None: the balancer speaks for itself (health checks), or
    does not know."""
    port: int = 0
    tls: bool = False
    """The client speaks TLS with the balancer."""


async def read_header(sock: socket.socket) -> Announced | None:
    """Takes the header from a socket that does not block; None when the peer closed it before the first byte. Raises
    :class:`ProxyHeaderError`, also when it ends in the middle. There is no time limit."""
    loop = asyncio.get_running_loop()
    start = await _exactly(loop, sock, len(SIGNATURE), check=True)
    if start is None:
        return None
    if start == SIGNATURE:
        fixed = await _exactly(loop, sock, 4)
        if fixed is None:
            raise ProxyHeaderError("the connection ended inside its PROXY header")
        [length] = struct.unpack("!H", fixed[2:])
        if length > MAX_V2:
            raise ProxyHeaderError(f"a PROXY header of {length} bytes is too long")
        rest = b"" if length == 0 else await _exactly(loop, sock, length)
        if rest is None:
            raise ProxyHeaderError("the connection ended inside its PROXY header")
        return parse_v2(start + fixed + rest)
    line = start
    while not line.endswith(b"\n"):
        # One byte more belongs to the header; what lies behind it is looked at before it is taken.
        more = await loop.sock_recv(sock, 1)
        if not more:
            raise ProxyHeaderError("the connection ended inside its PROXY header")
        line += more
        try:
            ahead = b"" if line.endswith(b"\n") else sock.recv(MAX_V1, socket.MSG_PEEK)
        except BlockingIOError:
            ahead = b""
        taken = ahead.find(b"\n") + 1 or len(ahead)
        if len(line) + taken > MAX_V1:
            raise ProxyHeaderError("a PROXY header of version 1 has at most 107 bytes")
        if taken:
            line += sock.recv(taken)
    return parse_v1(line)


async def _exactly(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, count: int, check: bool = False
) -> bytes | None:
    """``count`` bytes; None when there is none. ``check``: they must begin a header."""
    found = b""
    while len(found) < count:
        data = await loop.sock_recv(sock, count - len(found))
        if not data:
            if not found:
                return None
            raise ProxyHeaderError("the connection ended inside its PROXY header")
        found += data
        if check and not (SIGNATURE.startswith(found) or found.startswith(b"PROXY "[: len(found)])):
            raise ProxyHeaderError("the connection does not begin with a PROXY header")
    return found


def parse_v1(line: bytes) -> Announced:
    """A whole header of version 1, its line end included. Raises :class:`ProxyHeaderError`."""
    if len(line) <= MAX_V1 and re.fullmatch(rb"PROXY UNKNOWN(?: [\x20-\x7e]*)?\r\n", line):
        return Announced(None)
    match = _V1.fullmatch(line)
    if match is None or len(line) > MAX_V1:
        raise ProxyHeaderError("a PROXY header of version 1 was malformed")
    family = socket.AF_INET if match[1] == b"TCP4" else socket.AF_INET6
    for port in match.group(4, 5):
        if int(port) > 65535 or (port.startswith(b"0") and port != b"0"):
            raise ProxyHeaderError("a PROXY header of version 1 has a wrong port")
    try:
        hosts = [socket.inet_ntop(family, socket.inet_pton(family, each.decode())) for each in match.group(2, 3)]
    except OSError:
        raise ProxyHeaderError("a PROXY header of version 1 has a wrong address") from None
    return Announced(plain_host(hosts[0]), int(match[4]))


def parse_v2(header: bytes) -> Announced:
    """A whole header of version 2. Raises :class:`ProxyHeaderError`."""
    command, family, length = struct.unpack_from("!BBH", header, 12)
    rest = header[16:]
    if len(rest) != length or command >> 4 != 2 or command & 0xF > 1:
        raise ProxyHeaderError("a PROXY header of version 2 has an unknown version or command")
    sizes = {0x00: 0, 0x11: 12, 0x12: 12, 0x21: 36, 0x22: 36, 0x31: 216, 0x32: 216}
    size = sizes.get(family)
    if size is None:
        raise ProxyHeaderError(f"a PROXY header of version 2 has the unknown address family {family:#04x}")
    if command & 0xF == 0 or family == 0x00:
        return Announced(None)  # the balancer's own connection, or of a kind it cannot tell: what follows means nothing
    if len(rest) < size:
        raise ProxyHeaderError("a PROXY header of version 2 is shorter than its addresses")
    tls = _read_extras(header, 16 + size)
    if family == 0x11:
        return Announced(socket.inet_ntop(socket.AF_INET, rest[:4]), struct.unpack_from("!H", rest, 8)[0], tls)
    if family == 0x21:
        host = socket.inet_ntop(socket.AF_INET6, rest[:16])
        return Announced(plain_host(host), struct.unpack_from("!H", rest, 32)[0], tls)
    if family == 0x31:
        return Announced("unix", 0, tls)
    raise ProxyHeaderError("a PROXY header of version 2 speaks of datagrams")


def _read_extras(header: bytes, at: int) -> bool:
    """Looks at what follows the addresses. True when the client speaks TLS."""
    tls = False
    while at < len(header):
        if at + 3 > len(header):
            raise ProxyHeaderError("a PROXY header of version 2 ends inside a field")
        kind, length = struct.unpack_from("!BH", header, at)
        start, at = at + 3, at + 3 + length
        if at > len(header):
            raise ProxyHeaderError("a PROXY header of version 2 ends inside a field")
        if kind == _TLV_SSL:
            if length < 5:
                raise ProxyHeaderError("a PROXY header of version 2 has a field of TLS that is too short")
            tls = bool(header[start] & _CLIENT_SSL)
        elif kind == _TLV_CRC32C:
            told = header[start:at]
            if length != 4 or _crc32c(header[:start] + bytes(4) + header[at:]).to_bytes(4, "big") != told:
                raise ProxyHeaderError("the checksum of a PROXY header does not fit")
    return tls


def _crc32c(data: bytes) -> int:
    """Castagnoli's checksum (RFC 3309); headers are short, and few balancers send it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
