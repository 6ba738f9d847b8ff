"""What a Redis URL means: one server, a unix socket, sentinels, or a cluster; and the names of it that logs may show.

``redis://``, ``rediss://`` and ``unix://`` URLs are those of redis-py, with the settings that it takes behind ``?``.
Behind ``redis+sentinel://`` stand the sentinels, the name of the service, and the database:
``host:26379,host2/main/0``.
``redis+cluster://`` has one or several nodes of a cluster. Both exist with ``rediss+`` too.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from headrace.errors import UsageError

__all__ = ("ACCEPTED", "RedisUrl")

ACCEPTED = (
    "redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH, redis+sentinel://HOST:PORT,.../SERVICE or "
    "redis+cluster://HOST:PORT,..."
)
_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:,/\[\]]+)(?::(\d{1,5}))?")
_MAX_PORT = 65_535


def _library() -> Any:
    try:
        import redis.asyncio
    except ImportError:
        raise UsageError("Redis needs an optional package: pip install 'headrace[redis]'") from None
    return redis


def _place(text: str, port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found[2] or port) <= _MAX_PORT:
        raise UsageError(f"{text!r} is no HOST:PORT of a Redis URL")
    return found[1].strip("[]"), int(found[2] or port)


class RedisUrl:
    """One URL, read. Raises :class:`UsageError` for one that cannot be meant; no text of it holds the password."""

    def __init__(self, url: str) -> None:
        redis = _library()
        scheme, colon, rest = url.partition("://")
        if not colon or scheme not in _SCHEMES:
            raise UsageError(f"this is no URL of Redis; use {ACCEPTED}")
        self.is_cluster = scheme.endswith("+cluster")
        self.is_sentinel = scheme.endswith("+sentinel")
        self.service = ""
        base = scheme.partition("+")[0]
        self.places: list[tuple[str, int]] = []
        try:
            if self.is_cluster or self.is_sentinel:
                url = self._several(base, rest)
            self._url = url
            self.settings: dict[str, Any] = redis.asyncio.connection.parse_url(url)
            path = self.settings.get("path")
            if base == "unix" and not path:
                raise UsageError("a unix URL of Redis needs a path: unix:///run/redis.sock")
            if base != "unix" and not self.places:
                place = (self.settings.get("host", "localhost"), self.settings.get("port", 6379))
                self.places = [place]
                if not re.fullmatch(r"/?\d*", urlsplit(url).path):
                    raise UsageError("behind the place of a Redis URL stands the number of a database, if anything")
        except UsageError:
            raise
        except ValueError as exc:
            raise UsageError(f"the Redis URL cannot be read: {exc}") from None
        kind = self.settings.get("connection_class", redis.asyncio.Connection)
        try:
            kind(**{key: value for key, value in self.settings.items() if key != "connection_class"})
        except Exception:  # a setting that connections do not have, or a value that they cannot take
            raise UsageError("the settings behind '?' of the Redis URL are not those of redis-py") from None
        shown = path or ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.places)
        self.shown = f"{scheme}://{shown}{'/' + self.service if self.service else ''}"
        """The URL without user, password and settings: for logs."""

    def _several(self, base: str, rest: str) -> str:
        """Reads the places, and gives the URL of one server with the other parts."""
        places, _, path = rest.partition("/")
        places, mark, query = places.partition("?")
        if mark:
            path = ""
        else:
            path, mark, query = path.partition("?")
        user, at, places = places.rpartition("@")
        port = 26_379 if self.is_sentinel else 6_379
        self.places = [_place(each, port) for each in places.split(",")]
        if self.is_sentinel:
            self.service, _, path = path.partition("/")
            if not self.service:
                raise UsageError("a sentinel URL names a service behind the sentinels: redis+sentinel://HOST:PORT/main")
        if path and not (self.is_sentinel and path.isdigit()):
            raise UsageError("behind the places of a Redis URL stands nothing else")
        return f"{base}://{user}{at}redis{'/' + path if path else ''}{mark}{query}"

    def open(self, *, socket_timeout: float, connect_timeout: float, name: str) -> Any:
        """A client of redis.asyncio, with nothing connected yet. It repeats nothing by itself."""
        redis = _library()
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        common: dict[str, Any] = {
            "socket_timeout": socket_timeout,
            "socket_connect_timeout": connect_timeout,
            "client_name": name,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        }
        if self.is_cluster:
            settings = {k: v for k, v in self.settings.items() if k not in ("host", "port", "connection_class", "db")}
            if self.settings.get("connection_class") is redis.asyncio.SSLConnection:
                settings["ssl"] = True
            nodes = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in self.places]
            common["retry"] = Retry(NoBackoff(), 1)  # a slot may have moved
            return redis.asyncio.RedisCluster(startup_nodes=nodes, **{**settings, **common})
        if self.is_sentinel:
            settings = {k: v for k, v in self.settings.items() if k not in ("host", "port")}
            own = {"socket_timeout": connect_timeout, "socket_connect_timeout": connect_timeout, "protocol": 2}
            if settings.pop("connection_class", None) is redis.asyncio.SSLConnection:
                settings["ssl"] = True
            sentinel = redis.asyncio.Sentinel(self.places, sentinel_kwargs=own, **{**settings, **common})
            return sentinel.master_for(self.service)
        return redis.asyncio.Redis.from_url(self._url, **common)

    async def close(self, client: Any) -> None:
        """Closes a client of :meth:`open` with all its connections."""
        await client.aclose()
        if self.is_sentinel:
            await client.connection_pool.aclose()
            for sentinel in client.connection_pool.sentinel_manager.sentinels:
                await sentinel.aclose()
