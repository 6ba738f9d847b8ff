"""``headrace prompt``: gets one prompt's messages."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.answers import answer_options, answered, answers_of
from headrace.cli.app import Failure, WrongArguments, harmless
from headrace.cli.arguments import parse_pair
from headrace.cli.content import block_text
from headrace.cli.listing import entries_of
from headrace.cli.nearest import nearest
from headrace.cli.peers import connect_options, run_with

if TYPE_CHECKING:
    from headrace.client import Client

__all__ = ("command",)

_HELP = """Get the messages of prompt NAME of SERVER, or of the command behind "--".

\b
  headrace prompt http://127.0.0.1:8000/mcp review language=python code=@main.py
  headrace prompt review language=python -- headrace serve prompts.py

Arguments are texts: key=value, or key=@file for the text of a file (- is standard input).
"""


@click.command("prompt", help=_HELP, short_help="Get a prompt of a server.")
@click.argument("words", nargs=-1, metavar="[SERVER] NAME [KEY=VALUE]...")
@answer_options
@connect_options
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], as_json: bool, **options: Any) -> int:
    rest = list(words)
    server = None if ctx.obj is not None or not rest else rest.pop(0)
    if not rest or "=" in rest[0]:
        raise click.UsageError("name a server and a prompt: headrace prompt SERVER NAME key=value ...", ctx)
    name = rest.pop(0)
    arguments = {}
    for pair in map(parse_pair, rest):
        if pair.as_json:
            raise click.UsageError(f"{pair.key}:= is for tools; arguments of prompts are texts: {pair.key}=...")
        arguments[pair.key] = pair.value
    more = answers_of(options)

    async def body(client: Client) -> Any:
        from headrace.errors import RpcError
        from headrace.jsonrpc import INVALID_PARAMS

        try:
            return await client.get_prompt(name, arguments or None, timeout=options["timeout"])
        except RpcError as exc:
            if exc.code == INVALID_PARAMS:
                await _explain(client, name, arguments, options["timeout"])
            raise

    result = run_with(server, ctx.obj, options, body, **more)
    import msgspec

    found = msgspec.to_builtins(result)
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return answered(more)
    for number, message in enumerate(found["messages"], 1):
        print(harmless(f"{message['role']}: {block_text(message['content'], number, None)}", sys.stdout))
    return answered(more)


async def _explain(client: Client, name: str, arguments: dict[str, str], timeout: float | None) -> None:
    """Raises what is wrong with the name or the arguments, where the server's list tells."""
    from headrace.errors import RpcError

    try:
        prompts = await entries_of(client, "prompts", timeout)
    except RpcError:
        return
    names = [str(each.get("name")) for each in prompts]
    if name not in names:
        raise Failure(f"unknown prompt: {name}{nearest(name, names)} (headrace ls lists them)")
    listed = next(each for each in prompts if each.get("name") == name).get("arguments")
    known = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    missing = [str(a.get("name")) for a in known if a.get("required") is True and a.get("name") not in arguments]
    if missing:
        raise WrongArguments(f"{name} needs {', '.join(missing)}: say {missing[0]}=...")
