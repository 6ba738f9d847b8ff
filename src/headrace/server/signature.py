"""A Python function as a tool: everything a call needs, prepared when the tool is registered.

The parameters become one msgspec Struct, whose decoder reads the arguments of a call straight from the
wire. Decisions a user meets:

- An argument the function does not have is ignored, because models send extra members and peers of
  later versions may know more (JR-16); ``forbid_unknown=True`` refuses it by name.
- ``x: str = None`` also accepts null.
- Defaults that can change (lists, dicts, ...) are copied for every call.
- A parameter without annotation takes any JSON value.
- The description is the docstring; what it says about parameters moves into the schema
  (:mod:`headrace.server.docstring`). ``Annotated[int, "text"]``, ``Meta(description=...)`` and pydantic's
  ``Field(description=...)`` go first.
"""

import copy
import functools
import inspect
import logging
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, Optional, get_origin

import msgspec
from msgspec import NODEFAULT

from headrace.errors import UsageError
from headrace.server import _pydantic
from headrace.server.arguments import describe_argument_error, retry_arguments
from headrace.server.docstring import split_docstring
from headrace.server.hints import (
    accepts_none,
    alternatives,
    decode_custom,
    describe_type,
    prepare,
    resolve_hints,
)
from headrace.server.output import Output, inspect_output
from headrace.server.results import UnserializableResult, encode_json
from headrace.server.schema import (
    HeaderParameter,
    ParameterSchema,
    UnsupportedType,
    check_schema,
    header_parameters,
    object_schema,
    type_schema,
)

__all__ = ("Parameter", "ToolSignature", "inspect_tool")

_log = logging.getLogger("headrace.server")


class Parameter(NamedTuple):
    """One parameter that callers give."""

    name: str
    """The Python name, which is the name on the wire."""
    attribute: str
    """The field of the arguments Struct."""
    type: Any
    required: bool
    default: Any
    description: str


