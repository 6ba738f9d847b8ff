"""The server people write tools on (L7): use it as :class:`headrace.Server`."""

__all__ = ()
