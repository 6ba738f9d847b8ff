"""Structured content checked against the output schemas of tools (SF-06, JR-50..JR-52, B92, B110).

Strategy: schemas come from ``tools/list``; a validator is compiled when the first result of its tool arrives, and
again only when the schema has changed. A schema that cannot be used fails the calls of its own tool, never those of
others; it is never made usable by fetching anything.

Dialects: those of ``jsonschema-rs``, which are 2020-12 (without ``$schema``), 2019-09, and drafts 7, 6 and 4. Without
that package (extra ``schema``) nothing is checked, which is logged once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.errors import RemoteProtocolError
from headrace.types import UNSET

if TYPE_CHECKING:
    from headrace.client.results import CallResult
    from headrace.limits import Limits
    from headrace.types import Tool

__all__ = ("OutputSchemas", "SchemaUnusable", "compile_schema")

BACKTRACKING = 100_000
"""Steps that one pattern may go back."""

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas",)


class SchemaUnusable(ValueError):
    """An output schema that nothing can be checked against: one plain line says why."""


class OutputSchemas:
    """The output schemas of a server's tools."""

    def __init__(self, limits: Limits, warn: Callable[[str], None]) -> None:
        self._limits = limits
        self._warn = warn
        self.known: dict[str, dict[str, Any]] = {}
        """Output schemas by tool. The object stays the same."""
        self._compiled: dict[str, tuple[dict[str, Any], Any]] = {}
        self.compilations = 0

    def learn(self, tools: list[Tool], *, whole: bool) -> None:
        """Remembers the output schemas of tools; ``whole``: in place of all others."""
        if whole:
            self.known.clear()
        for tool in tools:
            if isinstance(tool.output_schema, dict):
                self.known[tool.name] = tool.output_schema
            else:
                self.known.pop(tool.name, None)
        for name in [name for name in self._compiled if name not in self.known]:
            del self._compiled[name]

    def changed(self, kind: str, uri: str | None) -> None:
        """The list of tools has changed: what was learnt of it is void, until it is read again."""
        if kind == "tools":
            self.known.clear()

    def check(self, name: str, result: CallResult) -> None:
        """Raises :class:`RemoteProtocolError` when a result does not fit the tool's output schema; a result
        that says the tool failed always does."""
        schema = self.known.get(name)
        if schema is None or result.is_error:
            return
        if result.structured_content is UNSET:
            raise RemoteProtocolError(f"tool {name!r} has an output schema but gave no structured content")
        validator = self._validator(name, schema)
        if validator is None:
            return
        if isinstance(validator, str):
            text = f"tool {name!r}: its output schema cannot be used: {validator}"
            raise RemoteProtocolError(f"{text} (connect with validate=False to do without)")
        try:
            if validator.is_valid(result.structured_content):
                return
            error = next(validator.iter_errors(result.structured_content))
            text = f"{_where(error.instance_path)}{_plain(error.message)}"
        except (ValueError, RecursionError, StopIteration) as exc:
            text = _plain(str(exc))
        raise RemoteProtocolError(f"tool {name!r}: the structured content does not fit its output schema: {text}")

    def _validator(self, name: str, schema: dict[str, Any]) -> Any:
        """The compiled schema, a text that says why there is none, or None when nothing is checked."""
        found = self._compiled.get(name)
        if found is not None and (found[0] is schema or found[0] == schema):
            return found[1]
        try:
            import jsonschema_rs  # noqa: F401
        except ImportError:
            self._warn("structured content is not checked: install headrace[schema]")
            self.known.clear()
            self.learn = lambda tools, *, whole: None  # type: ignore[method-assign]
            return None
        self.compilations += 1
        validator: Any
        try:
            validator = compile_schema(schema, self._limits)
        except SchemaUnusable as exc:
            validator = str(exc)
        self._compiled[name] = (schema, validator)
        return validator


