"""Names that may have been meant."""

from __future__ import annotations

import difflib

__all__ = ("nearest",)


def nearest(name: str, known: list[str]) -> str:
    """``"; did you mean a or b?"``, or ``""`` when nothing is close."""
    near = difflib.get_close_matches(name, known, 3) or [each for each in known if name.lower() == each.lower()]
    return f"; did you mean {' or '.join(near)}?" if near else ""
