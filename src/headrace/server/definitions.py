"""The objects of the lists, for every revision: tools, resources, templates, prompts (SF-03, SF-07, SF-20, SF-76)."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.errors import UsageError
from headrace.jsonrpc import R2, R3, R4, R5, REVISIONS
from headrace.server.signature import ToolSignature

__all__ = ("check_meta", "prompt_definition", "resource_definition", "tool_definition", "warn_tool_name")

_log = logging.getLogger("headrace.server")
_LEVEL = {revision: level for level, revision in enumerate(REVISIONS, start=1)}
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_META_KEY = re.compile(rf"(?:({_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def check_meta(meta: Mapping[str, Any] | None, what: str) -> None:
    """Refuses keys that ``_meta`` must not have (JR-40) and logs a warning for reserved ones (JR-41).

    Keys are judged where they are made; those of a peer pass as they are. Raises :class:`UsageError`,
    beginning with ``what``.
    """
    for key in meta or ():
        found = _META_KEY.fullmatch(key) if isinstance(key, str) else None
        if not found or not key:
            raise UsageError(f"{what}: {key!r} cannot be a key of _meta: use name or com.example/name")
        labels = (found[1] or "").split(".")
        if len(labels) > 1 and labels[1].lower() in ("modelcontextprotocol", "mcp"):
            _log.warning("%s: the _meta key %r is reserved for the protocol", what, key)


def warn_tool_name(name: str) -> bool:
    """Logs a warning and returns False for a name that clients may not take (SF-04); never refuses it."""
    if _NAME.fullmatch(name):
        return True
    _log.warning("tool name %r: some clients take only 1 to 128 of A-Z a-z 0-9 _ - .", name[:200])
    return False


def tool_definition(
    signature: ToolSignature,
    revision: str,
    *,
    title: str | None = None,
    annotations: Any = None,
    icons: Sequence[Any] | None = None,
    execution: Any = None,
    meta: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The definition of a tool as ``revision`` knows it, as plain JSON values.

    ``annotations``, ``icons`` and ``execution`` are Structs of :mod:`headrace.types` or dicts with wire
    names. What the revision does not know is left out; a title becomes ``annotations.title`` where only
    that exists.
    """
    level = _LEVEL[revision]
    tool: dict[str, Any] = {"name": signature.name}
    if title is not None and level >= _LEVEL[R3]:
        tool["title"] = title
    if signature.description:
        tool["description"] = signature.description
    if icons and level >= _LEVEL[R4]:
        tool["icons"] = [msgspec.to_builtins(icon) for icon in icons]
    tool["inputSchema"] = signature.input_schema
    output = signature.output
    if output is not None and (level >= _LEVEL[R5] or (level >= _LEVEL[R3] and output.is_object)):
        tool["outputSchema"] = output.schema
    if level >= _LEVEL[R2]:
        hints = dict(msgspec.to_builtins(annotations)) if annotations is not None else {}
        if title is not None and level < _LEVEL[R3]:
            hints.setdefault("title", title)
        if hints:
            tool["annotations"] = hints
    if execution is not None and level == _LEVEL[R4]:
        tool["execution"] = msgspec.to_builtins(execution)
    if meta and level >= _LEVEL[R3]:
        tool["_meta"] = meta
    return tool


def resource_definition(
    uri: str,
    name: str,
    revision: str,
    *,
    is_template: bool,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: Any = None,
    icons: Sequence[Any] | None = None,
    meta: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The ``Resource`` or ``ResourceTemplate`` object as ``revision`` knows it; ``size`` is in bytes."""
    made: dict[str, Any] = {"uriTemplate" if is_template else "uri": uri, "name": name}
    _describe(made, _LEVEL[revision], title=title, description=description, icons=icons, meta=meta)
    if mime_type is not None:
        made["mimeType"] = mime_type
    if size is not None and not is_template:
        made["size"] = size
    if annotations is not None:
        shown = dict(msgspec.to_builtins(annotations))
        if _LEVEL[revision] < _LEVEL[R3]:
            shown.pop("lastModified", None)
        made["annotations"] = shown
    return made


def prompt_definition(
    name: str,
    revision: str,
    arguments: Sequence[Mapping[str, Any]],
    *,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[Any] | None = None,
    meta: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The ``Prompt`` object as ``revision`` knows it; ``arguments`` are ``PromptArgument`` objects."""
    level = _LEVEL[revision]
    made: dict[str, Any] = {"name": name}
    _describe(made, level, title=title, description=description, icons=icons, meta=meta)
    if arguments:
        made["arguments"] = [
            {key: value for key, value in argument.items() if key != "title" or level >= _LEVEL[R3]}
            for argument in arguments
        ]
    return made


def _describe(
    made: dict[str, Any],
    level: int,
    *,
    title: str | None,
    description: str | None,
    icons: Sequence[Any] | None,
    meta: dict[str, Any] | None,
) -> None:
    if title is not None and level >= _LEVEL[R3]:
        made["title"] = title
    if description:
        made["description"] = description
    if icons and level >= _LEVEL[R4]:
        made["icons"] = [msgspec.to_builtins(icon) for icon in icons]
    if meta and level >= _LEVEL[R3]:
        made["_meta"] = meta
