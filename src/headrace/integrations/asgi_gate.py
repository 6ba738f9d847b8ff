"""The ASGI middleware of an SDK as the ``authenticate`` option of an HTTP endpoint of headrace.

SDKs check bearer tokens in Starlette middleware around their endpoint. Strategy: the same chain runs here around a
stand-in for the endpoint, once a request, on its head alone. Where the stand-in is reached the request is let in:
who it is stands in the scope that came through, and the context variables that were set on the way are set for the
handlers as well. Where something else answers, that answer refuses the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.errors import HttpRefusal

if TYPE_CHECKING:
    from headrace.transports.http_auth import HttpRequest

__all__ = ("AsgiGate", "Caller", "endpoint_of", "scope_of")

_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection", b"date", b"server"})


class Caller:
    """Whose a request is: the principal of an endpoint behind an :class:`AsgiGate`.

    Two are equal when ``key`` is. ``user``, ``auth`` and ``state`` are what the middleware put into the scope.
    """

    __slots__ = ("auth", "key", "state", "user")

    def __init__(self, key: Any, user: Any, auth: Any, state: Any) -> None:
        self.key = key
        self.user = user
        self.auth = auth
        self.state = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caller) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def scope_of(request: HttpRequest) -> dict[str, Any]:
    """The ASGI scope of a request's head."""
    target = request.target
    if not target.startswith("/"):  # an absolute URI
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": request.headers,
        "client": None if request.client is None else tuple(request.client[:2]),
        "server": None,
        "state": {},
    }


async def _no_body() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


class _Passage:
    """What became of one request."""

    __slots__ = ("body", "context", "headers", "scope", "status")

    def __init__(self) -> None:
        self.scope: dict[str, Any] | None = None
        self.context: Context | None = None
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(bytes(name).lower(), bytes(value)) for name, value in message.get("headers", ())]
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


async def _stand_in(scope: dict[str, Any], receive: Any, send: Any) -> None:
    passage: _Passage = scope["headrace.passage"]
    passage.scope = scope
    passage.context = copy_context()
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class AsgiGate:
    """``authenticate`` from middleware.

    :param middleware: Starlette's ``Middleware`` objects, the outermost first.
    :param wrap: makes the innermost layer around the endpoint, such as one that requires a token.
    :param key_of: what tells users apart: whose session is whose. None stands for nobody in particular.
    :param app: what middleware finds as ``scope["app"]``.
    """

    def __init__(
        self,
        middleware: Iterable[Any],
        *,
        wrap: Callable[[Any], Any] | None = None,
        key_of: Callable[[Any], Any],
        app: Any = None,
    ) -> None:
        layers: Any = _stand_in if wrap is None else wrap(_stand_in)
        for cls, args, kwargs in reversed(list(middleware)):
            layers = cls(layers, *args, **kwargs)
        self._layers = layers
        self._key_of = key_of
        self._app = app

    async def __call__(self, request: HttpRequest) -> Caller:
        scope = scope_of(request)
        if self._app is not None:
            scope["app"] = self._app
        passage = scope["headrace.passage"] = _Passage()
        await self._layers(scope, _no_body, passage.send)
        found = passage.scope
        if found is None or passage.status != 204:
            content_type = next((value for name, value in passage.headers if name == b"content-type"), b"")
            kept = [(n, v) for n, v in passage.headers if n not in _FRAMING and n != b"content-type"]
            status = passage.status if 300 <= passage.status <= 599 and passage.status != 304 else 500
            raise HttpRefusal(status, kept, passage.body, content_type.decode("latin-1") or "application/json")
        assert passage.context is not None
        _keep(passage.context)
        user = found.get("user")
        return Caller(self._key_of(user), user, found.get("auth"), found.get("state"))


def _keep(context: Context) -> None:
    """Sets here what was set in ``context``, and unset on the way back."""
    here = copy_context()
    for variable, value in context.items():
        if variable not in here or here[variable] is not value:
            variable.set(value)


def endpoint_of(app: Any, path: str) -> Any:
    """The endpoint at ``path`` of a Starlette application; None where there is none."""
    for route in app.routes:
        if getattr(route, "path", None) == path:
            return route.endpoint
    return None
