"""Forms of elicitation: flat schemas from types, by revision, and the check of what comes back (CF-30).

A form is an object of primitive fields. Its schema is kept in the newest notation (titled choices are
``oneOf``/``anyOf`` of ``const`` and ``title``) and written for the revision of each client:

==================  ===================================  ==========================================
kind of field       2025-06-18                           2025-11-25 and later
==================  ===================================  ==========================================
choice with titles  ``enum`` and ``enumNames``           ``oneOf`` of ``const`` and ``title``, or the older one
                                                         where it was written by hand
several choices     none: :class:`CannotAsk`             ``array`` of ``enum`` or titled ``anyOf``
default             boolean fields                       all fields
pattern             left out, checked here all the same  as it is
==================  ===================================  ==========================================
"""

from __future__ import annotations

import datetime
import enum
import math
import re
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
import msgspec.inspect

from headrace.errors import CannotAsk, InvalidAnswer, UsageError
from headrace.jsonrpc import R3, R4

__all__ = ("Form", "form_of", "titled")

_FORMATS = ("email", "uri", "date", "date-time")
_COMMON = ("title", "description", "default")
_MEMBERS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
}
_MAX_TEXT = 64 * 1024


def titled(choices: Mapping[str, str]) -> msgspec.Meta:
    """Titles of the choices of a field: ``Annotated[Literal["r", "g"], titled({"r": "Red", "g": "Green"})]``."""
    return msgspec.Meta(extra_json_schema={"oneOf": [{"const": c, "title": t} for c, t in choices.items()]})


class Form:
    """A flat schema with the reader of its answers. ``fields`` maps names to schemas in the newest notation."""

    __slots__ = ("_read", "_written", "fields", "required")

    def __init__(self, schema: Mapping[str, Any], read: Any = None) -> None:
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), Mapping):
            raise UsageError("a form is an object: give it a class with fields, or a schema with properties")
        defs = schema.get("$defs", {})
        self.fields = {str(n): _flatten(str(n), f, defs) for n, f in schema.get("properties", {}).items()}
        self.required = [name for name in schema.get("required", ()) if name in self.fields]
        self._read = read
        self._written: dict[str, dict[str, Any]] = {}

    def schema(self, revision: str) -> dict[str, Any]:
        """``requestedSchema`` for one revision. Raises :class:`CannotAsk` when it cannot be said there."""
        made = self._written.get(revision)
        if made is None:
            made = {"type": "object", "properties": {n: _write(n, f, revision) for n, f in self.fields.items()}}
            if self.required:
                made["required"] = list(self.required)
            self._written[revision] = made
        return made

    def read(self, content: Any) -> Any:
        """The content of an accepted form: checked against the schema (CF-30), then as the type it was made
        from. Fields that nobody asked for are dropped. Raises :class:`InvalidAnswer`."""
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise InvalidAnswer("the answer to a form must be an object")
        found = {name: content[name] for name in self.fields if content.get(name) is not None}
        for name in self.required:
            if name not in found:
                raise InvalidAnswer(f"the answer to a form lacks {name!r}")
        for name, value in found.items():
            fault = _fault(value, self.fields[name])
            if fault is not None:
                raise InvalidAnswer(f"the answer to a form: {name!r} {fault}")
            if self.fields[name]["type"] == "integer":
                found[name] = int(value)
        if self._read is None:
            return found
        try:
            return self._read(found)
        except ValueError as exc:  # msgspec's and pydantic's errors are
            raise InvalidAnswer(f"the answer to a form does not fit: {' '.join(str(exc).split())[:500]}") from None


def form_of(kind: Any) -> Form:
    """The form of a Struct, dataclass, TypedDict or pydantic model, or of a JSON Schema; None has no fields.

    Raises :class:`UsageError` naming the field that a form cannot have.
    """
    if kind is None:
        return _EMPTY
    if isinstance(kind, Mapping):
        return Form(kind)
    try:
        return _form_of_type(kind)
    except TypeError as exc:
        name = getattr(kind, "__name__", kind)
        raise UsageError(f"{name} cannot be a form: {exc}") from None


