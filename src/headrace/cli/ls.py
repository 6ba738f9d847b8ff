"""``headrace ls``: what a server is and which tools it has."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.peers import config_of, connect_options, run_with
from headrace.cli.signature import signature

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.types import Tool

__all__ = ("command",)

_HELP = """List the tools of SERVER, or of the command behind "--".

\b
  headrace ls http://127.0.0.1:8000/mcp
  headrace ls unix:/run/weather.sock
  headrace ls -- headrace serve weather.py
  headrace ls --config servers.json              the names in it
  headrace ls weather --config servers.json
  headrace ls --json -- headrace serve weather.py | jq '.tools[].name'
"""


@click.command("ls", help=_HELP, short_help="List the tools of a server.")
@click.argument("server", required=False)
@connect_options
@click.pass_context
def command(ctx: click.Context, /, server: str | None, as_json: bool, **options: Any) -> int:
    if server is None and ctx.obj is None and options["config"] is not None:
        return _names(config_of(options["config"]).names, as_json)

    async def body(client: Client) -> tuple[dict[str, Any], list[Tool]]:
        about = {
            "protocolVersion": client.protocol_version,
            "serverInfo": client.server_info,
            "capabilities": client.capabilities,
            "instructions": client.instructions,
        }
        return about, await client.list_tools()

    about, tools = run_with(server, ctx.obj, options, body)
    if as_json:
        import msgspec

        raw = msgspec.json.encode({**{k: v for k, v in about.items() if v is not None}, "tools": tools})
        print(msgspec.json.format(raw, indent=2).decode())
    elif sys.stdout.isatty():
        _table(about, tools)
    else:
        for tool in tools:
            print(f"{signature(tool.name, tool.input_schema)}\t{_summary(tool)}")
    return 0


def _names(servers: list[str], as_json: bool) -> int:
    """The servers of a config file. Their commands and URLs may hold secrets and are not shown."""
    if as_json:
        print(json.dumps({"servers": servers}, indent=2, ensure_ascii=False))
    else:
        for name in servers:
            print(name)
    return 0


def _summary(tool: Tool) -> str:
    text = (tool.description or tool.title or "").strip()
    return text.splitlines()[0] if text else ""


def _table(about: dict[str, Any], tools: list[Tool]) -> None:
    info = about["serverInfo"]
    title = f"{info.name} {info.version}, " if info is not None else ""
    print(f"{title}revision {about['protocolVersion']}, {len(tools)} tools")
    if about["instructions"]:
        print(about["instructions"].strip())
    if not tools:
        return
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        for tool in tools:
            print(f"  {signature(tool.name, tool.input_schema)}  {_summary(tool)}")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tool", overflow="fold")
    table.add_column("description", overflow="fold")
    for tool in tools:
        table.add_row(escape(signature(tool.name, tool.input_schema)), escape(_summary(tool)))
    Console().print(table)
