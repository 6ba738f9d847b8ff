"""Whose a request is when a proxy stands in front: which peers are believed, and what their headers say.

A header can be written by anybody, so nothing is believed but from peers that were named (``forwarded_allow_ips``;
none by default, the loopback address included: whatever else forwards connections on this machine, a tunnel or a
balancer of plain TCP, passes on what the client itself wrote). Each proxy adds the address it was called from at the
right end, so the list is read from the right: the first address that is no named proxy is the client, and whatever
stands left of it came from the client and counts for nothing.

One of two headers is read, never both: the one that the proxy does not know it passes on as the client sent it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import NamedTuple

from headrace.errors import UsageError

__all__ = ("HEADERS", "Trusted", "Whence", "plain_host")

HEADERS = {
    "x-forwarded-for": (b"x-forwarded-for", b"x-forwarded-proto"),
    "forwarded": (b"forwarded", b""),
}
"""Values of ``forwarded_header``: the headers that are read, of the addresses and of the scheme."""

MAX_HOPS = 32
"""Entries of one header that are looked at; a longer chain of named proxies ends there."""
_CACHED = 1024
_PORTED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::(\d{1,5}))?|([0-9.]+):(\d{1,5})")
_PAIR = re.compile(r'\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^\s",;]*)\s*(;|\Z)')
_ENTRY = re.compile(r'((?:"(?:[^"\\]|\\.)*"|[^",])*)(,|\Z)')


class Whence(NamedTuple):
    """Where a request came from."""

    host: str
    """An address; ``"unix"`` for a unix socket."""
    port: int
    """0 where it is not known."""
    scheme: str
    """``"http"`` or ``"https"``."""


def plain_host(host: str) -> str:
    """An address as one text: an IPv4 address that an IPv6 socket shows as ``::ffff:...`` is that IPv4 address."""
    return host[7:] if host.startswith("::ffff:") and "." in host else host


class Trusted:
    """The proxies whose headers are believed.

    :param entries: addresses, networks (``10.0.0.0/8``), ``"unix"`` for whoever connects over a unix socket, or
        ``"*"`` for everybody: then the leftmost address counts, which the client may have made up.
    :param header: ``"x-forwarded-for"``, with ``X-Forwarded-Proto``, or ``"forwarded"`` (RFC 7239).

    Raises :class:`UsageError` for an entry that is none of these, and for another header.
    """

    def __init__(self, entries: Iterable[str], header: str = "x-forwarded-for") -> None:
        if header not in HEADERS:
            raise UsageError(f"forwarded header {header!r}: use {' or '.join(HEADERS)}")
        self.names = HEADERS[header]
        self._rfc7239 = header == "forwarded"
        self._hosts: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._all = False
        self._known: dict[tuple[Whence, bytes, bytes], Whence] = {}
        if isinstance(entries, str):
            entries = entries.split(",")
        for entry in entries:
            entry = entry.strip()
            if entry == "*":
                self._all = True
            elif entry == "unix":
                self._hosts.add(entry)
            elif "/" in entry:
                try:
                    self._networks.append(ipaddress.ip_network(entry))
                except ValueError as exc:
                    raise UsageError(f"trusted proxy {entry!r}: {exc}") from None
            else:
                try:
                    plain = str(ipaddress.ip_address(entry))
                    # As the system writes it: that is what peers are called.
                    self._hosts.add((_address(plain) or (plain, 0))[0])
                except ValueError:
                    raise UsageError(
                        f"trusted proxy {entry!r}: use an IP address, a network such as 10.0.0.0/8, unix or *"
                    ) from None

    def believes(self, host: str) -> bool:
        """Whether ``host``, an address or ``"unix"``, is one of these proxies."""
        if self._all or host in self._hosts:
            return True
        if not self._networks or host == "unix":
            return False
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def whence(self, came: Whence, addresses: bytes, scheme: bytes) -> Whence:
        """Where a request really came from. ``came`` is the peer, a believed proxy; ``addresses`` and ``scheme`` are
        the values of the two headers, all lines of each joined by commas, empty where there is none."""
        key = (came, addresses, scheme)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            found = self._known[key] = self._read(came, addresses, scheme)
        return found

    def _read(self, came: Whence, addresses: bytes, scheme: bytes) -> Whence:
        text = addresses.decode("latin-1")
        hops = _elements(text) if self._rfc7239 else [(entry, "") for entry in text.split(",")]
        schemes = [] if self._rfc7239 else [each.strip().lower() for each in scheme.decode("latin-1").split(",")]
        host, port, how = came
        depth = 0
        for entry, told in reversed(hops[-MAX_HOPS:]):
            address = _address(entry.strip())
            if address is None:
                break  # whoever wrote that did not say from where: the proxy itself is all that is known
            host, port = address
            depth += 1
            how = told or how
            if not self.believes(host):
                break
        if schemes:
            # One for each hop, or one for all: what the nearest proxy wrote stands last.
            told = schemes[-depth] if depth and len(schemes) == len(hops) else schemes[-1]
            how = told if told in ("http", "https") else how
        return Whence(host, port, how)


def _elements(text: str) -> list[tuple[str, str]]:
    """(for, proto) of each element of a ``Forwarded`` value; what cannot be read is an element that says nothing."""
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        match = _ENTRY.match(text, at)
        if match is None:
            return [("", "")]  # an open quote: nothing of it can be told apart
        found.append(_element(match[1]))
        if not match[2]:
            return found
        at = match.end()


def _element(text: str) -> tuple[str, str]:
    pairs: dict[str, str] = {}
    at = 0
    while at < len(text) and text[at:].strip():
        match = _PAIR.match(text, at)
        if match is None or match[1].lower() in pairs:
            return "", ""
        value = match[2]
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        pairs[match[1].lower()] = value
        at = match.end()
    proto = pairs.get("proto", "").lower()
    return pairs.get("for", ""), proto if proto in ("http", "https") else ""


def _address(text: str) -> tuple[str, int] | None:
    """The address and port of an entry: ``192.0.2.1``, ``192.0.2.1:80``, ``2001:db8::1``, ``[2001:db8::1]:80``; None
    for anything else, ``unknown`` and names included."""
    port = 0
    match = _PORTED.fullmatch(text)
    if match is not None:
        text, number = match[1] or match[3], match[2] or match[4]
        port = int(number or 0)
        if port > 65535:
            return None
    try:
        if ":" not in text:
            socket.inet_pton(socket.AF_INET, text)
            return text, port
        return plain_host(socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text))), port
    except (OSError, ValueError):
        return None