class ToolSignature(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What :func:`inspect_tool` found out. A call is::

        arguments = signature.decoder.decode(raw)
        fn(*[getattr(arguments, name) for name in signature.positional],
           **{name: getattr(arguments, name) for name in signature.keyword})

    with the context inserted at ``context_position``, or passed by the name ``context_parameter`` when
    that is ``None``.
    """

    function: Callable[..., Any]
    name: str
    description: str
    parameters: tuple[Parameter, ...]
    arguments: type[msgspec.Struct]
    """The Struct with one field a parameter."""
    decoder: msgspec.json.Decoder[Any]
    """Reads the JSON object of arguments. Raises msgspec.ValidationError when they do not fit."""
    has_raw: bool
    """Some argument keeps a view of the input: the decoder must be given bytes of its own."""
    positional: tuple[str, ...]
    """Attributes of ``arguments`` to pass by position, in order; the context is not among them."""
    keyword: tuple[str, ...]
    """Parameters to pass by keyword; each is an attribute of ``arguments`` of the same name."""
    context_parameter: str | None
    context_position: int | None
    """The index of the context among the positional arguments, ``None`` when it goes by keyword."""
    is_async: bool
    """Calling the function gives a coroutine."""
    returns: Any
    """The return annotation, :data:`inspect.Signature.empty` without one."""
    input_schema: dict[str, Any]
    headers: tuple[HeaderParameter, ...]
    """Parameters mirrored into HTTP headers (HN-20)."""
    output: Output | None
    """The promise of the return annotation, with the output schema."""

    def retry(self, raw: bytes, exc: msgspec.ValidationError) -> Any:
        """The arguments after a second look, or ``exc``: see :mod:`headrace.server.arguments`."""
        return retry_arguments(self, raw, exc)

    def describe(self, exc: msgspec.ValidationError, raw: bytes = b"") -> str:
        """What to tell the caller of arguments that do not fit, one line below 1 KiB (JR-36, B84)."""
        return describe_argument_error(exc, self, raw)


def inspect_tool(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    context_type: type | None = None,
    forbid_unknown: bool = False,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    kind: str = "tool",
) -> ToolSignature:
    """Reads the signature of ``fn``: a function, method, ``functools.partial`` or callable object.

    ``kind`` is what it becomes, for messages: ``"tool"``, ``"resource"``, ``"prompt"``, ``"completion"``.

    ``name`` and ``description`` go before the function's own. The parameter annotated with
    ``context_type`` (``Context | None`` and ``Annotated`` too) is left out of the arguments.
    ``forbid_unknown`` refuses arguments the function does not have. ``input_schema`` and
    ``output_schema`` are advertised instead of those made from the annotations.

    Raises UsageError with the tool, the parameter and the cure when something cannot be served.
    """
    fn = _callable(fn, kind)
    name = name or _name(fn)
    where = f"{kind} {name!r}"
    known = {context_type.__name__: context_type} if context_type is not None else {}
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"{where}: its signature cannot be read: wrap it in a function") from exc
    hints = resolve_hints(fn, where, known)
    doc = inspect.getdoc(_documented(fn)) or ""
    text, docs = split_docstring(doc, signature.parameters.keys())

    parameters: list[Parameter] = []
    positional: list[str] = []
    keyword: list[str] = []
    context_parameter: str | None = None
    context_position: int | None = None
    for item in signature.parameters.values():
        _refuse_kind(item, fn, hints, where)
        by_keyword = item.kind is item.KEYWORD_ONLY
        hint = hints.get(item.name, item.empty)
        if context_type is not None and _is_context(hint, context_type):
            if context_parameter is not None:
                raise UsageError(f"{where}: both {context_parameter!r} and {item.name!r} ask for the context")
            context_parameter = item.name
            context_position = None if by_keyword else len(positional)
            continue
        if context_type is not None and hint is item.empty and item.name in ("ctx", "context"):
            _log.warning(
                "%s: the parameter %r has no annotation, so clients have to give it; is `%s: %s` meant?",
                where, item.name, item.name, context_type.__name__,
            )  # fmt: skip
        parameter = _parameter(item, hint, docs.get(item.name, ""), len(parameters), where)
        parameters.append(parameter)
        if by_keyword:
            keyword.append(parameter.attribute)
        else:
            positional.append(parameter.attribute)

    arguments, has_custom, generated = _arguments(name, fn, parameters, forbid_unknown, where)
    if input_schema is not None:
        generated = check_schema(input_schema, f"{where}: input_schema", object_root=True)
    try:
        headers = tuple(header_parameters(generated))
    except UsageError as exc:
        raise UsageError(f"{where}: {exc}") from None
    returns = hints.get("return", inspect.Signature.empty)
    if returns is type(None) and signature.return_annotation is inspect.Signature.empty:
        returns = inspect.Signature.empty
    return ToolSignature(
        function=fn,
        name=name,
        description=text if description is None else inspect.cleandoc(description),
        parameters=tuple(parameters),
        arguments=arguments,
        decoder=msgspec.json.Decoder(arguments, dec_hook=decode_custom if has_custom else None),
        has_raw=not all(_is_plain(parameter.type) for parameter in parameters) and _has_raw(arguments),
        positional=tuple(positional),
        keyword=tuple(keyword),
        context_parameter=context_parameter,
        context_position=context_position,
        is_async=_is_async(fn, where),
        returns=returns,
        input_schema=generated,
        headers=headers,
        output=inspect_output(returns, output_schema, where=where),
    )


# --- the callable --------------------------------------------------------------------------------


def _callable(fn: Any, kind: str) -> Callable[..., Any]:
    if isinstance(fn, staticmethod):
        fn = fn.__func__
    if isinstance(fn, classmethod):
        raise UsageError(f"a classmethod is registered from its class: app.add_{kind}(Class.method)")
    if not callable(fn):
        raise UsageError(f"a {kind} is a function or another callable, not {type(fn).__name__}")
    if isinstance(fn, type):
        raise UsageError(f"a {kind} is a function, not the class {fn.__name__}")
    return fn  # type: ignore[no-any-return]


def _unwrap(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _documented(fn: Any) -> Any:
    """Where the docstring is: a partial and a callable object show that of their class otherwise."""
    fn = _unwrap(fn)
    if inspect.isroutine(fn):
        return fn
    return type(fn).__call__ if type(fn).__call__.__doc__ else type(fn)


def _name(fn: Any) -> str:
    fn = _unwrap(fn)
    name = getattr(fn, "__name__", None) or type(fn).__name__
    if name == "<lambda>":
        raise UsageError("a lambda has no name of its own: pass name=...")
    return str(name)


def _is_async(fn: Any, where: str) -> bool:
    target = _unwrap(fn)
    if not inspect.isroutine(target):
        target = type(target).__call__
    if inspect.isasyncgenfunction(target) or inspect.isgeneratorfunction(target):
        kind = where.partition(" ")[0]
        raise UsageError(
            f"{where}: a generator cannot be a {kind}: return a list, or report progress through the context"
        )
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(target)


def _refuse_kind(item: inspect.Parameter, fn: Any, hints: dict[str, Any], where: str) -> None:
    if item.kind is item.VAR_POSITIONAL:
        raise UsageError(
            f"{where}: *{item.name} cannot be described to clients: use a parameter such as items: list[str]"
        )
    if item.kind is item.VAR_KEYWORD:
        raise UsageError(
            f"{where}: **{item.name} cannot be described to clients: name the parameters, or use one such as "
            "options: dict[str, Any]"
        )
    if item.kind is item.KEYWORD_ONLY and item.name.startswith("__"):
        raise UsageError(
            f"{where}: the keyword-only parameter {item.name!r} must not begin with two underscores"
        )
    qualname = getattr(_unwrap(fn), "__qualname__", "")
    method = "." in qualname and not qualname.rpartition(".")[0].endswith("<locals>")
    if item.name in ("self", "cls") and item.name not in hints and method:
        raise UsageError(f"{where}: {qualname} is not bound to an object: register the method of an instance")


def _is_context(hint: Any, context_type: type) -> bool:
    return any(
        isinstance(cls := get_origin(member) or member, type) and issubclass(cls, context_type)
        for member in alternatives(hint)
    )


# --- parameters ----------------------------------------------------------------------------------


def _parameter(item: inspect.Parameter, hint: Any, description: str, index: int, where: str) -> Parameter:
    default = NODEFAULT if item.default is item.empty else item.default
    prepared = prepare(hint)
    for source in (default, *getattr(hint, "__metadata__", ())):
        if type(source).__module__.partition(".")[0] != "pydantic":
            continue
        if (found := _pydantic.field_metadata(source)) is not None:
            metas, field_default = found
            if source is default:
                default = field_default
                prepared = prepare(_with_metadata(prepared, metas))
            elif default is NODEFAULT:
                default = field_default
        elif source is default:
            raise UsageError(
                f"{where}: the Field of {item.name!r} has what only an annotation can hold: "
                "use Annotated[type, Field(...)]"
            )
    if default is None and not accepts_none(prepared):
        prepared = prepare(Optional[prepared])  # noqa: UP045
    # Names that would shadow what a Struct needs get another attribute; the wire name stays.
    attribute = item.name if not item.name.startswith("__") else f"argument_{index}"
    _check_type(item.name, hint, prepared, where)
    return Parameter(item.name, attribute, prepared, default is NODEFAULT, default, description)


_PLAIN = frozenset((str, int, float, bool))


def _is_plain(tp: Any) -> bool:
    """Types of which nothing has to be found out: most parameters of most tools."""
    return isinstance(tp, type) and tp in _PLAIN


def _with_metadata(tp: Any, metas: list[msgspec.Meta]) -> Any:
    return Annotated[(tp, *metas)] if metas else tp


def _check_type(parameter: str, hint: Any, prepared: Any, where: str) -> None:
    if _is_plain(prepared):
        return
    what = f"{where}: parameter {parameter!r} has type {describe_type(hint)}"
    try:
        type_schema(prepared)
        msgspec.json.Decoder(prepared)
    except UnsupportedType as exc:
        culprit = describe_type(exc.type)
        inside = "" if exc.type is prepared else f" (in {describe_type(hint)})"
        reason = f": {exc.__cause__}" if exc.__cause__ is not None else ""
        raise UsageError(
            f"{where}: parameter {parameter!r} has type {culprit}{inside}, "
            f"which cannot be read from JSON{reason}: use a plain type, a msgspec Struct, a dataclass, "
            "a TypedDict or a pydantic model"
        ) from exc
    except NameError as exc:
        raise UsageError(f"{what}, where {exc}: define it at module level") from exc
    except (TypeError, ValueError) as exc:
        reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
        raise UsageError(f"{what}, which cannot be read from JSON: {reason}") from exc


def _arguments(
    name: str, fn: Any, parameters: list[Parameter], forbid_unknown: bool, where: str
) -> tuple[type[msgspec.Struct], bool, dict[str, Any]]:
    """The Struct, whether it holds types msgspec does not know, and its schema."""
    fields: list[tuple[str, Any, Any]] = []
    shown: list[ParameterSchema] = []
    for parameter in parameters:
        fields.append((parameter.attribute, parameter.type, _field(parameter)))
        shown.append(
            ParameterSchema(
                parameter.name,
                parameter.type,
                parameter.required,
                _shown_default(parameter.default),
                parameter.description,
            )
        )
    struct_name = re.sub(r"\W", "_", name) + "_arguments"
    module = getattr(_unwrap(fn), "__module__", None)
    try:
        arguments = msgspec.defstruct(
            struct_name, fields, kw_only=True, gc=False, module=module, forbid_unknown_fields=forbid_unknown
        )
        schema, custom = object_schema(shown, additional=not forbid_unknown)
        msgspec.json.Decoder(arguments)
    except (TypeError, ValueError, NameError) as exc:
        raise UsageError(f"{where}: its parameters cannot be read from JSON: {exc}") from exc
    return arguments, bool(custom), schema


def _field(parameter: Parameter) -> Any:
    default = parameter.default
    if default is NODEFAULT:
        return msgspec.field(name=parameter.name)
    if isinstance(default, (str, int, float, bool, bytes, type(None))) or default == ():
        return msgspec.field(default=default, name=parameter.name)
    return msgspec.field(default_factory=lambda: copy.deepcopy(default), name=parameter.name)


def _shown_default(default: Any) -> Any:
    """A default as JSON, ``NODEFAULT`` when it has no JSON form."""
    if default is NODEFAULT:
        return NODEFAULT
    try:
        return msgspec.json.decode(encode_json(default))
    except UnserializableResult:
        return NODEFAULT


def _has_raw(tp: Any) -> bool:
    """True when a value of ``tp`` may keep a view of the decoder's input."""
    seen: set[Any] = set()
    queue = [msgspec.inspect.type_info(tp)]
    while queue:
        info = queue.pop()
        if isinstance(info, msgspec.inspect.RawType):
            return True
        if (cls := getattr(info, "cls", None)) is not None:
            if cls in seen:
                continue
            seen.add(cls)
        for field in getattr(info, "__struct_fields__", ()):
            value = getattr(info, field)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, msgspec.inspect.Field):
                    queue.append(item.type)
                elif isinstance(item, msgspec.inspect.Type):
                    queue.append(item)
    return False
