"""JSON Schema 2020-12 of tools: from types, and checks of schemas written by hand.

A schema is one self-contained object: definitions stand under its own ``$defs``, references are
local. Requirement ids: SF-03..06 (tools), HN-20..22 (parameters mirrored into HTTP headers), JR-50..53
(dialect, no network references, bounded work).
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

import msgspec

from headrace.errors import UsageError
from headrace.server import _pydantic
from headrace.server.choices import order_choices
from headrace.server.formats import add_formats
from headrace.server.hints import Choice, describe_type

__all__ = ("HEADER_KEY", "Header", "HeaderParameter", "ParameterSchema", "UnsupportedType", "check_schema",
           "header_parameters", "object_schema", "type_schema")  # fmt: skip

HEADER_KEY = "x-mcp-header"
MAX_SCHEMA_DEPTH = 64
MAX_SUBSCHEMAS = 10_000

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES = (
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems",
)  # fmt: skip

Mode = Literal["validation", "serialization"]
Schema = dict[str, Any]


def Header(name: str) -> msgspec.Meta:
    """Mirrors a parameter into the HTTP header ``Mcp-Param-{name}`` (HN-20).

    ``Annotated[str, Header("Region")]``. Works on parameters and on fields of Structs reached through
    objects only. Not for secrets: header values are visible to everything between client and server
    (HN-26).
    """
    return msgspec.Meta(extra_json_schema={HEADER_KEY: name})


class HeaderParameter(NamedTuple):
    """A parameter that clients mirror into a header."""

    header: str
    """The name after ``Mcp-Param-``."""
    path: tuple[str, ...]
    """Property names from the arguments object to the value."""
    type: str
    """``string``, ``integer`` or ``boolean``."""


class ParameterSchema(NamedTuple):
    """One parameter for :func:`object_schema`."""

    name: str
    type: Any
    required: bool
    default: Any = msgspec.NODEFAULT
    """A JSON value to show; ``NODEFAULT`` shows none."""
    description: str = ""


class UnsupportedType(TypeError):
    """A type without JSON form; ``.type`` is it."""

    def __init__(self, tp: Any) -> None:
        super().__init__(f"{describe_type(tp)} has no JSON form")
        self.type = tp


# --- from types ----------------------------------------------------------------------------------


class _Components:
    """Schemas of types with shared definitions, custom types included."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.defs: dict[str, Any] = {}
        self.custom: set[Any] = set()
        self._taken: frozenset[str] = frozenset()

    def build(self, types: Sequence[Any]) -> list[Schema]:
        for _ in range(2):
            self.defs = {}
            schemas, defs = msgspec.json.schema_components(types, schema_hook=self._hook)
            if not defs.keys() & self.defs.keys():
                break
            self._taken = frozenset(defs)  # definitions of hooks give way to those of msgspec
        add_formats(types, schemas, defs)
        order_choices(types, schemas, defs)
        self.defs.update(defs)
        return list(schemas)

    def _hook(self, tp: Any) -> Schema:
        self.custom.add(tp)
        if isinstance(tp, type) and issubclass(tp, Choice):
            inner = _Components(self.mode)
            members: tuple[Any, ...] = tp.members
            schemas = inner.build(members)
            self.custom |= inner.custom
            return self._lift({"anyOf": schemas, "$defs": inner.defs})
        if isinstance(tp, type) and issubclass(tp, PurePath):
            return {"type": "string", "format": "path"}
        if _pydantic.is_pydantic_type(tp):
            try:
                return self._lift(dict(_pydantic.json_schema(tp, mode=self.mode)))
            except Exception as exc:  # pydantic's own errors, without importing them
                raise UnsupportedType(tp) from exc
        raise UnsupportedType(tp)

    def _lift(self, schema: Schema) -> Schema:
        """Moves a hook's ``$defs`` to the shared ones, under other names where those are taken."""
        local: dict[str, Any] = schema.pop("$defs", {})
        renamed = {}
        for name, body in local.items():
            new, n = name, 1
            while new in self._taken or (new in self.defs and self.defs[new] != body):
                n += 1
                new = f"{name}_{n}"
            if new != name:
                renamed[f"#/$defs/{name}"] = f"#/$defs/{new}"
            local[name] = (new, body)
        for new, body in local.values():
            self.defs[new] = _rename_refs(body, renamed)
        lifted: Schema = _rename_refs(schema, renamed)
        return lifted