@lru_cache(maxsize=512)
def _form_of_type(kind: Any) -> Form:
    if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
        return Form(kind.model_json_schema(), kind.model_validate)
    if hasattr(kind, "__pydantic_validator__"):
        from pydantic import TypeAdapter

        adapter = TypeAdapter(kind)
        return Form(adapter.json_schema(), adapter.validate_python)
    schemas, defs = msgspec.json.schema_components([kind])
    schema = _resolve(schemas[0], defs)
    if schema.get("type") != "object" or "properties" not in schema:
        raise UsageError(f"{kind!r} cannot be a form: give a class with fields, or a JSON Schema")
    for field in getattr(msgspec.inspect.type_info(kind), "fields", ()):
        # msgspec names no format where it takes times without an offset as well.
        options = field.type.types if isinstance(field.type, msgspec.inspect.UnionType) else (field.type,)
        if any(isinstance(option, msgspec.inspect.DateTimeType) for option in options):
            schema["properties"][field.encode_name] = {**schema["properties"][field.encode_name], "format": "date-time"}
    form = Form({**schema, "$defs": defs}, lambda content: msgspec.convert(content, kind, str_keys=True))
    _order_choices(form.fields, kind)
    return form


def _order_choices(fields: dict[str, dict[str, Any]], kind: Any) -> None:
    """Choices in the order in which they were written, which people see; msgspec sorts them."""
    hints = typing.get_type_hints(kind)
    for known in getattr(msgspec.inspect.type_info(kind), "fields", ()):
        field = fields[known.encode_name]
        holder = field["items"] if field["type"] == "array" else field
        written = _written_choices(hints[known.name])
        if "enum" in holder and set(holder["enum"]) <= set(written):
            holder["enum"] = sorted(holder["enum"], key=written.index)


