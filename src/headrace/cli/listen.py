"""``headrace listen``: shows what changes at a server, until Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app import Failure, complain, harmless
from headrace.cli.peers import connect_options, run_with

if TYPE_CHECKING:
    from headrace.client import Client

__all__ = ("command",)

_HELP = """Show what changes at SERVER, or at the command behind "--", as it happens; ends with Ctrl-C.

\b
  headrace listen http://127.0.0.1:8000/mcp                      changes of every list
  headrace listen http://127.0.0.1:8000/mcp file:///etc/motd     and of a resource
  headrace listen --json --count 1 -- headrace serve docs.py     one change, as JSON

Log messages of the server are shown as well (--log-level chooses from which level on).
"""

_LISTS = ("tools", "resources", "prompts")

LOOK_EVERY = 15.0
"""Seconds without a change after which a handshake-era server is asked whether it is still there."""


@click.command("listen", help=_HELP, short_help="Show what changes at a server.")
@click.argument("words", nargs=-1, metavar="[SERVER] [URI]...")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N changes.")
@connect_options
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], count: int | None, as_json: bool, **options: Any) -> int:
    uris = list(words)
    server = None if ctx.obj is not None or not uris else uris.pop(0)
    changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def changed(kind: str) -> None:
        changes.put_nowait({"changed": kind})

    def updated(uri: str) -> None:
        changes.put_nowait({"updated": uri})

    async def body(client: Client) -> None:
        offered = [kind for kind in _LISTS if (client.capabilities.get(kind) or {}).get("listChanged")]
        if not offered and not uris:
            raise Failure("the server does not tell of changes; name resources it lets you subscribe to")
        for uri in uris:
            await client.subscribe(uri, timeout=options["timeout"])
        if sys.stderr.isatty():
            complain(f"listening for {', '.join([*offered, *uris])}; end with Ctrl-C")
        seen = 0
        looked = time.monotonic()
        while count is None or seen < count:
            try:
                change = await asyncio.wait_for(changes.get(), 0.2)
            except TimeoutError:
                if client.closed:
                    raise Failure("the server ended the connection") from None
                if client.subscription_error is not None:
                    raise Failure(f"the connection was lost: {client.subscription_error}") from None
                if time.monotonic() - looked > LOOK_EVERY:
                    await _look(client)
                    looked = time.monotonic()
                continue
            seen += 1
            _show(change, as_json)

    run_with(server, ctx.obj, options, body, on_list_changed=changed, on_resource_updated=updated)
    return 0


async def _look(client: Client) -> None:
    """Fails where nobody is there any more. In the handshake era only a request finds that out over HTTP, and
    brings a lost stream or session back."""
    from headrace.errors import HeadraceError, RpcError

    if client.protocol_version >= "2026":
        return  # its listen does both by itself
    try:
        await client.ping()
    except RpcError:
        return  # an answer all the same
    except HeadraceError as exc:
        raise Failure(f"the connection was lost: {exc}") from exc


def _show(change: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"time": round(time.time(), 3), **change}, ensure_ascii=False), flush=True)
    else:
        [(what, which)] = change.items()
        text = f"{time.strftime('%H:%M:%S')} {which} {'list changed' if what == 'changed' else 'updated'}"
        print(harmless(text, sys.stdout), flush=True)
