"""``headrace call``: calls one tool and shows what it gave."""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import mimetypes
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app import Failure, complain
from headrace.cli.arguments import arguments_of, check_names, parse_pair
from headrace.cli.peers import connect_options, run_with

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.types import Tool

__all__ = ("command",)

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
marks as an error goes to stderr with exit status 1.
"""


@click.command("call", help=_HELP, short_help="Call a tool of a server.")
@click.argument("words", nargs=-1, metavar="[SERVER] TOOL [KEY=VALUE]...")
@click.option("--args", "args_json", metavar="JSON", help="Arguments as a JSON object, or @FILE.")
@click.option("--output", metavar="DIR", help="Save images, audio and binary resources in DIR.")
@click.option("--progress/--no-progress", default=None, help="Show progress on stderr (default: on a terminal).")
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
    base = _base(args_json)
    if output is not None:
        _check_folder(output)
    shown = _Progress() if (sys.stderr.isatty() if progress is None else progress) else None

    from headrace.errors import RpcError

    async def body(client: Client) -> dict[str, Any]:
        tools = await _tools(client, options["timeout"]) if pairs or base else None
        schema = next((each.input_schema for each in tools or () if each.name == tool), None)
        arguments = arguments_of(pairs, base, schema)
        if schema is not None:
            check_names(tool, arguments, schema)
        params = {"name": tool, "arguments": arguments}
        try:
            return await client.request("tools/call", params, on_progress=shown)
        except RpcError as exc:
            if tools is None:
                tools = await _tools(client, options["timeout"])
            if tools and all(each.name != tool for each in tools):
                raise Failure(_unknown(tool, [each.name for each in tools])) from exc
            raise
        finally:
            if shown is not None:
                shown.clear()

    result = run_with(server, ctx.obj, options, body)
    failed = result.get("isError") is True
    if as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        _show(result, sys.stderr if failed else sys.stdout, output)
    if failed and ctx.obj is not None and not options["show_stderr"] and _is_internal(result):
        complain("run with --stderr to see the server's log")
    return 1 if failed else 0


async def _tools(client: Client, timeout: float | None) -> list[Tool] | None:
    """The tools, or None where the server does not list them."""
    from headrace.errors import RpcError

    try:
        return await client.list_tools(timeout=timeout)
    except RpcError:
        return None


def _unknown(tool: str, names: list[str]) -> str:
    near = difflib.get_close_matches(tool, names, 1)
    return f"unknown tool: {tool}{f'; did you mean {near[0]}?' if near else ''} (headrace ls lists them)"


def _is_internal(result: dict[str, Any]) -> bool:
    """Whether the tool failed in a way that only the server's log explains."""
    blocks = result.get("content")
    return any(isinstance(b, dict) and "internal error" in str(b.get("text")) for b in blocks or ())


def _base(text: str | None) -> dict[str, Any]:
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
        text += f" {' '.join(message.split())}" if message else ""
        if not self._live:
            print(text, file=sys.stderr)
            return
        print(f"\r{text[:100].ljust(self._width)}", end="", file=sys.stderr, flush=True)
        self._width = len(text[:100])

    def clear(self) -> None:
        """Takes the line away before the result is shown."""
        if self._live and self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)


def _show(result: dict[str, Any], out: Any, folder: str | None) -> None:
    blocks = result.get("content")
    lines = [_block(block, number, folder) for number, block in enumerate(blocks or (), 1) if isinstance(block, dict)]
    has_text = any(isinstance(b, dict) and b.get("type") == "text" for b in blocks or ())
    if "structuredContent" in result and not has_text:
        lines.append(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False))
    if result.get("resultType") == "input_required":
        raise Failure("the server asks for client input, which the command line does not offer")
    for line in lines:
        print(line, file=out)


def _block(block: dict[str, Any], number: int, folder: str | None) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return _binary(str(kind), block.get("data"), block.get("mimeType"), number, folder)
    if kind == "resource":
        resource = block.get("resource") or {}
        if "text" in resource:
            return str(resource["text"])
        return _binary(
            f"resource {resource.get('uri')}", resource.get("blob"), resource.get("mimeType"), number, folder
        )
    if kind == "resource_link":
        return f"[link {block.get('uri')}: {block.get('name')}]"
    return json.dumps(block, ensure_ascii=False)


def _binary(what: str, data: Any, mime: Any, number: int, folder: str | None) -> str:
    try:
        raw = base64.b64decode(str(data or ""), validate=True)
    except (binascii.Error, ValueError):
        return f"[{what}, {mime}, not valid base64]"
    if folder is None:
        return f"[{what}, {mime}, {len(raw)} bytes; --output DIR saves it]"
    # The name is ours: nothing of the server's text becomes part of a path.
    stem = os.path.join(folder, f"{what.split()[0]}-{number}")
    return _save(raw, stem, mimetypes.guess_extension(str(mime)) or ".bin")


def _check_folder(folder: str) -> None:
    """Makes the folder; raises Failure when nothing can be saved there, before the tool does its work."""
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError:
        raise Failure(f"--output {folder}: not a directory") from None
    except OSError as exc:
        raise Failure(f"--output {folder}: {exc.strerror}") from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Failure(f"--output {folder}: not writable")


def _save(raw: bytes, stem: str, ending: str) -> str:
    """Writes a new file and gives its path: what is there already stays, the new one gets a number more."""
    path = stem + ending
    for again in range(2, _MAX_FILES):
        try:
            with open(path, "xb") as file:
                file.write(raw)
            return path
        except FileExistsError:
            path = f"{stem}-{again}{ending}"
        except OSError as exc:
            raise Failure(f"{path}: {exc.strerror}") from exc
    raise Failure(f"{stem}{ending}: there are too many files of that name")


_MAX_FILES = 10_000
