"""A tool on one line: its name and its arguments with their types, in the words of a programmer."""

from __future__ import annotations

import json
from typing import Any

__all__ = ("signature",)

_ENUM_WIDTH = 60  # characters of the values of an enum
_MEMBERS = 6  # names of members of an object that are listed
_DEEP = 4  # levels of a type that are told


def signature(name: str, schema: dict[str, Any]) -> str:
    """``forecast(city: string, days?: integer)``: the tool ``name`` with the input schema ``schema``."""
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    properties = schema.get("properties")
    parts = []
    for key, node in (properties if isinstance(properties, dict) else {}).items():
        kind = _kind(node, schema, 0)
        parts.append(f"{key}{'' if key in required else '?'}{f': {kind}' if kind else ''}")
    return f"{name}({', '.join(parts)})"


def _kind(node: Any, root: dict[str, Any], depth: int) -> str:
    """The type of one value; ``""`` when the schema does not say, or too deep down."""
    if not isinstance(node, dict) or depth > _DEEP:
        return ""
    if "const" in node:
        return _values([node["const"]])
    if isinstance(node.get("enum"), list):
        return _values(node["enum"])
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = _resolve(reference, root)
        if isinstance(target, dict) and target.get("type") == "object":
            return reference.rpartition("/")[2] if "/" in reference else _object(target)
        return _kind(target, root, depth + 1)
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            return _union([_kind(option, root, depth + 1) for option in node[word]])
    kind = node.get("type")
    if isinstance(kind, list):
        return _union([_kind({**node, "type": one}, root, depth + 1) for one in kind])
    if kind == "array":
        inner = _kind(node.get("items"), root, depth + 1)
        return f"array of {f'({inner})' if '|' in inner else inner}" if inner else "array"
    if kind == "object":
        return _object(node)
    if kind == "string" and isinstance(node.get("format"), str):
        return str(node["format"])
    return kind if isinstance(kind, str) else ""


def _resolve(reference: str, root: dict[str, Any]) -> Any:
    found: Any = root if reference.startswith("#") else None
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _object(node: dict[str, Any]) -> str:
    properties = node.get("properties")
    if not isinstance(properties, dict) or not properties:
        return "object"
    names = [str(name) for name in properties]
    return f"object{{{', '.join(names[:_MEMBERS])}{', ...' if len(names) > _MEMBERS else ''}}}"


def _union(kinds: list[str]) -> str:
    """Nothing is said when one of the options is open."""
    return "|".join(dict.fromkeys(kinds)) if all(kinds) else ""


def _values(values: list[Any]) -> str:
    text = ""
    for value in values:
        shown = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
        if text and len(text) + len(shown) > _ENUM_WIDTH:
            return text + "|..."
        text += f"|{shown}" if text else shown[:_ENUM_WIDTH]
    return text
