"""``format`` of dates and times in schemas made from types.

msgspec leaves ``format`` out of what it also reads without a time zone, so models guess what to send. This walks
types and their schemas side by side and puts it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import inspect

__all__ = ("add_formats",)

_COLLECTIONS = (
    inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType,
)  # fmt: skip
_RECORDS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType)


def add_formats(types: Sequence[Any], schemas: Sequence[dict[str, Any]], defs: dict[str, Any]) -> None:
    """Puts ``date-time`` and ``time`` into the ``schemas`` of ``types`` and into ``defs``, in place."""
    seen: set[str] = set()
    for info, schema in zip(inspect.multi_type_info(types), schemas, strict=True):
        _visit(info, schema, defs, seen)


def _visit(info: inspect.Type, schema: Any, defs: dict[str, Any], seen: set[str]) -> None:
    if isinstance(info, inspect.Metadata):
        info = info.type
    if not isinstance(schema, dict):
        return
    if isinstance(info, inspect.DateTimeType):
        if schema.get("type") == "string":
            schema.setdefault("format", "date-time")
    elif isinstance(info, inspect.TimeType):
        if schema.get("type") == "string":
            schema.setdefault("format", "time")
    elif isinstance(info, inspect.UnionType):
        options = schema.get("anyOf", ())
        if len(options) == len(info.types):
            _pairs(info.types, options, defs, seen)
    elif isinstance(info, _COLLECTIONS):
        _visit(info.item_type, schema.get("items"), defs, seen)
    elif isinstance(info, inspect.TupleType):
        _pairs(info.item_types, schema.get("prefixItems", ()), defs, seen)
    elif isinstance(info, inspect.DictType):
        _visit(info.value_type, schema.get("additionalProperties"), defs, seen)
    elif isinstance(info, _RECORDS):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            name = reference.rpartition("/")[2]
            if name in seen:
                return
            seen.add(name)
            schema = defs.get(name, {})
        fields = info.fields
        if "prefixItems" in schema:
            _pairs([field.type for field in fields], schema["prefixItems"][-len(fields) :], defs, seen)
        properties = schema.get("properties", {})
        for field in fields:
            _visit(field.type, properties.get(field.encode_name), defs, seen)


def _pairs(infos: Iterable[inspect.Type], schemas: Iterable[Any], defs: dict[str, Any], seen: set[str]) -> None:
    for info, schema in zip(infos, schemas, strict=False):
        _visit(info, schema, defs, seen)
