"""Opening the client side of HTTP+SSE, the transport of 2024-11-05 (LS-01..LS-07, VN-48).

The messages are the business of the compiled base class (_sse_client.pyx).
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Iterable, Mapping

from headrace.errors import ConnectFailed, HeadraceError, RequestTimeout, UsageError
from headrace.limits import Limits
from headrace.mux import Mux
from headrace.transports._sse_client import SseChannel as _SseChannel
from headrace.transports.http_dial import Dialer, parse_url
from headrace.transports.tap import Tap

__all__ = ("SseChannel", "open_sse")


class SseChannel(Dialer, _SseChannel):
    """The sink of one client mux over HTTP+SSE: see :func:`open_sse`.

    The end of its event stream closes the mux. Set ``protocol_version`` once 2025-06-18 or later was
    negotiated (LS-06).
    """

    async def close(self) -> None:
        """Ends everything: waiting calls fail at once with ConnectionClosed, sockets are closed. Never
        raises; may be called again. The server sees the end of its stream and drops the session."""
        self.abort()


async def open_sse(
    url: str,
    mux: Mux,
    *,
    limits: Limits,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    ssl: tls.SSLContext | None = None,
    tap: Tap | None = None,
) -> SseChannel:
    """Opens the channel of a client's ``mux`` to an HTTP+SSE endpoint; negotiates nothing.

    ``url`` is that of the event stream; see :func:`headrace.transports.http_client.open_http` for the
    rest. Messages are POSTed to what the stream's ``endpoint`` event names, which must be of the same
    origin (LS-02).

    Raises UsageError for a bad URL or header; ConnectFailed when no connection comes up, for an endpoint
    elsewhere, or when the stream ends first; HttpStatusError and RemoteProtocolError for an answer that is
    no such stream; RequestTimeout after ``limits.connect_timeout`` seconds (B116).
    """
    channel = SseChannel(parse_url(url), mux, limits=limits, headers=headers, ssl=ssl, tap=tap)
    try:
        try:
            async with asyncio.timeout(limits.connect_timeout):
                reference = await channel.connect()
        except TimeoutError as exc:
            if isinstance(exc, HeadraceError):
                raise
            raise RequestTimeout(
                f"{channel.endpoint}: no endpoint event within {limits.connect_timeout:g} s"
            ) from None
        try:
            channel.post_target = channel.resolve(reference)
        except UsageError as exc:
            raise ConnectFailed(f"{channel.endpoint}: the endpoint {reference[:200]!r} {exc}") from None
    except BaseException:
        channel.pool.close()  # the mux stays usable: it belongs to the caller
        for task in list(channel._connects.values()):
            task.cancel()
        raise
    return channel
