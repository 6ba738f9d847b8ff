"""Results as a client reads them: the newest shapes with every member that older revisions lack optional.

The strict decoder is the only path of good messages; what it refuses is read a second time by
:func:`headrace.types.decode_relaxed`. Decoders raise ValueError subclasses; the multiplexer turns those
into RemoteProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headrace.types import Message, decode_relaxed
from headrace.types.v2026_07_28 import ContentBlock, Implementation, TextContent, Tool

__all__ = ("CallResult", "ToolsPage", "decode_any", "decoder", "read_implementation", "tools_decoder")

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
        return "\n".join(block.text for block in self.content if type(block) is TextContent)


class ToolsPage(Message, kw_only=True, rename="camel"):
    """One page of ``tools/list``."""

    tools: list[Tool]
    next_cursor: str | None = None
    """An empty string is a cursor too (SF-50)."""
    result_type: str = "complete"


def decoder(kind: type[T], *, modern: bool) -> Callable[[bytes], T]:
    """Reads a result of ``kind``; in the modern era only when its ``resultType`` is ``complete`` (JR-11)."""
    strict = msgspec.json.Decoder(kind).decode

    def read(raw: bytes) -> T:
        try:
            return strict(raw)
        except msgspec.ValidationError:
            return decode_relaxed(raw, kind)

    if not modern:
        return read

    def read_complete(raw: bytes) -> T:
        try:
            result = strict(raw)
        except msgspec.ValidationError:
            check_type(decode_any(raw))
            return decode_relaxed(raw, kind)
        if result.result_type != "complete":  # type: ignore[attr-defined]
            check_type(decode_any(raw))
        return result

    return read_complete


def check_type(result: Any) -> None:
    """Raises ValueError for a ``resultType`` that this client has not negotiated (JR-11)."""
    kind = result.get("resultType", "complete") if isinstance(result, dict) else "complete"
    if kind == "input_required":
        asked = result.get("inputRequests")
        methods = sorted({str(r.get("method")) for r in asked.values()}) if isinstance(asked, dict) else []
        what = f" ({', '.join(methods)})" if methods else ""
        raise ValueError(f"the server asks for client input{what}, which this client does not offer")
    if kind not in ("complete", None):
        raise ValueError(f"unknown resultType {str(kind)[:64]!r}")


def tools_decoder(*, modern: bool, skipped: Callable[[str], None]) -> Callable[[bytes], ToolsPage]:
    """Reads a page of tools. Invalid definitions are left out; ``skipped`` gets a line about each."""
    read = decoder(ToolsPage, modern=modern)

    def read_page(raw: bytes) -> ToolsPage:
        try:
            return read(raw)
        except msgspec.ValidationError:
            page = decode_any(raw)
            if not isinstance(page, dict) or not isinstance(page.get("tools"), list):
                raise
        tools = []
        for each in page["tools"]:
            try:
                tools.append(decode_relaxed(encode(each), Tool))
            except msgspec.ValidationError as exc:
                skipped(f"a tool definition of the server is not valid and was left out: {exc}")
        page["tools"] = []
        rest = decode_relaxed(encode(page), ToolsPage)
        return ToolsPage(tools=tools, next_cursor=rest.next_cursor)

    return read_page


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
