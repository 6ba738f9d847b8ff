"""What callers pass, as JSON bytes: arguments of tools, params of requests, ``_meta``."""

from __future__ import annotations

import math
import os
from typing import Any

import msgspec

from headrace.errors import UsageError
from headrace.jsonrpc import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION

__all__ = ("as_object", "encode", "join_members", "members", "meta_members", "seconds")

_RESERVED_META = frozenset((PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, "progressToken"))


def _hook(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", by_alias=True)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    item = getattr(value, "tolist", None)  # numpy scalars and arrays
    if item is not None:
        return item()
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


encode = msgspec.json.Encoder(enc_hook=_hook).encode


def as_object(value: Any, what: str) -> bytes:
    """``value`` as a JSON object: a dict, a Struct, a dataclass, a pydantic model, or None for ``{}``.

    Raises :class:`UsageError` for anything else and for values without a JSON form.
    """
    if value is None:
        return b"{}"
    try:
        raw = encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as exc:
        raise UsageError(f"{what}: {exc}") from exc
    if raw[:1] != b"{":
        raise UsageError(f"{what} must be an object, not {type(value).__name__}")
    return raw


def members(raw: bytes) -> bytes:
    """The members of a JSON object that :func:`encode` made, without its braces."""
    return raw[1:-1]


def join_members(*parts: bytes) -> bytes:
    """A JSON object of several runs of members, empty ones left out."""
    return b"{" + b",".join([part for part in parts if part]) + b"}"


def meta_members(meta: Any) -> bytes:
    """The members of a caller's ``_meta``. Raises :class:`UsageError` for keys that headrace itself sets."""
    if meta is None:
        return b""
    if isinstance(meta, dict):
        for key in _RESERVED_META.intersection(meta):
            raise UsageError(f"meta: {key} is set by headrace itself")
    return members(as_object(meta, "meta"))


def seconds(value: float | None, default: float) -> float:
    """A time limit as the multiplexer takes it: 0 means none. Raises :class:`UsageError` unless positive."""
    if value is None:
        return default
    if not value > 0:
        raise UsageError(f"a timeout must be a positive number of seconds, not {value!r}")
    return 0.0 if math.isinf(value) else float(value)
