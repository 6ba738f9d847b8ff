"""The protocol layer (L5): eras, sessions, what every result carries. Knows no event loop."""

__all__ = ()
