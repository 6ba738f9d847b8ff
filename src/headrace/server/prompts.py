"""Prompts of a server: functions whose parameters are the arguments (SF-30, JR-35).

Arguments are strings on the wire. A parameter of another type gets its value from that string: numbers,
booleans, dates and enums from their text, everything with members from its JSON.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from headrace import types
from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, REVISIONS
from headrace.mux import Exchange, FunctionHandler, Handler
from headrace.protocol.context import Context
from headrace.server.arguments import describe_value_error
from headrace.server.content import is_block_type, to_block
from headrace.server.definitions import check_meta, prompt_definition
from headrace.server.features import Registry, with_meta
from headrace.server.hints import decode_custom
from headrace.server.invoke import Invoker
from headrace.server.listing import Listing
from headrace.server.results import encode_block, encode_json
from headrace.server.signature import Parameter, inspect_tool

__all__ = ("AssistantMessage", "PromptEntry", "PromptOptions", "PromptRegistry", "PromptResult", "UserMessage")

_LEVEL = {revision: level for level, revision in enumerate(REVISIONS, start=1)}


class _GetParams(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None


_decode_get = msgspec.json.Decoder(_GetParams).decode


def UserMessage(content: Any) -> types.PromptMessage:
    """A message of the user: a string, bytes, an image or sound, or a content block."""
    return types.PromptMessage(role="user", content=to_block(content))  # type: ignore[arg-type]


def AssistantMessage(content: Any) -> types.PromptMessage:
    """A message of the assistant, like :func:`UserMessage`."""
    return types.PromptMessage(role="assistant", content=to_block(content))  # type: ignore[arg-type]


class PromptResult(msgspec.Struct, omit_defaults=True):
    """A whole result, for prompts that set more than the messages."""

    messages: Any
    """What a prompt may return otherwise."""
    description: str | None = None
    """In the place of the prompt's description."""
    meta: dict[str, Any] | None = None
    """Members for ``_meta`` of the result."""


class PromptOptions(msgspec.Struct, kw_only=True):
    """What a registration may say beside the function; see :meth:`headrace.Server.prompt`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    icons: Sequence[Any] | None = None
    meta: dict[str, Any] | None = None
    complete: Mapping[str, Any] | None = None
    inline: bool = False
    timeout: float | None = None


class PromptEntry:
    """One registered prompt."""

    __slots__ = ("arguments", "description", "invoker", "name", "options", "signature", "structured")

    def __init__(self, function: Callable[..., Any], options: PromptOptions) -> None:
        self.options = options
        self.signature = inspect_tool(
            function, name=options.name, description=options.description, context_type=Context, kind="prompt"
        )
        self.name = self.signature.name
        self.description = self.signature.description
        self.invoker = Invoker(
            self.signature, f"prompt {self.name!r}", inline=options.inline, timeout=options.timeout
        )
        properties = self.signature.input_schema.get("properties", {})
        self.arguments = [_argument(parameter, properties) for parameter in self.signature.parameters]
        self.structured = {
            parameter.name: parameter.type
            for parameter in self.signature.parameters
            if _has_members(properties.get(parameter.name, {}), self.signature.input_schema)
        }
        """Types of the arguments whose strings hold JSON."""

    def definition(self, revision: str) -> dict[str, Any]:
        """Its object in ``prompts/list``."""
        o = self.options
        return prompt_definition(
            self.name, revision, self.arguments, title=o.title, description=self.description, icons=o.icons, meta=o.meta
        )

    def convert(self, given: Mapping[str, Any]) -> Any:
        """The function's arguments. Raises :class:`RpcError` (-32602) for what is missing or does not fit."""
        values: dict[str, Any] = {}
        for parameter in self.signature.parameters:
            value = given.get(parameter.name)
            if value is None:
                if parameter.required:
                    raise self._misfit(f"argument {parameter.name!r} is missing")
                continue
            if not isinstance(value, str):
                raise self._misfit(f"argument {parameter.name!r} must be a string")
            values[parameter.attribute] = self._value(parameter, value)
        return self.signature.arguments(**values)

    def _value(self, parameter: Parameter, text: str) -> Any:
        if parameter.type is str:
            return text
        try:
            if parameter.name in self.structured:
                return msgspec.json.decode(text, type=parameter.type, dec_hook=decode_custom)
            return _from_text(text, parameter.type)
        except msgspec.ValidationError as exc:
            why = describe_value_error(exc, parameter.name, self.signature)
            if parameter.name not in self.structured:
                why = re.sub(r", got str$", lambda _: f", got {text[:64]!r}", why)  # all of them are strings
            raise self._misfit(why) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise self._misfit(f"argument {parameter.name!r}: it is no JSON") from None

    def _misfit(self, why: str) -> RpcError:
        return RpcError(INVALID_PARAMS, f"prompt {self.name!r}: {why}")


