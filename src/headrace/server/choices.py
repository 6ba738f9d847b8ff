"""The order of choices in schemas made from types.

msgspec sorts the values of ``Literal`` and ``Enum``; people and models see "large, medium, small" then. This
puts them in the order in which they were written.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

__all__ = ("order_choices",)

_Written = dict[frozenset[tuple[type, Any]], list[Any]]


def order_choices(types: Sequence[Any], schemas: Sequence[dict[str, Any]], defs: dict[str, Any]) -> None:
    """Puts every ``enum`` of the ``schemas`` of ``types`` and of ``defs`` in written order, in place."""
    everything: _Written = {}
    for tp, schema in zip(types, schemas, strict=True):
        own: _Written = {}
        _collect(tp, own, set())
        _order(schema, own)
        everything = {**own, **everything}
    if everything:
        _order(defs, everything)


def _collect(tp: Any, found: _Written, seen: set[Any]) -> None:
    """The choices in ``tp`` and in the fields of its records. Where two have the same values the first one counts."""
    origin = typing.get_origin(tp)
    if origin is Literal:
        _keep(list(typing.get_args(tp)), found)
        return
    for inner in (origin, *typing.get_args(tp), getattr(tp, "__value__", None), getattr(tp, "__supertype__", None)):
        if inner is not None:
            _collect(inner, found, seen)
    if not isinstance(tp, type) or tp in seen:
        return
    seen.add(tp)
    if issubclass(tp, enum.Enum):
        _keep([member.value for member in tp], found)
    elif hasattr(tp, "__annotations__"):
        try:
            hints = typing.get_type_hints(tp)
        except Exception:
            return  # whoever needs them says what is wrong
        for hint in hints.values():
            _collect(hint, found, seen)


def _keep(values: list[Any], found: _Written) -> None:
    try:
        found.setdefault(_key(values), values)
    except TypeError:  # values that cannot be hashed have no JSON form either
        return


def _key(values: Iterable[Any]) -> frozenset[tuple[type, Any]]:
    return frozenset((type(value), value) for value in values)


def _order(node: Any, written: _Written) -> None:
    if not written:
        return
    for schema in _objects(node):
        values = schema.get("enum")
        if isinstance(values, (list, tuple)) and all(isinstance(value, (str, int, type(None))) for value in values):
            schema["enum"] = list(written.get(_key(values), values))


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _objects(value)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from _objects(value)
