"""Return values as tool results, for every revision.

The mapping (B111), by the value a handler returns:

======================================  ===========================================================
value                                   result
======================================  ===========================================================
``str``                                 one text block
``None``                                no content
number, bool                            one text block with its JSON
datetime, date, time, timedelta, UUID,  one text block: RFC 3339, ISO 8601, digits, text
Decimal, Enum, path, IP address
Struct, dataclass, TypedDict, dict,     structured content, and the same JSON in a text block
attrs, pydantic model, list, tuple,
set, deque, mapping, numpy array
content block, ``Image``, ``Audio``,    that content; strings in such a list become text blocks,
a list with at least one of them        other values text blocks with their JSON
``bytes``                               image or audio by its first bytes, else an embedded resource
``ToolResult``                          what it says
======================================  ===========================================================

Inside structured values: bytes are base64, keys that are numbers, dates or enums become strings, sets
are lists in no particular order, numpy scalars are numbers. With an output schema (see
:mod:`headrace.server.output`) every value is structured content and must keep the promise (B110).

:class:`UnserializableResult` is raised for everything else: generators and other objects without JSON
form, values that contain themselves or are nested too deep, text with lone surrogates, and NaN and
infinities, which JSON cannot carry (B105).
"""

import collections
import collections.abc
import dataclasses
import ipaddress
import json
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

import msgspec
from msgspec import UNSET

from headrace import types
from headrace.errors import LocalProtocolError
from headrace.jsonrpc import MODERN_REVISIONS, R2, R3, R4, R5, REVISIONS
from headrace.server import _pydantic
from headrace.server.content import ToolResult, block_kind, is_block_type, to_block
from headrace.server.output import Output
from headrace.types import Message

__all__ = ("CONTENT", "STRUCTURED", "TEXT", "OutputMismatch", "RenderedResult", "ResultRenderer",
           "UnserializableResult", "encode_block", "encode_json", "error_result", "wire_result")  # fmt: skip

TEXT: Final = 0
"""``text`` is the one text block."""
STRUCTURED: Final = 1
"""``structured`` is the structured content and, as text, the one text block."""
CONTENT: Final = 2
"""``blocks`` are the content, ``structured`` may be set beside them."""


class UnserializableResult(LocalProtocolError):
    """A handler's result has no JSON form. The text names types, never values."""


class OutputMismatch(UnserializableResult):
    """A handler's result does not keep the promise of its output schema (B110)."""


_BAD_TEXT = "the result contains text that is not valid Unicode (lone surrogates)"
_NOT_FINITE = "the result contains NaN or an infinity, which JSON cannot carry"

# --- encoding ------------------------------------------------------------------------------------


_ITERABLES = (
    collections.abc.Sequence, collections.abc.Set, collections.abc.ValuesView, collections.deque
)  # fmt: skip


def _encode_custom(value: Any) -> Any:
    """The ``enc_hook``: values msgspec does not know, as values it knows."""
    if isinstance(value, (bool, type(None), list, tuple, dict, set, frozenset)):
        raise TypeError("keys must be text, numbers, dates or enums")  # known values come here only as keys
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if _pydantic.is_model(value):
        return _pydantic.dump(value)
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (PurePath, ipaddress._IPAddressBase)):
        return str(value)
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    if isinstance(value, _ITERABLES):
        return list(value)
    raise TypeError(f"values of type {type(value).__name__!r} have no JSON form")


_encode = msgspec.json.Encoder(enc_hook=_encode_custom).encode
_plain_encode = msgspec.json.Encoder().encode
_strict_dumps = json.JSONEncoder(allow_nan=False, check_circular=False, ensure_ascii=False).encode


