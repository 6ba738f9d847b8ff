"""What a return annotation promises: the output schema, and the check of results against it.

A structured annotation (Struct, dataclass, TypedDict, pydantic model, dict, list, number, bool, unions
of these) gives an output schema. Text (``str``, ``Literal`` strings, dates, UUIDs, ``Decimal``, paths),
content blocks, ``Image``, ``Audio``, bytes, ``ToolResult``, ``None``, ``Any`` and types without a JSON
form give none; ``Annotated[ToolResult, Forecast]`` gives the schema of ``Forecast``.
"""

import collections.abc
import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from headrace.server import _pydantic
from headrace.server.content import ToolResult, is_block_type
from headrace.server.hints import alternatives, decode_custom, prepare, strip
from headrace.server.schema import check_schema, type_schema
from headrace.server.validation import SchemaCheck, compile_schema

__all__ = ("Output", "inspect_output")

_SEQUENCES = (list, tuple, set, frozenset, collections.abc.Sequence)


class Output:
    """The promise of one tool. Attributes are read-only.

    ``schema`` is the output schema; ``is_object`` says that its root is ``type: object``, which
    revisions up to 2025-11-25 require (SF-06).
    """

    __slots__ = ("_check", "_class", "_element", "_whole", "is_object", "schema", "type")

    def __init__(self, schema: dict[str, Any], tp: Any = None, whole: SchemaCheck | None = None) -> None:
        self.schema = schema
        self.is_object = schema.get("type") == "object"
        self.type = tp
        self._check: Callable[[bytes], Any] | None = None
        self._class = self._element = None
        self._whole = whole
        if tp is not None:
            self._check = msgspec.json.Decoder(tp, dec_hook=decode_custom).decode
            self._class = _instance_class(tp)
            plain = strip(tp)
            if get_origin(plain) is list:
                self._element = _instance_class(get_args(plain)[0])

    @property
    def instance_class(self) -> Any:
        """The class whose instances pass unseen, or ``None``."""
        return None if self._whole is not None else self._class

    @property
    def checked_whole(self) -> bool:
        """A schema written by hand decides, not the type."""
        return self._whole is not None

    def check(self, value: Any, data: bytes) -> None:
        """Checks a result and its JSON. Raises msgspec.ValidationError when the promise is not kept.

        A schema written by hand is checked whole (:mod:`headrace.server.validation`). Instances of
        the promised class pass otherwise unseen, and so does a list of them; everything else is
        decoded from the JSON that is about to be sent, which is the exact test.
        """
        if self._whole is not None:
            self._whole.check(data)  # and the annotation still holds
        if self._class is not None and isinstance(value, self._class):
            return
        if self._element is not None and type(value) is list and set(map(type, value)) <= {self._element}:
            return
        if self._check is not None:
            self._check(data)
        elif self.is_object and data[:1] != b"{":
            raise msgspec.ValidationError("Expected `object`")


def _instance_class(tp: Any) -> Any:
    """``tp`` when being an instance of it is promise enough."""
    tp = strip(tp)
    if not isinstance(tp, type) or get_args(tp):
        return None
    if issubclass(tp, msgspec.Struct) or dataclasses.is_dataclass(tp) or _pydantic.is_pydantic_type(tp):
        return tp
    return None


def inspect_output(annotation: Any, schema: dict[str, Any] | None = None, *, where: str) -> Output | None:
    """The promise of a return annotation, or of ``schema`` written by hand, which goes first.

    ``where`` begins error messages. Raises UsageError when ``schema`` is not usable.
    """
    tp = _structured(_without_exceptions(annotation))
    found: dict[str, Any] | None = None
    if tp is not None:
        tp = prepare(tp)
        try:
            found, _ = type_schema(tp, mode="serialization")
            msgspec.json.Decoder(tp, dec_hook=decode_custom)
        except (TypeError, NameError):
            tp = found = None  # no JSON form: results are rendered by their value
    if schema is not None:
        what = f"{where}: output_schema"
        checked = check_schema(schema, what, object_root=False)
        return Output(checked, tp, compile_schema(checked, what))
    if not found or _is_text(found):
        return None
    return Output(found, tp)


def _without_exceptions(annotation: Any) -> Any:
    """``annotation`` without what is no result, such as the InputNeeded of a handler that asks first."""
    members = alternatives(annotation)
    kept = tuple(m for m in members if not (isinstance(m, type) and issubclass(m, BaseException)))
    if len(kept) == len(members):
        return annotation
    return Union[kept] if kept else None  # noqa: UP007


def _structured(annotation: Any) -> Any:
    """The type that results are promised to have, or ``None``."""
    if annotation is inspect.Signature.empty:
        return None
    if get_origin(annotation) is Annotated and strip(annotation) is ToolResult:
        return next(
            (item for item in annotation.__metadata__ if isinstance(item, type) or get_origin(item)), None
        )
    members = [m for m in alternatives(annotation) if m not in (None, type(None))]
    if not members or any(_unstructured(member) for member in members):
        return None
    return annotation


def _unstructured(tp: Any) -> bool:
    if tp in (Any, object, str, ToolResult, msgspec.Raw, typing.NoReturn, typing.Never):
        return True
    if isinstance(tp, type) and (is_block_type(tp) or issubclass(tp, str)):
        return True
    if (get_origin(tp) or tp) in _SEQUENCES:
        # A list of anything may hold content blocks: it promises nothing.
        if not get_args(tp) or get_args(tp)[0] in (Any, object):
            return True
        return any(is_block_type(m) or m is ToolResult for arg in get_args(tp) for m in alternatives(arg))
    return False


def _is_text(schema: dict[str, Any]) -> bool:
    """True for schemas of plain text, null included."""
    options = schema.get("anyOf", [schema])
    return all(option.get("type") in ("string", "null") for option in options if isinstance(option, dict))
