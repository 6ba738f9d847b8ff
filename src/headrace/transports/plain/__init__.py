"""The seam for other SDKs: every transport with one plain ``handler(method, params, exchange)`` behind it.

:class:`McpHost` serves both eras of MCP (sessions, headers, streams, resumption are headrace's; what methods
mean is the handler's). :class:`RpcHost` and :class:`Peer` are bare JSON-RPC 2.0 over lines. What puts them on
transports is exported by :mod:`headrace.transports`; see docs/embedding.md.
"""

from headrace.transports.plain.exchange import PlainExchange
from headrace.transports.plain.host import Handler, Host, Notified
from headrace.transports.plain.mcp import McpHost
from headrace.transports.plain.peer import Peer, RpcHost

__all__ = ("Handler", "Host", "McpHost", "Notified", "Peer", "PlainExchange", "RpcHost")
