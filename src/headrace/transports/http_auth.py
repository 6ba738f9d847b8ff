"""Who calls: what the option ``authenticate`` of an HTTP endpoint gets, and how it is asked.

``authenticate`` is an async function of one :class:`HttpRequest`. It returns the principal of the request (None:
anonymous), or raises :class:`headrace.errors.HttpRefusal`; whatever else it raises is answered with 500.
Context variables that it sets are set for the handler of the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

import msgspec

from headrace.errors import HttpRefusal

__all__ = ("Admitted", "Authenticate", "HttpRefusal", "HttpRequest", "ask", "ask_and_look_up", "look_up")


class HttpRequest(msgspec.Struct, frozen=True):
    """The head of a request to the MCP endpoint."""

    method: str
    """``"POST"``, ``"GET"`` or ``"DELETE"``."""
    target: str
    """As it was sent: a path with its query, or an absolute URI."""
    headers: list[tuple[bytes, bytes]]
    """Header lines in order; names in lower case."""
    client: tuple[Any, ...] | None
    """Address and port of the client, as trusted proxies say it where there are any (port 0 then, mostly); None on a
    unix socket."""
    scheme: str
    """``"http"`` or ``"https"``: as the client spoke it."""

    def header(self, name: bytes) -> bytes | None:
        """The value of the header ``name`` (in lower case), of the first line where it is repeated."""
        return next((value for each, value in self.headers if each == name), None)


Authenticate = Callable[[HttpRequest], Awaitable[Any]]


Admitted = tuple[Any, "Context | None", Any]
"""The principal of a request, the context in which it was found, and the session that was looked up for it."""


async def ask(authenticate: Authenticate, request: HttpRequest) -> Admitted:
    """The principal of ``request``, and the context in which it was found."""
    principal = await authenticate(request)
    return principal, copy_context(), None


async def look_up(sessions: Any, wanted: tuple[bytes, bytes, bytes | None], principal: Any) -> Admitted:
    """The session that a request names, from where several processes find it."""
    return None, None, await sessions.prepare(*wanted, principal)


async def ask_and_look_up(
    asking: Coroutine[Any, Any, Admitted], sessions: Any, wanted: tuple[bytes, bytes, bytes | None]
) -> Admitted:
    """Both, one after the other."""
    principal, context, _ = await asking
    return principal, context, await sessions.prepare(*wanted, principal)
