"""Whole validation of results against output schemas written by hand (SF-06, B110, JR-50..52).

Done by ``jsonschema-rs`` (the extra ``headrace[schema]``) where it is installed, compiled once when the tool is
registered. Without it such schemas are checked at their root only. Nothing is ever fetched.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.errors import UsageError

__all__ = ("SchemaCheck", "compile_schema")

_decode = msgspec.json.Decoder().decode


class SchemaCheck:
    """A compiled schema."""

    __slots__ = ("_validator",)

    def __init__(self, validator: Any) -> None:
        self._validator = validator

    def check(self, data: bytes) -> None:
        """Checks a JSON text. Raises msgspec.ValidationError that names the place and the keyword, never a value."""
        try:
            value = _decode(data)
            error = next(iter(self._validator.iter_errors(value)), None)
        except (ValueError, RecursionError, OverflowError) as exc:
            raise msgspec.ValidationError(f"cannot be checked: {type(exc).__name__}") from None
        if error is not None:
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            keyword = next((part for part in reversed(error.schema_path) if isinstance(part, str)), "schema")
            raise msgspec.ValidationError(f"`{keyword}` does not hold - at `${path}`")


def compile_schema(schema: dict[str, Any], where: str) -> SchemaCheck | None:
    """The check for ``schema``, or None without ``jsonschema-rs``.

    Raises :class:`UsageError`, beginning with ``where``, for a schema that is none, or of a dialect that is
    not known: 2020-12 (also without ``$schema``), 2019-09, 7, 6 and 4 are.
    """
    try:
        import jsonschema_rs
    except ImportError:
        return None
    try:
        return SchemaCheck(jsonschema_rs.validator_for(schema, retriever=_refuse))
    except Exception as exc:
        reason = str(exc).strip().partition("\n")[0]
        dialect = f" ($schema {schema['$schema']!r})" if "$schema" in schema else ""
        raise UsageError(f"{where} is no schema that can be checked{dialect}: {reason}") from exc


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema, and nothing is fetched")
