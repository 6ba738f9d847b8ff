"""URLs that a server sends its user to (CF-32, CF-33), those that a client shows to its user (SE-06), and the
length of URIs."""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.errors import UsageError

__all__ = ("check_url", "may_be_opened", "uri_bytes")

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def check_url(url: str) -> str:
    """``url`` when a client may be asked to open it: absolute http(s), without credentials. Raises UsageError."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except (ValueError, AttributeError):
        raise UsageError(f"not a valid URL: {url!r}") from None
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() or not c.isprintable() for c in url):
        raise UsageError(f"a URL for elicitation must be absolute and start with https://, not {url!r}")
    if parts.username is not None or parts.password is not None:
        raise UsageError("a URL for elicitation must not carry credentials")
    return url


def may_be_opened(url: str) -> bool:
    """Whether a user may be asked to open ``url`` (SE-06): https, or http of this machine, without credentials."""
    try:
        check_url(url)
    except UsageError:
        return False
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in _LOOPBACK


def uri_bytes(uri: str) -> int:
    """Length of ``uri`` in UTF-8."""
    return len(uri) if uri.isascii() else len(uri.encode("utf-8", "surrogatepass"))
