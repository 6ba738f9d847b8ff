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

from headrace.client.schema_work import SchemaTable, measure, patterns_of, size_of
from headrace.errors import RemoteProtocolError
from headrace.types import UNSET

if TYPE_CHECKING:
    from headrace.client.results import CallResult
    from headrace.limits import Limits
    from headrace.types import Tool

__all__ = ("OutputSchemas", "SchemaUnusable", "compile_schema")

BACKTRACKING = 100_000
"""Steps that one pattern may go back."""
MOST_WORK = 10_000_000
"""Schemas times values that one check may cost; what is beyond takes seconds in which nothing else runs."""
MOST_DETAILS = 2_000
"""The same for saying what is wrong, which costs far more each."""
FEW = 16
"""Schemas that apply to one value without a look at how many values there are."""
MOST_SEARCHED = 200_000_000
"""Patterns times squares of texts' lengths: what patterns that look around or back may cost."""


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
        compiled = self._validator(name, schema)
        if compiled is None:
            return
        try:
            if isinstance(compiled, str):
                raise SchemaUnusable(compiled)
            wrong = compiled.wrong(result.structured_content)
        except SchemaUnusable as exc:
            text = f"tool {name!r}: its output schema cannot be used: {exc}"
            raise RemoteProtocolError(f"{text} (connect with validate=False to do without)") from None
        if wrong is not None:
            raise RemoteProtocolError(f"tool {name!r}: the structured content does not fit its output schema: {wrong}")

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


class Compiled:
    """A schema that values can be checked against, within bounds (JR-52)."""

    def __init__(self, validator: Any, table: SchemaTable, overlap: int, patterns: int) -> None:
        self._validator = validator
        self._table = table
        self._overlap = overlap
        self._patterns = patterns

    def is_valid(self, value: Any) -> bool:
        """Whether a value fits. Raises :class:`SchemaUnusable` where finding out would take too long."""
        if self._overlap > FEW or self._patterns:
            count, _, squares = size_of(value)
            if self._overlap * count > MOST_WORK or self._patterns * squares > MOST_SEARCHED:
                raise SchemaUnusable("a check of so much content against it would take too long")
        valid: bool = self._validator.is_valid(value)
        return valid

    def wrong(self, value: Any) -> str | None:
        """What is wrong with a value in one line, None when it fits."""
        try:
            if self.is_valid(value):
                return None
            count, depth, squares = size_of(value)
            each = self._table.unrolled(depth, MOST_DETAILS)
            if (each > FEW and each * count > MOST_DETAILS) or self._patterns * squares > MOST_SEARCHED / 100:
                return "no details, the schema is too entangled"
            self._validator.validate(value)
        except SchemaUnusable:
            raise
        except (ValueError, RecursionError) as exc:
            return f"{_where(getattr(exc, 'instance_path', []))}{_plain(str(getattr(exc, 'message', exc)))}"
        return "no details"


def compile_schema(schema: Any, limits: Limits) -> Compiled:
    """A schema made ready. Raises :class:`SchemaUnusable` for schemas that are wrong, too large or too
    entangled (JR-52), of an unknown dialect (JR-50), or that refer to other documents (JR-51)."""
    import jsonschema_rs

    most = limits.max_schema_nodes
    if measure(schema, most) > most:
        raise SchemaUnusable(f"it has more than {most} parts (limit max_schema_nodes)")
    table = SchemaTable(schema)
    if table.overlap(most, below=False) > most:
        raise SchemaUnusable(f"more than {most} schemas apply to one value (limit max_schema_nodes)")
    # A dialect is what $schema names in the root; the checks of jsonschema_rs find all other errors.
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    if dialect is not None and not isinstance(dialect, str):
        raise SchemaUnusable("$schema is not a string")
    try:
        try:
            # Patterns of this engine take linear time.
            validator = jsonschema_rs.validator_for(
                schema, retriever=_never, pattern_options=jsonschema_rs.RegexOptions()
            )
            patterns = 0
        except ValueError:
            validator = jsonschema_rs.validator_for(
                schema,
                retriever=_never,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKING),
            )
            patterns = patterns_of(schema)
    except (ValueError, RecursionError) as exc:
        text = str(getattr(exc, "message", exc))
        if dialect is not None and "meta-schema" in text:
            raise SchemaUnusable(f"its dialect {dialect[:200]!r} is not supported") from None
        if "retrieving it failed" in text:
            target = text.split("'")[1] if text.count("'") > 1 else ""
            raise SchemaUnusable(f"it refers to {target[:200]!r}, which is never fetched") from None
        raise SchemaUnusable(_plain(text)) from None
    return Compiled(validator, table, table.overlap(MOST_WORK, below=True), patterns)


def _never(uri: str) -> Any:
    raise ValueError("not fetched")


def _where(path: list[Any]) -> str:
    return f"at {'/'.join(map(str, path))[:200]}: " if path else ""


def _plain(text: str) -> str:
    return " ".join(text.split())[:300]