def _rename_refs(node: Any, renamed: dict[str, str]) -> Any:
    if not renamed:
        return node
    if isinstance(node, list):
        return [_rename_refs(item, renamed) for item in node]
    if isinstance(node, dict):
        return {
            key: renamed.get(value, value)
            if key == "$ref" and isinstance(value, str)
            else _rename_refs(value, renamed)
            for key, value in node.items()
        }
    return node


def type_schema(tp: Any, *, mode: Mode = "validation") -> tuple[Schema, set[Any]]:
    """The schema of one prepared type, and the custom types inside.

    A root that is a definition is put in place of the reference, so that ``type`` stands at the root.
    Raises :class:`UnsupportedType`, or :class:`TypeError` of msgspec.
    """
    components = _Components(mode)
    (schema,) = components.build([tp])
    schema = dict(schema)
    if (name := _local(schema.get("$ref"))) in components.defs:
        del schema["$ref"]
        schema = {**components.defs[name], **schema}
    return _finish(schema, components.defs, mode), components.custom


def object_schema(
    parameters: Sequence[ParameterSchema], *, additional: bool = True, mode: Mode = "validation"
) -> tuple[Schema, set[Any]]:
    """The root object of a tool's arguments, and the custom types inside.

    Without parameters it says so with ``additionalProperties: false`` (SF-04), as it does when
    ``additional`` is False. Raises as :func:`type_schema`.
    """
    components = _Components(mode)
    properties: dict[str, Schema] = {}
    schemas = components.build([p.type for p in parameters])
    for parameter, found in zip(parameters, schemas, strict=True):
        prop = dict(found)
        if parameter.description and "description" not in prop:
            prop = {"description": parameter.description, **prop}
        if parameter.default is not msgspec.NODEFAULT:
            prop["default"] = parameter.default
        properties[parameter.name] = prop
    root: Schema = {"type": "object"}
    if properties:
        root["properties"] = properties
    if required := [p.name for p in parameters if p.required]:
        root["required"] = required
    if not properties or not additional:
        root["additionalProperties"] = False
    return _finish(root, components.defs, mode), components.custom


def _finish(root: Schema, defs: dict[str, Any], mode: Mode) -> Schema:
    root = _copy(root)
    if defs:
        root["$defs"] = _copy(defs)
        _inline_headers(root)
        _prune(root)
    _tidy_headers(root)
    for schema in walk(root):
        _tidy(schema)
        if mode == "serialization":
            schema.pop(HEADER_KEY, None)  # says something about requests only
    return root


def _copy(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _copy(value) for key, value in node.items()}
    return [_copy(item) for item in node] if isinstance(node, (list, tuple)) else node


def _tidy(schema: Schema) -> None:
    if schema.get("required") == []:
        del schema["required"]
    options = schema.get("anyOf")
    if options and all(option == options[0] for option in options):  # datetime | str are both a string
        del schema["anyOf"]
        for key, value in options[0].items():
            schema.setdefault(key, value)
    values = schema.get("enum")
    if values and "type" not in schema:
        # Many model providers insist on a type beside enum.
        if all(isinstance(value, str) for value in values):
            schema["type"] = "string"
        elif all(type(value) is int for value in values):
            schema["type"] = "integer"
        elif all(type(value) is bool for value in values):
            schema["type"] = "boolean"


# --- walking -------------------------------------------------------------------------------------


def children(schema: Schema) -> Iterator[tuple[str, str, Any]]:
    """The direct subschemas as (keyword, name or index, subschema)."""
    for keyword in _MAPS:
        inner = schema.get(keyword)
        if isinstance(inner, dict):
            for name, child in inner.items():
                yield keyword, str(name), child
    for keyword in _LISTS:
        inner = schema.get(keyword)
        if isinstance(inner, list):
            for index, child in enumerate(inner):
                yield keyword, str(index), child
    for keyword in _SINGLES:
        inner = schema.get(keyword)
        if isinstance(inner, list):  # `items` of older dialects
            for index, child in enumerate(inner):
                yield keyword, str(index), child
        elif inner is not None:
            yield keyword, "", inner


