"""URI templates of RFC 6570: expansion (all levels), and matching back to values (SF-20, SF-24).

Matching: a template is compiled to one regular expression that can be read in one way only. Of the
variables without a name in the URI all but one must be fenced off by a character that their values cannot
hold unencoded, reading from either end; a template where that fails would give two answers for one URI and
is refused when it is registered. Hence no backtracking beyond one pass for each candidate of that one
variable, on input that ``limits.max_uri_bytes`` bounds.

Rules beyond the RFC, which has none for matching: variables of ``{x}``, ``{+x}``, ``{#x}``, ``{.x}`` and
``{/x}`` are there and not empty; those of ``{;x}``, ``{?x}`` and ``{&x}`` may be absent and come in any order.
``{+x}`` and ``{#x}`` stop at ``?`` and ``#`` where the template goes on with one. Values are percent-decoded once
each, after they were taken apart; what does not decode to UTF-8 does not match. Characters that a careful
client would have encoded (``:``, ``@``, ...) match ``{x}`` where nothing else in the template needs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from headrace.errors import UsageError

__all__ = ("UriTemplate", "has_scheme")

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_RESERVED = frozenset(":/?#[]@!$&'()*+,;=")
_TOLERATED = frozenset(":@!$'()*+")
_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_EXPRESSION = re.compile(r"([+#./;?&]?)([A-Za-z0-9_%.:*,]+)")
_VARIABLE = re.compile(r"((?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*)(\*|:[1-9]\d{0,3})?")
_LITERAL = re.compile(r"(?:[^\x00-\x20\x7f\"'<>\\^`{|}%]|%[0-9A-Fa-f]{2})*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DRIVE = re.compile(r"[A-Za-z]:(?:[/\\]|$)")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")


class _Operator(NamedTuple):
    first: str
    separator: str
    named: bool
    if_empty: str
    reserved: bool


_OPERATORS = {
    "": _Operator("", ",", False, "", False),
    "+": _Operator("", ",", False, "", True),
    "#": _Operator("#", ",", False, "", True),
    ".": _Operator(".", ".", False, "", False),
    "/": _Operator("/", "/", False, "", False),
    ";": _Operator(";", ";", True, "", False),
    "?": _Operator("?", "&", True, "=", False),
    "&": _Operator("&", "&", True, "=", False),
}


class _Variable(NamedTuple):
    name: str
    explode: bool
    prefix: int


class _Expression(NamedTuple):
    operator: str
    variables: tuple[_Variable, ...]


class _Slot(NamedTuple):
    """A value in the regular expression: one variable, or the pairs of several named ones."""

    names: tuple[str, ...]
    chars: frozenset[str]
    split: str = ""
    pairs: str = ""
    """The operator of named variables, or empty."""


def has_scheme(uri: str) -> bool:
    """Whether ``uri`` begins with a scheme (RFC 3986, 3.1), as resources must."""
    return _SCHEME.match(uri) is not None


class UriTemplate:
    """One template. Attributes are read-only.

    ``template`` is its text, ``variables`` the names in order, ``prefix`` what every match begins with,
    ``lists`` the names whose values are lists of strings (``{/x*}``).

    Raises :class:`UsageError` for text that is no template, or that cannot be matched unambiguously.
    """

    __slots__ = ("_in_path", "_parts", "_regex", "_slots", "lists", "prefix", "template",
                 "variables")  # fmt: skip

    def __init__(self, template: str) -> None:
        self.template = template
        self._parts = _parse(template)
        expressions = [part for part in self._parts if isinstance(part, _Expression)]
        found = [variable for expression in expressions for variable in expression.variables]
        names = [variable.name for variable in found]
        self.variables = tuple(names)
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"URI template {template!r}: the variable {name!r} stands in it twice")
        if not has_scheme(template):
            raise UsageError(f"URI template {template!r} must begin with a scheme, such as file:// or docs://")
        self.lists = frozenset(variable.name for variable in found if variable.explode)
        is_file = template.lower().startswith("file:")
        self._in_path = {
            v.name: e.operator == "+" or is_file
            for e in expressions
            if e.operator in ("", "+", ".", "/")
            for v in e.variables
        }
        items = _items(template, self._parts)
        _check_one_reading(template, items)
        self.prefix = items[0] if items and isinstance(items[0], str) else ""
        self._slots = tuple(item for item in items if isinstance(item, _Slot))
        self._regex = re.compile(_pattern(items))

    def __repr__(self) -> str:
        return f"<UriTemplate {self.template}>"

    def match(self, uri: str) -> dict[str, Any] | None:
        """The values of the variables in ``uri`` (str, or list of str for ``lists``), or None."""
        if not uri.isascii():
            try:
                uri = quote(uri, safe=_ASCII)
            except UnicodeEncodeError:
                return None
        if not uri.startswith(self.prefix):
            return None
        found = self._regex.fullmatch(uri)
        if found is None:
            return None
        values: dict[str, Any] = {}
        try:
            for slot, text in zip(self._slots, found.groups(), strict=True):
                if slot.pairs:
                    if text and not self._take_pairs(slot, text, values):
                        return None
                elif slot.split:
                    values[slot.names[0]] = [_decode(piece) for piece in text.split(slot.split)]
                else:
                    values[slot.names[0]] = _decode(text)
        except ValueError:
            return None
        return values

    def _take_pairs(self, slot: _Slot, text: str, values: dict[str, Any]) -> bool:
        separator = ";" if slot.pairs == ";" else "&"
        for pair in text.split(separator):
            name, _, value = pair.partition("=")
            if name not in slot.names:
                return False
            if name in self.lists:
                values.setdefault(name, []).append(_decode(value))
            elif name in values:
                return False
            else:
                values[name] = _decode(value)
        return True

    def climbs(self, values: Mapping[str, Any]) -> bool:
        """Whether a value in the path would lead out of where the template puts it (SF-24): a ``..`` segment or
        a NUL; of ``{+x}`` and in ``file:`` templates also a ``/``, backslash or drive at its beginning."""
        whole = self.prefix.lower() == "file://"  # the path begins with the first variable
        for name, strict in self._in_path.items():
            value = values.get(name, ())
            for text in value if isinstance(value, (list, tuple)) else (value,):
                if "\0" in text or ".." in re.split(r"[/\\]", text):
                    return True
                if strict and not whole and (text[:1] in ("/", "\\") or _DRIVE.match(text)):
                    return True
            whole = False
        return False

    def expand(self, values: Mapping[str, Any]) -> str:
        """The URI for ``values``: strings, lists of strings and dicts of strings; absent and None are undefined
        (RFC 6570, 3.2)."""
        return "".join(
            quote(part, safe=_ASCII) if isinstance(part, str) else _expand(part, values) for part in self._parts
        )


# --- reading -------------------------------------------------------------------------------------


def _parse(template: str) -> list[str | _Expression]:
    parts: list[str | _Expression] = []
    at = 0
    while at < len(template):
        end = template.find("{", at)
        literal = template[at:] if end < 0 else template[at:end]
        if not _LITERAL.fullmatch(literal):
            raise UsageError(f"URI template {template!r}: {literal!r} holds what no URI can hold unencoded")
        if literal:
            parts.append(literal)
        if end < 0:
            break
        close = template.find("}", end)
        inside = template[end + 1 : close] if close >= 0 else ""
        expression = _EXPRESSION.fullmatch(inside)
        variables = [_VARIABLE.fullmatch(text) for text in expression[2].split(",")] if expression else [None]
        if expression is None or not all(variables):
            shown = template[end : close + 1] if close >= 0 else template[end:]
            raise UsageError(f"URI template {template!r}: {shown} is no expression such as {{name}} or {{?page,size}}")
        parts.append(
            _Expression(
                expression[1],
                tuple(
                    _Variable(v[1], v[2] == "*", int(v[2][1:]) if v[2] and v[2] != "*" else 0)
                    for v in variables
                    if v is not None
                ),
            )
        )
        at = close + 1
    return parts


# --- matching ------------------------------------------------------------------------------------


def _items(template: str, parts: list[str | _Expression]) -> list[str | _Slot]:
    """Literals (joined, percent-encoded) and slots in turn."""
    literals = "".join(part for part in parts if isinstance(part, str))
    operators = {part.operator for part in parts if isinstance(part, _Expression)}
    simple = _UNRESERVED | (_TOLERATED - set(literals))
    reserved = _UNRESERVED | _RESERVED
    if operators & {"?", "&"} or "?" in literals:
        reserved -= {"?"}
    if "#" in operators or "#" in literals:
        reserved -= {"#"}
    if ";" in operators:
        reserved -= {";"}
    items: list[str | _Slot] = []

    def literal(text: str) -> None:
        if text and items and isinstance(items[-1], str):
            items[-1] += text
        elif text:
            items.append(text)

    for part in parts:
        if isinstance(part, str):
            literal(quote(part, safe=_ASCII))
            continue
        operator = part.operator
        names = tuple(variable.name for variable in part.variables)
        if any(variable.prefix for variable in part.variables):
            raise UsageError(f"URI template {template!r}: a length such as {{name:3}} cannot be matched: leave it out")
        if operator in ("?", "&", ";"):
            last = items[-1] if items else ""
            if isinstance(last, _Slot) and operator == "&" and last.pairs in ("?", "&"):
                items[-1] = last._replace(names=last.names + names)
            else:
                items.append(_Slot(names, frozenset(), pairs=operator))
            continue
        rules = _OPERATORS[operator]
        for index, variable in enumerate(part.variables):
            literal(rules.separator if index else rules.first)
            chars, split = (reserved if rules.reserved else simple), ""
            if variable.explode:
                if operator not in ("", "/"):
                    raise UsageError(
                        f"URI template {template!r}: the items of {{{operator}{variable.name}*}} cannot be told apart: "
                        f"use {{/{variable.name}*}} or {{?{variable.name}*}}"
                    )
                chars, split = simple | {rules.separator}, rules.separator
            items.append(_Slot((variable.name,), chars, split))
    return items


def _check_one_reading(template: str, items: list[str | _Slot]) -> None:
    """Refuses templates in which more than one variable has no fence; see the head of the file."""
    for index, item in enumerate(items):
        if isinstance(item, _Slot) and item.pairs in ("?", "&") and not _may_follow_query(items[index + 1 :]):
            raise UsageError(f"URI template {template!r}: {{?...}} must be at its end, or before {{#...}}")
    slots = [index for index, item in enumerate(items) if isinstance(item, _Slot) and not item.pairs]
    while slots and _fenced(items, slots[0], 1):
        slots.pop(0)
    while slots and _fenced(items, slots[-1], -1):
        slots.pop()
    if len(slots) > 1:
        one, two = items[slots[0]], items[slots[1]]
        assert isinstance(one, _Slot) and isinstance(two, _Slot)
        between = items[slots[0] + 1]
        why = f"{between!r} may be part of their values" if isinstance(between, str) else "nothing stands between them"
        raise UsageError(
            f"URI template {template!r}: {{{one.names[0]}}} and {{{two.names[0]}}} cannot be told apart, as {why}: "
            "separate them with a character such as / that values hold only encoded"
        )


def _may_follow_query(rest: list[str | _Slot]) -> bool:
    return not rest or (isinstance(rest[0], str) and rest[0].startswith("#"))


def _fenced(items: list[str | _Slot], index: int, step: int) -> bool:
    """Whether the slot's value ends (``step`` 1) or begins (-1) where its characters do."""
    slot = items[index]
    assert isinstance(slot, _Slot)
    at = index + step
    if not 0 <= at < len(items):
        return True
    beside = items[at]
    if isinstance(beside, _Slot):
        return bool(beside.pairs) and step == 1
    char = beside[0 if step == 1 else -1]
    # A hexadecimal digit behind a percent sign is part of no fence.
    return char not in slot.chars and char != "%" and not (step == -1 and re.search(r"%[0-9A-Fa-f]{2}$", beside))


