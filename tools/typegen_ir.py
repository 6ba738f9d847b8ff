"""What the type generator works on: Structs, aliases and the types of their members.

A type is a tuple of atoms, the alternatives of a union. Atoms are small tuples: ``("str",)``,
``("lit", values)``, ``("list", type)``, ``("dict", type)``, ``("struct", name)``, ``("ref", alias)``,
``("any",)``, ``("none",)``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = (
    "ANY", "NUMBER", "OPEN", "SCALARS", "Alias", "Atom", "Class", "Member", "Model", "Type", "pascal",
    "repr_json", "snake", "union",
)  # fmt: skip

Atom = tuple[Any, ...]
Type = tuple[Atom, ...]

ANY: Type = (("any",),)
OPEN: Type = (("dict", ANY),)
NUMBER: Type = (("int",), ("float",))
SCALARS: dict[str, Type] = {
    "string": (("str",),),
    "integer": (("int",),),
    "number": NUMBER,
    "boolean": (("bool",),),
    "null": (("none",),),
}


@dataclass
class Member:
    """One field of a Struct."""

    wire: str
    name: str
    type: Type
    required: bool
    default: str | None
    doc: str


@dataclass
class Class:
    """One Struct."""

    name: str
    doc: str
    members: dict[str, Member] = field(default_factory=dict)
    base: str | None = None
    tag: tuple[str, str] | None = None
    gc: bool = True


@dataclass
class Alias:
    """A name for a type; ``static`` is what a type checker sees where that is more."""

    name: str
    doc: str
    type: Type
    static: Type | None = None


@dataclass
class Model:
    """Everything one module holds."""

    classes: dict[str, Class] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)


def snake(wire: str) -> str:
    """``structuredContent`` -> ``structured_content``; ``_meta`` and ``$schema`` lose their mark."""
    bare = wire.rsplit("/", 1)[-1].lstrip("_$")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower()


def pascal(wire: str) -> str:
    """``requestedSchema`` -> ``RequestedSchema``."""
    return "".join(p[:1].upper() + p[1:] for p in re.split(r"[^A-Za-z0-9]+", wire.rsplit("/", 1)[-1]) if p)


def union(*types: Type) -> Type:
    """The alternatives of all types once each, literals of one kind joined."""
    atoms: list[Atom] = []
    for atom in (a for t in types for a in t):
        if atom == ("any",):
            return ANY
        literal = next((i for i, a in enumerate(atoms) if a[0] == "lit" == atom[0]), None)
        lists = next((i for i, a in enumerate(atoms) if a[0] == "list" == atom[0]), None)
        if literal is not None:
            atoms[literal] = ("lit", tuple(sorted({*atoms[literal][1], *atom[1]}, key=str)))
        elif lists is not None:
            atoms[lists] = ("list", union(atoms[lists][1], atom[1]))
        elif atom not in atoms:
            atoms.append(atom)
    return tuple(atoms)


def repr_json(value: Any) -> str:
    """A constant as Python source with double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
