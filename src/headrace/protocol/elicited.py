"""What a user made of an elicitation: the same value on both sides of a connection."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ("Elicited",)


class Elicited(msgspec.Struct, frozen=True):
    """The user's answer to an elicitation (CF-31).

    ``action`` is ``"accept"``, ``"decline"`` (the user said no) or ``"cancel"`` (the user made no choice).
    ``content`` holds the form's values by name, only after ``"accept"`` and only for forms.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Any = None

    @property
    def accepted(self) -> bool:
        """Whether the user agreed."""
        return self.action == "accept"
