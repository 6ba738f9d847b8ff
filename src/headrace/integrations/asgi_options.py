"""What the Starlette application of an SDK says about its MCP endpoint, as options of an endpoint of headrace."""

from __future__ import annotations

import copy
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from headrace.integrations.asgi_gate import AsgiGate, endpoint_of
from headrace.transports.http_options import HttpOptions

__all__ = ("key_of", "options_of")

try:
    from mcp.server.auth.middleware.bearer_auth import authorization_context
except ImportError:  # before 1.26 sessions had no owners

    def authorization_context(user: Any) -> Any:
        """What tells credentials apart."""
        return user.access_token.client_id


def key_of(user: Any) -> Any:
    """Whose session is whose, as the SDK's own session manager tells it."""
    return authorization_context(user) if isinstance(user, AuthenticatedUser) else None


def options_of(app: Any, path: str, *, ignore: tuple[str, ...] = ()) -> dict[str, Any]:
    """``authenticate`` and ``beside`` from the application that would serve the MCP endpoint at ``path``: the first
    where it has middleware or wants tokens, the second where it has routes of its own.

    ``ignore`` names classes of middleware that only concern the application itself.
    """
    options: dict[str, Any] = {}
    middleware = [each for each in app.user_middleware if each.cls.__name__ not in ignore]
    endpoint = endpoint_of(app, path)
    required = endpoint if hasattr(endpoint, "required_scopes") else None
    if middleware or required is not None:
        options["authenticate"] = AsgiGate(middleware, wrap=_requiring(required), key_of=key_of, app=app)
    if len(app.routes) > 1 and "beside" in HttpOptions.__annotations__:
        options["beside"] = app
    return options


def _requiring(required: Any) -> Any:
    """Makes another layer like ``required`` (a ``RequireAuthMiddleware``) around an endpoint."""
    if required is None:
        return None

    def wrap(inner: Any) -> Any:
        layer = copy.copy(required)
        layer.app = inner
        return layer

    return wrap
