"""What the Starlette application of an SDK says about its MCP endpoint, as options of an endpoint of headrace."""

from __future__ import annotations

import copy
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from headrace.integrations.asgi_gate import AsgiGate, endpoint_of
from headrace.integrations.mcp_sdk.beside import beside_of

__all__ = ("guards_of", "key_of", "options_of", "store_of")

try:
    from mcp.server.auth.middleware.bearer_auth import authorization_context
except ImportError:  # before 1.26 sessions had no owners

    def authorization_context(user: Any) -> Any:
        """What tells credentials apart."""
        return user.access_token.client_id


def key_of(user: Any) -> Any:
    """Whose session is whose, as the SDK's own session manager tells it."""
    return authorization_context(user) if isinstance(user, AuthenticatedUser) else None


def options_of(app: Any, path: str, *, beside: Any = None, ignore: tuple[str, ...] = ()) -> dict[str, Any]:
    """``authenticate`` and ``beside`` from the application that would serve the MCP endpoint at ``path``: the first
    where it has middleware or wants tokens, the second where it has routes of its own.

    ``beside`` is an application for the paths that neither has. ``ignore`` names classes of middleware that only
    concern the application itself.
    """
    options: dict[str, Any] = {}
    middleware = [each for each in app.user_middleware if each.cls.__name__ not in ignore]
    endpoint = endpoint_of(app, path)
    required = endpoint if hasattr(endpoint, "required_scopes") else None
    if middleware or required is not None:
        options["authenticate"] = AsgiGate(middleware, wrap=_requiring(required), key_of=key_of, app=app)
    others = beside_of(app, path, beside)
    if others is not None:
        options["beside"] = others
    return options


def guards_of(security: Any) -> dict[str, Any]:
    """The SDK's ``TransportSecuritySettings`` as what our guards take."""
    if security is None:
        return {}
    if not security.enable_dns_rebinding_protection:
        return {"allowed_hosts": ["*"], "allowed_origins": ["*"]}
    return {"allowed_hosts": list(security.allowed_hosts), "allowed_origins": list(security.allowed_origins)}


def store_of(event_store: Any, host: Any) -> Any:
    """An ``EventStore`` object of the SDK as the option ``event_store``; what is none passes, and None is False."""
    if hasattr(event_store, "store_event"):
        from headrace.integrations.mcp_sdk.events import event_stores

        return event_stores(event_store, lambda: host.runtime, lambda: host.limits)
    return False if event_store is None else event_store


def _requiring(required: Any) -> Any:
    """Makes another layer like ``required`` (a ``RequireAuthMiddleware``) around an endpoint."""
    if required is None:
        return None

    def wrap(inner: Any) -> Any:
        layer = copy.copy(required)
        layer.app = inner
        return layer

    return wrap
