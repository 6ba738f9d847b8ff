"""The scenario file of a load run: a weighted mix of operations, as TOML or JSON.

A worked example; every entry is one ``[[operation]]`` and says what it is by one of the words ``call``, ``list``,
``read``, ``prompt``, ``ping``, ``listen`` and ``session``::

    [[operation]]
    call = "echo"                        # a tool
    arguments = { text = "hello" }
    expect = "hello"                     # text that must be in the answer
    weight = 70                          # 70 of 100 operations, as the weights of this file add up to 100

    [[operation]]
    name = "echo 64 KB"                  # what the report calls it; made up from the entry by default
    call = "echo"
    payload = 65536                      # bytes of the first string argument
    weight = 10

    [[operation]]
    list = "tools"                       # or "resources", "templates", "prompts"
    weight = 10

    [[operation]]
    read = "demo://readme"               # a resource

    [[operation]]
    prompt = "greet"
    arguments = { name = "Ada" }

    [[operation]]
    ping = true                          # up to 2025-11-25

    [[operation]]
    call = "count"
    arguments = { to = 5 }
    progress = true                      # at least one progress notification must come before the result
    weight = 5

    [[operation]]
    listen = ["tools", "demo://readme"]  # changes of these lists and resources
    hold = 2.0                           # seconds it is held open once it was acknowledged; default 1

    [[operation]]                        # initialize, these, DELETE: HTTP up to 2025-11-25
    session = [{ call = "echo", arguments = { text = "a" } }, { list = "tools" }]

JSON is the same: ``{"operations": [{"call": "echo", "arguments": {"text": "hello"}}]}``.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import Any

import msgspec

__all__ = ("LISTS", "BadScenario", "Entry", "read_scenario", "scenario_of")

LISTS = {
    "tools": "tools/list",
    "resources": "resources/list",
    "templates": "resources/templates/list",
    "prompts": "prompts/list",
}
"""What ``list`` may name, and the method of each."""

_KINDS = ("call", "list", "read", "prompt", "ping", "listen", "session")
_COMMON = ("name", "weight")
_FIELDS = {
    "call": ("arguments", "expect", "payload", "progress"),
    "list": ("expect",),
    "read": ("expect",),
    "prompt": ("arguments", "expect"),
    "ping": (),
    "listen": ("hold",),
    "session": (),
}
_MAX_WEIGHT = 1_000_000
_MAX_PAYLOAD = 256 * 1024 * 1024
_MAX_ENTRIES = 1_000


class BadScenario(ValueError):
    """A scenario is not one; the text names the file, the entry, the field and what is accepted."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of operation, as it was asked for."""

    kind: str
    """``call``, ``list``, ``read``, ``prompt``, ``ping``, ``listen`` or ``session``."""
    what: str = ""
    """The tool, list, URI or prompt."""
    name: str = ""
    """In the report."""
    weight: int = 1
    arguments: dict[str, Any] = {}
    expect: str | None = None
    payload: int | None = None
    """Bytes of the first string argument."""
    progress: bool = False
    listen: tuple[str, ...] = ()
    hold_s: float | None = 1.0
    calls: tuple[Entry, ...] = ()
    """What a session does between ``initialize`` and ``DELETE``."""
    where: str = ""
    """In messages: the file and entry, or the option."""


