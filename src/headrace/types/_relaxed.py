"""Second reading of a message that is not quite what the schema asks for.

Two habits of real peers break a strict reading without leaving any doubt about the meaning: ``null`` for an
optional member that is absent, and a whole number spelled as a fraction (``3.0``) where an integer is asked
for. Strict decoders stay the only path of good messages; this one runs after a ``ValidationError`` and may
be slow.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

__all__ = ("decode_relaxed",)

T = TypeVar("T")
_EXACT = 2**53  # beyond it a double no longer says which integer was meant


def decode_relaxed(raw: bytes | bytearray | memoryview | str, kind: type[T]) -> T:
    """Decode JSON into ``kind``, reading ``null`` as absent and ``3.0`` as ``3`` where the type asks for it.

    A member that takes null (``structuredContent``, the data of a log message, anything in an open object)
    keeps it. Raises ``msgspec.ValidationError`` when the message is wrong in another way too,
    ``msgspec.DecodeError`` when it is not JSON.
    """
    key: Any = kind
    return msgspec.convert(_relax(msgspec.json.decode(raw), _info(key)), kind)


@lru_cache(maxsize=256)
def _info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _relax(value: Any, info: inspect.Type) -> Any:
    """``value``, changed in place where it can be, as ``info`` would have it."""
    if isinstance(value, dict):
        _relax_object(value, info)
    elif isinstance(value, list):
        for part in _alternatives(info):
            if isinstance(part, inspect.ListType):
                return [_relax(item, part.item_type) for item in value]
    elif isinstance(value, float) and isinstance(info, inspect.IntType):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    return value


def _relax_object(value: dict[str, Any], info: inspect.Type) -> None:
    for part in _alternatives(info):
        if isinstance(part, inspect.DictType):
            value.update({k: _relax(v, part.value_type) for k, v in value.items()})
        elif isinstance(part, inspect.StructType) and part.tag in (None, value.get(part.tag_field or "")):
            for member in part.fields:
                name = member.encode_name
                if name not in value:
                    continue
                if value[name] is None and not member.required and not _takes_null(member.type):
                    del value[name]
                else:
                    value[name] = _relax(value[name], member.type)


def _alternatives(info: inspect.Type) -> Iterable[inspect.Type]:
    return info.types if isinstance(info, inspect.UnionType) else (info,)


def _takes_null(info: inspect.Type) -> bool:
    return any(isinstance(part, inspect.AnyType | inspect.NoneType) for part in _alternatives(info))