def encode_json(value: Any) -> bytes:
    """``value`` as JSON on one line. Raises :class:`UnserializableResult`, and nothing else."""
    try:
        data = _encode(value)
        if b"null" in data:
            # msgspec writes NaN and infinities as null: only then is it worth looking.
            _strict_dumps(msgspec.to_builtins(value, enc_hook=_encode_custom, str_keys=True))
        if b"\n" in data or isinstance(value, msgspec.Raw):
            # Raw comes as its author wrote it, and a line transport allows no newline inside a message.
            data = msgspec.json.format(data, indent=-1)
    except RecursionError:
        raise UnserializableResult("the result contains itself or is nested too deeply") from None
    except UnicodeEncodeError:
        raise UnserializableResult(_BAD_TEXT) from None
    except ValueError as exc:
        if "JSON compliant" in str(exc):
            raise UnserializableResult(_NOT_FINITE) from None
        raise UnserializableResult(f"the result cannot be written as JSON: {exc}") from exc
    except Exception as exc:
        raise UnserializableResult(f"the result cannot be written as JSON: {exc}") from exc
    return data


# --- rendering -----------------------------------------------------------------------------------


class RenderedResult:
    """A result ready for any revision. Attributes are read-only.

    ``kind`` is TEXT, STRUCTURED or CONTENT and says which of ``text`` (str), ``structured`` (JSON bytes)
    and ``blocks`` are set; ``meta`` are members for ``_meta`` or ``None``.
    """

    __slots__ = ("blocks", "is_error", "kind", "meta", "structured", "text")

    def __init__(
        self,
        kind: int,
        *,
        text: str = "",
        structured: bytes | None = None,
        blocks: list[Message] | None = None,
        is_error: bool = False,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.text = text
        self.structured = structured
        self.blocks = blocks
        self.is_error = is_error
        self.meta = meta


def error_result(text: str) -> RenderedResult:
    """An error result with one text block (JR-36)."""
    return RenderedResult(TEXT, text=text, is_error=True)


class ResultRenderer:
    """Renders the results of one tool; prepared once, used for every call.

    ``modern_meta`` are the members of ``_meta`` that the protocol layer puts into every modern result; a
    handler's own are joined with them (the protocol's go first), and ``complete`` marks such bytes as
    needing nothing more.
    """

    __slots__ = ("_direct", "complete", "modern_meta", "name", "output")

    def __init__(
        self,
        name: str,
        output: Output | None = None,
        *,
        modern_meta: dict[str, Any] | None = None,
        complete: Callable[[bytes], Any] = bytes,
    ) -> None:
        self.name = name
        self.output = output
        self.modern_meta = modern_meta or {}
        self.complete = complete
        self._direct: dict[type, bool] = {}

    @property
    def plain_text(self) -> bool:
        """A ``str`` is one text block: the caller may write it without asking :meth:`wire`."""
        return self.output is None

    @property
    def promised(self) -> type | None:
        """The class whose instances keep the promise of the output schema without a check, if any.

        For ``int``, ``float`` and ``bool`` exact values are meant, and an int also keeps the promise of a
        float. The caller may write such values without asking :meth:`wire`.
        """
        if self.output is None or self.output.checked_whole:
            return None
        tp = self.output.type
        if tp in (int, float, bool):
            return tp  # type: ignore[no-any-return]
        cls = self.output.instance_class
        return cls if isinstance(cls, type) and issubclass(cls, msgspec.Struct) else None

    def wire(self, value: Any, revision: str) -> Any:
        """The JSON object for a handler's return value, for the protocol layer to put its members into.

        ``complete(bytes)`` when all members are there. Raises as :meth:`render` and :func:`wire_result`.
        """
        tp = type(value)
        direct = self._direct.get(tp)
        if direct is None:
            direct = self._is_direct(tp)
        if direct:
            data = encode_json(value)
            if self.output is not None:
                self._check(value, data)
                return _wire_structured(data, _LEVEL[revision])
            if data[0] == _BRACE:
                return _wire_structured(data, _LEVEL[revision])
        rendered = self.render(value)
        body = wire_result(rendered, revision)
        if rendered.meta is None:
            return body
        if revision not in MODERN_REVISIONS:
            return body[:-1] + b',"_meta":' + encode_json(rendered.meta) + b"}"
        meta = encode_json({**rendered.meta, **self.modern_meta})
        return self.complete(body[:-1] + b',"resultType":"complete","_meta":' + meta + b"}")

    def _is_direct(self, tp: type) -> bool:
        """True when values of this class are structured content and nothing else: no look is needed."""
        direct = not issubclass(tp, ToolResult) and not is_block_type(tp)
        if self.output is None:
            direct = direct and (issubclass(tp, (dict, msgspec.Struct)) or dataclasses.is_dataclass(tp))
        if len(self._direct) < _MAX_TYPES:
            self._direct[tp] = direct
        return direct

    def render(self, value: Any) -> RenderedResult:
        """The result for a handler's return value.

        Raises :class:`UnserializableResult` or :class:`OutputMismatch`, and nothing else.
        """
        if isinstance(value, ToolResult):
            return self._whole(value)
        if self.output is None:
            return _render_free(value)
        if is_block_type(type(value)):
            raise self._mismatch(f"expected structured content, got {type(value).__name__}")
        data = encode_json(value)
        self._check(value, data)
        return RenderedResult(STRUCTURED, structured=data)

    def _check(self, value: Any, data: bytes) -> None:
        assert self.output is not None
        try:
            self.output.check(value, data)
        except msgspec.ValidationError as exc:
            raise self._mismatch(_describe_mismatch(exc)) from None

    def _mismatch(self, why: str) -> OutputMismatch:
        return OutputMismatch(f"the result of tool {self.name!r} does not fit its output schema: {why}")

    def _whole(self, value: ToolResult) -> RenderedResult:
        structured = None
        if value.structured_content is not UNSET:
            structured = encode_json(value.structured_content)
            if self.output is not None and not value.is_error:
                self._check(value.structured_content, structured)
        elif self.output is not None and not value.is_error:
            raise self._mismatch("structured_content is missing")
        if value.meta is not None:
            encode_json(value.meta)
        if value.content is None and structured is not None:
            return RenderedResult(STRUCTURED, structured=structured, is_error=value.is_error, meta=value.meta)
        blocks = _blocks(value.content)
        return RenderedResult(
            CONTENT, blocks=blocks, structured=structured, is_error=value.is_error, meta=value.meta
        )  # fmt: skip


def _describe_mismatch(exc: msgspec.ValidationError) -> str:
    """msgspec's words without the value that some of them quote."""
    what, at, where = str(exc).partition(" - at ")
    if exc.__cause__ is None and what.startswith(("Invalid enum value", "Invalid value")):
        what = "Not one of the allowed values"
    return f"{what}{at}{where}".replace("`", "")


def _render_free(value: Any) -> RenderedResult:
    if isinstance(value, str):
        return RenderedResult(TEXT, text=value if type(value) is str else str.__str__(value))
    if value is None:
        return RenderedResult(CONTENT, blocks=[])
    if is_block_type(type(value)):
        return RenderedResult(CONTENT, blocks=[to_block(value)])
    if isinstance(value, (list, tuple)) and any(is_block_type(tp) for tp in set(map(type, value))):
        return RenderedResult(CONTENT, blocks=_blocks(value))
    data = encode_json(value)
    if data[:1] in (b"{", b"["):
        return RenderedResult(STRUCTURED, structured=data)
    return RenderedResult(TEXT, text=_as_text(data))


def _as_text(data: bytes) -> str:
    return msgspec.json.decode(data, type=str) if data[:1] == b'"' else data.decode()


def _blocks(content: Any) -> list[Message]:
    if content is None:
        return []
    if not isinstance(content, (list, tuple)):
        content = (content,)
    return [
        to_block(item) if isinstance(item, str) or is_block_type(type(item))
        else types.TextContent(text=_as_text(encode_json(item)))
        for item in content
    ]  # fmt: skip


# --- the wire ------------------------------------------------------------------------------------

_LEVEL = {revision: level for level, revision in enumerate(REVISIONS, start=1)}
_BRACE = ord("{")
_MAX_TYPES = 64  # classes made anew for every call must not pile up here
_L2, _L3, _L4, _L5 = _LEVEL[R2], _LEVEL[R3], _LEVEL[R4], _LEVEL[R5]


def wire_result(rendered: RenderedResult, revision: str) -> bytes:
    """The JSON object of a ``tools/call`` result as ``revision`` allows it (SF-06, SF-07).

    ``resultType`` and ``_meta`` (``rendered.meta`` included) are the protocol layer's to put before the
    closing brace. Raises :class:`UnserializableResult` for text that is not valid Unicode, and
    :class:`KeyError` for an unknown revision.
    """
    level = _LEVEL[revision]
    try:
        structured = rendered.structured
        if rendered.kind == TEXT:
            parts = [b'{"content":[{"type":"text","text":', _plain_encode(rendered.text), b"}]"]
        elif rendered.kind == STRUCTURED:
            assert structured is not None
            body = _wire_structured(structured, level)
            return body[:-1] + b',"isError":true}' if rendered.is_error else body
        else:
            blocks = rendered.blocks or []
            encoded = [encode_block(block, level) for block in blocks]
            if structured is not None and not any(block_kind(block) == "text" for block in blocks):
                encoded.append(_text_block(structured))  # SHOULD for objects, MUST for anything else
            parts = [b'{"content":[', b",".join(encoded), b"]"]
        if structured is not None and (level >= _L5 or (level >= _L3 and structured[0] == _BRACE)):
            parts += (b',"structuredContent":', structured)
    except UnicodeEncodeError:
        raise UnserializableResult(_BAD_TEXT) from None
    parts.append(b',"isError":true}' if rendered.is_error else b"}")
    return b"".join(parts)


def _wire_structured(data: bytes, level: int) -> bytes:
    text = _plain_encode(data.decode())
    if level >= _L5 or (level >= _L3 and data[0] == _BRACE):
        return b"".join((b'{"content":[{"type":"text","text":', text, b'}],"structuredContent":', data, b"}"))
    return b"".join((b'{"content":[{"type":"text","text":', text, b"}]}"))


def _text_block(data: bytes) -> bytes:
    return b'{"type":"text","text":' + _plain_encode(data.decode()) + b"}"


def encode_block(block: Any, level: int) -> bytes:
    """A content block as JSON, for the revision of this ``level`` (1 is the oldest): what it does not know is
    left out, or told as text (SF-07)."""
    kind = block_kind(block)
    if kind == "audio" and level < _L2:
        text = f"[{block.mime_type}, {len(block.data) * 3 // 4} bytes: this client cannot take audio]"
        return _plain_encode(types.TextContent(text=text))
    if kind == "resource_link" and level < _L3:
        text = f"{block.name}: {block.uri}"
        return _plain_encode(types.TextContent(text=f"{text}\n{block.description}" if block.description else text))
    if level < _L5:
        block = _strip_members(block, kind, level)
    return encode_json(block)


def _strip_members(block: Any, kind: str, level: int) -> Any:
    """``block`` without members that came after revision ``level``."""
    changes: dict[str, Any] = {}
    if level < _L3:
        if block.meta is not UNSET:
            changes["meta"] = UNSET
        if block.annotations and getattr(block.annotations, "last_modified", UNSET) is not UNSET:
            changes["annotations"] = msgspec.structs.replace(block.annotations, last_modified=UNSET)
        if kind == "resource" and getattr(block.resource, "meta", UNSET) is not UNSET:
            changes["resource"] = msgspec.structs.replace(block.resource, meta=UNSET)
    elif level < _L4 and kind == "resource_link" and getattr(block, "icons", UNSET) is not UNSET:
        changes["icons"] = UNSET
    return msgspec.structs.replace(block, **changes) if changes else block
