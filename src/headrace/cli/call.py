"""``headrace call``: calls one tool and shows what it gave."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.answers import answer_options, answered, answers_of
from headrace.cli.app import Failure, complain, harmless
from headrace.cli.arguments import arguments_of, check_names, parse_pair
from headrace.cli.content import check_folder, show_result
from headrace.cli.nearest import nearest
from headrace.cli.peers import connect_options, run_with

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.types import Tool

__all__ = ("base_arguments", "command")

_HELP = """Call a tool of SERVER, or of the command behind "--".

\b
  headrace call http://127.0.0.1:8000/mcp forecast city=Oslo days=3
  headrace call forecast city=Oslo -- headrace serve weather.py
  headrace call tcp:127.0.0.1:9000 add --args '{"a": 1, "b": 2}'
  headrace call weather forecast city=Oslo --config servers.json

Arguments:

\b
  key=value      text, or JSON where the tool's schema wants no string (days=3)
  key:=json      JSON in any case (tags:='["a", "b"]')
  key=@file      the text of a file (- is standard input); key:=@file for JSON; key=@@x for "@x"
  --args JSON    all arguments as one object; pairs go over it

Text goes to standard output, structured content as JSON when there is no text. A result that the tool
marks as an error goes to stderr with exit status 1. A tool that asks back is answered at the terminal, or by
--answer and --decline.
"""


@click.command("call", help=_HELP, short_help="Call a tool of a server.")
@click.argument("words", nargs=-1, metavar="[SERVER] TOOL [KEY=VALUE]...")
@click.option("--args", "args_json", metavar="JSON", help="Arguments as a JSON object, or @FILE.")
@click.option("--output", metavar="DIR", help="Save images, audio and binary resources in DIR.")
@click.option("--progress/--no-progress", default=None, help="Show progress on stderr (default: on a terminal).")
@answer_options
@connect_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    args_json: str | None,
    output: str | None,
    progress: bool | None,
    as_json: bool,
    **options: Any,
) -> int:
    rest = list(words)
    server = None if ctx.obj is not None or not rest else rest.pop(0)
    if server is not None and rest and "=" in rest[0] and server.isidentifier():
        typed = " ".join(words)[:100]
        raise click.UsageError(f"the server is missing: headrace call SERVER {typed}, or a command behind '--'", ctx)
    if not rest:
        raise click.UsageError("name a server and a tool: headrace call SERVER TOOL key=value ...", ctx)
    tool = rest.pop(0)
    if "=" in tool:
        raise click.UsageError(f"{tool!r} stands where the name of the tool should be", ctx)
    pairs = [parse_pair(text) for text in rest]
    base = base_arguments(args_json)
    if output is not None:
        check_folder(output)
    shown = _Progress() if (sys.stderr.isatty() if progress is None else progress) else None

    more = answers_of(options)
    more["tasks"] = True  # a call that becomes a task is followed to its end

    import msgspec

    from headrace.errors import RpcError

    async def body(client: Client) -> dict[str, Any]:
        # A client has to know which tools of 2025-11-25 run as tasks only.
        wants = pairs or base or "tasks" in client.capabilities
        tools = await _tools(client, options["timeout"]) if wants else None
        schema = next((each.input_schema for each in tools or () if each.name == tool), None)
        arguments = arguments_of(pairs, base, schema)
        if schema is not None:
            check_names(tool, arguments, schema)
        try:
            result = await client.call_tool(tool, arguments, on_progress=shown, reset_timeout_on_progress=True)
            return dict(msgspec.to_builtins(result))
        except RpcError as exc:
            if tools is None:
                tools = await _tools(client, options["timeout"])
            if tools and all(each.name != tool for each in tools):
                raise Failure(_unknown(tool, [each.name for each in tools])) from exc
            raise
        finally:
            if shown is not None:
                shown.clear()

    result = run_with(server, ctx.obj, options, body, **more)
    failed = result.get("isError") is True
    if as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        show_result(result, sys.stderr if failed else sys.stdout, output)
    if failed and ctx.obj is not None and not options["show_stderr"] and _is_internal(result):
        complain("run with --stderr to see the server's log")
    return answered(more, 1 if failed else 0)


async def _tools(client: Client, timeout: float | None) -> list[Tool] | None:
    """The tools, or None where the server does not list them."""
    from headrace.errors import RpcError

    try:
        return await client.list_tools(timeout=timeout)
    except RpcError:
        return None


def _unknown(tool: str, names: list[str]) -> str:
    return f"unknown tool: {tool}{nearest(tool, names)} (headrace ls lists them)"


def _is_internal(result: dict[str, Any]) -> bool:
    """Whether the tool failed in a way that only the server's log explains."""
    blocks = result.get("content")
    return any(isinstance(b, dict) and "internal error" in str(b.get("text")) for b in blocks or ())


def base_arguments(text: str | None) -> dict[str, Any]:
    """The object of ``--args``, JSON or @FILE; empty without one. Raises click.UsageError."""
    if text is None:
        return {}
    raw = parse_pair(f"--args={text}").value
    try:
        value = json.loads(raw)
    except ValueError as exc:
        raise click.UsageError(f"--args is not JSON: {exc}") from None
    if not isinstance(value, dict):
        raise click.UsageError("--args must be a JSON object")
    return value


class _Progress:
    """One line that changes on a terminal, a line each elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._width = 0

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        text = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        text += f" {harmless(' '.join(message.split()), sys.stderr)}" if message else ""
        if not self._live:
            print(text, file=sys.stderr)
            return
        print(f"\r{text[:100].ljust(self._width)}", end="", file=sys.stderr, flush=True)
        self._width = len(text[:100])

    def clear(self) -> None:
        """Takes the line away before the result is shown."""
        if self._live and self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
