"""The tools of a server: registration, the handlers behind ``tools/call``, the pages of ``tools/list``."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R5, SERVER_INFO
from headrace.mux import Exchange, FunctionHandler, Handler, RawResult
from headrace.protocol.context import Context, ThreadContext
from headrace.server._tool import ASYNC, INLINE, THREAD, NamedHandler, ToolHandler
from headrace.server.definitions import tool_definition, warn_tool_name
from headrace.server.results import ResultRenderer
from headrace.server.schema import HeaderParameter
from headrace.server.signature import ToolSignature, inspect_tool

__all__ = ("ToolEntry", "ToolOptions", "ToolRegistry")

_encode = msgspec.json.Encoder().encode


class _ListParams(msgspec.Struct):
    cursor: str | None = None


_decode_list = msgspec.json.Decoder(_ListParams).decode


class ToolOptions(msgspec.Struct, kw_only=True):
    """What a registration may say beside the function; see :meth:`headrace.Server.tool`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    annotations: Any = None
    icons: Sequence[Any] | None = None
    meta: dict[str, Any] | None = None
    inline: bool = False
    timeout: float | None = None
    forbid_unknown: bool = False
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None


class ToolEntry(NamedTuple):
    """One registered tool."""

    signature: ToolSignature
    options: ToolOptions
    handler: ToolHandler

    def definition(self, revision: str) -> dict[str, Any]:
        """Its object in ``tools/list``."""
        o = self.options
        return tool_definition(
            self.signature, revision, title=o.title, annotations=o.annotations, icons=o.icons, meta=o.meta
        )


class ToolRegistry:
    """Tools by name. ``info`` is the server's own description; ``on_change`` is called after each change (SF-60)."""

    def __init__(self, info: dict[str, Any], page_size: int) -> None:
        self._info = info
        self._page_size = page_size
        self._entries: dict[str, ToolEntry] = {}
        self._handlers: dict[bytes, Handler] = {}
        self._named: dict[str, NamedHandler] = {}
        self._pages: dict[str, dict[str | None, bytes]] = {}
        self._methods: dict[str, dict[bytes, Handler]] = {}
        self.on_change: Callable[[], None] | None = None
        self.with_headers: set[str] = set()
        """Names of tools that mirror parameters into HTTP headers (HN-20)."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def set_page_size(self, entries: int) -> None:
        """Entries of one page of ``tools/list`` from now on."""
        self._page_size = entries
        self._pages.clear()

    def names(self) -> list[str]:
        """Names in the order of registration, which is the order of ``tools/list``."""
        return list(self._entries)

    def headers_of(self, name: str) -> tuple[HeaderParameter, ...]:
        """Parameters of the tool that HTTP mirrors as ``Mcp-Param-*`` (HN-20); empty for unknown names."""
        entry = self._entries.get(name)
        return entry.signature.headers if entry is not None else ()

    def add(self, function: Callable[..., Any], options: ToolOptions) -> ToolEntry:
        """Registers ``function``. Raises :class:`UsageError` for what cannot be a tool."""
        signature = inspect_tool(
            function,
            name=options.name,
            description=options.description,
            context_type=Context,
            forbid_unknown=options.forbid_unknown,
            input_schema=options.input_schema,
            output_schema=options.output_schema,
        )
        name = signature.name
        if name in self._entries:
            raise UsageError(f"tool {name!r} is registered already; remove it first or choose another name")
        if options.inline and signature.is_async:
            raise UsageError(f"tool {name!r}: inline=True is for plain functions; async ones start inline anyway")
        if options.timeout is not None and not options.timeout > 0:
            raise UsageError(f"tool {name!r}: timeout must be a positive number of seconds")
        warn_tool_name(name)
        mode = ASYNC if signature.is_async else INLINE if options.inline else THREAD
        renderer = ResultRenderer(
            name, signature.output, modern_meta={SERVER_INFO: self._info}, complete=RawResult
        )
        context = None
        if signature.context_parameter is not None:
            context = ThreadContext if mode == THREAD else Context
        by_keyword = context is not None and signature.context_position is None
        handler = ToolHandler(
            name,
            signature.function,
            decode=signature.decoder.decode,
            repair=signature.retry,
            describe=signature.describe,
            render=renderer.wire,
            positional=signature.positional,
            keyword=signature.keyword,
            context_type=context,
            context_at=-1 if signature.context_position is None else signature.context_position,
            context_keyword=signature.context_parameter if by_keyword else None,
            mode=mode,
            keep_bytes=signature.has_raw,
            plain_text=renderer.plain_text,
            promised=renderer.promised,
            timeout=options.timeout or 0,
        )
        entry = ToolEntry(signature, options, handler)
        self._entries[name] = entry
        if signature.headers:
            self.with_headers.add(name)
        self._handlers[name.encode("utf-8", "surrogatepass")] = handler
        self._changed()
        return entry

    def remove(self, name: str) -> None:
        """Takes a tool away; calls that run go on. Raises KeyError for an unknown name."""
        del self._entries[name]
        self.with_headers.discard(name)
        del self._handlers[name.encode("utf-8", "surrogatepass")]
        self._changed()

    def _changed(self) -> None:
        self._pages.clear()
        for named in self._named.values():
            named.changed()
        if self.on_change is not None:
            self.on_change()

    # --- methods ------------------------------------------------------------------------------------

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """The handlers of ``tools/list`` and ``tools/call`` for one revision."""
        known = self._methods.get(revision)
        if known is None:
            named = self._named[revision] = NamedHandler(self._handlers, _unknown_tool)

            def list_tools(exchange: Exchange) -> bytes:
                return self._page(revision, _cursor_of(exchange.params))

            known = self._methods[revision] = {b"tools/call": named, b"tools/list": FunctionHandler(list_tools)}
        return known

    def capability(self, revision: str) -> dict[str, Any]:
        """``tools``; in the modern era changes are told through ``subscriptions/listen``."""
        return {"tools": {"listChanged": True}}

    def _page(self, revision: str, cursor: str | None) -> bytes:
        pages = self._pages.get(revision)
        if pages is None:
            pages = self._pages[revision] = self._render(revision)
        page = pages.get(cursor)
        if page is None:
            raise RpcError(INVALID_PARAMS, "unknown cursor; start again without one")  # SF-50
        return page

    def _render(self, revision: str) -> dict[str | None, bytes]:
        entries = list(self._entries.values())
        pages: dict[str | None, bytes] = {}
        cursor: str | None = None
        for start in range(0, max(len(entries), 1), self._page_size):
            part = entries[start : start + self._page_size]
            body: dict[str, Any] = {"tools": [entry.definition(revision) for entry in part]}
            following = None
            if start + self._page_size < len(entries):
                following = body["nextCursor"] = _make_cursor(part[-1].signature.name)
            if revision == R5:
                body["ttlMs"] = 0
                body["cacheScope"] = "private"
            pages[cursor] = _encode(body)
            cursor = following
        return pages


def _unknown_tool(name: str) -> RpcError:
    shown = name if len(name) <= 128 else name[:128] + "..."
    return RpcError(INVALID_PARAMS, f"unknown tool: {shown}")


def _cursor_of(params: bytes | None) -> str | None:
    if params is None or b"cursor" not in params:
        return None
    try:
        return _decode_list(params).cursor
    except msgspec.ValidationError as exc:
        raise RpcError(INVALID_PARAMS, f"tools/list: {exc}") from None


def _make_cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()

