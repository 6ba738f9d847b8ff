"""What the servers on both versions of the official Python SDK share: their arguments, schemas, and how they are hosted.

The last argument says by whom: `theirs`, or `ours` for headrace.
"""

import asyncio
import cProfile
import os
import sys
from typing import Any

from tools import TOOLS

BY_NAME = {tool.__name__: tool for tool in TOOLS}
_NAMES = {str: "string", int: "integer", float: "number"}

where, mode, level, by = (sys.argv[1:] + ["", "default", "high", "theirs"][len(sys.argv) - 1 :])[:4]
fast = mode == "fast"
PROFILED_AFTER = 3.0
"""Seconds after the start: what is imported at the first calls is no part of a call."""


def schema_of(tool: Any) -> dict[str, Any]:
    """The schema of a tool's arguments, as a low-level server states it."""
    properties = {n: {"type": _NAMES[t]} for n, t in tool.__annotations__.items() if n != "return"}
    return {"type": "object", "properties": properties, "required": list(properties)}


def on_headrace(app: Any, where: str, fast: bool) -> None:
    """The same object on headrace. PROFILE in the environment names a file for what cProfile saw, to be read by pstats."""
    from headrace.integrations.hosts import recognise

    integration = recognise(app)
    assert integration is not None
    how: dict[str, Any] = {} if where == "stdio" else {"http": f"127.0.0.1:{where}"}
    if fast and how:
        how |= {"json_response": True, "stateless": True}
    profile = os.environ.get("PROFILE")
    if profile is None:
        integration.run(app, **how)
        return
    profiler = cProfile.Profile()
    try:
        integration.run(app, on_ready=lambda _: asyncio.get_running_loop().call_later(PROFILED_AFTER, profiler.enable), **how)
    finally:
        profiler.disable()
        profiler.dump_stats(profile)


async def _low_stdio(app: Any) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await app.run(read, write, app.create_initialization_options())


def host(app: Any, http_app: Any) -> None:
    """Runs ``app`` on stdio, or what ``http_app()`` gives over HTTP, as the command line says."""
    if by == "ours":
        on_headrace(app, where, fast)
    elif where == "stdio":
        if fast:
            import uvloop

            uvloop.install()
        if level == "high":
            app.run("stdio")
        else:
            asyncio.run(_low_stdio(app))
    else:
        import uvicorn

        options: dict[str, Any] = (
            {"loop": "uvloop", "http": "httptools"} if fast else {"loop": "asyncio", "http": "h11"}
        )
        uvicorn.run(http_app(), host="127.0.0.1", port=int(where), log_level="error", access_log=False, **options)
