"""What can be said of a message in traces and logs without telling a secret (SE-11).

Never said are credentials, session ids (:func:`session_tag` stands for one), arguments, the answers of users, and
names that a client made up: only tools and prompts that exist are named.
"""

from __future__ import annotations

import hashlib
import socket
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headrace.server.app import Server
from headrace.transports.asgi.app import asgi_scope

if TYPE_CHECKING:
    from headrace.mux import Mux, Observed, Sink

__all__ = ("client_of", "is_http", "known_name", "peer_of", "session_tag", "target_kind", "transport_of")

_KINDS = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"} | {
    f"resources/{what}": "resource" for what in ("subscribe", "unsubscribe")
}


_REGISTRIES = {"tools/call": "tools", "prompts/get": "prompts"}


def target_kind(method: str) -> str | None:
    """What the target of a method is: ``"tool"``, ``"prompt"``, ``"resource"`` (its URI), or None."""
    return _KINDS.get(method)


@lru_cache(maxsize=1_024)
def _tag(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()[:16]


def session_tag(mux: Mux) -> str | None:
    """What stands for the HTTP session of a message: 16 digits that are the same in every trace and log line of it, on
    every machine, and from which the id cannot be found. None where there is no session."""
    id = getattr(mux.gate, "id", None)
    return _tag(id) if isinstance(id, str) and id else None


def known_name(request: Observed) -> str | None:
    """The tool or prompt of a request, if the server has it. Where the names are not known here (servers of other
    SDKs) it is the one that was sent."""
    plural = _REGISTRIES.get(request.what)
    name = request.target
    if plural is None or name is None:
        return None
    server = getattr(request.mux.gate, "server", None)
    if isinstance(server, Server):
        return name if name in getattr(server, plural) else None
    return name if 0 < len(name) <= 256 and name.isprintable() else None


def _link(sink: Sink) -> Any:
    """What has the transport: the sink of a line connection itself, the connection below an HTTP exchange."""
    if hasattr(sink, "fields"):
        return sink.link  # type: ignore[attr-defined]
    return sink


def is_http(sink: Sink) -> bool:
    """Whether a message came in an HTTP request."""
    return hasattr(sink, "fields")


def transport_of(sink: Sink) -> str:
    """``network.transport`` of a connection: ``"tcp"``, ``"unix"`` or ``"pipe"`` (stdio, and memory)."""
    if asgi_scope() is not None:
        return "tcp"
    transport = getattr(_link(sink), "transport", None)
    if transport is None:
        return "tcp" if is_http(sink) or hasattr(sink, "endpoint") else "pipe"
    found = transport.get_extra_info("socket")
    if found is None:
        return "pipe"
    return "unix" if found.family == getattr(socket, "AF_UNIX", None) else "tcp"


def client_of(sink: Sink) -> tuple[str, int] | None:
    """Address and port (0: not known) of who sent a message, behind trusted proxies as those say; None where there is
    no address."""
    link = _link(sink)
    if is_http(sink):
        found = None if link is None else link.client
        return None if found is None else (found[0], found[1])
    transport = getattr(link, "transport", None)
    name = transport.get_extra_info("peername") if transport is not None else None
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else None


def peer_of(sink: Sink) -> str:
    """The same for people: an address, ``"unix"`` for unix sockets and pipes, ``"-"`` where nobody is left."""
    return getattr(_link(sink), "peer", None) or "-"
