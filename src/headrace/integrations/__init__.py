"""Integrations (L8): servers and clients of other SDKs on headrace's transports. Import the one you need; each wants
its package installed (``pip install 'headrace[mcp]'``, ``'headrace[fastmcp]'``)."""

__all__ = ()
