"""Docstrings of handlers: the text for people, and what it says about each parameter.

Google (``Args:``), NumPy (``Parameters`` underlined) and Sphinx (``:param name:``) sections are read.
A section whose every entry names a parameter of the function moves into the schema and leaves the
text; a section that does not fit stays where it was, so nothing an author wrote is lost.
"""

import re
from collections.abc import Collection

__all__ = ("split_docstring",)

_GOOGLE = re.compile(r"^(?:Args|Arguments|Parameters|Params):\s*$")
_NUMPY = re.compile(r"^(?:Parameters|Other Parameters)\s*$")
_RULE = re.compile(r"^-{3,}\s*$")
_GOOGLE_ENTRY = re.compile(r"^(?P<indent>\s+)\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s?(?P<text>.*)$")
_NUMPY_ENTRY = re.compile(r"^(?P<names>\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_SPHINX_ENTRY = re.compile(r"^:(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?(?P<name>\w+):\s?(?P<text>.*)$")
_SPHINX_TYPE = re.compile(r"^:type\s+(?P<name>\w+):")


def split_docstring(text: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """The docstring without its parameter section, and the description of each parameter.

    ``text`` is already cleaned (:func:`inspect.cleandoc`); ``names`` are the function's parameters.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _GOOGLE.match(line):
            end = _block_end(lines, number + 1)
            found = _google(lines[number + 1 : end], names)
        elif _NUMPY.match(line) and number + 1 < len(lines) and _RULE.match(lines[number + 1]):
            end = _numpy_end(lines, number + 2)
            found = _numpy(lines[number + 2 : end], names)
        elif _SPHINX_ENTRY.match(line):
            return _sphinx(lines, names)
        else:
            continue
        if found:
            return _join(lines[:number], lines[end:]), found
    return text, {}


def _block_end(lines: list[str], start: int) -> int:
    """The first line after ``start`` that is text at the left margin."""
    for number in range(start, len(lines)):
        if lines[number].strip() and not lines[number][0].isspace():
            return number
    return len(lines)


def _numpy_end(lines: list[str], start: int) -> int:
    """The heading of the next underlined section."""
    for number in range(start, len(lines) - 1):
        if lines[number].strip() and not lines[number][0].isspace() and _RULE.match(lines[number + 1]):
            return number
    return len(lines)


def _google(block: list[str], names: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    indent, current = None, ""
    for line in block:
        if not line.strip():
            continue
        entry = _GOOGLE_ENTRY.match(line)
        depth = len(line) - len(line.lstrip())
        if entry and (indent is None or depth <= indent):
            indent, current = depth, entry["name"]
            if current not in names:
                return {}
            found[current] = entry["text"].strip()
        elif current and depth > (indent or 0):
            found[current] = f"{found[current]} {line.strip()}".strip()
        else:
            return {}
    return found


def _numpy(block: list[str], names: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    current: list[str] = []
    for line in block:
        if not line.strip():
            continue
        if line[0].isspace():
            for name in current:
                found[name] = f"{found[name]} {line.strip()}".strip()
            continue
        entry = _NUMPY_ENTRY.match(line)
        if not entry:
            return {}
        current = [name.strip() for name in entry["names"].split(",")]
        if not all(name in names for name in current):
            return {}
        found.update(dict.fromkeys(current, ""))
    return found


def _sphinx(lines: list[str], names: Collection[str]) -> tuple[str, dict[str, str]]:
    found: dict[str, str] = {}
    kept: list[str] = []
    current: str | None = None
    for line in lines:
        entry = _SPHINX_ENTRY.match(line)
        if entry and entry["name"] in names:
            current = entry["name"]
            found[current] = entry["text"].strip()
        elif (kind := _SPHINX_TYPE.match(line)) and kind["name"] in names:
            current = None
        elif current and line.strip() and line[0].isspace():
            found[current] = f"{found[current]} {line.strip()}".strip()
        else:
            current = None
            kept.append(line)
    return _join(kept, []), found


def _join(before: list[str], after: list[str]) -> str:
    head, tail = "\n".join(before).strip(), "\n".join(after).strip()
    return f"{head}\n\n{tail}" if head and tail else head or tail
