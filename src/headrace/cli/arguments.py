"""``key=value`` on the command line as arguments of a tool, read with the help of its input schema."""

from __future__ import annotations

import difflib
import json
import sys
from typing import Any

import click

from headrace.cli.app import WrongArguments

__all__ = ("Given", "arguments_of", "check_names", "parse_pair")


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
    Raises WrongArguments for what is not JSON then, or of another type.
    """
    result = dict(base)
    seen: set[str] = set()
    for given in pairs:
        if given.key in seen:
            raise WrongArguments(f"argument {given.key} is given twice; several values are {given.key}:='[1, 2]'")
        seen.add(given.key)
        types = _types(schema, given.key)
        if given.as_json or (types and "string" not in types):
            shown = given.value if len(given.value) <= 40 else given.value[:40] + "..."
            try:
                value = json.loads(given.value)
            except ValueError:
                if given.as_json:
                    raise WrongArguments(f"argument {given.key}: {shown!r} is not JSON") from None
                raise WrongArguments(_wanted(given.key, types, shown)) from None
            if not given.as_json and not _fits(value, types):
                raise WrongArguments(_wanted(given.key, types, shown))
            result[given.key] = value
        else:
            result[given.key] = given.value
    return result


def check_names(tool: str, arguments: dict[str, Any], schema: dict[str, Any]) -> None:
    """Raises WrongArguments for an argument that the schema does not know: most tools ignore it silently.

    Schemas that allow more than they name, or name nothing, take everything.
    """
    known = schema.get("properties")
    known = known if isinstance(known, dict) else {}
    more = schema.get("additionalProperties")
    if (more is not None and more is not False) or (not known and more is None) or _OPEN.intersection(schema):
        return
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise WrongArguments(f"{tool} has no argument {name!r}; it takes {', '.join(known) or 'none'}{hint}")


_OPEN = frozenset(("patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas"))
"""Words through which a schema may know more properties than it lists."""

_PLAIN = {"integer": "an integer", "number": "a number", "boolean": "true or false", "null": "null"}
_STRUCTURED = {"array": ("an array", '["a"]'), "object": ("an object", '{"x": 1}')}


def _wanted(key: str, types: set[str], shown: str) -> str:
    """Says what a value must be, with an example of how structured ones are written."""
    plain = [_PLAIN[kind] for kind in sorted(types) if kind in _PLAIN]
    structured = [_STRUCTURED[kind] for kind in sorted(types) if kind in _STRUCTURED]
    parts = [" or ".join(plain)] if plain else []
    if structured:
        parts.append(f"JSON for {' or '.join(name for name, _ in structured)}")
        return f"{key} must be {' or '.join(parts)}, for example {key}:='{structured[0][1]}'"
    return f"{key} must be {' or '.join(parts) or 'JSON'}, not {shown!r}"


def _fits(value: Any, types: set[str]) -> bool:
    kind = _NAMES.get(type(value), "null")
    whole = isinstance(value, float) and value.is_integer() and "integer" in types
    return kind in types or whole or (kind == "integer" and "number" in types) or not types & _NAMED


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
_NAMED = {*_NAMES.values(), "null"}
