"""What functions of resources return, as the ``contents`` of ``resources/read`` (SF-21).

======================================  ===========================================================
value                                   contents
======================================  ===========================================================
``str``                                 one text
``bytes``                               one blob; its MIME type is read from the data when not given
path                                    the file: text when its MIME type says so, else a blob
``ResourceContents`` of                 themselves
:mod:`headrace.types`, or a list with
at least one of them or of bytes
``ResourceResult``                      what it says
``None``                                the resource does not exist (SF-22)
anything else                           one text with its JSON, ``application/json``
======================================  ===========================================================
"""

from __future__ import annotations

import binascii
import mimetypes
from pathlib import Path, PurePath
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR, R3, R5, REVISIONS
from headrace.server.content import sniff
from headrace.server.features import CacheHint
from headrace.server.results import encode_json
from headrace.types import Message

__all__ = ("MissingResource", "ResourceResult", "guess_type", "is_text_type", "render_contents")

_LEVEL = {revision: level for level, revision in enumerate(REVISIONS, start=1)}
_TEXT_TYPES = frozenset(("application/json", "application/xml", "application/javascript", "application/x-sh",
                         "application/yaml", "application/toml", "image/svg+xml"))  # fmt: skip


class MissingResource(Exception):
    """There is no such resource; becomes the error of the revision (SF-22)."""


class ResourceResult(msgspec.Struct, omit_defaults=True):
    """A whole result, for functions that set more than its contents."""

    contents: Any
    """What a function may return otherwise; ``None``: the resource does not exist."""
    cache: CacheHint | None = None
    """How long clients may keep this result (SF-51); None leaves it to the resource."""
    meta: dict[str, Any] | None = None
    """Members for ``_meta`` of the result."""


def guess_type(name: str) -> str | None:
    """The MIME type that a file name or URI ends in, or None."""
    return mimetypes.guess_type(name, strict=False)[0]


def is_text_type(mime_type: str) -> bool:
    """Whether content of this MIME type is sent as text."""
    base = mime_type.partition(";")[0].strip().lower()
    return base.startswith("text/") or base in _TEXT_TYPES or base.endswith(("+json", "+xml"))


def read_file(path: Path, most: int) -> bytes:
    """The bytes of a file. Raises :class:`MissingResource`, and :class:`RpcError` beyond ``most`` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise MissingResource from None
    except PermissionError:
        raise RpcError(INTERNAL_ERROR, "the file of this resource cannot be read") from None
    if len(data) > most:
        text = f"the file of this resource is larger than {most} bytes"
        raise RpcError(INTERNAL_ERROR, text, refusal="max_resource_bytes")
    return data


class _Place:
    """Where contents stand: what they take from the resource when they do not say it."""

    __slots__ = ("level", "meta", "mime_type", "most", "uri")

    def __init__(
        self, uri: str, mime_type: str | None, meta: dict[str, Any] | None, revision: str, most: int
    ) -> None:
        self.uri = uri
        self.mime_type = mime_type
        self.meta = meta
        self.level = _LEVEL[revision]
        self.most = most

    def text(self, text: str, default: str) -> dict[str, Any]:
        return self._content("text", text, self.mime_type or default)

    def blob(self, data: bytes | bytearray | memoryview, default: str | None = None) -> dict[str, Any]:
        mime_type = self.mime_type or default or sniff(bytes(data[:12])) or "application/octet-stream"
        return self._content("blob", binascii.b2a_base64(data, newline=False).decode("ascii"), mime_type)

    def file(self, path: Path) -> dict[str, Any]:
        data = read_file(path, self.most)
        mime_type = self.mime_type or guess_type(path.name)
        if mime_type is not None and is_text_type(mime_type):
            try:
                return self.text(data.decode("utf-8"), mime_type)
            except UnicodeDecodeError:
                pass
        return self.blob(data, mime_type)

    def _content(self, member: str, value: str, mime_type: str) -> dict[str, Any]:
        made: dict[str, Any] = {"uri": self.uri, "mimeType": mime_type, member: value}
        if self.meta and self.level >= _LEVEL[R3]:
            made["_meta"] = self.meta
        return made

    def one(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(str.__str__(value), "text/plain")
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self.blob(value)
        if isinstance(value, PurePath):
            return self.file(Path(value))
        if _is_contents(value):
            meta: Any = value.meta
            if meta is UNSET and self.meta:
                meta = self.meta
            if self.level < _LEVEL[R3]:
                meta = UNSET
            # Structs write their unset members not at all.
            return value if meta is value.meta else msgspec.structs.replace(value, meta=meta)
        return self.text(encode_json(value).decode(), "application/json")

    def all(self, value: Any) -> list[Any]:
        if isinstance(value, (list, tuple)) and any(
            isinstance(item, (bytes, bytearray, memoryview)) or _is_contents(item) for item in value
        ):
            return [self.one(item) for item in value]
        return [self.one(value)]


def _is_contents(value: Any) -> bool:
    return isinstance(value, Message) and hasattr(value, "uri") and (hasattr(value, "text") or hasattr(value, "blob"))


def render_contents(
    value: Any,
    *,
    uri: str,
    revision: str,
    mime_type: str | None,
    meta: dict[str, Any] | None,
    hint: CacheHint,
    most: int,
) -> tuple[bytes, dict[str, Any] | None]:
    """The result object of ``resources/read`` as ``revision`` knows it, and the members for its ``_meta``.

    ``mime_type`` and ``meta`` are the resource's own, for contents that say nothing else; ``most`` bounds a
    file in bytes. Raises :class:`MissingResource` for None, :class:`RpcError` for a file that cannot be
    sent, and :class:`headrace.server.results.UnserializableResult`.
    """
    own_meta = None
    if isinstance(value, ResourceResult):
        own_meta = value.meta
        hint = value.cache or hint
        value = value.contents
    if value is None:
        raise MissingResource
    contents = _Place(uri, mime_type, meta, revision, most).all(value)
    body = b'{"contents":' + encode_json(contents)
    return body + (b"," + hint.members + b"}" if revision == R5 else b"}"), own_meta
