"""Type hints of a handler, made ready for msgspec.

Three steps, all at registration: names are resolved (also below ``from __future__ import annotations``
and inside functions), hints are rewritten where msgspec wants them otherwise (``Field(...)`` of
pydantic, ``Iterable``, unions msgspec cannot tell apart), and :func:`decode_custom` is the one hook
that turns decoded JSON into the few types msgspec does not know.
"""

import collections.abc
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Optional, Union, get_args, get_origin

import msgspec

from headrace.errors import UsageError
from headrace.server import _pydantic
from headrace.server.standin import Standin, make_standin

__all__ = ("Choice", "accepts_none", "decode_custom", "describe_type", "prepare", "resolve_hints", "strip")

_CONTAINERS = (
    list, set, frozenset, tuple, dict, collections.abc.Sequence, collections.abc.MutableSequence,
    collections.abc.Collection, collections.abc.Set, collections.abc.MutableSet, collections.abc.Mapping,
    collections.abc.MutableMapping,
)  # fmt: skip
_JSON_NAMES = {
    dict: "object",
    list: "array",
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "null",
}


# --- names ---------------------------------------------------------------------------------------


def resolve_hints(
    fn: Callable[..., Any], where: str, known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The type hints of ``fn`` by parameter name, ``Annotated`` kept.

    ``where`` begins error messages (``tool 'add'``); ``known`` adds names, for those that are
    imported for type checkers only. Raises UsageError for a name that cannot be found.
    """
    target: Any = fn
    while isinstance(target, functools.partial):
        target = target.func
    if not (inspect.isroutine(target) or isinstance(target, type)):
        target = type(target).__call__
    inner = inspect.unwrap(target)
    inner = getattr(inner, "__func__", inner)
    local: dict[str, Any] = {}
    while True:
        try:
            return typing.get_type_hints(target, localns=local, include_extras=True)
        except NameError as exc:
            name = exc.name
            if name is None or name in local:
                raise UsageError(f"{where}: {exc}") from exc
            value = _find(inner, name, known or {})
            if value is _MISSING:
                raise UsageError(
                    f"{where}: the annotation {name!r} cannot be found: define it at module level and import "
                    "it outside `if TYPE_CHECKING`"
                ) from exc
            local[name] = value
        except (TypeError, SyntaxError, AttributeError) as exc:
            raise UsageError(f"{where}: annotations cannot be read: {exc}") from exc


_MISSING: Any = object()


def _find(fn: Any, name: str, known: Mapping[str, Any]) -> Any:
    """``name`` as the function's closure or the functions around its definition know it."""
    code = getattr(fn, "__code__", None)
    for variable, cell in zip(
        getattr(code, "co_freevars", ()), getattr(fn, "__closure__", None) or (), strict=False
    ):
        if variable == name:
            try:
                return cell.cell_contents
            except ValueError:
                break
    # A class defined in the function that is registering the handler right now.
    qualname = getattr(fn, "__qualname__", "")
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if qualname.startswith(f"{frame.f_code.co_qualname}.") and name in frame.f_locals:
            return frame.f_locals[name]
        frame = frame.f_back
    return known.get(name, _MISSING)


# --- rewriting -----------------------------------------------------------------------------------


class Choice(metaclass=Standin):
    """Stands for a union msgspec refuses, such as two Structs without tags or ``datetime | str``.

    The alternatives are tried in order, plain ``str`` and ``dict`` last; among objects the one that
    knows most of the given members wins.
    """

    members: ClassVar[tuple[Any, ...]] = ()

    @classmethod
    def choose(cls, value: Any) -> Any:
        best, best_score = _MISSING, -1
        for member in cls.members:
            try:
                found = msgspec.convert(value, member, dec_hook=decode_custom, str_keys=True)
            except msgspec.ValidationError:
                continue
            if not isinstance(value, dict):
                return found
            score = len(value.keys() & _member_names(member))
            if score > best_score:
                best, best_score = found, score
        if best is _MISSING:
            raise ValueError(f"Expected `{cls.__name__}`, got `{_JSON_NAMES.get(type(value), 'value')}`")
        return best


@functools.lru_cache(maxsize=1024)
def _member_names(tp: Any) -> frozenset[str]:
    tp = strip(tp)
    if isinstance(tp, type) and issubclass(tp, msgspec.Struct):
        return frozenset(field.encode_name for field in msgspec.structs.fields(tp))
    if _pydantic.is_pydantic_type(tp):
        return frozenset(getattr(tp, "model_fields", ()))
    return frozenset(getattr(tp, "__annotations__", ()))


def strip(hint: Any) -> Any:
    """``hint`` without ``Annotated``."""
    while get_origin(hint) is Annotated:
        hint = hint.__origin__
    return hint


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or ``hint`` alone, each without ``Annotated``."""
    hint = strip(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(m for member in get_args(hint) for m in alternatives(member))
    return (hint,)


def accepts_none(hint: Any) -> bool:
    return any(member in (Any, object, None, type(None)) for member in alternatives(hint))


def describe_type(hint: Any) -> str:
    """A short name of a type for messages."""
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")


def prepare(hint: Any) -> Any:
    """``hint`` as msgspec can decode it. What cannot be helped stays as it is, for msgspec to refuse."""
    if hint is inspect.Parameter.empty or hint is object:
        return Any
    origin = get_origin(hint)
    if origin is Annotated:
        return _annotated(hint, hint.__origin__, hint.__metadata__)
    if origin in (Union, types.UnionType):
        return _union([prepare(member) for member in get_args(hint)])
    if origin is collections.abc.Iterable or hint is collections.abc.Iterable:
        return list[prepare(get_args(hint)[0])] if get_args(hint) else list  # type: ignore[misc]
    if origin in _CONTAINERS:
        args = get_args(hint)
        new = tuple(arg if arg is Ellipsis else prepare(arg) for arg in args)
        if any(a is not b for a, b in zip(args, new, strict=True)):
            return origin[new]
    return hint


def _annotated(hint: Any, base: Any, metadata: tuple[Any, ...]) -> Any:
    metas: list[msgspec.Meta] = []
    for item in metadata:
        module = type(item).__module__.partition(".")[0]
        if isinstance(item, msgspec.Meta):
            metas.append(item)
        elif isinstance(item, str):
            metas.append(msgspec.Meta(description=item))
        elif module == "annotated_types" and (meta := _pydantic.constraint_metadata(item)) is not None:
            metas.append(meta)
        elif module == "pydantic":
            found = _pydantic.field_metadata(item)
            if found is None:
                return _pydantic.adapted(hint)
            metas.extend(found[0])
        # Anything else was meant for other tools.
    base = prepare(base)
    return Annotated[(base, *metas)] if metas else base


def _union(members: list[Any]) -> Any:
    union: Any = Union[tuple(members)]  # noqa: UP007
    try:
        msgspec.json.Decoder(union)
        return union
    except TypeError:
        pass
    flat = [m for member in members for m in (get_args(member) if get_origin(member) is Union else (member,))]
    ordered = sorted(
        (m for m in flat if m is not type(None)),
        key=lambda m: (strip(m) is Any, strip(m) is str, (get_origin(strip(m)) or strip(m)) is dict),
    )
    try:
        for member in ordered:
            msgspec.json.Decoder(member)
    except TypeError:
        return union  # one alternative cannot be decoded at all: let that be reported
    name = " | ".join(describe_type(strip(m)) for m in ordered)
    choice = make_standin(name, Choice, members=tuple(ordered))
    return Optional[choice] if type(None) in flat else choice  # noqa: UP045


# --- decoding ------------------------------------------------------------------------------------


def decode_custom(tp: Any, value: Any) -> Any:
    """The ``dec_hook`` of every argument decoder: unions, paths and pydantic types."""
    if isinstance(tp, type):
        if issubclass(tp, Choice):
            return tp.choose(value)
        if issubclass(tp, PurePath):
            if not isinstance(value, str):
                raise ValueError(f"Expected `str`, got `{_JSON_NAMES.get(type(value), 'value')}`")
            return tp(value)
        if _pydantic.is_pydantic_type(tp):
            return _pydantic.decode(tp, value)
    raise NotImplementedError(f"no decoding for {tp!r}")  # what msgspec asks of a hook that has no answer
