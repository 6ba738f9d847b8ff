"""``ctx.request`` of a hosted server: a starlette Request whose scope is made when somebody looks at it.

Handlers that never ask for it cost one small object and a copy of the head.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from starlette.requests import Request

if TYPE_CHECKING:
    from headrace.mux import Exchange
    from headrace.transports._http_exchange import HttpExchange

__all__ = ("HostedRequest",)


class HostedRequest(Request):
    """The HTTP request that carried a message. ``sink`` is its exchange, ``app`` what ``url_for`` asks."""

    # What Request.__init__ would set, for all of them at once.
    _stream_consumed = False
    _is_disconnected = False
    _form = None

    def __init__(self, sink: HttpExchange, message: Exchange | None, principal: Any, app: Any) -> None:
        sink.keep_head()
        self._sink = sink
        self._message = message
        self._principal = principal
        self._app = app

    def __getattr__(self, name: str) -> Any:
        if name == "scope":
            self.scope = scope = self._make_scope()
            return scope
        if name == "_body":
            self._body = body = self._make_body()
            return body
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _make_scope(self) -> dict[str, Any]:
        sink = self._sink
        target = sink.target or b"/"
        if not target.startswith(b"/"):  # an absolute target
            target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
        path, _, query = target.partition(b"?")
        link = sink.link
        transport = None if link is None else link.transport
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http" if link is None else link.scheme,
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": sink.fields(),
            "client": None if link is None else link.client,
            "server": _address(transport, "sockname"),
            "state": {},
        }
        if self._app is not None:
            scope["app"] = self._app
        user = getattr(self._principal, "user", None)
        if user is not None:
            scope["user"] = user
            scope["auth"] = self._principal.auth
        if state := getattr(self._principal, "state", None):
            scope["state"] = dict(state)
        return scope

    def _make_body(self) -> bytes:
        """The message as JSON: its own text was read in place and is gone."""
        message = self._message
        if message is None:
            return b""
        params = message.params
        return b'{"jsonrpc":"2.0","id":%b,"method":%b%b}' % (
            message.id,
            json.dumps(message.method).encode(),
            b"" if params is None else b',"params":' + params,
        )

    async def _receive(self) -> Any:
        return {"type": "http.disconnect"} if await self.is_disconnected() else {"type": "http.request", "body": b""}

    async def _send(self, message: Any) -> None:
        raise RuntimeError("a handler of a method sends no HTTP answer of its own")

    def mirrors_params(self) -> bool:
        """Whether a header of the request mirrors an argument of a tool."""
        return self._sink.mirrors_params

    async def is_disconnected(self) -> bool:
        """Whether the client is gone."""
        return self._sink.closed or (self._message is not None and self._message.cancelled)


def _address(transport: Any, name: str) -> tuple[str, int] | None:
    found = None if transport is None else transport.get_extra_info(name)
    if isinstance(found, tuple) and len(found) >= 2:
        return found[0], found[1]
    return None
