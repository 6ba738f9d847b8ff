"""Lists of a server: tools, resources, templates and prompts, page by page or whole (SF-50)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.client.arguments import encode
from headrace.client.core import Core
from headrace.client.results import (
    ListedTool,
    PromptsPage,
    ResourcesPage,
    TemplatesPage,
    ToolsPage,
    list_decoder,
)
from headrace.errors import RemoteProtocolError, RpcError
from headrace.jsonrpc import INVALID_PARAMS
from headrace.types.v2026_07_28 import Prompt, Resource, ResourceTemplate, ToolAnnotations

if TYPE_CHECKING:
    from headrace.client.schemas import OutputSchemas
    from headrace.types import Tool

__all__ = ("MAX_PAGES", "Lists")

P = TypeVar("P", ToolsPage, ResourcesPage, TemplatesPage, PromptsPage)

MAX_PAGES = 10_000
"""Pages of one list, after which the server is taken to be in a loop."""
MAX_ENTRIES = 1_000_000
"""Entries of one list, likewise."""


class _List:
    """One of the four: its method, the page type, where its entries are."""

    def __init__(self, method: str, member: str, attribute: str, page: type[Any], entry: type[Any]) -> None:
        self.method = method
        self.member = member
        self.attribute = attribute
        self.page = page
        self.entry = entry


TOOLS = _List("tools/list", "tools", "tools", ToolsPage, ListedTool)
RESOURCES = _List("resources/list", "resources", "resources", ResourcesPage, Resource)
TEMPLATES = _List(
    "resources/templates/list", "resourceTemplates", "resource_templates", TemplatesPage, ResourceTemplate
)
PROMPTS = _List("prompts/list", "prompts", "prompts", PromptsPage, Prompt)


def _runs_twice(tool: Tool) -> bool:
    """SF-03: by what the tool says of itself."""
    hints = tool.annotations
    return isinstance(hints, ToolAnnotations) and (hints.read_only_hint is True or hints.idempotent_hint is True)


def _needs_task(tool: Any) -> bool:
    execution = getattr(tool, "execution", None)
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


class Lists(Core):
    """The list methods of a client. Use :class:`headrace.Client`.

    The methods for whole lists take all pages; ``timeout`` (seconds) is for each. ``refresh`` asks the server
    also for what it allowed to use again (SF-52). Invalid definitions are left
    out and logged. All raise as :meth:`headrace.Client.request` does, :class:`NotOffered` when the server
    does not declare the capability (tools are always asked for: many servers forget to declare them), and
    :class:`RemoteProtocolError` for pages that do not end.
    """

    _schemas: OutputSchemas | None = None
    _page_decoders: dict[str, Callable[[bytes], Any]] | None = None
    _harmless: dict[str, bool] | None = None
    """Tools that were listed, and whether running one twice does no harm; None where nobody wants to know."""

    async def list_tools(self, *, timeout: float | None = None, refresh: bool = False) -> list[Tool]:
        """All tools. Those whose header annotations break a rule are left out and logged (HN-22)."""
        return self._learn(await self._all(TOOLS, timeout, refresh), whole=True)

    async def list_tools_page(
        self, cursor: str | None = None, *, timeout: float | None = None, refresh: bool = False
    ) -> ToolsPage:
        """One page of tools; go on with its ``next_cursor`` until that is None."""
        page: ToolsPage = await self._page(TOOLS, cursor, timeout, refresh)
        page.tools = self._learn(page.tools, whole=False)  # type: ignore[assignment,arg-type]
        return page

    async def list_resources(self, *, timeout: float | None = None, refresh: bool = False) -> list[Resource]:
        """All resources (SF-20)."""
        self._needs("resources")
        found: list[Resource] = await self._all(RESOURCES, timeout, refresh)
        return found

    async def list_resources_page(
        self, cursor: str | None = None, *, timeout: float | None = None, refresh: bool = False
    ) -> ResourcesPage:
        """One page of resources."""
        self._needs("resources")
        page: ResourcesPage = await self._page(RESOURCES, cursor, timeout, refresh)
        return page

    async def list_resource_templates(
        self, *, timeout: float | None = None, refresh: bool = False
    ) -> list[ResourceTemplate]:
        """All resource templates (SF-20)."""
        self._needs("resources")
        found: list[ResourceTemplate] = await self._all(TEMPLATES, timeout, refresh)
        return found

    async def list_resource_templates_page(
        self, cursor: str | None = None, *, timeout: float | None = None, refresh: bool = False
    ) -> TemplatesPage:
        """One page of resource templates."""
        self._needs("resources")
        page: TemplatesPage = await self._page(TEMPLATES, cursor, timeout, refresh)
        return page

    async def list_prompts(self, *, timeout: float | None = None, refresh: bool = False) -> list[Prompt]:
        """All prompts (SF-30)."""
        self._needs("prompts")
        found: list[Prompt] = await self._all(PROMPTS, timeout, refresh)
        return found

    async def list_prompts_page(
        self, cursor: str | None = None, *, timeout: float | None = None, refresh: bool = False
    ) -> PromptsPage:
        """One page of prompts."""
        self._needs("prompts")
        page: PromptsPage = await self._page(PROMPTS, cursor, timeout, refresh)
        return page

    # --- how -----------------------------------------------------------------------------------------

    async def _all(self, what: _List, timeout: float | None, refresh: bool) -> Any:
        try:
            return await self._walk(what, timeout, refresh)
        except RpcError as exc:
            # Pages are kept one by one: a cursor of one that is kept may be void by now (SF-54).
            if exc.code != INVALID_PARAMS or self._cache is None or refresh:
                raise
            self._cache.drop_method(what.method)
            return await self._walk(what, timeout, True)

    async def _walk(self, what: _List, timeout: float | None, refresh: bool) -> Any:
        entries: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            page = await self._page(what, cursor, timeout, refresh)
            entries += getattr(page, what.attribute)
            cursor = page.next_cursor
            if cursor is None:
                return entries
            if cursor in seen or len(seen) >= MAX_PAGES or len(entries) > MAX_ENTRIES:
                raise RemoteProtocolError(f"{what.method}: the pages of the server do not end")
            seen.add(cursor)

    async def _page(self, what: _List, cursor: str | None, timeout: float | None, refresh: bool) -> Any:
        body = b"" if cursor is None else b'"cursor":' + encode(cursor)
        return await self._fetch(what.method, body, self._decoder_of(what), timeout, refresh=refresh)

    def _decoder_of(self, what: _List) -> Callable[[bytes], Any]:
        if self._page_decoders is None:
            self._page_decoders = {}
        found = self._page_decoders.get(what.method)
        if found is None:
            found = list_decoder(what.page, what.member, what.entry, modern=self._modern, skipped=self._log.warning)
            self._page_decoders[what.method] = found
        return found

    def _learn(self, tools: list[Tool], *, whole: bool) -> list[Tool]:
        """Remembers what calls need of the tools; gives those that can be used."""
        if self._headers is not None:
            tools = self._headers.learn(tools, whole=whole)
        if self._schemas is not None:
            self._schemas.learn(tools, whole=whole)
        if self._harmless is not None:
            if whole:
                self._harmless.clear()
            for tool in tools:
                self._harmless[tool.name] = _runs_twice(tool)
        if self._tasks and self._offers_legacy_tasks:
            # TK-01: what runs as a task only is called as one.
            if whole:
                self._task_tools.clear()
            for tool in tools:
                self._task_tools.discard(tool.name)
                if _needs_task(tool):
                    self._task_tools.add(tool.name)
        return tools

    async def _is_harmless(self, name: str | None) -> bool:
        """Whether a tool says that it may run twice; its list is read when it is not known. Raises as that does."""
        if self._harmless is None:
            self._harmless = {}
        if name is not None and name not in self._harmless:
            await self.list_tools(refresh=True)
        return self._harmless.get(name or "", False)

    async def _refresh_tools(self) -> None:
        await self.list_tools(refresh=True)
