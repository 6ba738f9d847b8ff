"""Transports (L6): event loop callbacks to and from the multiplexer. Import the modules you need."""

__all__ = ()
