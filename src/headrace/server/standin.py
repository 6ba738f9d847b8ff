"""Classes that stand for an annotation msgspec does not take.

msgspec calls its ``dec_hook`` for them and then asks whether what came back is an instance of the class;
the answer is yes, whatever it is.
"""

from typing import Any

__all__ = ("Standin", "make_standin")


class Standin(type):
    """Metaclass whose classes count everything as an instance."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


def make_standin(name: str, base: type, **members: Any) -> Any:
    """A subclass of ``base`` (a class made with :class:`Standin`) for one annotation."""
    return Standin(name, (base,), members)