def walk(schema: Any) -> Iterator[Schema]:
    """``schema`` and every subschema that is an object, definitions included."""
    if isinstance(schema, dict):
        yield schema
        for _, _, child in children(schema):
            yield from walk(child)


def _local(ref: Any) -> str:
    return ref[len("#/$defs/") :] if isinstance(ref, str) and ref.startswith("#/$defs/") else ""


def _prune(root: Schema) -> None:
    """Drops definitions that nothing refers to any more."""
    defs = root.pop("$defs")
    used: dict[str, Any] = {}
    queue = [root]
    while queue:
        for schema in walk(queue.pop()):
            name = _local(schema.get("$ref"))
            if name in defs and name not in used:
                used[name] = defs[name]
                queue.append(defs[name])
    if used:
        root["$defs"] = {name: body for name, body in defs.items() if name in used}


# --- headers -------------------------------------------------------------------------------------


def _inline_headers(root: Schema) -> None:
    """Puts objects that hold header parameters in place of references: HN-21 allows `properties` only."""
    defs = root["$defs"]
    marked: set[str] = set()
    grown = True
    while grown:
        grown = False
        for name, body in defs.items():
            if name in marked:
                continue
            if any(HEADER_KEY in inner or _local(inner.get("$ref")) in marked for inner in walk(body)):
                marked.add(name)
                grown = True

    def visit(schema: Schema, trail: frozenset[str]) -> None:
        properties = schema.get("properties", {})
        for key, prop in properties.items():
            name = _local(prop.get("$ref"))
            inner = trail
            if name in defs and name not in trail and (name in marked or HEADER_KEY in prop):
                rest = {k: v for k, v in prop.items() if k != "$ref"}
                prop = properties[key] = {**_copy(defs[name]), **rest}
                inner = trail | {name}
            visit(prop, inner)

    visit(root, frozenset())


def _tidy_headers(root: Schema) -> None:
    """A header parameter that may be null is described by its other type: null omits the header (HN-23)."""
    for prop in root.get("properties", {}).values():
        if not isinstance(prop, dict):
            continue
        options = prop.get("anyOf")
        if HEADER_KEY in prop and options and {"type": "null"} in options and len(options) == 2:
            (other,) = (option for option in options if option != {"type": "null"})
            del prop["anyOf"]
            prop.update({k: v for k, v in other.items() if k not in prop})
            if prop.get("default", ...) is None:
                del prop["default"]
            name = _local(prop.pop("$ref", None))
            prop.update({k: v for k, v in root.get("$defs", {}).get(name, {}).items() if k not in prop})
        _tidy_headers(prop)


def header_parameters(schema: Schema) -> list[HeaderParameter]:
    """The parameters an input schema mirrors into HTTP headers.

    Raises UsageError when an ``x-mcp-header`` breaks a rule of HN-21: not a token, not unique, not a
    string, integer or boolean, or not reachable through ``properties`` alone.
    """
    found: list[HeaderParameter] = []
    reached: set[int] = set()

    def visit(node: Any, path: tuple[str, ...]) -> None:
        for name, prop in (node.get("properties") or {}).items():
            if not isinstance(prop, dict):
                continue
            here = (*path, name)
            if HEADER_KEY in prop:
                reached.add(id(prop))
                found.append(_header(prop, here))
            visit(prop, here)

    visit(schema, ())
    for node in walk(schema):
        if HEADER_KEY in node and id(node) not in reached:
            raise UsageError(
                f"{HEADER_KEY} {str(node[HEADER_KEY])[:64]!r} must be on a property reached from the root "
                "through objects only, not through lists, alternatives or references"
            )
    seen: dict[str, str] = {}
    for item in found:
        other = seen.setdefault(item.header.lower(), ".".join(item.path))
        if other != ".".join(item.path):
            raise UsageError(
                f"{HEADER_KEY} {item.header!r} is used by both {other!r} and {'.'.join(item.path)!r}: "
                "header names must differ in more than case"
            )
    return found


