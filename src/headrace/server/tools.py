"""The tools of a server: registration, the handlers behind ``tools/call``, the pages of ``tools/list``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R4, SERVER_INFO
from headrace.mux import Exchange, Handler, RawResult
from headrace.protocol.context import Context, ThreadContext
from headrace.server._tool import ASYNC, INLINE, THREAD, NamedHandler, ToolHandler
from headrace.server.definitions import check_meta, tool_definition, warn_tool_name
from headrace.server.features import Registry
from headrace.server.listing import Listing
from headrace.server.results import ResultRenderer
from headrace.server.schema import HeaderParameter
from headrace.server.signature import ToolSignature, inspect_tool

if TYPE_CHECKING:
    from headrace.server.tasks.feature import TasksFeature

__all__ = ("ToolEntry", "ToolOptions", "ToolRegistry")


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
    task: Literal["forbidden", "optional", "required"] = "forbidden"
    task_after: float | None = None
    task_ttl: float | None = None
    task_start: Literal["call", "handler"] = "call"


class ToolEntry(NamedTuple):
    """One registered tool."""

    signature: ToolSignature
    options: ToolOptions
    handler: ToolHandler

    def definition(self, revision: str) -> dict[str, Any]:
        """Its object in ``tools/list``."""
        o = self.options
        return tool_definition(
            self.signature,
            revision,
            title=o.title,
            annotations=o.annotations,
            icons=o.icons,
            execution={"taskSupport": o.task} if o.task != "forbidden" else None,
            meta=o.meta,
        )


class ToolRegistry(Registry):
    """Tools by name. ``info`` is the server's own description."""

    kind = "tools"

    def __init__(self, info: dict[str, Any], page_size: int) -> None:
        super().__init__()
        self._info = info
        self._entries: dict[str, ToolEntry] = {}
        self._handlers: dict[bytes, Handler] = {}
        self._named: dict[str, NamedHandler] = {}
        self.listing = Listing("tools/list", "tools", page_size)
        self.tasks: Callable[[], TasksFeature] | None = None
        """Gives the feature that runs tasks, and offers it from then on."""
        self._guard: Callable[[Exchange, str], RpcError | None] | None = None
        self.with_headers: set[str] = set()
        """Names of tools that mirror parameters into HTTP headers (HN-20)."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

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
        if options.inline and signature.is_async:
            raise UsageError(f"tool {name!r}: inline=True is for plain functions; async ones start inline anyway")
        if options.timeout is not None and not options.timeout > 0:
            raise UsageError(f"tool {name!r}: timeout must be a positive number of seconds")
        divert = self._check_task(name, options)
        warn_tool_name(name)
        check_meta(options.meta, f"tool {name!r}")
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
        with self.lock:
            if name in self._entries:
                raise UsageError(f"tool {name!r} is registered already; remove it first or choose another name")
            self.listing.put(name, entry.definition, f"tool {name!r}")
            self._entries[name] = entry
            if signature.headers:
                self.with_headers.add(name)
            self._handlers[name.encode("utf-8", "surrogatepass")] = handler if divert is None else divert(handler)
        self.changed()
        return entry

    def _check_task(self, name: str, options: ToolOptions) -> Callable[[Handler], Handler] | None:
        """What makes tasks of the tool's calls, None for a tool that runs as none."""
        if options.task not in ("forbidden", "optional", "required"):
            raise UsageError(f'tool {name!r}: task is "forbidden", "optional" or "required", not {options.task!r}')
        for option in ("task_after", "task_ttl"):
            value = getattr(options, option)
            if value is not None and (options.task == "forbidden" or not value > 0):
                raise UsageError(f'tool {name!r}: {option} is a positive number of seconds, beside task="optional"')
        if options.task_start not in ("call", "handler"):
            raise UsageError(f'tool {name!r}: task_start is "call" or "handler", not {options.task_start!r}')
        if options.task_start == "handler" and (options.task == "forbidden" or options.task_after is not None):
            raise UsageError(f'tool {name!r}: task_start="handler" goes with task=, and without task_after')
        if options.task == "forbidden":
            return None
        if options.task_after is not None and options.task == "required":
            raise UsageError(f'tool {name!r}: task_after is for task="optional": a required task begins at once')
        from headrace.server.tasks.feature import TaskPolicy

        assert self.tasks is not None
        feature = self.tasks()
        policy = TaskPolicy(options.task, options.task_after, options.task_ttl, options.task_start == "handler")
        return lambda handler: feature.divert(name, handler, policy)

    def remove(self, name: str) -> None:
        """Takes a tool away; calls that run go on. Raises KeyError for an unknown name."""
        with self.lock:
            del self._entries[name]
            self.listing.drop(name)
            self.with_headers.discard(name)
            del self._handlers[name.encode("utf-8", "surrogatepass")]
        self.changed()

    def changed(self) -> None:
        """Tables and clients are told."""
        for named in list(self._named.values()):
            named.changed()
        super().changed()

    def guard_tasks(self, guard: Callable[[Exchange, str], RpcError | None]) -> None:
        """Asks ``guard`` about 2025-11-25 calls of tools that run as no task but may be asked to (TK-01)."""
        self._guard = guard
        if R4 in self._named:
            self._named[R4].guard = guard

    # --- methods ------------------------------------------------------------------------------------

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """The handlers of ``tools/list`` and ``tools/call`` for one revision."""
        if not self.offered:
            return {}
        named = self._named.get(revision)
        if named is None:
            named = self._named[revision] = NamedHandler(self._handlers, _unknown_tool)
            if revision == R4:
                named.guard = self._guard
        return {b"tools/call": named, b"tools/list": self.listing.handler(revision)}

    def capability(self, revision: str) -> dict[str, Any]:
        """``tools``; in the modern era changes are told through ``subscriptions/listen``."""
        return {"tools": {"listChanged": True}} if self.offered else {}


def _unknown_tool(name: str) -> RpcError:
    shown = name if len(name) <= 128 else name[:128] + "..."
    return RpcError(INVALID_PARAMS, f"unknown tool: {shown}")
