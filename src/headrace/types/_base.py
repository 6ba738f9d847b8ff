"""The base class of all message Structs."""

from msgspec import Struct

__all__ = ("Message",)


class Message(Struct, repr_omit_defaults=True):
    """Base of every generated Struct; ``repr`` leaves out members that were not set."""