def _header(prop: Schema, path: tuple[str, ...]) -> HeaderParameter:
    where = f"{HEADER_KEY} of {'.'.join(path)!r}"
    header = prop[HEADER_KEY]
    if not isinstance(header, str) or not _TOKEN.fullmatch(header):
        raise UsageError(
            f"{where} must be a header name made of letters, digits and !#$%&'*+-.^_`|~, "
            f"not {str(header)[:64]!r}"
        )
    kind = prop.get("type")
    if kind not in ("string", "integer", "boolean"):
        raise UsageError(f"{where}: only str, int and bool parameters can be mirrored into a header")
    return HeaderParameter(header, path, kind)


# --- schemas written by hand ---------------------------------------------------------------------


def check_schema(schema: Any, where: str, *, object_root: bool) -> Schema:
    """``schema`` itself when it is a usable JSON Schema; UsageError with ``where`` in front otherwise.

    Checked: an object of JSON values, ``type: object`` at the root when ``object_root``, sane
    ``properties`` and ``required``, references that resolve inside the schema (nothing is ever fetched,
    JR-51), bounded depth and size (JR-52). Unknown keywords pass through (JR-53).
    """
    if not isinstance(schema, dict):
        raise UsageError(f"{where} must be a dict with a JSON Schema, not {type(schema).__name__}")
    try:
        msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(f"{where} cannot be written as JSON: {exc}") from exc
    if object_root and schema.get("type") != "object":
        raise UsageError(f'{where} must have "type": "object" at its root')
    if (dialect := schema.get("$schema")) is not None and not isinstance(dialect, str):
        raise UsageError(f"{where}: $schema must be a string")
    anchors = _anchors(schema)
    queue: list[tuple[str, Any, int]] = [("", schema, 0)]
    count = 0
    while queue:
        path, node, depth = queue.pop()
        count += 1
        if depth > MAX_SCHEMA_DEPTH or count > MAX_SUBSCHEMAS:
            raise UsageError(
                f"{where} is too large: at most {MAX_SCHEMA_DEPTH} levels and {MAX_SUBSCHEMAS} subschemas"
            )
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            raise UsageError(f"{where}: {path or 'the root'} must be an object or a boolean")
        _check_node(node, f"{where}: {path or 'the root'}", schema, anchors)
        for keyword, name, child in children(node):
            queue.append((f"{path}/{keyword}/{name}" if name else f"{path}/{keyword}", child, depth + 1))
    return schema


def _anchors(schema: Schema) -> set[str]:
    found = set()
    for count, node in enumerate(walk(schema)):
        if count > MAX_SUBSCHEMAS:
            break
        for key in ("$anchor", "$dynamicAnchor", "$id"):
            if isinstance(value := node.get(key), str):
                found.add(value if key == "$id" else f"#{value}")
    return found


def _check_node(node: Schema, where: str, root: Schema, anchors: set[str]) -> None:
    for keyword in _MAPS:
        if not isinstance(node.get(keyword, {}), dict):
            raise UsageError(f"{where}: {keyword} must be an object")
    for keyword in _LISTS:
        if not isinstance(node.get(keyword, []), list):
            raise UsageError(f"{where}: {keyword} must be a list of schemas")
    required = node.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise UsageError(f"{where}: required must be a list of property names")
    if not isinstance(node.get("type", ""), (str, list)):
        raise UsageError(f"{where}: type must be a string or a list of strings")
    for key in ("$ref", "$dynamicRef"):
        ref = node.get(key)
        if ref is None or ref == "#":
            continue
        if not isinstance(ref, str) or not (ref in anchors or _resolves(ref, root)):
            raise UsageError(f"{where}: {key} {str(ref)[:100]!r} does not point into this schema")


def _resolves(ref: str, root: Schema) -> bool:
    if not ref.startswith("#/"):
        return False
    node: Any = root
    for part in ref[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isascii() and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return False
    return isinstance(node, (dict, bool))
