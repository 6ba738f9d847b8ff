"""What a ``subscriptions/listen`` asks for (SF-70)."""

from __future__ import annotations

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INVALID_PARAMS

__all__ = ("Wanted", "read_wanted")


class Wanted(msgspec.Struct, rename="camel"):
    """The filter of one listen, as it came."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None


class _Params(msgspec.Struct):
    notifications: Wanted


_decode = msgspec.json.Decoder(_Params).decode


def read_wanted(params: bytes | None) -> Wanted:
    """The filter in the params of the request. Raises the answer (-32602) when it is none."""
    try:
        return _decode(params or b"{}").notifications
    except msgspec.ValidationError as exc:
        raise RpcError(INVALID_PARAMS, f"subscriptions/listen: {exc}") from None