def _from_text(text: str, tp: Any) -> Any:
    """A value from its text: as it is when a string fits, so that ``str | None`` keeps "null"."""
    try:
        return msgspec.convert(text, tp, dec_hook=decode_custom)
    except msgspec.ValidationError:
        return msgspec.convert(text, tp, strict=False, dec_hook=decode_custom)


def _argument(parameter: Parameter, properties: Mapping[str, Any]) -> dict[str, Any]:
    schema = properties.get(parameter.name, {})
    made: dict[str, Any] = {"name": parameter.name}
    if title := schema.get("title"):
        made["title"] = title
    if description := schema.get("description"):
        made["description"] = description
    made["required"] = parameter.required
    return made


def _has_members(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _has_members(root.get("$defs", {}).get(reference.rpartition("/")[2], {}), {})
    options = schema.get("anyOf")
    if options:
        plain = [option for option in options if option.get("type") != "null"]
        return bool(plain) and all(_has_members(option, root) for option in plain)
    return schema.get("type") in ("object", "array")


class PromptRegistry(Registry):
    """Prompts by name. ``info`` is the server's own description."""

    kind = "prompts"

    def __init__(self, host: _Host) -> None:
        super().__init__()
        self._host = host
        self._entries: dict[str, PromptEntry] = {}
        self._get_handler = FunctionHandler(self._get)
        self.listing = Listing("prompts/list", "prompts", host.limits.page_size)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """Names in the order of registration, which is the order of ``prompts/list``."""
        return list(self._entries)

    def entry(self, name: str) -> PromptEntry | None:
        """What is registered under ``name``."""
        return self._entries.get(name)

    def add(self, function: Callable[..., Any], options: PromptOptions) -> PromptEntry:
        """Registers ``function``. Raises :class:`UsageError` for what cannot be a prompt."""
        entry = PromptEntry(function, options)
        what = f"prompt {entry.name!r}"
        check_meta(options.meta, what)
        with self.lock:
            if entry.name in self._entries:
                raise UsageError(f"{what} is registered already; remove it first or choose another name")
            self.listing.put(entry.name, entry.definition, what)
            self._entries[entry.name] = entry
        self.changed()
        return entry

    def remove(self, name: str) -> None:
        """Takes a prompt away. Raises KeyError for an unknown name."""
        with self.lock:
            del self._entries[name]
            self.listing.drop(name)
        self.changed()

    def capability(self, revision: str) -> dict[str, Any]:
        """``prompts``."""
        return {"prompts": {"listChanged": True}} if self.offered else {}

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """``prompts/list`` and ``prompts/get``."""
        if not self.offered:
            return {}
        return {b"prompts/list": self.listing.handler(revision), b"prompts/get": self._get_handler}

    def _get(self, exchange: Exchange) -> Any:
        try:
            params = _decode_get(exchange.params or b"{}")
        except msgspec.ValidationError as exc:
            raise RpcError(INVALID_PARAMS, f"prompts/get: {exc}") from None
        entry = self._entries.get(params.name)
        if entry is None:
            raise RpcError(INVALID_PARAMS, f"unknown prompt: {params.name[:128]}")
        finish = functools.partial(self._render, entry, exchange.revision.name)
        return entry.invoker.call(exchange, entry.convert(params.arguments or {}), finish)

    def _render(self, entry: PromptEntry, revision: str, value: Any) -> Any:
        description, meta = entry.description, None
        if isinstance(value, PromptResult):
            description = value.description if value.description is not None else description
            meta = value.meta
            value = value.messages
        elif isinstance(value, types.GetPromptResult):
            description = value.description or description
            meta = value.meta or None
            value = value.messages
        level = _LEVEL[revision]
        pieces = [_message(message, level) for message in _messages(value)]
        head = b'{"description":' + encode_json(description) + b"," if description else b"{"
        body = head + b'"messages":[' + b",".join(pieces) + b"]}"
        return body if meta is None else with_meta(body, meta, revision, self._host.info)


def _messages(value: Any) -> Iterable[Any]:
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def _message(value: Any, level: int) -> bytes:
    """One message as JSON: what is no message yet is the user's (SF-05, SF-07)."""
    role: Any = "user"
    if isinstance(value, types.Message) and hasattr(value, "role"):
        role, value = value.role, value.content  # type: ignore[attr-defined]
    elif isinstance(value, Mapping) and "role" in value and "content" in value:
        role, value = value["role"], value["content"]
    if role not in ("user", "assistant"):
        raise ValueError("the role of a prompt message is user or assistant")
    if isinstance(value, Mapping) and "type" in value:
        value = msgspec.convert(dict(value), types.ContentBlock)
    if not isinstance(value, str) and not is_block_type(type(value)):
        value = encode_json(value).decode()
    return b'{"role":%s,"content":%s}' % (encode_json(role), encode_block(to_block(value), level))


class _Host(Protocol):
    """What the registry needs of its server."""

    limits: Any
    info: dict[str, Any]
