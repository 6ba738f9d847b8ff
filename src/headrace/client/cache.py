"""Results that the server lets a client use again (SF-51..SF-54).

Strategy: raw results by method and params, decoded anew for each use, so that no caller can change what another
one gets. An entry is fresh until its ``ttlMs`` is over by a monotonic clock; whatever the server reports as changed
goes at once, also when the answer to an older question arrives after the report. Entries and bytes are bounded,
the least recently used goes first.

A client has a cache of its own: what is private never leaves it. Public results may be shared by several
clients of one origin through a :class:`SharedCache`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from headrace.limits import DEFAULT, Limits

__all__ = ("ResultCache", "SharedCache", "Store")

MAX_TTL = 86_400_000.0
"""Milliseconds: more than a day is taken for a day."""
OVERHEAD = 256
"""Bytes that an entry counts for besides its key and result."""

_KINDS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resource",
}


class Entry:
    """One result."""

    __slots__ = ("expires", "kind", "raw", "size", "uri")

    def __init__(self, raw: bytes, expires: float, kind: str, uri: str | None, size: int) -> None:
        self.raw = raw
        self.expires = expires
        self.kind = kind
        self.uri = uri
        self.size = size


class Store:
    """A bounded table of results, the least recently used first."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._max_entries = limits.max_cache_entries
        self._max_bytes = limits.max_cache_bytes
        self._entries: dict[tuple[str, ...], Entry] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: tuple[str, ...]) -> bytes | None:
        """A fresh result, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        del self._entries[key]
        if entry.expires <= self.clock():
            self.size -= entry.size
            return None
        self._entries[key] = entry
        return entry.raw

    def put(self, key: tuple[str, ...], raw: bytes, ttl: float, kind: str, uri: str | None) -> None:
        """Keeps a result for ``ttl`` seconds. One that is larger than an eighth of the table is not kept."""
        self.drop(key)
        size = len(raw) + sum(map(len, key)) + OVERHEAD
        if size * 8 > self._max_bytes:
            return
        self._entries[key] = Entry(raw, self.clock() + ttl, kind, uri, size)
        self.size += size
        while self.size > self._max_bytes or len(self._entries) > self._max_entries:
            self.drop(next(iter(self._entries)))

    def drop(self, key: tuple[str, ...]) -> None:
        """Forgets one result."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= entry.size

    def drop_where(self, gone: Callable[[tuple[str, ...], Entry], bool]) -> None:
        """Forgets those for which ``gone`` is true."""
        for key in [key for key, entry in self._entries.items() if gone(key, entry)]:
            self.drop(key)

    def clear(self) -> None:
        """Forgets everything."""
        self._entries.clear()
        self.size = 0


class SharedCache:
    """Public results that the clients of a process share: ``connect(url, cache=shared)`` for each of them.

    Only results that servers mark as ``public`` come in, and only from ``http://`` and ``https://`` servers,
    by their URL. Belongs to one thread.
    """

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = monotonic) -> None:
        self.store = Store(limits or DEFAULT, clock)

    def clear(self) -> None:
        """Forgets everything."""
        self.store.clear()


class ResultCache:
    """The cache of one client, with its part of a shared one."""

    def __init__(self, own: Store, shared: Store | None = None, origin: str = "") -> None:
        self._own = own
        self._shared = shared
        self._origin = origin
        self._changes = 0
        self._last: dict[str, int] = {}

    def get(self, method: str, params: str) -> bytes | None:
        """A fresh result for a method and its params, or None."""
        raw = self._own.get((method, params))
        if raw is None and self._shared is not None:
            raw = self._shared.get((self._origin, method, params))
        return raw

    def now(self) -> int:
        """To be asked before a request and handed to :meth:`put`: which changes were known then."""
        return self._changes

    def put(
        self, method: str, params: str, raw: bytes, ttl: object, scope: object, asked: int, uri: str | None = None
    ) -> None:
        """Keeps a result as long as its ``ttlMs`` (``ttl``) says. ``asked`` is what :meth:`now` gave before the
        request: a result that a change has overtaken is not kept."""
        kind = _KINDS[method]
        if self._last.get(kind, 0) > asked or isinstance(ttl, bool) or not isinstance(ttl, int | float):
            return
        if not ttl > 0:  # nor is NaN
            return
        seconds = float(min(ttl, MAX_TTL)) / 1000.0  # first the smaller one: no float is large enough for any int
        self.drop(method, params)
        if scope == "public" and self._shared is not None:
            self._shared.put((self._origin, method, params), raw, seconds, kind, uri)
        else:
            self._own.put((method, params), raw, seconds, kind, uri)

    def drop(self, method: str, params: str) -> None:
        """Forgets one result."""
        self._own.drop((method, params))
        if self._shared is not None:
            self._shared.drop((self._origin, method, params))

    def drop_method(self, method: str) -> None:
        """Forgets all results of a method: a cursor was no longer valid (SF-54)."""
        self._own.drop_where(lambda key, entry: key[0] == method)
        if self._shared is not None:
            self._shared.drop_where(lambda key, entry: key[0] == self._origin and key[1] == method)

    def changed(self, kind: str, uri: str | None) -> None:
        """The server reports a change: a list by its kind, a resource by its URI."""
        self._changes += 1
        self._last[kind] = self._changes

        def gone(entry: Entry) -> bool:
            if entry.kind != kind:
                return False
            return uri is None or entry.uri is None or _related(entry.uri, uri)

        self._own.drop_where(lambda key, entry: gone(entry))
        if self._shared is not None:
            self._shared.drop_where(lambda key, entry: key[0] == self._origin and gone(entry))

    def clear(self) -> None:
        """Forgets what is private; called when the client acts for somebody else from now on (SF-53)."""
        self._changes += 1
        for kind in _KINDS.values():
            self._last[kind] = self._changes
        self._own.clear()


def _related(one: str, other: str) -> bool:
    """Whether two URIs name the same resource or one a part of the other."""
    short, long = sorted((one, other), key=len)
    return long == short or (long.startswith(short) and (short.endswith("/") or long[len(short)] in "/#?"))
