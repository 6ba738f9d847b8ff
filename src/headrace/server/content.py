"""What handlers return beside plain values: images, audio, whole tool results, and content blocks.

Content blocks themselves are the Structs of :mod:`headrace.types` (``TextContent``, ``ImageContent``,
``AudioContent``, ``ResourceLink``, ``EmbeddedResource``); this file makes them from Python values.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
from msgspec import UNSET, UnsetType

from headrace import types
from headrace.errors import UsageError
from headrace.types import Message

if TYPE_CHECKING:
    from headrace.types import Annotations, AudioContent, ImageContent

__all__ = ("Audio", "Image", "ToolResult", "block_kind", "is_block_type", "sniff", "to_block")

BLOCK_KINDS = frozenset(("text", "image", "audio", "resource", "resource_link"))

_FORMATS = {
    "jpg": "image/jpeg", "svg": "image/svg+xml", "ico": "image/x-icon", "tif": "image/tiff",
    "mp3": "audio/mpeg", "m4a": "audio/mp4", "oga": "audio/ogg", "opus": "audio/ogg",
}  # fmt: skip


def sniff(data: bytes) -> str | None:
    """The MIME type of an image or sound by its first bytes, for the formats models read; else ``None``."""
    head = bytes(data[:12])
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if head[8:12] == b"WEBP" else "audio/wav"
    if head.startswith(b"fLaC"):
        return "audio/flac"
    if head.startswith(b"OggS"):
        return "audio/ogg"
    if head.startswith(b"ID3"):
        return "audio/mpeg"
    return None


class _Media:
    """Bytes with a MIME type. ``kind`` is the part before the slash."""

    kind: ClassVar[str]
    __slots__ = ("annotations", "data", "meta", "mime_type")

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        mime_type: str | None = None,
        *,
        format: str | None = None,
        annotations: Annotations | UnsetType = UNSET,
        meta: dict[str, Any] | UnsetType = UNSET,
    ) -> None:
        """``data`` are the file's bytes. The MIME type is ``mime_type``, or comes from ``format`` (``"png"``,
        ``"mp3"``), or is read from the data. Raises UsageError when none of these tells."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise UsageError(f"{type(self).__name__} takes bytes, not {type(data).__name__}")
        if mime_type is None and format is not None:
            format = format.lower().lstrip(".")
            mime_type = _FORMATS.get(format, f"{self.kind}/{format}")
        if mime_type is None:
            mime_type = sniff(bytes(data[:12]))
            if mime_type is None or not mime_type.startswith(f"{self.kind}/"):
                raise UsageError(
                    f"{type(self).__name__}: the data does not tell its format: pass mime_type=..."
                )
        self.data = data
        self.mime_type = mime_type
        self.annotations = annotations
        self.meta = meta

    @classmethod
    def from_file(cls, path: str | Path, mime_type: str | None = None) -> Self:
        """Reads a file. The MIME type is ``mime_type``, or read from the data, or follows from the suffix."""
        path = Path(path)
        data = path.read_bytes()
        found = mime_type or sniff(data)
        return cls(data, found, format=path.suffix or None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.mime_type}, {len(self.data)} bytes>"


class Image(_Media):
    """An image as tool result: ``return Image(png_bytes)`` or ``Image(data, format="webp")``."""

    kind = "image"
    __slots__ = ()

    def to_content(self) -> ImageContent:
        """The content block of :mod:`headrace.types`."""
        return types.ImageContent(
            data=_base64(self.data), mime_type=self.mime_type, annotations=self.annotations, meta=self.meta
        )


class Audio(_Media):
    """Sound as tool result: ``return Audio(wav_bytes)`` or ``Audio(data, format="mp3")``."""

    kind = "audio"
    __slots__ = ()

    def to_content(self) -> AudioContent:
        """The content block of :mod:`headrace.types`."""
        return types.AudioContent(
            data=_base64(self.data), mime_type=self.mime_type, annotations=self.annotations, meta=self.meta
        )


class ToolResult(msgspec.Struct, omit_defaults=True):
    """A whole result, for handlers that set more than one part of it (SF-05)."""

    content: Any = None
    """A string, a content block, :class:`Image`, :class:`Audio`, bytes, or a list of these. ``None``: the
    structured content as JSON text, or nothing."""
    structured_content: Any = UNSET
    """Any JSON value; ``None`` is JSON null, left out it is absent. Before 2026-07-28 only objects go out."""
    is_error: bool = False
    """The tool failed and ``content`` says why; output schemas do not apply."""
    meta: dict[str, Any] | None = None
    """Members for ``_meta`` of the result."""


def _is_block_type(tp: Any) -> bool:
    """True for content block Structs of any revision, Image, Audio and bytes types."""
    if not isinstance(tp, type):
        return False
    if issubclass(tp, (_Media, bytes, bytearray, memoryview)):
        return True
    return issubclass(tp, Message) and tp.__struct_config__.tag in BLOCK_KINDS


is_block_type: Callable[[Any], bool] = functools.lru_cache(maxsize=1024)(_is_block_type)


def block_kind(block: Message) -> str:
    """``text``, ``image``, ``audio``, ``resource`` or ``resource_link``."""
    return str(block.__struct_config__.tag)


def to_block(value: Any) -> Message:
    """One content block from a string, bytes, Image, Audio or a block. Raises TypeError for anything else.

    Bytes become an image or audio block when their first bytes say so, else an embedded resource of
    type ``application/octet-stream`` named by its digest (an RFC 6920 ``ni:`` URI).
    """
    if isinstance(value, str):
        return types.TextContent(text=value if type(value) is str else str.__str__(value))
    if isinstance(value, (Image, Audio)):
        return value.to_content()
    if isinstance(value, (bytes, bytearray, memoryview)):
        mime_type = sniff(bytes(value[:12]))
        if mime_type is not None:
            return (Image if mime_type.startswith("image/") else Audio)(value, mime_type).to_content()
        digest = base64.urlsafe_b64encode(hashlib.sha256(value).digest()).rstrip(b"=").decode()
        return types.EmbeddedResource(
            resource=types.BlobResourceContents(
                uri=f"ni:///sha-256;{digest}", mime_type="application/octet-stream", blob=_base64(value)
            )
        )
    if is_block_type(type(value)):
        block: Message = value
        return block
    raise TypeError(f"{type(value).__name__} is not a content block")


def _base64(data: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode("ascii")
