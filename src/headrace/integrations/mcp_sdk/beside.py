"""What a hosted server serves beside its MCP endpoint: its own routes, OAuth's, and an application of the user's."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.routing import Match

__all__ = ("beside_of",)


def beside_of(app: Starlette | None, path: str, other: Any) -> Any:
    """An ASGI application for every path but ``path``, or None: the routes of ``app``, then ``other``.

    ``app`` itself is never run: its lifespan would start the server a second time.
    """
    own = None
    if app is not None:
        routes = [route for route in app.routes if getattr(route, "path", None) != path]
        if routes:
            own = Starlette(debug=app.debug, routes=routes, middleware=list(app.user_middleware))
            own.state = app.state
    if own is None or other is None:
        return other if own is None else own
    return _Both(own, other)


class _Both:
    """The routes of one application, and another one for the rest, whose lifespan counts."""

    def __init__(self, own: Starlette, other: Any) -> None:
        self._own = own
        self._other = other

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and any(route.matches(scope)[0] is not Match.NONE for route in self._own.routes):
            await self._own(scope, receive, send)
        else:
            await self._other(scope, receive, send)
