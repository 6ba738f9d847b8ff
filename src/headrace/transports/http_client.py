"""Opening and closing the client side of Streamable HTTP.

The hot path is in the compiled base class (_http_client.pyx, _http_conn.pyx), connecting in http_dial.py;
what is here happens once a session.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Iterable, Mapping

from headrace.limits import Limits
from headrace.mux import Mux
from headrace.transports._http_client import HttpChannel as _HttpChannel
from headrace.transports._http_request import encode_header_value
from headrace.transports.http_dial import Dialer, Endpoint, parse_url
from headrace.transports.tap import Tap
from headrace.wire._http1 import header_line

__all__ = ("Endpoint", "HttpChannel", "open_http", "param_headers", "parse_url")

_DELETE_TIMEOUT = 1.0  # seconds that closing waits for the answer to DELETE (B64)


def param_headers(values: Mapping[str, str | int | bool | None]) -> bytes:
    """Header lines ``Mcp-Param-<name>: <value>`` for ``Mux.call(extra=...)`` (HN-10, HN-11, HN-23).

    None values are left out. Raises LocalProtocolError for a name that is no token.
    """
    return b"".join(
        header_line(f"Mcp-Param-{name}", encode_header_value(value).decode("ascii"))
        for name, value in values.items()
        if value is not None
    )


class HttpChannel(Dialer, _HttpChannel):
    """The sink of one client mux over HTTP: see :func:`open_http`.

    Set ``protocol_version`` and ``modern`` as negotiated; ``session_id`` follows from the answer to
    ``initialize``. ``endpoint`` is where it goes.
    """

    _closing: asyncio.Task[None] | None = None

    # --- the end ------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends everything: waiting calls fail at once with ConnectionClosed, the session is deleted with
        at most 1 s of patience and no exception (HO-33, B64), sockets are closed. May be called from
        any task and again; every caller waits for the same end."""
        if self._closing is None:
            self.stop()
            self._closing = self._loop.create_task(self._finish())
        await asyncio.shield(self._closing)

    async def _finish(self) -> None:
        try:
            answer = self.delete_session()
            if answer is not None:
                await asyncio.wait((answer,), timeout=_DELETE_TIMEOUT)
                if answer.done() and not answer.cancelled():
                    answer.exception()  # 404, 405 and 501 are answers as good as any
                else:
                    answer.cancel()
        finally:
            self.abort()


async def open_http(
    url: str,
    mux: Mux,
    *,
    limits: Limits,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    ssl: tls.SSLContext | None = None,
    tap: Tap | None = None,
) -> HttpChannel:
    """Opens the channel of a client's ``mux`` to a Streamable HTTP endpoint; negotiates nothing.

    ``url``: see :func:`parse_url`. ``headers`` go with every request. ``ssl`` is the context of
    ``https`` (default: the system's certificates). ``tap`` sees every message
    (:mod:`headrace.transports.tap`). Raises UsageError for a bad URL or header,
    ConnectFailed when no connection comes up, RequestTimeout after ``limits.connect_timeout``
    seconds, naming the phase (B116).
    """
    channel = HttpChannel(parse_url(url), mux, limits=limits, headers=headers, ssl=ssl, tap=tap)
    conn = channel.pool.warm()
    try:
        failure = await channel._connects[conn]
        if failure is not None:
            raise failure
    except BaseException:
        channel.pool.close()  # the mux stays usable: it belongs to the caller
        raise
    return channel
