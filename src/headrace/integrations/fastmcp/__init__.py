"""FastMCP servers on headrace's transports: FastMCP 3 (on mcp 1.x) and FastMCP 4 (on mcp 2.x).

``run(mcp)`` takes the place of ``mcp.run()``, and ``run(mcp, http="127.0.0.1:8000")`` that of
``mcp.run(transport="http")``. Middleware, mounted servers, proxies, transformations, auth providers with their
routes, custom routes, lifespans and session state are the server's own and work as they do elsewhere.
"""

try:
    import fastmcp as _fastmcp  # noqa: F401
except ImportError as exc:
    raise ImportError("headrace.integrations.fastmcp needs FastMCP: pip install 'headrace[fastmcp]'") from exc

from headrace.integrations.fastmcp.hosting import host_of, run, serve

__all__ = ("host_of", "run", "serve")
