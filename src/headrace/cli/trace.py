"""``headrace trace``: shows every message of a session, both ways, with times."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import IO, TYPE_CHECKING, Any

import click

from headrace.cli.app import Failure, complain
from headrace.cli.arguments import arguments_of, parse_pair
from headrace.cli.peers import connect_options, run_with
from headrace.cli.traffic import TrafficPrinter

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.transports.tap import Traffic

__all__ = ("command",)

_HELP = """Show every message of a session with SERVER, or with the command behind "--", both ways and with times.

\b
  headrace trace -- headrace serve weather.py                 connect, list what there is, leave
  headrace trace forecast city=Oslo -- headrace serve weather.py      and call a tool
  headrace trace http://127.0.0.1:8000/mcp forecast city=Oslo
  headrace trace http://127.0.0.1:8000/mcp --stay             go on until Ctrl-C
  headrace trace --proxy -o log.txt -- headrace serve weather.py

With --proxy it stands between an MCP host and the command: write it in front of the command in the
host's configuration. Messages pass unchanged, and are shown on stderr or in the file of --output.

\b
  ->  from the client to the server       <-  from the server to the client
"""

_LISTS = (
    ("tools", "tools/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
    ("prompts", "prompts/list"),
)


@click.command("trace", help=_HELP, short_help="Show every message of a session.")
@click.argument("words", nargs=-1, metavar="[SERVER] [TOOL [KEY=VALUE]...]")
@click.option("--proxy", is_flag=True, help="Stand between a host (on standard input and output) and the command.")
@click.option("--stay", is_flag=True, help="Stay connected until Ctrl-C.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Append to a file instead of printing.")
@click.option("--pretty", is_flag=True, help="Indent the JSON.")
@click.option("--short", is_flag=True, help="Cut each line at the width of the terminal.")
@connect_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    proxy: bool,
    stay: bool,
    output: str | None,
    pretty: bool,
    short: bool,
    as_json: bool,
    **options: Any,
) -> int:
    rest = list(words)
    server = None if ctx.obj is not None or not rest else rest.pop(0)
    with contextlib.ExitStack() as stack:
        file: IO[str] = sys.stderr if proxy else sys.stdout
        if output is not None:
            file = stack.enter_context(open(output, "a", encoding="utf-8"))
        printer = TrafficPrinter(file, as_json=as_json, short=short, pretty=pretty)
        if proxy:
            from headrace.cli.proxy import run_between

            if rest or server is not None or stay:
                raise click.UsageError("--proxy takes a command behind '--' and nothing else to do", ctx)
            if ctx.obj is None:
                raise click.UsageError("--proxy needs the command behind '--'", ctx)
            return run_between(ctx.obj, printer)
        if server is None and ctx.obj is None:
            raise click.UsageError("name a server: a URL, unix:PATH, tcp:HOST:PORT, or a command behind '--'", ctx)
        if rest and "=" in rest[0]:
            raise click.UsageError(f"{rest[0]!r} stands where the name of the tool should be", ctx)
        return _session(server, ctx.obj, rest, stay, printer, options)


def _session(
    server: str | None,
    command: list[str] | None,
    rest: list[str],
    stay: bool,
    printer: TrafficPrinter,
    options: dict[str, Any],
) -> int:
    pairs = [parse_pair(text) for text in rest[1:]]

    unread: list[OSError] = []  # why what is shown does not arrive any more

    def tap(seen: Traffic) -> None:
        try:
            if not unread:
                printer.show(seen.time, seen.sent, seen.message, seen.http)
        except OSError as exc:
            unread.append(exc)

    async def body(client: Client) -> int:
        from headrace.errors import RpcError

        schema = None
        for kind, method in _LISTS:
            if kind in client.capabilities:
                try:
                    result = await client.request(method)
                except RpcError as exc:
                    complain(f"{method}: {exc}")  # the trace shows it; the rest is of interest too
                    continue
                if rest and kind == "tools":
                    schema = _schema(result, rest[0])
            if unread:
                break
        status = 0
        if rest and not unread:
            call = {"name": rest[0], "arguments": arguments_of(pairs, {}, schema)}
            status = 1 if (await client.request("tools/call", call)).get("isError") is True else 0
        if stay:
            while not client.closed and not unread:
                await asyncio.sleep(0.1)
        if unread:
            raise unread[0]
        if stay:
            raise Failure("the server ended the connection")
        return status

    return run_with(server, command, options, body, tap=tap)


def _schema(result: dict[str, Any], tool: str) -> dict[str, Any] | None:
    tools = result.get("tools")
    for each in tools if isinstance(tools, list) else ():
        if isinstance(each, dict) and each.get("name") == tool and isinstance(each.get("inputSchema"), dict):
            schema: dict[str, Any] = each["inputSchema"]
            return schema
    return None
