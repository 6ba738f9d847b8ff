"""``key=value`` on the command line as arguments of a tool, read with the help of its input schema."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

__all__ = ("Given", "arguments_of", "parse_pair")


class Given:
    """One ``key=value`` as typed. ``as_json``: written with ``:=``; ``from_file``: the value was ``@FILE``."""

    def __init__(self, key: str, value: str, as_json: bool) -> None:
        self.key = key
        self.value = value
        self.as_json = as_json


def parse_pair(text: str) -> Given:
    """Reads ``key=text``, ``key:=json``, ``key=@file``, ``key:=@file``; ``@@`` stands for one @ sign.

    Raises click.UsageError for anything else and for files that cannot be read.
    """
    key, equals, value = text.partition("=")
    as_json = key.endswith(":")
    key = key[:-1] if as_json else key
    if not equals or not key:
        raise click.UsageError(f"{text!r}: arguments are key=value, key:=json or key=@file")
    if value.startswith("@@"):
        value = value[1:]
    elif value.startswith("@"):
        value = _read(value[1:], key)
    return Given(key, value, as_json)


def _read(path: str, key: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read()
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as exc:
        raise click.UsageError(f"argument {key}: {path}: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"argument {key}: {path} is not UTF-8 text") from None


def arguments_of(pairs: list[Given], base: dict[str, Any], schema: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments: ``base`` (from --args) with the pairs over it.

    A plain ``key=value`` is text where the schema allows a string there, or says nothing; else JSON.
    Raises click.UsageError for what is not JSON then.
    """
    result = dict(base)
    for given in pairs:
        types = _types(schema, given.key)
        if given.as_json or (types and "string" not in types):
            try:
                result[given.key] = json.loads(given.value)
            except ValueError:
                shown = given.value if len(given.value) <= 40 else given.value[:40] + "..."
                wanted = f"{' or '.join(sorted(types))}, as JSON" if types else "JSON"
                raise click.UsageError(f"argument {given.key}: {shown!r} is not {wanted}") from None
        else:
            result[given.key] = given.value
    return result


def _types(schema: dict[str, Any] | None, key: str) -> set[str]:
    """The JSON types that the schema allows for a property; empty when it does not say."""
    if schema is None:
        return set()
    prop = (schema.get("properties") or {}).get(key)
    return _types_of(prop, schema, 0)


def _types_of(node: Any, root: dict[str, Any], depth: int) -> set[str]:
    if not isinstance(node, dict) or depth > 16:
        return set()
    kind = node.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {str(k) for k in kind}
    for word in ("enum", "const"):
        if word in node:
            values = node[word] if word == "enum" else [node[word]]
            return {_NAMES.get(type(v), "null") for v in values}
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for part in reference[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return _types_of(found, root, depth + 1)
    types: set[str] = set()
    for word in ("anyOf", "oneOf"):
        for option in node.get(word) or ():
            inner = _types_of(option, root, depth + 1)
            if not inner:
                return set()
            types |= inner
    return types


_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
