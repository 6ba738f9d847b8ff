"""ASGI 3, both ways: a server as an application of an ASGI host, and any application on our HTTP server.

:func:`serve` hosts an application alone; beside an MCP endpoint the option ``beside`` does
(:class:`headrace.transports.http_options.HttpOptions`).
"""

from headrace.transports.asgi.app import AsgiApp, asgi_scope
from headrace.transports.asgi.host import serve

__all__ = ("AsgiApp", "asgi_scope", "serve")
