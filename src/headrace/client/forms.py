"""Elicitation forms: defaults and checks of their values against the flat schemas of all revisions (CF-30)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from headrace.errors import UsageError

__all__ = ("check_content", "choices", "form_defaults", "with_defaults")


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return {key: rule for key, rule in found.items() if isinstance(rule, dict)} if isinstance(found, dict) else {}


def form_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """The default of each field that has one, to fill in a form before the user sees it."""
    return {key: rule["default"] for key, rule in _properties(schema).items() if "default" in rule}


def with_defaults(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """``content`` with the defaults of the fields that it leaves out. Nulls count as left out."""
    given = {key: value for key, value in content.items() if value is not None}
    return {**{key: value for key, value in form_defaults(schema).items() if value is not None}, **given}


def choices(rule: dict[str, Any]) -> list[tuple[str, str]] | None:
    """The values that a field may take, each with its title, or None for a free field.

    Knows ``enum``, ``enum`` with ``enumNames``, ``oneOf`` of titled constants, and both under ``items`` of a
    multiple choice.
    """
    if rule.get("type") == "array":
        items = rule.get("items")
        return choices({k: v for k, v in items.items() if k != "type"}) if isinstance(items, dict) else None
    for key in ("oneOf", "anyOf"):
        titled = rule.get(key)
        if isinstance(titled, list) and all(isinstance(each, dict) and "const" in each for each in titled):
            return [(each["const"], str(each.get("title", each["const"]))) for each in titled]
    values = rule.get("enum")
    if not isinstance(values, list):
        return None
    names = rule.get("enumNames")
    if isinstance(names, list) and len(names) == len(values):
        return [(value, str(name)) for value, name in zip(values, names, strict=True)]
    return [(value, str(value)) for value in values]


def check_content(schema: dict[str, Any], content: dict[str, Any]) -> None:
    """Raises :class:`UsageError` naming the first field whose value the form does not allow."""
    rules = _properties(schema)
    required = schema.get("required")
    for key in required if isinstance(required, list) else ():
        if isinstance(key, str) and key not in content:
            raise UsageError(f"elicitation: field {key!r} is required")
    for key, value in content.items():
        rule = rules.get(key)
        if rule is None:
            raise UsageError(f"elicitation: the form has no field {key!r}")
        wrong = _wrong(rule, value)
        if wrong is not None:
            raise UsageError(f"elicitation: field {key!r} {wrong}")


def _wrong(rule: dict[str, Any], value: Any) -> str | None:
    kind = rule.get("type")
    if kind == "array":
        return _wrong_list(rule, value)
    allowed = choices(rule)
    if allowed is not None:
        if not any(type(value) is type(one) and value == one for one, _ in allowed):
            return f"must be one of {', '.join(str(one) for one, _ in allowed[:20])}"
        return None
    if kind == "string":
        return _wrong_text(rule, value)
    if kind == "boolean":
        return None if isinstance(value, bool) else "must be true or false"
    if kind in ("number", "integer"):
        return _wrong_number(rule, value, kind)
    return None


def _wrong_list(rule: dict[str, Any], value: Any) -> str | None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return "must be a list of strings"
    allowed = choices(rule)
    if allowed is not None:
        known = {one for one, _ in allowed if isinstance(one, str)}
        for each in value:
            if each not in known:
                return f"must only hold {', '.join(sorted(known)[:20])}"
    return _wrong_size(rule, len(value), "minItems", "maxItems", "choices")


def _wrong_size(rule: dict[str, Any], size: int, low: str, high: str, what: str) -> str | None:
    least, most = rule.get(low), rule.get(high)
    if isinstance(least, int | float) and size < least:
        return f"needs at least {_shown(least)} {what}"
    if isinstance(most, int | float) and size > most:
        return f"may have at most {_shown(most)} {what}"
    return None


def _wrong_text(rule: dict[str, Any], value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a string"
    wrong = _wrong_size(rule, len(value), "minLength", "maxLength", "characters")
    if wrong is not None:
        return wrong
    # A pattern is left to the server: one made to take for ever would hold this event loop.
    form = rule.get("format")
    check = _FORMATS.get(form) if isinstance(form, str) else None
    if check is not None and not check(value):
        return f"is not a valid {form}"
    return None


def _wrong_number(rule: dict[str, Any], value: Any, kind: str) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a number"
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        return "must be a whole number"
    least, most = rule.get("minimum"), rule.get("maximum")
    if isinstance(least, int | float) and value < least:
        return f"must be at least {_shown(least)}"
    if isinstance(most, int | float) and value > most:
        return f"must be at most {_shown(most)}"
    return None


def _shown(bound: float) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _is_date(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return len(value) == 10


def _is_date_time(value: str) -> bool:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return False
    return moment.tzinfo is not None and value[10:11] in ("T", "t", " ")


_FORMATS: dict[str, Callable[[str], Any]] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S*").fullmatch,
    "date": _is_date,
    "date-time": _is_date_time,
}