def _written_choices(hint: Any) -> list[Any]:
    if typing.get_origin(hint) is Literal:
        return list(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [member.value for member in hint]
    return [choice for inner in typing.get_args(hint) for choice in _written_choices(inner)]


# --- reading schemas -----------------------------------------------------------------------------------


def _resolve(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` with its own reference replaced by what it stands for."""
    for _ in range(16):
        reference = schema.get("$ref")
        if reference is None:
            return dict(schema)
        target = defs.get(str(reference).rpartition("/")[2])
        if target is None:
            raise UsageError(f"a form has no definition for {reference}")
        # The title of what is referred to is the name of a class, not of this field.
        own = {key: value for key, value in target.items() if key != "title"}
        schema = {**own, **{key: value for key, value in schema.items() if key != "$ref"}}
    raise UsageError("a form has references that lead nowhere")


def _flatten(name: str, given: Any, defs: Mapping[str, Any]) -> dict[str, Any]:
    """One field in the newest notation. Raises UsageError for what no form has."""
    if not isinstance(given, Mapping):
        raise UsageError(f"form field {name!r}: its schema must be an object")
    schema = _resolve(given, defs)
    options = [_resolve(o, defs) for o in schema.get("anyOf", ()) if isinstance(o, Mapping) and o.get("type") != "null"]
    if options and "type" not in schema:
        # An optional field: null is said by leaving it out.
        if len(options) != 1:
            raise UsageError(f"form field {name!r}: a field has one type; use separate fields")
        schema = {**options[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    kept = {key: schema[key] for key in _COMMON if schema.get(key) is not None}
    kind = schema.get("type")
    if "items" in schema or kind == "array":
        return _flatten_list(name, schema, defs, kept)
    choices = _choices(name, schema)
    if choices is not None:
        return {"type": "string", **choices, **kept}
    if kind not in _MEMBERS:
        what = "an object" if kind == "object" else f"of type {kind!r}" if kind else "of no single type"
        raise UsageError(f"form field {name!r} is {what}; a form is flat: text, numbers, booleans and choices")
    made = {"type": kind, **{key: schema[key] for key in _MEMBERS[kind] if key in schema}, **kept}
    for exclusive, bound, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if exclusive in schema and bound not in made:
            # A form has inclusive bounds only: for integers that is the neighbour.
            made[bound] = schema[exclusive] + step if kind == "integer" else schema[exclusive]
    if made.get("format") not in (None, *_FORMATS):
        del made["format"]
    return made


def _flatten_list(name: str, schema: dict[str, Any], defs: Mapping[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    items = schema.get("items")
    items = _resolve(items, defs) if isinstance(items, Mapping) else {}
    if "anyOf" in items:
        items = {**items, "oneOf": items["anyOf"]}
    choices = _choices(name, items)
    if choices is None:
        raise UsageError(f"form field {name!r}: a list must be one of choices (Literal or Enum of texts)")
    titles = _titled(choices)
    inner = {"anyOf": titles} if titles is not None else {"type": "string", **choices}
    bounds: dict[str, Any] = {key: schema[key] for key in ("minItems", "maxItems") if key in schema}
    return {"type": "array", "items": inner, **bounds, **kept}


def _choices(name: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """A choice between texts: ``enum``, or ``oneOf``, or as it was written by hand ``enum`` and ``enumNames``, the
    notation that newer revisions take as well; None for other fields."""
    values: Any
    titles: list[Any] | None
    if "oneOf" in schema:
        try:
            values = [option["const"] for option in schema["oneOf"]]
            titles = [option.get("title", option["const"]) for option in schema["oneOf"]]
        except (TypeError, KeyError, AttributeError):
            raise UsageError(f"form field {name!r}: oneOf must list choices as const and title") from None
    elif "enum" in schema or "const" in schema:
        values = list(schema["enum"]) if "enum" in schema else [schema["const"]]
        titles = schema.get("enumNames")
        if titles is not None and len(titles) != len(values):
            raise UsageError(f"form field {name!r}: enumNames must name each of the {len(values)} choices")
    else:
        return None
    if titles is not None:
        titles = [title for value, title in zip(values, titles, strict=True) if value is not None]
    values = [value for value in values if value is not None]
    if not values or not all(isinstance(value, str) for value in values):
        raise UsageError(f"form field {name!r}: choices must be texts")
    if titles is None:
        return {"enum": values}
    titles = [str(title) for title in titles]
    if "oneOf" not in schema:
        return {"enum": values, "enumNames": titles}
    return {"oneOf": [{"const": v, "title": t} for v, t in zip(values, titles, strict=True)]}


def _titled(choices: Mapping[str, Any]) -> list[dict[str, str]] | None:
    if "enumNames" not in choices:
        return choices.get("oneOf")
    return [{"const": v, "title": t} for v, t in zip(choices["enum"], choices["enumNames"], strict=True)]


# --- writing -------------------------------------------------------------------------------------------


def _write(name: str, field: dict[str, Any], revision: str) -> dict[str, Any]:
    """One field for a client of ``revision``."""
    if revision >= R4:
        return field
    if field["type"] == "array":
        raise CannotAsk(f"form field {name!r} takes several choices, which clients of {R3} do not know")
    made = {key: value for key, value in field.items() if key not in ("oneOf", "pattern")}
    if "oneOf" in field:
        made["enum"] = [option["const"] for option in field["oneOf"]]
        made["enumNames"] = [option["title"] for option in field["oneOf"]]
    if field["type"] != "boolean":
        made.pop("default", None)
    return made


# --- checking ------------------------------------------------------------------------------------------


def _values(field: dict[str, Any]) -> list[str] | None:
    options = field.get("oneOf", field.get("anyOf"))
    return [option["const"] for option in options] if options is not None else field.get("enum")


def _fault(value: Any, field: dict[str, Any]) -> str | None:
    """What is wrong with one value, or None. The value itself is never told."""
    kind = field["type"]
    if kind == "array":
        allowed = _values(field["items"]) or []
        if not isinstance(value, list) or not all(isinstance(item, str) and item in allowed for item in value):
            return "must be a list of the choices"
        if not field.get("minItems", 0) <= len(value) <= field.get("maxItems", len(value)):
            return "has too few or too many choices"
        return None
    if kind == "boolean":
        return None if isinstance(value, bool) else "must be true or false"
    if kind == "string":
        return _text_fault(value, field)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "must be a number"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if kind == "integer" and value != int(value):
        return "must be a whole number"
    if value < field.get("minimum", value) or value > field.get("maximum", value):
        return "is out of its range"
    return None


def _text_fault(value: Any, field: dict[str, Any]) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    allowed = _values(field)
    if allowed is not None:
        return None if value in allowed else "is none of the choices"
    if not field.get("minLength", 0) <= len(value) <= field.get("maxLength", _MAX_TEXT):
        return "is too short or too long"
    if "pattern" in field and not re.search(field["pattern"], value):
        return "does not match its pattern"
    kind = field.get("format")
    if kind == "email" and not re.fullmatch(r"[^@\s]+@[^@\s]+", value):
        return "must be an email address"
    if kind == "uri" and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*:\S+", value):
        return "must be a URI"
    try:
        if kind == "date":
            datetime.date.fromisoformat(value)
        elif kind == "date-time":
            datetime.datetime.fromisoformat(value)
    except ValueError:
        return f"must be a {kind}"
    return None


_EMPTY = Form({"type": "object", "properties": {}})
