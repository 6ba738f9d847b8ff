"""Pages of a list: tools, resources, resource templates and prompts alike (SF-02, SF-50, SF-51).

Strategy: a page is bytes, made once per revision and after a change; the JSON of each entry is kept too, so
a change of one entry among thousands joins bytes again and encodes one entry. Order is the order of
registration. A cursor names the entry that the page before ended with, by its number and a check of its
name: it outlives changes of the list, and means the same in every process that registers the same entries.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R5
from headrace.mux import Exchange, FunctionHandler, Handler
from headrace.server.features import PRIVATE_NOW, CacheHint

__all__ = ("Listing",)

_encode = msgspec.json.Encoder().encode
_CURSOR = struct.Struct(">BII")  # which list, number of the entry, check of its key


class _ListParams(msgspec.Struct):
    cursor: str | None = None


_decode = msgspec.json.Decoder(_ListParams).decode


class _Item:
    __slots__ = ("check", "definition", "encoded", "number")

    def __init__(self, number: int, key: str, definition: Callable[[str], dict[str, Any]]) -> None:
        self.number = number
        self.check = zlib.crc32(key.encode("utf-8", "surrogatepass"))
        self.definition = definition
        self.encoded: dict[str, bytes] = {}

    def json(self, revision: str) -> bytes:
        found = self.encoded.get(revision)
        if found is None:
            found = self.encoded[revision] = _encode(self.definition(revision))
        return found


class Listing:
    """One list method. May be changed from any thread while the loop serves pages.

    ``method`` is its name, ``member`` the array in its result, ``page_size`` the entries of one page.
    """

    def __init__(self, method: str, member: str, page_size: int) -> None:
        self.method = method
        self._open = b'{"' + member.encode() + b'":['
        self._tag = zlib.crc32(method.encode()) & 0xFF
        self._page_size = page_size
        self._hint = PRIVATE_NOW
        self._lock = threading.Lock()
        self._items: dict[str, _Item] = {}
        self._last = 0
        self._pages: dict[tuple[str, str | None], bytes] = {}
        self._handlers: dict[str, Handler] = {}

    def __len__(self) -> int:
        return len(self._items)

    def put(self, key: str, definition: Callable[[str], dict[str, Any]], what: str) -> None:
        """Adds an entry at the end, in the place of one with the same key. ``definition(revision)`` makes its object.

        Raises :class:`UsageError`, beginning with ``what``, when that object is no JSON: one bad entry must
        not hide the others.
        """
        with self._lock:
            item = _Item(self._last + 1, key, definition)
            try:
                item.json(R5)
            except (TypeError, ValueError, RecursionError) as exc:
                raise UsageError(f"{what}: its definition cannot be written as JSON: {exc}") from exc
            self._last += 1
            self._items.pop(key, None)
            self._items[key] = item
            self._pages = {}

    def drop(self, key: str) -> None:
        """Takes an entry away. Raises KeyError for an unknown key."""
        with self._lock:
            del self._items[key]
            self._pages = {}

    def set_page_size(self, entries: int) -> None:
        """Entries of one page from now on."""
        with self._lock:
            self._page_size = entries
            self._pages = {}

    @property
    def hint(self) -> CacheHint:
        """How long clients may keep the list; one for all of its pages (SF-53)."""
        return self._hint

    @hint.setter
    def hint(self, hint: CacheHint) -> None:
        with self._lock:
            self._hint = hint
            self._pages = {}

    def handler(self, revision: str) -> Handler:
        """The handler of the list method under ``revision``."""
        found = self._handlers.get(revision)
        if found is None:

            def serve(exchange: Exchange) -> bytes:
                params = exchange.params
                if params is None or b"cursor" not in params:
                    return self.page(revision)
                try:
                    return self.page(revision, _decode(params).cursor)
                except msgspec.ValidationError as exc:
                    raise RpcError(INVALID_PARAMS, f"{self.method}: {exc}") from None

            found = self._handlers[revision] = FunctionHandler(serve)
        return found

    def page(self, revision: str, cursor: str | None = None) -> bytes:
        """One page as JSON object, without what the protocol layer puts into every result.

        Raises :class:`RpcError` (-32602) for a cursor that no page ended with; ``""`` is one of these, only
        ``None`` is the beginning (SF-50).
        """
        pages = self._pages
        found = pages.get((revision, cursor))
        if found is None:
            found, whole = self._render(revision, cursor)
            if whole:
                pages[revision, cursor] = found
        return found

    def _render(self, revision: str, cursor: str | None) -> tuple[bytes, bool]:
        """A page, and whether it is one of those that a walk through the list as it is now meets."""
        with self._lock:
            items = list(self._items.values())
            size, hint = self._page_size, self._hint
        start = 0 if cursor is None else self._position(items, cursor)
        part = items[start : start + size]
        pieces = [self._open, b",".join([item.json(revision) for item in part]), b"]"]
        if start + size < len(items):
            pieces += (b',"nextCursor":"', self._cursor(part[-1]), b'"')
        if revision == R5:
            pieces += (b",", hint.members)
        pieces.append(b"}")
        return b"".join(pieces), start % size == 0

    def _cursor(self, item: _Item) -> bytes:
        return base64.urlsafe_b64encode(_CURSOR.pack(self._tag, item.number, item.check))

    def _position(self, items: list[_Item], cursor: str) -> int:
        """Where the page after ``cursor`` begins; the entry it names may be gone."""
        try:
            raw = base64.b64decode(cursor.encode("ascii"), b"-_", validate=True)
            tag, number, check = _CURSOR.unpack(raw)
        except (binascii.Error, struct.error, UnicodeEncodeError):
            raise self._unknown() from None
        at = bisect.bisect_left(items, number, key=lambda item: item.number)
        known = at < len(items) and items[at].number == number
        if tag != self._tag or not 0 < number <= self._last or (known and items[at].check != check):
            raise self._unknown()
        return at + known

    def _unknown(self) -> RpcError:
        return RpcError(INVALID_PARAMS, f"{self.method}: unknown cursor; start again without one")
