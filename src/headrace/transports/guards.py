"""Host and Origin checks of HTTP servers, and what browsers are told by CORS (SE-01, SE-12).

A page of any site can make a browser talk to a server on the visitor's own machine. Two headers tell:
``Origin`` names the site, and after DNS rebinding ``Host`` still names the attacker's domain. Hosts are
compared whole, case-folded, never by prefix or suffix (B59).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.errors import UsageError
from headrace.transports.address import is_loopback

__all__ = ("Guards", "parse_host", "parse_origin")

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s]+)(?::(\d{0,5}|\*))?")
_ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#\s]+)")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_LOCAL = ("localhost", "127.0.0.1", "[::1]")

_ALLOW_HEADERS = (
    "Content-Type, Accept, Authorization, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, "
    "Mcp-Name"
)


def parse_host(text: str) -> tuple[str, str] | None:
    """(host, port) of a ``Host`` value: host case-folded and without a final dot, port ``""`` when absent.

    ``None`` when it is no host. In a setting the port may be ``*``.
    """
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    host = match[1].lower()
    if host.endswith(".") and not host.startswith("["):
        host = host[:-1]
    return (host, match[2] or "") if host else None


def parse_origin(text: str) -> tuple[str, str, str] | None:
    """(scheme, host, port) of an ``Origin`` value, default ports as ``""``; ``None`` when it is opaque."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return None
    scheme = match[1].lower()
    found = parse_host(match[2])
    if found is None:
        return None
    host, port = found
    return scheme, host, "" if port == _DEFAULT_PORTS.get(scheme) else port


class Guards:
    """The checks of one endpoint.

    :param bind: the host that is listened on; ``None`` for a unix socket. On loopback addresses the
        local names are allowed and others refused; elsewhere ``Host`` is only checked against
        ``allowed_hosts`` when that is given, and an ``Origin`` must be listed.
    :param allowed_hosts: further ``Host`` values: ``"api.example.com"`` (default port),
        ``"api.example.com:8443"``, ``"api.example.com:*"`` (any port), or ``"*"`` (any host).
    :param allowed_origins: further origins, as ``"https://app.example.com"`` with the same port forms,
        or ``"*"``.
    :param cors_origins: origins whose pages may read the answers: turns CORS on. They are allowed
        origins as well.

    Raises :class:`UsageError` for an entry that is neither of these forms.
    """

    def __init__(
        self,
        bind: str | None,
        *,
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] | None = None,
        cors_origins: Iterable[str] | None = None,
    ) -> None:
        local = bind is not None and is_loopback(bind)
        self._hosts: set[tuple[str, str]] = set()
        self._origins: set[tuple[str, str, str]] = set()
        self._cors: set[tuple[str, str, str]] = set()
        hosts = list(allowed_hosts or ())
        origins = list(allowed_origins or ())
        cors = list(cors_origins or ())
        self.checks_hosts = (local or bool(hosts)) and "*" not in hosts
        self._any_origin = "*" in origins or "*" in cors
        self._any_cors = "*" in cors
        self.cors = bool(cors)
        if local or bind is None:
            for name in (*_LOCAL, *([f"[{bind}]" if ":" in bind else bind] if bind else ())):
                self._hosts.add((name.lower(), "*"))
                self._origins.add(("http", name.lower(), "*"))
                self._origins.add(("https", name.lower(), "*"))
        for entry in hosts:
            if entry != "*":
                host = parse_host(entry)
                if host is None:
                    raise UsageError(f"allowed host {entry!r}: use HOST, HOST:PORT or HOST:*")
                self._hosts.add(host)
        for kind, entries, target in (("allowed", origins, self._origins), ("cors", cors, self._cors)):
            for entry in entries:
                if entry != "*":
                    origin = parse_origin(entry)
                    if origin is None:
                        raise UsageError(
                            f"{kind} origin {entry!r}: use SCHEME://HOST, SCHEME://HOST:PORT or SCHEME://HOST:*"
                        )
                    target.add(origin)
        self._origins |= self._cors

    def host_ok(self, value: bytes) -> bool:
        """Whether a request with this ``Host`` value is served; ``b""`` stands for none."""
        if not self.checks_hosts:
            return True
        found = parse_host(value.decode("latin-1"))
        if found is None or found[1] == "*":
            return False
        host, port = found
        if (host, port) in self._hosts or (host, "*") in self._hosts:
            return True
        return port in ("80", "443") and (host, "") in self._hosts

    def origin_ok(self, value: str) -> bool:
        """Whether a request with this ``Origin`` value is served (HO-42)."""
        return self._any_origin or self._among(value, self._origins)

    @staticmethod
    def _among(value: str, allowed: set[tuple[str, str, str]]) -> bool:
        origin = parse_origin(value)
        if origin is None or origin[2] == "*":
            return False
        return origin in allowed or (origin[0], origin[1], "*") in allowed

    def cors_fields(self, origin: str) -> bytes | None:
        """Header lines that let a page of ``origin`` read the answer; ``None`` when CORS is off for it."""
        if not (self._any_cors or self._among(origin, self._cors)):
            return None
        allowed = "*" if self._any_cors else origin
        return (
            f"Access-Control-Allow-Origin: {allowed}\r\nVary: Origin\r\n"
            "Access-Control-Expose-Headers: Mcp-Session-Id, WWW-Authenticate, Retry-After\r\n"
        ).encode("latin-1")

    def preflight_fields(self, asked: bytes | None = None) -> bytes:
        """Header lines of the answer to a preflight (B60); ``asked``: ``Access-Control-Request-Headers``."""
        names = [_ALLOW_HEADERS]
        for name in (asked or b"").decode("latin-1").split(","):
            name = name.strip()
            if re.fullmatch(r"(?i)mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]{1,64}", name):
                names.append(name)
        return (
            "Access-Control-Allow-Methods: GET, POST, DELETE\r\n"
            f"Access-Control-Allow-Headers: {', '.join(names[:33])}\r\n"
            "Access-Control-Max-Age: 600\r\n"
        ).encode("latin-1")
