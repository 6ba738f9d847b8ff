"""Addresses as people write them: ``HOST:PORT``, ``[::1]:PORT``, a bare port, ``unix:PATH``, ``tcp:HOST:PORT``, and
for HTTP servers also ``fd:N``, ``fd:NAME`` and ``systemd``."""

from __future__ import annotations

import re
import socket
from typing import Literal, NamedTuple

from headrace.errors import UsageError

__all__ = (
    "LOOPBACK",
    "HttpAddress",
    "format_address",
    "http_address",
    "is_loopback",
    "parse_address",
    "why_not_bound",
    "why_not_connected",
)

LOOPBACK = "127.0.0.1"

_BINDING = re.compile(
    r"error while attempting to bind on address \('([^']*)', (\d+)[^)]*\): (?:\[Errno -?\d+\] )?(.*)", re.DOTALL
)
"""How event loops say it."""


def parse_address(text: str | int | tuple[str, int]) -> tuple[str, int]:
    """``(host, port)`` of an address; a bare port means the loopback address. Port 0 picks a free one.

    Raises :class:`UsageError` that says which form is expected.
    """
    if isinstance(text, tuple):
        return text[0], _port(str(text[1]), f"{text[0]}:{text[1]}")
    if isinstance(text, int):
        return LOOPBACK, _port(str(text), str(text))
    text = text.strip()
    if text.isdigit():
        return LOOPBACK, _port(text, text)
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise UsageError(f"address {text!r}: use HOST:PORT, for example 127.0.0.1:8000 or [::1]:8000")
    host = host[1:-1] if host.startswith("[") else host
    return host or LOOPBACK, _port(port, text)


class HttpAddress(NamedTuple):
    """Where an HTTP server listens; see :func:`http_address`. What a kind does not use is empty."""

    kind: Literal["tcp", "unix", "fd", "systemd"]
    host: str = ""
    port: int = 0
    path: str = ""
    """``unix``: of the socket."""
    fd: int = -1
    """``fd``: an inherited descriptor by its number, or -1."""
    name: str = ""
    """``fd``: the name that systemd passed it with, or empty."""

    def __str__(self) -> str:
        if self.kind == "tcp":
            return format_address(self.host, self.port)
        if self.kind == "unix":
            return f"unix:{self.path}"
        return f"fd:{self.name or self.fd}" if self.kind == "fd" else self.kind


def http_address(text: str | int | tuple[str, int]) -> HttpAddress:
    """The address of an HTTP server: what :func:`parse_address` takes, ``unix:PATH``, ``fd:N`` (an inherited
    descriptor), ``fd:NAME`` (one that systemd passed under this name) or ``systemd`` (all that it passed).

    Raises :class:`UsageError` that says which forms there are.
    """
    if not isinstance(text, str):
        return HttpAddress("tcp", *parse_address(text))
    kind, _, rest = text.strip().partition(":")
    if kind == "unix":
        if not rest:
            raise UsageError(f"address {text!r}: unix: is followed by the path of the socket")
        return HttpAddress("unix", path=rest)
    if kind == "fd":
        if rest.isascii() and rest.isdigit() and len(rest) < 8:
            return HttpAddress("fd", fd=int(rest))
        if not rest or rest.startswith("-") or ":" in rest:
            raise UsageError(f"address {text!r}: fd: is followed by the number or the name of a descriptor")
        return HttpAddress("fd", name=rest)
    if kind == "systemd" and not rest:
        return HttpAddress("systemd")
    try:
        return HttpAddress("tcp", *parse_address(text))
    except UsageError as exc:
        if "use HOST:PORT" not in str(exc):
            raise
        raise UsageError(
            f"address {text!r}: use HOST:PORT, PORT, unix:PATH, fd:N, fd:NAME or systemd, for example 127.0.0.1:8000"
        ) from None


def _port(port: str, text: str) -> int:
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"address {text!r}: the port must be a number from 0 to 65535")
    return int(port)


def format_address(host: str, port: int) -> str:
    """The text form, IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def why_not_connected(exc: Exception) -> str:
    """Why connecting failed, in plain words."""
    if isinstance(exc, ConnectionRefusedError):
        return "connection refused; is the server running?"
    if isinstance(exc, FileNotFoundError):
        return "there is no such socket; is the server running?"
    if isinstance(exc, socket.gaierror):
        return f"{exc.strerror or exc}; is the host name right?"
    if getattr(exc, "reason", None) in ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG"):
        return "the answer is no TLS; is it an http:// URL?"
    return str(getattr(exc, "strerror", None) or exc or type(exc).__name__)


def why_not_bound(exc: OSError) -> str:
    """Why listening failed, in plain words: with the address where the event loop or the system says which it was."""
    text = str(exc.strerror or exc)
    if found := _BINDING.fullmatch(text):
        return f"{format_address(found[1], int(found[2]))}: {found[3]}"
    return f"{exc.filename}: {text}" if exc.filename and str(exc.filename) not in text else text


def is_loopback(host: str) -> bool:
    """Whether a bind address is reachable from this machine only."""
    return host == "localhost" or host == "::1" or host.startswith("127.")
