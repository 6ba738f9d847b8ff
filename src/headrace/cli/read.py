"""``headrace read``: reads one resource."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.answers import answer_options, answered, answers_of
from headrace.cli.app import Failure, harmless
from headrace.cli.content import binary, check_folder
from headrace.cli.listing import entries_of
from headrace.cli.nearest import nearest
from headrace.cli.peers import connect_options, run_with

if TYPE_CHECKING:
    from headrace.client import Client

__all__ = ("command",)

_HELP = """Read the resource URI of SERVER, or of the command behind "--".

\b
  headrace read http://127.0.0.1:8000/mcp file:///etc/motd
  headrace read docs://intro -- headrace serve docs.py
  headrace read images://logo --output . -- headrace serve docs.py

Text goes to standard output; binary contents are described, or saved with --output.
"""


@click.command("read", help=_HELP, short_help="Read a resource of a server.")
@click.argument("words", nargs=-1, metavar="[SERVER] URI")
@click.option("--output", metavar="DIR", help="Save binary contents in DIR.")
@answer_options
@connect_options
@click.pass_context
def command(
    ctx: click.Context, /, words: tuple[str, ...], output: str | None, as_json: bool, **options: Any
) -> int:
    rest = list(words)
    server = None if ctx.obj is not None or not rest else rest.pop(0)
    if len(rest) != 1:
        raise click.UsageError("name a server and one URI: headrace read SERVER URI", ctx)
    uri = rest[0]
    if output is not None:
        check_folder(output)
    more = answers_of(options)

    async def body(client: Client) -> Any:
        from headrace.errors import ResourceNotFound, RpcError

        try:
            return await client.read_resource(uri, timeout=options["timeout"])
        except ResourceNotFound as exc:
            try:
                known = [str(each.get("uri")) for each in await entries_of(client, "resources", options["timeout"])]
            except RpcError:
                known = []
            raise Failure(f"no such resource: {uri}{nearest(uri, known)} (headrace ls lists them)") from exc

    result = run_with(server, ctx.obj, options, body, **more)
    if as_json:
        import msgspec

        print(json.dumps(msgspec.to_builtins(result), indent=2, ensure_ascii=False))
        return answered(more)
    for number, part in enumerate(result.contents, 1):
        text = getattr(part, "text", None)
        if isinstance(text, str):
            print(harmless(text, sys.stdout), end="" if text.endswith("\n") else "\n")
        else:
            print(binary(f"resource {part.uri}", part.blob, _mime(part), number, output))
    return answered(more)


def _mime(part: Any) -> str:
    return part.mime_type if isinstance(part.mime_type, str) else "application/octet-stream"
