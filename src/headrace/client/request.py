"""One request of the application, from its parts; what sends it is :mod:`headrace.client.core`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.callbacks import Relay

__all__ = ("Request",)


class Request:
    """One request of the application, however often it goes out."""

    __slots__ = ("again", "arguments", "body", "decode", "extend", "latest", "limit", "meta", "method", "name", "relay")

    def __init__(
        self,
        method: str,
        body: bytes,
        decode: Callable[[bytes], Any] | None,
        *,
        name: str | None,
        arguments: bytes,
        limit: float,
        extend: bool,
        latest: float,
        meta: bytes,
        relay: Relay | None,
        again: bool = True,
    ) -> None:
        self.method = method
        self.body = body
        self.decode = decode
        self.name = name
        self.arguments = arguments
        self.limit = limit
        self.extend = extend
        self.latest = latest
        self.meta = meta
        self.relay = relay
        self.again = again
        """Whether a failure over HTTP may be cured and the request repeated."""

    def copy(self) -> Request:
        """The same, for another try."""
        return Request(
            self.method,
            self.body,
            self.decode,
            name=self.name,
            arguments=self.arguments,
            limit=self.limit,
            extend=self.extend,
            latest=self.latest,
            meta=self.meta,
            relay=self.relay,
            again=self.again,
        )
