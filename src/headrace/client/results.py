"""Results as a client reads them: the newest shapes with every member that older revisions lack optional.

The strict decoder is the only path of good messages; what it refuses is read a second time by
:func:`headrace.types.decode_relaxed`. Decoders raise ValueError subclasses; the multiplexer turns those
into RemoteProtocolError.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headrace.types import Message, decode_relaxed
from headrace.types.v2026_07_28 import (
    CompleteResultCompletion,
    ContentBlock,
    Implementation,
    Prompt,
    PromptMessage,
    Resource,
    ResourceContents,
    ResourceTemplate,
    TextContent,
    Tool,
)

__all__ = (
    "CallResult", "CompletionResult", "Contents", "Extra", "ListedTool", "PromptResult", "PromptsPage",
    "ResourceResult", "ResourcesPage", "TemplatesPage", "ToolsPage", "check_complete", "decode_any", "decoder",
    "list_decoder", "read_implementation", "read_relaxed", "reader_of",
)  # fmt: skip

T = TypeVar("T")

decode_any = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class CallResult(Message, kw_only=True, rename="camel"):
    """What a tool call gave."""

    content: list[ContentBlock] = msgspec.field(default_factory=list)
    """Text, image, audio, embedded resource and resource link blocks, in order."""
    structured_content: Any = UNSET
    """The result as a JSON value: ``UNSET`` (false) when absent, ``None`` when it is ``null`` (SF-06)."""
    is_error: bool = False
    """Whether the tool says that it failed."""
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")
    """The server's own data about this result."""
    result_type: str = "complete"
    """Always ``"complete"`` here (JR-11)."""

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        content = self.content
        if len(content) == 1 and type(content[0]) is TextContent:
            return content[0].text
        return "\n".join(block.text for block in content if type(block) is TextContent)


class ListedTool(Tool, kw_only=True):
    """A tool as the server lists it: :class:`headrace.types.Tool` with what single revisions add."""

    execution: dict[str, Any] | UnsetType = UNSET
    """2025-11-25 only: ``taskSupport`` and the like (SF-03)."""


class Page(Message, kw_only=True, rename="camel"):
    """What the pages of all lists have in common."""

    next_cursor: str | None = None
    """What the next page is asked for with; ``None`` ends, an empty string is a cursor too (SF-50)."""
    result_type: str = "complete"
    ttl_ms: Any = 0
    """Milliseconds that the server lets the page be used again (SF-52)."""
    cache_scope: Any = "private"
    """``"private"`` or ``"public"`` (SF-53)."""


class ToolsPage(Page, kw_only=True, rename="camel"):
    """One page of ``tools/list``."""

    tools: list[ListedTool]


class ResourcesPage(Page, kw_only=True, rename="camel"):
    """One page of ``resources/list``."""

    resources: list[Resource]


class TemplatesPage(Page, kw_only=True, rename="camel"):
    """One page of ``resources/templates/list``."""

    resource_templates: list[ResourceTemplate]


class PromptsPage(Page, kw_only=True, rename="camel"):
    """One page of ``prompts/list``."""

    prompts: list[Prompt]


class Contents(ResourceContents, kw_only=True, gc=False):
    """One item of a resource: ``text``, or ``blob`` in Base64."""

    @property
    def data(self) -> bytes:
        """The item as bytes. Raises ValueError when the server's Base64 is broken."""
        if isinstance(self.blob, str):
            try:
                return base64.b64decode(self.blob, validate=True)
            except binascii.Error as exc:
                raise ValueError(f"the blob of {self.uri} is not Base64: {exc}") from None
        return self.text.encode() if isinstance(self.text, str) else b""


class ResourceResult(Message, kw_only=True, rename="camel"):
    """What ``resources/read`` gave (SF-21)."""

    contents: list[Contents]
    """The items; several for a resource with parts."""
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")
    result_type: str = "complete"
    ttl_ms: Any = 0
    cache_scope: Any = "private"

    @property
    def text(self) -> str:
        """The text items, joined by newlines."""
        return "\n".join(item.text for item in self.contents if isinstance(item.text, str))

    @property
    def data(self) -> bytes:
        """All items as bytes, one after the other."""
        return b"".join(item.data for item in self.contents)


class PromptResult(Message, kw_only=True, rename="camel"):
    """What ``prompts/get`` gave (SF-30)."""

    messages: list[PromptMessage]
    description: str | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")
    result_type: str = "complete"


