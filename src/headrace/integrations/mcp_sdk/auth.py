"""Authorization of hosted servers: the SDK's own bearer backend and its own refusals, for our ``authenticate`` option.

``get_access_token()``, ``request.user`` and ``request.auth`` are what they are under the SDK's host, and a session is
served to the credential that began it.
"""

from __future__ import annotations

from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, RequireAuthMiddleware, authorization_context
from starlette.authentication import AuthCredentials, UnauthenticatedUser
from starlette.requests import HTTPConnection

from headrace.errors import HttpRefusal

__all__ = ("Authenticator", "Caller")


class Caller:
    """The principal of a request. Two are equal when the client, the issuer and the subject are."""

    __slots__ = ("auth", "context", "user")

    def __init__(self, user: AuthenticatedUser, auth: AuthCredentials) -> None:
        self.user = user
        self.auth = auth
        self.context = authorization_context(user)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caller) and self.context == other.context

    def __hash__(self) -> int:
        return hash(tuple(self.context.values()))

    def __repr__(self) -> str:
        return f"<Caller {self.context['client_id']}>"


class Authenticator:
    """Judges the ``Authorization`` of a request: ``authenticate`` of an HTTP endpoint.

    ``backend`` is an authentication backend of starlette, None where nobody is asked who he is; ``required_scopes``
    is None where anonymous requests pass.
    """

    def __init__(self, backend: Any, required_scopes: list[str] | None, resource_metadata_url: Any) -> None:
        self._backend = backend
        self._require = (
            None
            if required_scopes is None
            else RequireAuthMiddleware(_passed, required_scopes, resource_metadata_url)
        )

    async def __call__(self, request: Any) -> Caller | None:
        """The principal of a request. Raises HttpRefusal."""
        scope: dict[str, Any] = {
            "type": "http",
            "method": request.method,
            "path": "/",
            "headers": list(request.headers),
            "user": UnauthenticatedUser(),
            "auth": AuthCredentials(),
        }
        caller = None
        if self._backend is not None:
            found = await self._backend.authenticate(HTTPConnection(scope))
            if found is not None:
                scope["auth"], scope["user"] = found
                if isinstance(found[1], AuthenticatedUser):
                    caller = Caller(found[1], found[0])
        if self._require is not None:
            await self._ask(scope)
        if caller is not None:
            auth_context_var.set(caller.user)
        return caller

    async def _ask(self, scope: dict[str, Any]) -> None:
        status = 0
        headers: list[tuple[bytes, bytes]] = []
        body = b""

        async def send(message: Any) -> None:
            nonlocal status, headers, body
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message["headers"])
            else:
                body += message.get("body", b"")

        assert self._require is not None
        await self._require(scope, _nothing, send)
        if status:
            kept = [(n, v) for n, v in headers if n.lower() not in (b"content-length", b"content-type")]
            raise HttpRefusal(status, headers=kept, body=body, content_type="application/json")


async def _passed(scope: Any, receive: Any, send: Any) -> None:
    """Behind the middleware: the request may go on."""


async def _nothing() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}
