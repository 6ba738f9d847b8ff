"""Pydantic annotations, for handlers that use them.

pydantic is imported only from functions that run when an annotation or a value comes from it, so a
server without pydantic never pays for it. A type of pydantic is a custom type for msgspec: values are
checked by a ``TypeAdapter`` made once per type.
"""

from functools import lru_cache
from typing import Any, Literal

import msgspec

from headrace.server.standin import Standin, make_standin

__all__ = (
    "Adapted",
    "adapted",
    "decode",
    "dump",
    "field_metadata",
    "is_model",
    "is_pydantic_type",
    "json_schema",
)


class Adapted(metaclass=Standin):
    """Stands for an annotation only pydantic understands, as ``Annotated[str, AfterValidator(f)]``."""

    annotation: Any


def is_pydantic_type(tp: Any) -> bool:
    """True for models and for pydantic's own types (``AnyUrl``, ``SecretStr``, ...)."""
    return isinstance(tp, type) and (
        hasattr(tp, "__get_pydantic_core_schema__") or issubclass(tp, Adapted)
    )  # fmt: skip


def is_model(value: Any) -> bool:
    return hasattr(type(value), "__pydantic_serializer__") and hasattr(value, "model_dump")


def adapted(annotation: Any) -> type[Adapted]:
    """A class for msgspec that stands for ``annotation``."""
    found: type[Adapted] = make_standin(str(annotation), Adapted, annotation=annotation)
    return found


@lru_cache(maxsize=1024)
def _adapter(tp: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(tp.annotation if issubclass(tp, Adapted) else tp)


def decode(tp: type, value: Any) -> Any:
    """``value`` (decoded JSON) as ``tp``.

    Raises :class:`ValueError` with the places and messages of pydantic, never the caller's input.
    """
    from pydantic import ValidationError

    try:
        return _adapter(tp).validate_python(value)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False, include_input=False)
        raise ValueError("; ".join(_describe(error) for error in errors[:4])) from None


def _describe(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    text = error["msg"][:1].lower() + error["msg"][1:]
    return f"{place}: {text}" if place else text


def json_schema(tp: type, *, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """The JSON Schema of ``tp``; definitions stay under its own ``$defs``."""
    schema: dict[str, Any] = _adapter(tp).json_schema(mode=mode, ref_template="#/$defs/{model}")
    return schema


def dump(model: Any) -> Any:
    """A model as plain values, the way pydantic puts it into JSON."""
    return model.model_dump(mode="json", by_alias=True)


def field_metadata(item: Any) -> tuple[list[msgspec.Meta], Any] | None:
    """What a ``Field(...)`` says, as msgspec metadata, and its default (``msgspec.NODEFAULT`` without one).

    ``None`` when ``item`` is not a ``Field(...)``, or holds what msgspec cannot express.
    """
    from pydantic.fields import FieldInfo

    if not isinstance(item, FieldInfo):
        return None
    metas = []
    for name in ("title", "description", "examples"):
        if (value := getattr(item, name, None)) is not None:
            metas.append(msgspec.Meta(**{name: value}))
    for constraint in item.metadata:
        meta = constraint_metadata(constraint)
        if meta is None:
            return None
        metas.append(meta)
    if item.is_required():
        return metas, msgspec.NODEFAULT
    return metas, item.get_default(call_default_factory=True)


_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")


def constraint_metadata(item: Any) -> msgspec.Meta | None:
    """``annotated_types`` constraints (``Ge``, ``Len``, ...) and pydantic's pattern, as msgspec metadata."""
    values = {name: v for name in _CONSTRAINTS if (v := getattr(item, name, None)) is not None}
    try:
        return msgspec.Meta(**values) if values else None
    except (TypeError, ValueError):
        return None
