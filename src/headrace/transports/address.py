"""Addresses as people write them: ``HOST:PORT``, ``[::1]:PORT``, a bare port, ``unix:PATH``, ``tcp:HOST:PORT``."""

from __future__ import annotations

import socket

from headrace.errors import UsageError

__all__ = ("LOOPBACK", "format_address", "is_loopback", "parse_address", "why_not_connected")

LOOPBACK = "127.0.0.1"


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


def is_loopback(host: str) -> bool:
    """Whether a bind address is reachable from this machine only."""
    return host == "localhost" or host == "::1" or host.startswith("127.")