def compile_schema(schema: Any, limits: Limits) -> Any:
    """A ``jsonschema_rs`` validator. Raises :class:`SchemaUnusable` for schemas that are wrong, too large or too
    entangled (JR-52), of an unknown dialect (JR-50), or that refer to other documents (JR-51)."""
    import jsonschema_rs

    nodes = _measure(schema, limits)
    _untangle(schema, limits, nodes)
    # A dialect is what $schema names in the root; the checks of jsonschema_rs find all other errors.
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    if dialect is not None and not isinstance(dialect, str):
        raise SchemaUnusable("$schema is not a string")
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_never,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKING),
        )
    except (ValueError, RecursionError) as exc:
        text = str(getattr(exc, "message", exc))
        if dialect is not None and "meta-schema" in text:
            raise SchemaUnusable(f"its dialect {dialect[:200]!r} is not supported") from None
        if "retrieving it failed" in text:
            target = text.split("'")[1] if text.count("'") > 1 else ""
            raise SchemaUnusable(f"it refers to {target[:200]!r}, which is never fetched") from None
        raise SchemaUnusable(_plain(text)) from None


def _never(uri: str) -> Any:
    raise ValueError("not fetched")


def _measure(schema: Any, limits: Limits) -> int:
    """Objects and arrays of a schema. Raises :class:`SchemaUnusable` beyond ``limits.max_schema_nodes``."""
    count = 0
    left = [schema]
    while left:
        node = left.pop()
        count += 1
        if count > limits.max_schema_nodes:
            raise SchemaUnusable(f"it has more than {limits.max_schema_nodes} parts (limit max_schema_nodes)")
        inner = node.values() if isinstance(node, dict) else node
        left += [each for each in inner if isinstance(each, dict | list)]
    return count


def _untangle(root: Any, limits: Limits, nodes: int) -> None:
    """Counts what has to be applied to one value: a few references can stand for billions of schemas."""
    costs: dict[int, int] = {}
    # Depth first without recursion: a chain of references may be as long as the schema.
    for start in _schemas_in(root):
        stack: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [(start, _applied(start, root))]
        if id(start) in costs:
            continue
        costs[id(start)] = 0  # inside of itself: the validator stops there
        sums = [1]
        while stack:
            node, parts = stack[-1]
            if parts:
                part = parts.pop()
                known = costs.get(id(part))
                if known is None:
                    costs[id(part)] = 0
                    stack.append((part, _applied(part, root)))
                    sums.append(1)
                else:
                    sums[-1] += known
            else:
                stack.pop()
                cost = sums.pop()
                costs[id(node)] = cost
                if cost > limits.max_schema_nodes:
                    raise SchemaUnusable(
                        f"more than {limits.max_schema_nodes} schemas apply to one value (limit max_schema_nodes)"
                    )
                if sums:
                    sums[-1] += cost


def _schemas_in(root: Any) -> list[dict[str, Any]]:
    found = []
    left = [root]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            found.append(node)
            left += [each for each in node.values() if isinstance(each, dict | list)]
        elif isinstance(node, list):
            left += [each for each in node if isinstance(each, dict | list)]
    return found


def _applied(node: dict[str, Any], root: Any) -> list[dict[str, Any]]:
    """The schemas that apply to the same value as ``node``."""
    parts: list[Any] = []
    for key in _IN_PLACE_LISTS:
        inner = node.get(key)
        if isinstance(inner, list):
            parts += inner
    parts += [node.get(key) for key in _IN_PLACE]
    for key in _IN_PLACE_MAPS:
        inner = node.get(key)
        if isinstance(inner, dict):
            parts += inner.values()
    for key in ("$ref", "$dynamicRef"):
        ref = node.get(key)
        if isinstance(ref, str) and ref.startswith("#"):
            parts.append(_target(ref, root))
    return [part for part in parts if isinstance(part, dict)]


def _target(ref: str, root: Any) -> Any:
    node = root
    for step in unquote(ref[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(step)
        elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


def _where(path: list[Any]) -> str:
    return f"at {'/'.join(map(str, path))[:200]}: " if path else ""


def _plain(text: str) -> str:
    return " ".join(text.split())[:300]
