"""``headrace ls``: what a server is and what it offers."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app import harmless
from headrace.cli.listing import KINDS, everything
from headrace.cli.peers import config_of, connect_options, run_with
from headrace.cli.signature import signature

if TYPE_CHECKING:
    from headrace.client import Client

__all__ = ("command",)

_HELP = """List what SERVER, or the command behind "--", offers: tools, resources, templates and prompts.

\b
  headrace ls http://127.0.0.1:8000/mcp
  headrace ls unix:/run/weather.sock
  headrace ls -- headrace serve weather.py
  headrace ls --schemas --tools -- headrace serve weather.py
  headrace ls --config servers.json              the names in it
  headrace ls weather --config servers.json
  headrace ls --json -- headrace serve weather.py | jq '.tools[].name'
"""

_WORDS = {"resources": "resource", "resourceTemplates": "template", "prompts": "prompt"}
_TITLES = {"tools": "tool", "resources": "resource", "resourceTemplates": "resource template", "prompts": "prompt"}
_SCHEMAS = {"inputSchema": "arguments", "outputSchema": "result"}


@click.command("ls", help=_HELP, short_help="List what a server offers.")
@click.argument("server", required=False)
@click.option("--tools", is_flag=True, help="Only tools.")
@click.option("--resources", is_flag=True, help="Only resources and templates.")
@click.option("--prompts", is_flag=True, help="Only prompts.")
@click.option("--schemas", is_flag=True, help="Show the JSON Schemas of tools, and the arguments of prompts.")
@connect_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    server: str | None,
    tools: bool,
    resources: bool,
    prompts: bool,
    schemas: bool,
    as_json: bool,
    **options: Any,
) -> int:
    if server is None and ctx.obj is None and options["config"] is not None:
        return _names(config_of(options["config"]).names, as_json)
    wanted = {"tools": tools, "resources": resources, "prompts": prompts}
    kinds = [kind for kind, (capability, _) in KINDS.items() if wanted[capability] or not any(wanted.values())]

    async def body(client: Client) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
        about = {
            "protocolVersion": client.protocol_version,
            "serverInfo": client.server_info,
            "capabilities": client.capabilities,
            "instructions": client.instructions,
        }
        return about, await everything(client, kinds, options["timeout"])

    about, found = run_with(server, ctx.obj, options, body)
    if as_json:
        import msgspec

        # Of a server without tools the list of tools is empty; other kinds are there when they are offered.
        first = {"tools": found.get("tools", [])} if "tools" in kinds else {}
        raw = msgspec.json.encode({**{k: v for k, v in about.items() if v is not None}, **first, **found})
        print(msgspec.json.format(raw, indent=2).decode())
    elif sys.stdout.isatty() and not schemas:
        _tables(about, found)
    else:
        _lines(found, schemas)
    return 0


def _names(servers: list[str], as_json: bool) -> int:
    """The servers of a config file. Their commands and URLs may hold secrets and are not shown."""
    if as_json:
        print(json.dumps({"servers": servers}, indent=2, ensure_ascii=False))
    else:
        for name in servers:
            print(harmless(name, sys.stdout))
    return 0


def _lines(found: dict[str, list[dict[str, Any]]], schemas: bool) -> None:
    """One line an entry: tools as they are called, other kinds behind their name."""
    for kind, entries in found.items():
        for entry in entries:
            word = f"{_WORDS[kind]} " if kind in _WORDS else ""
            print(harmless(f"{word}{_shown(kind, entry)}\t{_summary(entry)}", sys.stdout))
            if schemas:
                _schemas(kind, entry)


def _schemas(kind: str, entry: dict[str, Any]) -> None:
    for member, what in _SCHEMAS.items():
        if kind == "tools" and isinstance(entry.get(member), dict):
            text = json.dumps(entry[member], indent=2, ensure_ascii=False).replace("\n", "\n    ")
            print(f"    {what}: {text}")
    arguments = entry.get("arguments")
    for argument in arguments if kind == "prompts" and isinstance(arguments, list) else ():
        if isinstance(argument, dict):
            needed = " (required)" if argument.get("required") is True else ""
            about = _summary(argument)
            line = f"    {argument.get('name')}{needed}{f': {about}' if about else ''}"
            print(harmless(line, sys.stdout))


def _shown(kind: str, entry: dict[str, Any]) -> str:
    if kind == "tools":
        schema = entry.get("inputSchema")
        return signature(str(entry.get("name")), schema if isinstance(schema, dict) else {})
    if kind == "prompts":
        arguments = entry.get("arguments")
        names = [
            f"{a.get('name')}{'' if a.get('required') is True else '?'}"
            for a in (arguments if isinstance(arguments, list) else ())
            if isinstance(a, dict)
        ]
        return f"{entry.get('name')}({', '.join(names)})"
    text = str(entry.get("uri" if kind == "resources" else "uriTemplate"))
    mime = entry.get("mimeType")
    return f"{text} ({mime})" if isinstance(mime, str) else text


def _summary(entry: dict[str, Any]) -> str:
    for member in ("description", "title", "name"):
        text = entry.get(member)
        if isinstance(text, str) and text.strip():
            # Resources are shown by their URI, everything else by its name already.
            return "" if member == "name" and not _has_uri(entry) else text.strip().splitlines()[0]
    return ""


def _has_uri(entry: dict[str, Any]) -> bool:
    return "uri" in entry or "uriTemplate" in entry


def _tables(about: dict[str, Any], found: dict[str, list[dict[str, Any]]]) -> None:
    info = about["serverInfo"]
    title = f"{info.name} {info.version}, " if info is not None else ""
    counts = [f"{len(entries)} {_TITLES[kind]}{'' if len(entries) == 1 else 's'}" for kind, entries in found.items()]
    print(harmless(f"{title}revision {about['protocolVersion']}, {', '.join(counts) or 'nothing to list'}"))
    if about["instructions"]:
        print(harmless(about["instructions"].strip()))
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        _lines(found, False)
        return
    for kind, entries in found.items():
        if not entries:
            continue
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(_TITLES[kind], overflow="fold")
        table.add_column("description", overflow="fold")
        for entry in entries:
            table.add_row(escape(harmless(_shown(kind, entry))), escape(harmless(_summary(entry))))
        Console().print(table)