def _pattern(items: list[str | _Slot]) -> str:
    parts = []
    free = True  # every slot before was fenced: it ends where its characters end
    for index, item in enumerate(items):
        if isinstance(item, str):
            parts.append(re.escape(item))
        elif item.pairs == ";":
            parts.append(r"(?:;([^/?#]*))?")
        elif item.pairs:
            parts.append(r"(?:[?&]([^#]*))?" if item.pairs == "?" else r"(?:&([^#]*))?")
        else:
            free = free and _fenced(items, index, 1)
            chars = "".join(re.escape(char) for char in sorted(item.chars))
            parts.append(f"([{chars}%]{'++' if free else '+'})")
    return "".join(parts)


def _decode(text: str) -> str:
    """Percent-decoded once; ValueError for what is no UTF-8 or no encoding at all."""
    if "%" not in text:
        return text
    if _BAD_PERCENT.search(text):
        raise ValueError(text)
    return unquote_to_bytes(text).decode("utf-8")


# --- expansion -----------------------------------------------------------------------------------


def _encode(value: Any, reserved: bool) -> str:
    text = str(value)
    if not reserved:
        return quote(text, safe="-._~")
    pieces, at = [], 0
    safe = "".join(_RESERVED) + "-._~"
    for found in _PERCENT.finditer(text):  # what is encoded already stays so
        pieces += [quote(text[at : found.start()], safe=safe), found[0]]
        at = found.end()
    return "".join([*pieces, quote(text[at:], safe=safe)])


