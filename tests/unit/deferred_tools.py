"""Handlers below ``from __future__ import annotations``: their hints are strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from nowhere import Context, Missing


class Item(msgspec.Struct):
    name: str


def module_level(item: Item, count: int = 1) -> Item:
    return item


def type_checking_only(ctx: Context, a: int) -> None: ...


def unknown_name(a: Missing) -> None: ...


def local_class(inspect: Any) -> Any:
    class Local(msgspec.Struct):
        size: int

    def f(item: Local, many: list[Local]) -> list[Local]:
        return [item, *many]

    return inspect(f), Local


def closure_class(inspect: Any) -> Any:
    def make() -> Any:
        class Local(msgspec.Struct):
            size: int

        def f(item: Local) -> Any:
            assert isinstance(item, Local)
            return item

        return f, Local

    f, local = make()
    return inspect(f), local
