"""Arguments mirrored into HTTP headers (HN-20..HN-24): learnt from ``tools/list``, applied to calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.client.results import decode_any
from headrace.errors import UsageError
from headrace.server.schema import HEADER_KEY, HeaderParameter, header_parameters
from headrace.transports.http_client import param_headers

if TYPE_CHECKING:
    from headrace.types import Tool

__all__ = ("ToolHeaders",)


class ToolHeaders:
    """What is known of the header parameters of a server's tools."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._tools: dict[str, list[HeaderParameter]] = {}

    def learn(self, tools: list[Tool], *, whole: bool = True) -> list[Tool]:
        """Remembers them (``whole``: in place of all others), and gives the tools without those whose
        annotations break a rule (HN-22)."""
        kept: list[Tool] = []
        if whole:
            self._tools = {}
        for tool in tools:
            # The check walks the whole schema: only for the few that mention the key at all.
            if HEADER_KEY in repr(tool.input_schema):
                try:
                    found = header_parameters(tool.input_schema)
                except UsageError as exc:
                    self._warn(f"tool {tool.name!r} of the server was left out: {exc}")
                    continue
                if found:
                    self._tools[tool.name] = found
            kept.append(tool)
        return kept

    def __contains__(self, name: str) -> bool:
        """Whether calls of that tool have such headers."""
        return name in self._tools

    def changed(self, kind: str, uri: str | None) -> None:
        """Something of the server has changed: what was learnt of it is void."""
        if kind == "tools":
            self._tools = {}

    def lines(self, name: str | None, arguments: bytes) -> bytes | None:
        """Header lines of a call, or None. ``arguments`` is a JSON object (HN-23)."""
        parameters = self._tools.get(name) if name is not None else None
        if parameters is None:
            return None
        given = decode_any(arguments)
        values: dict[str, str | int | bool | None] = {}
        for parameter in parameters:
            value: Any = given
            for key in parameter.path:
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, str | int):
                values[parameter.header] = value
        return param_headers(values)
