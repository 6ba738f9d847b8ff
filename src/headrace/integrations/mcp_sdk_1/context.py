"""The HTTP request behind a message, as mcp 1.x hands it to handlers: a Starlette ``Request``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

if TYPE_CHECKING:
    from headrace.transports.plain import PlainExchange

__all__ = ("HostedRequest", "request_of")


class HostedRequest(Request):
    """A request whose scope is made when somebody looks at it. Its body was read already, and it is answered by the
    message's own answer."""

    # What the bases set in each instance.
    _stream_consumed = False
    _is_disconnected = False
    _form = None

    def __init__(self, fields: list[tuple[bytes, bytes]], plain: PlainExchange, path: str) -> None:
        self._fields = fields
        self._plain = plain
        self._path = path

    @cached_property
    def scope(self) -> dict[str, Any]:  # type: ignore[override]
        path = self._path
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": self._fields,
            "client": None,
            "server": None,
            "state": {},
        }
        extend = getattr(self._plain.principal, "extend_scope", None)
        if extend is not None:
            extend(scope)
        return scope

    async def _receive(self) -> Any:  # type: ignore[override]
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:  # type: ignore[override]
        raise RuntimeError("a handler of a method sends no HTTP answer of its own")

    async def is_disconnected(self) -> bool:
        """Whether nothing can be sent to the client on this request any more."""
        return not self._plain.open


def request_of(plain: PlainExchange, path: str = "/mcp") -> Request | None:
    """The request that carried a message; None where it did not come over HTTP."""
    exchange: Any = plain.exchange
    sink: Any = exchange.sink if exchange is not None else plain._sink
    fields = getattr(sink, "fields", None)
    return None if fields is None else HostedRequest(fields(), plain, path)
