"""All entries of a server's lists as they came, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client import Client

__all__ = ("KINDS", "entries_of", "everything")

KINDS = {
    "tools": ("tools", "tools/list"),
    "resources": ("resources", "resources/list"),
    "resourceTemplates": ("resources", "resources/templates/list"),
    "prompts": ("prompts", "prompts/list"),
}
"""Member of a list's result: the capability it belongs to, and its method."""

_MAX_PAGES = 10_000


async def entries_of(client: Client, kind: str, timeout: float | None = None) -> list[dict[str, Any]]:
    """The entries of one kind (see KINDS), from all pages (SF-50). Raises as the client's calls do."""
    from headrace.errors import RemoteProtocolError

    _, method = KINDS[kind]
    found: list[dict[str, Any]] = []
    cursors: set[str] = set()
    params: dict[str, Any] | None = None
    while True:
        result = await client.request(method, params, timeout=timeout)
        page = result.get(kind)
        if not isinstance(page, list):
            raise RemoteProtocolError(f"the result of {method} has no {kind}")
        found += [entry for entry in page if isinstance(entry, dict)]
        cursor = result.get("nextCursor")
        if cursor is None:
            return found
        if cursor in cursors or len(cursors) >= _MAX_PAGES:
            raise RemoteProtocolError(f"{method}: the pages of the server do not end")
        cursors.add(cursor)
        params = {"cursor": cursor}


async def everything(client: Client, kinds: list[str], timeout: float | None = None) -> dict[str, list[dict[str, Any]]]:
    """The entries of every kind that the server offers. Templates may be missing: many servers have none."""
    from headrace.errors import RpcError
    from headrace.jsonrpc import METHOD_NOT_FOUND

    found = {}
    for kind in kinds:
        if KINDS[kind][0] not in client.capabilities:
            continue
        try:
            found[kind] = await entries_of(client, kind, timeout)
        except RpcError as exc:
            if kind != "resourceTemplates" or exc.code != METHOD_NOT_FOUND:
                raise
    return found
