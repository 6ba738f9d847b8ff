"""ASGI, both ways: a server as an application of an ASGI host."""

from headrace.transports.asgi.app import AsgiApp, asgi_scope

__all__ = ("AsgiApp", "asgi_scope")
