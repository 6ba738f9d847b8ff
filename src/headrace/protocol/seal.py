"""Sealed values: what a server hands to a client and takes back without keeping it (MX-35, HO-30).

Strategy: authenticated encryption under keys derived from one secret, so that several processes with the
same ``HEADRACE_SECRET`` read what any of them sealed. A token is, in URL-safe Base64 without padding,

    version (1)  key id (4)  expiry in ms since 1970 (8)  random (24)  ciphertext  tag (16)

Everything in front of the ciphertext, the purpose and the binding are authenticated with it. Half of the
random bytes choose the key of this one token (HMAC-SHA256), half are the nonce of AES-256-GCM: however
many tokens a secret seals, no nonce meets the same key twice.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.errors import HeadraceError, UsageError

__all__ = ("MIN_SECRET_BYTES", "SECRET_VARIABLE", "SealBroken", "SealError", "SealExpired", "Sealer")

SECRET_VARIABLE = "HEADRACE_SECRET"
"""Environment variable with the secret, or several separated by commas: the first one seals."""
MIN_SECRET_BYTES = 16
"""Shorter secrets are refused: they can be guessed."""

_VERSION = 1
_HEAD = struct.Struct(">B4sQ")
_RANDOM = 24
_TAG = 16
_FOREVER = 0xFFFF_FFFF_FFFF_FFFF


class SealError(HeadraceError):
    """A sealed value cannot be opened. The text says why and nothing of what is inside."""


class SealBroken(SealError):
    """Altered, cut, made for another purpose or binding, or sealed under another secret."""


class SealExpired(SealError):
    """Genuine, but its time is over."""


def _derive(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869), one block."""
    extracted = hmac.digest(b"headrace seal", secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


class _Key:
    __slots__ = ("_by_purpose", "_secret", "id")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.id = _derive(secret, b"key id")[:4]
        self._by_purpose: dict[str, bytes] = {}

    def cipher(self, purpose: str, salt: bytes) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._by_purpose.get(purpose)
        if key is None:
            key = self._by_purpose[purpose] = _derive(self._secret, b"purpose " + purpose.encode())
        return AESGCM(hmac.digest(key, salt, "sha256"))


def _read_secrets(given: bytes | str | Sequence[bytes | str] | None) -> list[bytes]:
    where = "secret"
    if given is None:
        given = os.environ.get(SECRET_VARIABLE) or None
        where = SECRET_VARIABLE
    if given is None:
        return [os.urandom(32)]
    parts: list[bytes | str]
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(",")]
    elif isinstance(given, (bytes, bytearray)):
        parts = [bytes(given)]
    else:
        parts = list(given)
    secrets = [part.encode("utf-8", "surrogateescape") if isinstance(part, str) else bytes(part) for part in parts]
    if not secrets:
        raise UsageError(f"{where}: give at least one secret")
    for number, secret in enumerate(secrets, 1):
        if len(secret) < MIN_SECRET_BYTES:
            which = f"secret {number} of {len(secrets)}" if len(secrets) > 1 else "the secret"
            raise UsageError(
                f"{where}: {which} has {len(secret)} bytes; use at least {MIN_SECRET_BYTES}, "
                "for example the output of: openssl rand -hex 32"
            )
    return secrets


class Sealer:
    """Seals bytes for clients to carry, and opens what comes back.

    :param secret: bytes are one secret; text is one or several separated by commas; a sequence holds
        several. The first one seals, all of them open: to rotate, put the new one in front, and drop the
        old one when everything sealed under it has expired. None reads ``HEADRACE_SECRET``, and without
        that makes a random secret, which no other process and no restart shares.
    :param clock: seconds since 1970.
    :raises UsageError: for a secret shorter than 16 bytes.

    May be used from any thread.
    """

    def __init__(
        self,
        secret: bytes | str | Sequence[bytes | str] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = [_Key(value) for value in dict.fromkeys(_read_secrets(secret))]
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Sealer with {len(self._keys)} keys>"

    def seal(self, purpose: str, payload: bytes, *, bind: bytes = b"", lifetime: float) -> str:
        """A token of visible ASCII that :meth:`unseal` opens with the same ``purpose`` and ``bind``.

        ``lifetime`` is in seconds, ``math.inf`` for a token without an end. ``bind`` is what the token
        belongs to (a principal, a request); it is not part of the token. The token is longer than the
        payload by 71 characters and a third.
        """
        if not lifetime > 0:
            raise ValueError(f"the lifetime of a sealed value must be positive, not {lifetime!r}")
        expiry = _FOREVER if math.isinf(lifetime) else int((self._clock() + lifetime) * 1000)
        key = self._keys[0]
        salt_and_nonce = os.urandom(_RANDOM)
        head = _HEAD.pack(_VERSION, key.id, min(expiry, _FOREVER)) + salt_and_nonce
        body = key.cipher(purpose, salt_and_nonce[:12]).encrypt(
            salt_and_nonce[12:], payload, _authenticated(head, purpose, bind)
        )
        return base64.urlsafe_b64encode(head + body).rstrip(b"=").decode("ascii")

    def unseal(self, purpose: str, token: str | bytes, *, bind: bytes = b"") -> bytes:
        """The payload of a token. Raises :class:`SealBroken` or :class:`SealExpired`.

        The caller bounds the length of ``token``.
        """
        from cryptography.exceptions import InvalidTag

        raw = _decode_token(token)
        size = _HEAD.size + _RANDOM
        if len(raw) < size + _TAG or raw[0] != _VERSION:
            raise SealBroken("not a sealed value")
        _, key_id, expiry = _HEAD.unpack_from(raw)
        head, random, body = raw[:size], raw[_HEAD.size : size], raw[size:]
        keys = [key for key in self._keys if key.id == key_id]
        if not keys:
            raise SealBroken("sealed under another secret")
        for key in keys:
            try:
                payload: bytes = key.cipher(purpose, random[:12]).decrypt(
                    random[12:], body, _authenticated(head, purpose, bind)
                )
            except InvalidTag:
                continue
            if expiry != _FOREVER and self._clock() * 1000 >= expiry:
                raise SealExpired("the sealed value has expired")
            return payload
        raise SealBroken("the sealed value was altered, or belongs to something else")


def _authenticated(head: bytes, purpose: str, bind: bytes) -> bytes:
    """What the tag covers beside the payload. Hashed apart: no two purposes and bindings read the same."""
    return head + hashlib.sha256(purpose.encode()).digest() + hashlib.sha256(bind).digest()


def _decode_token(token: str | bytes) -> bytes:
    """The bytes of a token in its one canonical form; every other spelling is refused."""
    try:
        coded = token.encode("ascii") if isinstance(token, str) else bytes(token)
        raw = base64.b64decode(coded + b"=" * (-len(coded) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise SealBroken("not a sealed value") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != coded:
        raise SealBroken("not a sealed value")
    return raw