class CompletionResult(Message, kw_only=True, rename="camel"):
    """The envelope of ``completion/complete`` (SF-31)."""

    completion: CompleteResultCompletion
    result_type: str = "complete"


Extra = Mapping[str, Callable[[bytes], Any]]
"""Readers of results that are not complete, by their ``resultType``: those that were negotiated (JR-11)."""


def read_relaxed(kind: type[T]) -> Callable[[bytes], T]:
    """Reads ``kind``, strictly first."""
    strict = msgspec.json.Decoder(kind).decode

    def read(raw: bytes) -> T:
        try:
            return strict(raw)
        except msgspec.ValidationError:
            return decode_relaxed(raw, kind)

    return read


def decoder(kind: type[T], *, modern: bool, extra: Extra | None = None) -> Callable[[bytes], Any]:
    """Reads a result of ``kind``. In the modern era one with another ``resultType`` than ``complete`` goes
    to its reader in ``extra``, or raises ValueError (JR-11)."""
    strict = msgspec.json.Decoder(kind).decode
    if not modern:
        return read_relaxed(kind)

    def read_complete(raw: bytes) -> Any:
        try:
            result = strict(raw)
        except msgspec.ValidationError:
            other = reader_of(decode_any(raw), extra)
            return decode_relaxed(raw, kind) if other is None else other(raw)
        if result.result_type != "complete":  # type: ignore[attr-defined]
            other = reader_of(decode_any(raw), extra)
            if other is not None:
                return other(raw)
        return result

    return read_complete


def reader_of(result: Any, extra: Extra | None) -> Callable[[bytes], Any] | None:
    """What reads a result object; None when it is complete. Raises ValueError for a ``resultType`` that
    this client has not negotiated for this method (JR-11)."""
    kind = result.get("resultType", "complete") if isinstance(result, dict) else "complete"
    if kind in ("complete", None):
        return None
    if extra is not None and isinstance(kind, str) and kind in extra:
        return extra[kind]
    if kind == "input_required":
        raise ValueError("the server asks for client input where it must not")
    raise ValueError(f"unknown resultType {str(kind)[:64]!r}")


def check_complete(raw: bytes) -> dict[str, Any]:
    """A result object of which only its completeness matters. Raises ValueError otherwise."""
    result = decode_any(raw)
    reader_of(result, None)
    return result  # type: ignore[no-any-return]


def list_decoder(
    kind: type[T], member: str, entry: type[Any], *, modern: bool, skipped: Callable[[str], None]
) -> Callable[[bytes], T]:
    """Reads a page of ``kind``, whose ``member`` lists ``entry`` Structs. Invalid definitions are left out:
    one does not hide the others; ``skipped`` gets a line about each."""
    read = decoder(kind, modern=modern)
    what = {"tools": "tool", "prompts": "prompt", "resources": "resource"}.get(member, "resource template")

    def read_page(raw: bytes) -> T:
        try:
            page: T = read(raw)
            return page
        except msgspec.ValidationError:
            found = decode_any(raw)
            if not isinstance(found, dict) or not isinstance(found.get(member), list):
                raise
        entries = []
        bad = 0
        for each in found[member]:
            try:
                entries.append(decode_relaxed(encode(each), entry))
            except msgspec.ValidationError as exc:
                bad += 1
                if bad <= _MAX_TOLD:
                    skipped(f"a {what} definition of the server is not valid and was left out: {exc}")
        if bad > _MAX_TOLD:
            skipped(f"{bad - _MAX_TOLD} more {what} definitions of the server are not valid and were left out")
        found[member] = []
        rest = decode_relaxed(encode(found), kind)
        return msgspec.structs.replace(rest, **{_ATTRIBUTES.get(member, member): entries})  # type: ignore[type-var]

    return read_page


_MAX_TOLD = 20  # invalid entries of one page that are described one by one
_ATTRIBUTES = {"resourceTemplates": "resource_templates"}


def read_implementation(value: Any) -> Implementation | None:
    """A ``serverInfo`` as a Struct; what servers get wrong in it is left out rather than refused."""
    if not isinstance(value, dict):
        return None
    try:
        return msgspec.convert(value, Implementation)
    except msgspec.ValidationError:
        return Implementation(
            name=str(value.get("name") or ""),
            version=str(value.get("version") or ""),
            title=title if isinstance(title := value.get("title"), str) else UNSET,
        )
