"""Completion of prompt arguments and template variables (SF-31).

A completer is a function or a sequence of strings; parameters annotated with an Enum or with ``Literal``
strings complete by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R1, R3
from headrace.mux import Exchange, FunctionHandler, Handler
from headrace.protocol.context import Context
from headrace.server.features import Registry
from headrace.server.invoke import Invoker
from headrace.server.results import encode_json
from headrace.server.signature import ToolSignature, inspect_tool

__all__ = ("MAX_VALUES", "Completion", "CompletionRegistry", "Reference", "enum_values")

MAX_VALUES = 100
"""Values of one answer; the protocol allows no more."""

_KNOWN = ("value", "argument", "arguments", "ref")


class Completion(msgspec.Struct, omit_defaults=True):
    """A whole answer, for completers that know of more values than they return."""

    values: Iterable[str]
    total: int | None = None
    """How many there are in all."""
    has_more: bool | None = None
    """Whether there are more than ``values``."""


class Reference(NamedTuple):
    """What is completed."""

    kind: str
    """``"prompt"`` or ``"resource"``."""
    name: str
    """The prompt's name, or the URI template as it was registered."""


class _Argument(msgspec.Struct):
    name: str
    value: str


class _PromptRef(msgspec.Struct, tag_field="type", tag="ref/prompt"):
    name: str


class _ResourceRef(msgspec.Struct, tag_field="type", tag="ref/resource"):
    uri: str


class _CompletionContext(msgspec.Struct):
    arguments: dict[str, str] | None = None


class _CompleteParams(msgspec.Struct):
    ref: _PromptRef | _ResourceRef
    argument: _Argument
    context: _CompletionContext | None = None


_decode = msgspec.json.Decoder(_CompleteParams).decode


