"""What a server offers where several processes serve its clients and share nothing: there is no backplane.

A change is known to the process on which it happens, and a client may be connected to any: so nothing that tells of
changes is offered, and who asks for it all the same hears why.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import RpcError
from headrace.jsonrpc import METHOD_NOT_FOUND
from headrace.mux import Exchange, FunctionHandler, Handler

__all__ = ("refuse_following", "without_changes")

_FOLLOWING = (b"subscriptions/listen", b"resources/subscribe", b"resources/unsubscribe")


def without_changes(capabilities: dict[str, Any]) -> dict[str, Any]:
    """``capabilities`` without the members that promise to tell of changes."""
    return {
        name: {key: value for key, value in each.items() if key not in ("listChanged", "subscribe")}
        if isinstance(each, dict)
        else each
        for name, each in capabilities.items()
    }


def refuse_following(methods: dict[bytes, Handler], reason: str) -> dict[bytes, Handler]:
    """``methods``, those of them that follow changes refused with ``reason``."""

    def refuse(exchange: Exchange) -> Any:
        raise RpcError(METHOD_NOT_FOUND, reason, http_status=404 if exchange.revision.modern else None)

    return {**methods, **{name: FunctionHandler(refuse) for name in _FOLLOWING if name in methods}}
