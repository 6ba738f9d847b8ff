"""Where an HTTP server is and how connections to it come up: URLs, names, addresses, TLS, user headers.

What is here happens once a connection; requests and answers are the business of the compiled channels.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import socket
import ssl as tls
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from headrace._version import __version__
from headrace.errors import ConnectFailed, ConnectionClosed, HeadraceError, RequestTimeout, UsageError
from headrace.limits import Limits
from headrace.mux import Mux
from headrace.transports._http_conn import HttpConn
from headrace.transports.address import why_not_connected
from headrace.transports.tap import Tap, tapped
from headrace.wire._http1 import header_line

if TYPE_CHECKING:
    from headrace.transports._http_client import HttpChannel as _Base
else:
    _Base = object

__all__ = ("Dialer", "Endpoint", "parse_url")

log = logging.getLogger("headrace.http")

_NEXT_ADDRESS = 0.25  # seconds before the next address of a host is tried as well (RFC 8305)
_ADDRESS_TTL = 30.0  # seconds that addresses of a host are used again
OWN_FIELDS = frozenset(
    (
        *("accept", "connection", "content-length", "content-type", "expect", "keep-alive", "last-event-id"),
        *("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)  # headers that the protocol sets


class Endpoint:
    """Where a server is: one origin and a request target.

    ``scheme`` is ``http`` or ``https``; ``host`` and ``port`` say where to connect, or ``path`` is
    a unix socket; ``authority`` is the Host field, ``target`` the path and query.
    """

    __slots__ = ("authority", "host", "path", "port", "scheme", "target")

    def __init__(
        self, scheme: str, host: str, port: int, target: str, authority: str, path: str | None = None
    ) -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.target = target
        self.authority = authority
        self.path = path

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}:{self.target}"
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def origin(self) -> tuple[str, str, int, str | None]:
        """What two URLs must have in common to be of one origin."""
        return (self.scheme, self.host.lower(), self.port, self.path)


def parse_url(url: str) -> Endpoint:
    """The endpoint of ``http://HOST[:PORT]/PATH``, ``https://...``, ``http+unix://%2Fsocket/PATH`` or
    ``unix:SOCKET[:/PATH]`` (PATH defaults to ``/mcp``).

    Raises UsageError for anything else, for a user name or password in the URL and for a bad host
    or port.
    """
    if any(c <= " " or c == "\x7f" for c in url):
        raise UsageError(f"URL {url!r} holds white space or control characters")
    if url.startswith("unix:"):
        path, colon, target = url[5:].partition(":")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path or (colon and not target.startswith("/")):
            raise UsageError(f"URL {url!r}: use unix:SOCKET or unix:SOCKET:/PATH")
        return Endpoint("http", "", 0, _target(target or "/mcp", ""), "localhost", path)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise UsageError(f"URL {url!r}: {exc}") from None
    if parts.scheme == "http+unix":
        path = unquote(parts.netloc)
        if not path:
            raise UsageError(f"URL {url!r}: use http+unix://%2Fpath%2Fto%2Fsocket/mcp")
        return Endpoint("http", "", 0, _target(parts.path or "/mcp", parts.query), "localhost", path)
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"URL {url!r}: use http://, https://, http+unix:// or unix:")
    if "@" in parts.netloc:
        raise UsageError("a URL must not hold a user name or password; use headers={'Authorization': ...}")
    host = parts.hostname or ""
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise UsageError(f"URL {url!r}: not a host name") from None
    literal = f"[{host}]" if ":" in host else host
    if not re.fullmatch(r"[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.%A-Za-z]+\]", literal) or port == 0:
        raise UsageError(f"URL {url!r}: not a host and port")
    default = 443 if parts.scheme == "https" else 80
    # A zone id has a meaning on this machine only.
    shown = re.sub(r"%[^]]*", "", literal)
    authority = shown if port is None or port == default else f"{shown}:{port}"
    return Endpoint(parts.scheme, host, port or default, _target(parts.path, parts.query), authority)


def _target(path: str, query: str) -> str:
    target = quote(path or "/", safe="/%:@!$&'()*+,;=-._~")
    return f"{target}?{quote(query, safe='/%:@!$&()*+,;=-._~?')}" if query else target


class Dialer(_Base):
    """The part of a client channel that connects: mixed into a compiled channel class.

    ``endpoint`` is where it goes.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        mux: Mux,
        *,
        limits: Limits,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        ssl: tls.SSLContext | None = None,
        tap: Tap | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._tap = tap
        self._dialed = 0
        self._ssl = (ssl or tls.create_default_context()) if endpoint.scheme == "https" else None
        self._loop = asyncio.get_running_loop()
        self._connects: dict[HttpConn, asyncio.Task[HeadraceError | None]] = {}
        self._addresses: tuple[float, list[Any]] = (0.0, [])
        host, fields = _user_fields(headers, endpoint.authority)
        super().__init__(
            mux,
            limits,
            self._open,
            host=host.encode("ascii"),
            target=endpoint.target.encode("ascii"),
            user_fields=fields,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.endpoint}>"

    def set_headers(self, headers: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> None:
        """Replaces the headers given at the start (a token was renewed)."""
        self.set_fields(_user_fields(headers, self.endpoint.authority)[1])

    def abort(self) -> None:
        """Closes at once, without a word to the server; for use where nothing can be awaited."""
        self.stop()
        self.pool.close()
        for task in list(self._connects.values()):
            task.cancel()

    # --- references ---------------------------------------------------------------------------------

    def locate(self, location: str) -> bytes:
        """The target that a 307 or 308 leads to; UsageError when it leaves the origin (B58)."""
        try:
            return self.resolve(location)
        except UsageError as exc:
            raise UsageError(f"the redirect to {location[:200]!r} {exc}") from None

    def resolve(self, reference: str) -> bytes:
        """The request target of a URL or relative reference that the server gave.

        Raises UsageError when it leaves the origin of the endpoint: no credentials go elsewhere.
        """
        here = self.endpoint
        base = f"{here.scheme}://{here.authority}{self.target.decode('ascii')}"
        leaves = "leaves this server and is not followed"
        try:
            url = urljoin(base, reference)
        except ValueError:
            raise UsageError("is no URL") from None
        if here.path is not None:
            parts = urlsplit(url)
            if parts.netloc != here.authority:
                raise UsageError(leaves)
            return _target(parts.path, parts.query).encode("ascii")
        try:
            there = parse_url(url)
        except UsageError as exc:
            raise UsageError(f"cannot be followed: {exc}") from None
        if there.origin != here.origin:
            raise UsageError(f"{leaves}; use that URL")
        return there.target.encode("ascii")

    def post_failed(self, what: str, exc: BaseException) -> None:
        log.debug("%s: %s was not accepted: %s", self.endpoint, what, exc)

    # --- connecting ---------------------------------------------------------------------------------

    def _open(self, conn: HttpConn) -> None:
        task = self._loop.create_task(self._connect(conn))
        self._connects[conn] = task
        task.add_done_callback(lambda _: self._connects.pop(conn, None))

    async def _connect(self, conn: HttpConn) -> HeadraceError | None:
        phase = ["connecting"]
        failure: HeadraceError
        try:
            async with asyncio.timeout(self.limits.connect_timeout):
                await self._dial(conn, phase)
            return None
        except TimeoutError:
            failure = RequestTimeout(
                f"{self.endpoint}: {phase[0]} did not finish within {self.limits.connect_timeout:g} s"
            )
        except asyncio.CancelledError:
            conn.connect_failed(ConnectionClosed("the connection was closed"))
            raise
        except ConnectionRefusedError as exc:
            failure = ConnectFailed(f"cannot connect to {self.endpoint}: {why_not_connected(exc)}")
        except (OSError, tls.SSLError, UnicodeError) as exc:
            failure = ConnectFailed(f"{self.endpoint}: {phase[0]} failed: {why_not_connected(exc)}")
        except Exception as exc:
            self.mux.runtime.report("a connection could not be opened", exc)
            failure = ConnectFailed(f"{self.endpoint}: {phase[0]} failed: {type(exc).__name__}")
        conn.connect_failed(failure)
        return failure

    async def _dial(self, conn: HttpConn, phase: list[str]) -> None:
        """Name, socket, TLS: ``phase`` says which is under way, for the message (B116)."""
        loop, endpoint = self._loop, self.endpoint

        def factory() -> Any:  # HttpConn has the callbacks of asyncio.Protocol without being one
            return tapped(self._tap, conn, self.limits, http=True, connection=number)

        self._dialed += 1
        number = self._dialed
        if endpoint.path is not None:
            phase[0] = f"connecting to {endpoint.path}"
            await loop.create_unix_connection(factory, endpoint.path)
            return
        phase[0] = f"looking up {endpoint.host}"
        addresses = await self._resolve()
        phase[0] = "the TCP connection"
        sock = await _first_connected(loop, addresses)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _watch(sock)
            if self._ssl is None:
                await loop.create_connection(factory, sock=sock)
            else:
                phase[0] = "the TLS handshake"
                await loop.create_connection(
                    factory,
                    sock=sock,
                    ssl=self._ssl,
                    server_hostname=endpoint.host.partition("%")[0],
                    ssl_handshake_timeout=self.limits.connect_timeout + 1,
                    ssl_shutdown_timeout=1.0,
                )
        except BaseException:
            sock.close()
            raise

    async def _resolve(self) -> list[Any]:
        """Socket addresses of the host, kept for a while."""
        host, port = self.endpoint.host, self.endpoint.port
        try:
            literal = ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            if literal.version == 4:
                return [(socket.AF_INET, (host, port))]
            if "%" not in host:
                return [(socket.AF_INET6, (host, port, 0, 0))]
        until, found = self._addresses
        if self._loop.time() < until:
            return found
        infos = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = [(family, address) for family, _, _, _, address in infos]
        if not found:
            raise OSError(f"no address for {host}")
        self._addresses = (self._loop.time() + _ADDRESS_TTL, found)
        return found


def _user_fields(
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None, authority: str
) -> tuple[str, bytes]:
    """The Host value and the prepared header lines of what the user gave."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
    lines = []
    agent = False
    for name, value in pairs:
        low = name.lower()
        if low == "host":
            header_line(name, value)
            if not value.isascii():
                raise UsageError(f"header {name!r}: {value!r} is not a host")
            authority = value
            continue
        if low in OWN_FIELDS or low.startswith("mcp-param-"):
            raise UsageError(f"header {name!r} is set by the protocol")
        agent = agent or low == "user-agent"
        lines.append(header_line(name, value))
    if not agent:
        lines.insert(0, header_line("User-Agent", f"headrace/{__version__}"))
    return authority, b"".join(lines)


async def _first_connected(loop: asyncio.AbstractEventLoop, addresses: list[Any]) -> socket.socket:
    """Connects to the first address that answers; each next one starts 250 ms later or after a failure."""
    if len(addresses) == 1:
        return await _connected(loop, *addresses[0])
    running: set[asyncio.Task[socket.socket]] = set()
    errors: list[BaseException] = []
    left = list(addresses)
    try:
        while left or running:
            if left:
                running.add(loop.create_task(_connected(loop, *left.pop(0))))
            done, running = await asyncio.wait(
                running, timeout=_NEXT_ADDRESS if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            winner = None
            for task in done:
                if task.exception() is not None:
                    errors.append(task.exception())  # type: ignore[arg-type]
                elif winner is None:
                    winner = task.result()
                else:
                    task.result().close()
            if winner is not None:
                return winner
        raise errors[0]
    finally:
        for task in running:
            task.cancel()
            task.add_done_callback(_discard)


def _discard(task: asyncio.Task[socket.socket]) -> None:
    with contextlib.suppress(BaseException):
        task.result().close()


def _watch(sock: socket.socket) -> None:
    """A peer that vanished without a word is noticed on silent streams too (B118): after 90 s or so."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def _connected(loop: asyncio.AbstractEventLoop, family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