def read_scenario(path: str | os.PathLike[str]) -> tuple[Entry, ...]:
    """The entries of a scenario file, TOML unless its name ends with ``.json``. Raises :class:`BadScenario`."""
    shown = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as exc:
        raise BadScenario(f"{shown}: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise BadScenario(f"{shown} is not UTF-8 text") from None
    lines: list[int] = []
    if shown.endswith(".json"):
        try:
            data = json.loads(text)
        except ValueError as exc:
            raise BadScenario(f"{shown} is not JSON: {exc}") from None
    else:
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise BadScenario(f"{shown} is not TOML: {exc}") from None
        lines = [n for n, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    return scenario_of(data, shown, lines)


_HEADER = re.compile(r"\s*\[\[\s*operations?\s*\]\]")


def scenario_of(data: Any, where: str = "the scenario", lines: list[int] | None = None) -> tuple[Entry, ...]:
    """The entries of a scenario that was read already; ``lines`` are those at which they begin. Raises
    :class:`BadScenario`."""
    if isinstance(data, list):
        data = {"operations": data}
    if not isinstance(data, dict):
        raise BadScenario(f"{where}: a scenario is a table with entries [[operation]]")
    for key in data:
        if key not in ("operation", "operations"):
            raise BadScenario(f"{where}: there is no {key!r}; a scenario has entries [[operation]]")
    entries = data.get("operation", data.get("operations"))
    if not isinstance(entries, list) or not entries or len(data) != 1:
        raise BadScenario(f"{where}: at least one [[operation]] is needed, for example with call = \"echo\"")
    if len(entries) > _MAX_ENTRIES:
        raise BadScenario(f"{where}: {len(entries)} operations; at most {_MAX_ENTRIES} are possible")
    made = []
    for index, entry in enumerate(entries):
        line = f", line {lines[index]}" if lines and len(lines) == len(entries) else ""
        made.append(_entry(entry, f"{where}{line}, operation {index + 1}", inner=False))
    names: dict[str, int] = {}
    for index, one in enumerate(made):  # a report tells operations apart by their names
        count = names[one.name] = names.get(one.name, 0) + 1
        if count > 1:
            made[index] = msgspec.structs.replace(one, name=f"{one.name} ({count})")
    return tuple(made)


def _entry(data: Any, where: str, *, inner: bool) -> Entry:
    if not isinstance(data, dict):
        raise BadScenario(f"{where}: a table is needed, for example {{ call = \"echo\" }}, not {_shown(data)}")
    kinds = [kind for kind in _KINDS if kind in data]
    if len(kinds) != 1:
        said = f"{' and '.join(kinds)} are two" if kinds else "none is there"
        raise BadScenario(f"{where}: exactly one of {', '.join(_KINDS)} says what to do; {said}")
    kind = kinds[0]
    if inner and kind in ("session", "listen"):
        raise BadScenario(f"{where}: a session cannot hold a {kind}")
    allowed = (*_FIELDS[kind], *(("name",) if inner else _COMMON))
    for key in data:
        if key != kind and key not in allowed:
            raise BadScenario(f"{where}: {kind} has no field {key!r}; it takes {', '.join(allowed)}")
    value = data[kind]
    made: dict[str, Any] = {"kind": kind, "where": where}
    if kind == "ping":
        if value is not True:
            raise _wrong(where, "ping", "true", value)
    elif kind == "session":
        if not isinstance(value, list) or not value:
            raise _wrong(where, "session", "a list of what it does, for example [{ call = \"echo\" }]", value)
        made["calls"] = tuple(_entry(one, f"{where}, session entry {n}", inner=True) for n, one in enumerate(value, 1))
    elif kind == "listen":
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
            raise _wrong(where, "listen", 'a list of "tools", "resources", "prompts" and URIs', value)
        for one in value:
            if one not in ("tools", "resources", "prompts") and ":" not in one:
                raise _wrong(where, "listen", '"tools", "resources", "prompts" or a URI', one)
        made["listen"] = tuple(value)
    else:
        if not isinstance(value, str) or not value:
            raise _wrong(where, kind, "a text", value)
        if kind == "list" and value not in LISTS:
            raise _wrong(where, "list", " or ".join(f'"{one}"' for one in LISTS), value)
        made["what"] = value
    made.update(_fields(data, kind, where))
    made.setdefault("name", _name(made))
    return Entry(**made)


def _fields(data: dict[str, Any], kind: str, where: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in ("name", "expect"):
        if key in data:
            if not isinstance(data[key], str) or not data[key]:
                raise _wrong(where, key, "a text", data[key])
            made[key] = data[key]
    for key, least, most in (("weight", 1, _MAX_WEIGHT), ("payload", 0, _MAX_PAYLOAD)):
        if key in data:
            number = data[key]
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
                raise _wrong(where, key, f"a whole number from {least} to {most}", number)
            made[key] = number
    if "arguments" in data:
        arguments = data["arguments"]
        if not isinstance(arguments, dict):
            raise _wrong(where, "arguments", "a table by name", arguments)
        if kind == "prompt" and not all(isinstance(one, str) for one in arguments.values()):
            raise _wrong(where, "arguments", "texts, as those of all prompts", arguments)
        made["arguments"] = arguments
    if "progress" in data:
        if not isinstance(data["progress"], bool):
            raise _wrong(where, "progress", "true or false", data["progress"])
        made["progress"] = data["progress"]
    if "hold" in data:
        hold = data["hold"]
        if not isinstance(hold, int | float) or isinstance(hold, bool) or not 0 < hold <= 86_400:
            raise _wrong(where, "hold", "seconds, more than 0", hold)
        made["hold_s"] = float(hold)
    return made


def _name(made: dict[str, Any]) -> str:
    kind = made["kind"]
    if kind == "session":
        return f"session of {len(made['calls'])}"
    if kind == "listen":
        return f"listen {', '.join(made['listen'])}"
    if kind == "ping":
        return "ping"
    more = f" {made['payload']} B" if made.get("payload") is not None else ""
    return f"{kind} {made['what']}{more}{' with progress' if made.get('progress') else ''}"


def _wrong(where: str, field: str, accepted: str, value: Any) -> BadScenario:
    return BadScenario(f"{where}: {field} must be {accepted}, not {_shown(value)}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