def _expand(expression: _Expression, values: Mapping[str, Any]) -> str:
    rules = _OPERATORS[expression.operator]
    found: list[str] = []
    for variable in expression.variables:
        value = values.get(variable.name)
        if value is None or (isinstance(value, (list, tuple, Mapping)) and not value):
            continue
        found += _expand_variable(variable, value, rules)
    return rules.first + rules.separator.join(found) if found else ""


def _expand_variable(variable: _Variable, value: Any, rules: _Operator) -> list[str]:
    def named(name: str, text: str) -> str:
        if not rules.named:
            return text
        return f"{name}={text}" if text else f"{name}{rules.if_empty}"

    if isinstance(value, Mapping):
        pairs = [(_encode(k, rules.reserved), _encode(v, rules.reserved)) for k, v in value.items() if v is not None]
        if variable.explode:
            return [f"{k}={v}" for k, v in pairs]
        return [named(variable.name, ",".join(f"{k},{v}" for k, v in pairs))]
    if isinstance(value, (list, tuple)):
        texts = [_encode(item, rules.reserved) for item in value if item is not None]
        if variable.explode:
            return [named(variable.name, text) for text in texts]
        return [named(variable.name, ",".join(texts))]
    text = str(value)
    if variable.prefix:
        text = text[: variable.prefix]
    return [named(variable.name, _encode(text, rules.reserved))]
