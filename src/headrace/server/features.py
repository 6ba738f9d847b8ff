"""What a server offers, as a list of features that know their own methods and capabilities (VN-27, JR-32).

A feature that is not offered contributes no methods and no capability, so that what is advertised and what
is served can never differ.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from headrace.errors import UsageError
from headrace.jsonrpc import MODERN_REVISIONS, SERVER_INFO
from headrace.mux import Handler, RawResult
from headrace.server.results import encode_json

__all__ = (
    "PRIVATE_NOW", "CacheHint", "CoreFeature", "Feature", "Registry", "check_extensions",
    "merge_capabilities", "merge_methods", "with_meta",
)  # fmt: skip


class Feature(Protocol):
    """One feature of a server: tools, resources, tasks, an extension."""

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """Handlers by method name under ``revision``; empty when the feature is not offered there."""

    def capability(self, revision: str) -> dict[str, Any]:
        """Members for the capabilities object under ``revision``; empty when not offered."""


class CacheHint(msgspec.Struct, frozen=True):
    """How long a client may keep a result of 2026-07-28 and for whom (SF-51).

    ``ttl`` is in seconds, 0 means stale at once; ``scope`` is ``"private"`` (one authorization context) or
    ``"public"`` (may be shared). It is a hint, not access control (SF-53).
    """

    ttl: float = 0.0
    scope: Literal["private", "public"] = "private"

    def __post_init__(self) -> None:
        if not 0 <= self.ttl < 2**53 / 1000:
            raise UsageError(f"cache ttl must be a number of seconds from 0 on, not {self.ttl!r}")
        if self.scope not in ("private", "public"):
            raise UsageError(f'cache scope must be "private" or "public", not {self.scope!r}')

    @property
    def members(self) -> bytes:
        """``"ttlMs":...,"cacheScope":...`` for the inside of a result object."""
        return b'"ttlMs":%d,"cacheScope":"%s"' % (round(self.ttl * 1000), self.scope.encode())

    def fields(self) -> dict[str, Any]:
        """The same as members of a dict."""
        return {"ttlMs": round(self.ttl * 1000), "cacheScope": self.scope}


class Registry:
    """Base of the features that things are registered on, from any thread and at any time.

    ``on_change(kind)`` is called after each change, ``on_offer()`` when the first entry makes the feature one
    that is offered; it stays so. ``lock`` guards compound changes.
    """

    kind: str

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.offered = False
        self.on_change: Callable[[str], Any] | None = None
        self.on_offer: Callable[[], Any] | None = None

    def changed(self) -> None:
        """Tables and clients are told."""
        if not self.offered:
            self.offered = True
            if self.on_offer is not None:
                self.on_offer()
        if self.on_change is not None:
            self.on_change(self.kind)


PRIVATE_NOW = CacheHint()
"""The default: stale at once, private."""


class CoreFeature:
    """Logging and the extensions, which have no registry of their own (SF-40, VN-31).

    ``extensions`` maps identifiers to their settings, the same in both eras (VN-32).
    """

    def __init__(self, extensions: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.extensions = check_extensions(extensions or {})

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """None of its own: ``logging/setLevel`` is part of the tables of the handshake revisions."""
        return {}

    def capability(self, revision: str) -> dict[str, Any]:
        """``logging``, and ``extensions`` when there are any."""
        found: dict[str, Any] = {"logging": {}}
        if self.extensions:
            found["extensions"] = self.extensions
        return found


def with_meta(body: bytes, meta: Mapping[str, Any], revision: str, info: Mapping[str, Any]) -> Any:
    """The result object ``body`` with members for its ``_meta``, beside those of the protocol (VN-30)."""
    if revision not in MODERN_REVISIONS:
        return body[:-1] + (b"," if len(body) > 2 else b"") + b'"_meta":' + encode_json(dict(meta)) + b"}"
    own = encode_json({**meta, SERVER_INFO: info})
    return RawResult(body[:-1] + b',"resultType":"complete","_meta":' + own + b"}")


def check_extensions(extensions: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """A copy of ``extensions``; UsageError for an identifier without prefix or settings that are no object."""
    found: dict[str, dict[str, Any]] = {}
    for identifier, settings in extensions.items():
        prefix, slash, name = identifier.partition("/")
        if not (prefix and slash and name):
            raise UsageError(f"extension {identifier!r}: an identifier is vendor/name, such as com.example/search")
        if not isinstance(settings, Mapping):
            raise UsageError(f"extension {identifier!r}: its settings must be a dict, empty when there are none")
        found[identifier] = dict(settings)
    return found


def merge_methods(features: Iterable[Feature], revision: str) -> dict[bytes, Handler]:
    """The handlers of all features; a later feature takes the place of an earlier one."""
    found: dict[bytes, Handler] = {}
    for feature in features:
        found.update(feature.methods(revision))
    return found


def merge_capabilities(features: Iterable[Feature], revision: str) -> dict[str, Any]:
    """The capabilities object; members that several features give (``extensions``) are joined."""
    found: dict[str, Any] = {}
    for feature in features:
        for key, value in feature.capability(revision).items():
            known = found.get(key)
            found[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return found
