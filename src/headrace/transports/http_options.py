"""What can be said about an HTTP endpoint, wherever it is opened from: serve_http, Server.serve, Server.run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from headrace.errors import UsageError
from headrace.transports.forwarded import Trusted
from headrace.transports.health import PATHS

if TYPE_CHECKING:
    import ssl as ssl_module

    from headrace.protocol.backplane import Backplane
    from headrace.protocol.event_store import EventStore
    from headrace.transports.asgi.host import Application
    from headrace.transports.health import Health
    from headrace.transports.http_auth import Authenticate
    from headrace.transports.tls import Certificate

__all__ = ("HttpOptions", "check_options", "share", "trusted_of")


class HttpOptions(TypedDict, total=False):
    """Options of an HTTP endpoint; all of them may be left out."""

    path: str
    """The endpoint, ``/mcp`` by default; everything else is 404, or for ``beside``."""
    ssl: ssl_module.SSLContext | Certificate | None
    """HTTPS: a server context, or a :class:`headrace.transports.tls.Certificate`, which can be read anew."""
    allowed_hosts: Iterable[str] | None
    """Host names that requests may be for, see :class:`headrace.transports.guards.Guards`."""
    allowed_origins: Iterable[str] | None
    """Web origins that may call, see :class:`headrace.transports.guards.Guards`."""
    cors_origins: Iterable[str] | None
    """Web origins that get CORS headers, see :class:`headrace.transports.guards.Guards`."""
    json_only: bool
    """Answers are never event streams: notifications of requests are dropped."""
    event_store: bool | Callable[[str], EventStore]
    """True (the default): streams of sessions have event ids, and clients can resume them from memory
    (``limits.max_resume_events`` and the like); False: they cannot; or a function that makes the
    :class:`headrace.protocol.event_store.EventStore` of a session id."""
    retry_interval: float | None
    """Seconds that clients of 2025-11-25 wait before they resume; None (the default) leaves it to them."""
    legacy_sse: bool | str
    """Serve the HTTP+SSE transport of 2024-11-05 as well (LS-07): True puts its two endpoints, ``sse`` and
    ``messages``, beside ``path``; or the path of its event stream."""
    sealed_sessions: bool
    """The id of a session carries it, sealed under ``HEADRACE_SECRET``: every process with this secret serves
    it (:mod:`headrace.protocol.sealed_sessions`)."""
    stateless: bool
    """The handshake era without sessions: each POST stands for itself (HO-35)."""
    principal_of: Callable[[list[tuple[bytes, bytes]]], Any] | None
    """Says whose a request is, by its header fields (names in lower case); a session is served to the
    principal that began it and unknown to others (HO-34)."""
    authenticate: Authenticate | None
    """The same as an async function of an :class:`headrace.transports.http_auth.HttpRequest`, asked for each POST, GET
    and DELETE before its body is taken. It returns the principal (compared with ``==``; None: anonymous) or raises
    :class:`headrace.errors.HttpRefusal`. Not together with ``principal_of``."""
    beside: Application | None
    """An ASGI 3 application for all other paths (:mod:`headrace.transports.asgi.host`): Host is checked for it too,
    Origin is its own matter; its lifespan is that of the endpoint."""
    backplane: Backplane | None
    """What this process shares with others of the same server, such as a
    :class:`headrace.hosting.backplane.RedisBackplane`: every one of them serves its sessions, tasks and changes. It
    is that of the server (:meth:`headrace.Server.set_backplane`), set with this when the server does not run yet."""
    proxy_protocol: bool
    """Every connection begins with a header of the PROXY protocol, version 1 or 2, and is closed otherwise
    (:mod:`headrace.transports.proxy_protocol`). For ports that only the balancer can reach."""
    health: bool | Health
    """Answer ``/healthz`` and ``/readyz``, whatever the Host: True, or a
    :class:`headrace.transports.health.Health` that the program has its own say in. Off by default."""
    forwarded_allow_ips: Iterable[str] | None
    """The proxies whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed: addresses, networks, ``"unix"``,
    ``"*"``. None by default, see :mod:`headrace.transports.forwarded`."""
    forwarded_header: str
    """``"x-forwarded-for"`` (the default) or ``"forwarded"`` (RFC 7239): the one that these proxies write."""


_PLACES = frozenset(("transport", "host", "port"))
"""What other servers call it; an endpoint does not know where it is."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raises TypeError for a name that is no option, :class:`UsageError` for values that cannot be served."""
    for name in options:
        if name in _PLACES:
            raise TypeError(f"unknown option {name!r}: serve and run are told where by http='HOST:PORT', unix= or tcp=")
        if name not in HttpOptions.__annotations__:
            raise TypeError(f"unknown option {name!r}; HTTP endpoints have {', '.join(HttpOptions.__annotations__)}")
    trusted_of(options)
    path = options.get("path", "/mcp")
    if not path.startswith("/") or not path.isascii() or any(c in path for c in " ?#"):
        raise UsageError(f"path {path!r} must begin with a slash and hold no space, ? or #")
    if options.get("health") and path.rstrip("/") in PATHS:
        raise UsageError(f"path {path!r} is where health is asked for: choose another path, or health=False")
    if options.get("sealed_sessions") and options.get("stateless"):
        raise UsageError("sealed_sessions and stateless exclude each other: a stateless server has no sessions")
    if options.get("authenticate") is not None and options.get("principal_of") is not None:
        raise UsageError("authenticate and principal_of exclude each other: both say whose a request is")
    for name in ("authenticate", "principal_of", "beside"):
        if options.get(name) is not None and not callable(options[name]):
            raise UsageError(f"{name}={options[name]!r} cannot be called")


def share(server: Any, options: Mapping[str, Any]) -> None:
    """Gives the option ``backplane`` to a server that does not run yet. Raises :class:`UsageError` where it cannot have
    one, RuntimeError when it runs with another."""
    backplane = options.get("backplane")
    if backplane is None:
        return
    setter = getattr(server, "set_backplane", None)
    if setter is None:
        raise UsageError(f"{server!r} cannot share anything with other processes: no backplane is possible")
    setter(backplane)


def trusted_of(options: Mapping[str, Any]) -> Trusted | None:
    """The proxies that are believed, None where there are none. Raises :class:`UsageError` for a wrong entry."""
    header = options.get("forwarded_header", "x-forwarded-for")
    entries = options.get("forwarded_allow_ips") or ()
    trusted = Trusted(entries, header)
    return trusted if entries else None