class _Values:
    """A fixed set: those that begin with what was typed, case aside."""

    __slots__ = ("values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = [str(value) for value in values]

    def complete(self, exchange: Exchange, known: Mapping[str, Any], finish: Callable[[Any], Any]) -> Any:
        typed = known["value"].casefold()
        return finish([value for value in self.values if value.casefold().startswith(typed)])


class _Function:
    """A function; its parameters are bound by name, the first one of another name is the value."""

    __slots__ = ("_bound", "_invoker", "_signature")

    def __init__(self, function: Callable[..., Any], inline: bool, timeout: float | None) -> None:
        named = getattr(function, "__name__", "") not in ("", "<lambda>")
        signature = self._signature = inspect_tool(
            function, name=None if named else "completer", context_type=Context, kind="completion"
        )
        what = f"completion {signature.name!r}"
        self._invoker = Invoker(signature, what, inline=inline, timeout=timeout)
        self._bound: list[tuple[str, str]] = []
        has_value = any(parameter.name == "value" for parameter in signature.parameters)
        for parameter in signature.parameters:
            source = parameter.name if parameter.name in _KNOWN else None
            if source is None and not has_value:
                source, has_value = "value", True
            if source is not None:
                self._bound.append((parameter.attribute, source))
            elif parameter.required:
                raise UsageError(
                    f"{what}: the parameter {parameter.name!r} has no meaning; there are {', '.join(_KNOWN)}"
                )

    def complete(self, exchange: Exchange, known: Mapping[str, Any], finish: Callable[[Any], Any]) -> Any:
        arguments = self._signature.arguments(**{attribute: known[source] for attribute, source in self._bound})
        return self._invoker.call(exchange, arguments, finish)


class _Prompts(Protocol):
    def entry(self, name: str) -> Any: ...


class _Resources(Protocol):
    def variables(self, template: str) -> tuple[str, ...] | None: ...
    def signature_of(self, template: str) -> ToolSignature | None: ...


class CompletionRegistry(Registry):
    """Completers of the prompts and resource templates of one server."""

    kind = "completions"

    def __init__(self, prompts: _Prompts, resources: _Resources) -> None:
        super().__init__()
        self._prompts = prompts
        self._resources = resources
        self._completers: dict[tuple[Reference, str], _Values | _Function] = {}
        self._general: _Values | _Function | None = None
        self._handler = FunctionHandler(self._complete)

    def add(
        self,
        completer: Any,
        ref: Reference | None = None,
        argument: str | None = None,
        *,
        inline: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Registers a function or a sequence for one argument, or (without ``ref``) for all that have no other."""
        made: _Values | _Function
        if callable(completer):
            made = _Function(completer, inline, timeout)
        elif isinstance(completer, Iterable) and not isinstance(completer, (str, bytes)):
            made = _Values(completer)
        else:
            raise UsageError(f"a completer is a function or a list of strings, not {type(completer).__name__}")
        with self.lock:
            if ref is None:
                if self._general is not None:
                    raise UsageError("a completer for everything is registered already")
                self._general = made
            else:
                if argument is None:
                    raise UsageError("completion: say which argument=... it completes")
                if (ref, argument) in self._completers:
                    raise UsageError(f"argument {argument!r} of {ref.kind} {ref.name!r} has a completer already")
                self._completers[ref, argument] = made
        self.changed()

    def remove(self, ref: Reference | None = None, argument: str | None = None) -> None:
        """Takes completers away: of one argument, of everything about ``ref``, or the general one."""
        with self.lock:
            if ref is None:
                self._general = None
            else:
                for key in [k for k in self._completers if k[0] == ref and argument in (None, k[1])]:
                    del self._completers[key]

    def capability(self, revision: str) -> dict[str, Any]:
        """``completions``, which 2024-11-05 does not know although it serves the method."""
        return {"completions": {}} if self.offered and revision != R1 else {}

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """``completion/complete``."""
        return {b"completion/complete": self._handler} if self.offered else {}

    def _complete(self, exchange: Exchange) -> Any:
        try:
            params = _decode(exchange.params or b"{}")
        except msgspec.ValidationError as exc:
            raise RpcError(INVALID_PARAMS, f"completion/complete: {exc}") from None
        asked = params.ref
        ref = Reference("prompt", asked.name) if isinstance(asked, _PromptRef) else Reference("resource", asked.uri)
        completer = self._find(ref, params.argument.name)
        if completer is None:
            return _render([])
        context = params.context.arguments if params.context is not None else None
        known = {
            "value": params.argument.value,
            "argument": params.argument.name,
            "arguments": (context or {}) if exchange.revision.name >= R3 else {},
            "ref": ref,
        }
        return completer.complete(exchange, known, _render)

    def _find(self, ref: Reference, argument: str) -> _Values | _Function | None:
        """The completer for an argument; an unknown prompt or template is an error, no completer is none."""
        signature: ToolSignature | None
        if ref.kind == "prompt":
            entry = self._prompts.entry(ref.name)
            if entry is None:
                raise RpcError(INVALID_PARAMS, f"unknown prompt: {ref.name[:128]}")
            signature = entry.signature
        else:
            if self._resources.variables(ref.name) is None:
                raise RpcError(INVALID_PARAMS, f"unknown resource template: {ref.name[:128]}")
            signature = self._resources.signature_of(ref.name)
        found = self._completers.get((ref, argument))
        if found is None and signature is not None and (values := enum_values(signature).get(argument)):
            return _Values(values)
        return found or self._general


def enum_values(signature: ToolSignature) -> dict[str, list[str]]:
    """The strings that parameters with an Enum or ``Literal`` annotation take, by parameter name."""
    found = {}
    definitions = signature.input_schema.get("$defs", {})
    for name, schema in signature.input_schema.get("properties", {}).items():
        options = [schema, *schema.get("anyOf", ())]
        for option in options:
            reference = option.get("$ref")
            if isinstance(reference, str):
                option = definitions.get(reference.rpartition("/")[2], {})
            values = option.get("enum")
            if values and all(isinstance(value, str) for value in values):
                found[name] = list(values)
                break
    return found


def _render(result: Any) -> bytes:
    """The result object; what is more than 100 values is cut off, and said to be there."""
    total: int | None = None
    has_more: bool | None = None
    if isinstance(result, Completion):
        total, has_more, result = result.total, result.has_more, result.values
    elif result is None:
        result = []
    values = [value if isinstance(value, str) else str(value) for value in result]
    if len(values) > MAX_VALUES:
        has_more = True
        total = max(total or 0, len(values))
    elif total is None and has_more is None:
        total, has_more = len(values), False
    body: dict[str, Any] = {"values": values[:MAX_VALUES]}
    if total is not None:
        body["total"] = total
    if has_more is not None:
        body["hasMore"] = has_more
    return encode_json({"completion": body})
