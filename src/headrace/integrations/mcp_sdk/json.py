"""JSON of messages whose values are the SDK's: mostly plain ones, now and then an object that only pydantic knows."""

from __future__ import annotations

from typing import Any

import msgspec
import pydantic_core

__all__ = ("encode",)

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    """One line of JSON. Raises what pydantic raises for what has no JSON form."""
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return pydantic_core.to_json(value, by_alias=True)
