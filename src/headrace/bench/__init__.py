"""Measuring MCP servers: the load generator behind ``headrace bench``."""

__all__ = ()
