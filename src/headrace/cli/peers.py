"""Servers as the command line names them: SERVER, a command behind ``--``, or a name in a config file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.app import Failure
from headrace.cli.config import configured, read_config

if TYPE_CHECKING:
    from headrace.client import Client

__all__ = ("connect_options", "peer_of", "run_with")

T = TypeVar("T")


def connect_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that connects to a server."""
    for option in reversed(
        (
            click.option(
                "--config", metavar="FILE", help='JSON with {"mcpServers": {NAME: ...}}; SERVER may be a NAME.'
            ),
            click.option(
                "--header", metavar="NAME=VALUE", multiple=True, help="HTTP header of every request. Repeatable."
            ),
            click.option("--revision", metavar="DATE", help="Speak this protocol revision instead of finding out."),
            click.option("--timeout", type=float, metavar="SECONDS", help="Limit of each request."),
            click.option("--connect-timeout", type=float, metavar="SECONDS", help="Limit of connecting."),
            click.option("--log-level", metavar="LEVEL", help="Show the server's log messages from LEVEL on."),
            click.option("--stderr", "show_stderr", is_flag=True, help="Show what a command writes to its stderr."),
            click.option("--json", "as_json", is_flag=True, help="Machine-readable output."),
            click.option("--traceback", "with_traceback", is_flag=True, help="Show tracebacks of failures."),
        )
    ):
        function = option(function)
    return function


def peer_of(server: str | None, command: list[str] | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The target and options of ``connect`` for what was typed. Raises click.UsageError."""
    arguments: dict[str, Any] = {"revision": options["revision"], "timeout": options["timeout"]}
    headers = dict(_header(text) for text in options["header"])
    if command is not None:
        if server is not None:
            raise click.UsageError(f"name one server: {server!r}, or the command behind '--'")
        target: Any = command
        arguments["inherit_env"] = True
    elif server is None:
        raise click.UsageError("name a server: a URL, unix:PATH, tcp:HOST:PORT, or a command behind '--'")
    elif options["config"] is not None and not (
        _ADDRESS.match(server) and server not in read_config(options["config"])
    ):
        target, more, own = configured(server, options["config"])
        arguments.update(more)
        headers = own | headers
    else:
        target = _address(server)
    if headers:
        arguments["headers"] = headers
    if isinstance(target, list) and options["show_stderr"]:
        arguments["stderr"] = 2
    return target, arguments


def _address(server: str) -> str:
    if server.endswith(".py") or (":" not in server and os.path.exists(server)):
        command = f"headrace serve {server}" if server.endswith(".py") else server
        raise click.UsageError(
            f"cannot connect to {server[:100]!r}: use a URL, unix:PATH or tcp:HOST:PORT, or put the command "
            f"after --, for example -- {command[:120]}"
        )
    if _ADDRESS.match(server) or _HOST.match(server):
        return server
    raise click.UsageError(
        f"cannot connect to {server[:100]!r}: use an http:// or https:// URL, unix:PATH, tcp:HOST:PORT, or put "
        "the command after --, for example -- headrace serve weather.py"
    )


_ADDRESS = re.compile(r"(?i:https?://)|unix:.|tcp:.")
_HOST = re.compile(r"[\w.\[-][\w.:\]-]*(:\d|/)")


def _header(text: str) -> tuple[str, str]:
    at = min((i for i in (text.find("="), text.find(":")) if i > 0), default=0)
    if not at:
        raise click.UsageError(f"--header {text!r}: use NAME=VALUE")
    return text[:at].strip(), text[at + 1 :].strip()


def run_with(
    server: str | None,
    command: list[str] | None,
    options: dict[str, Any],
    body: Callable[[Client], Awaitable[T]],
) -> T:
    """Connects, runs ``body(client)``, closes; every failure becomes a plain line."""
    from headrace.client import connect
    from headrace.errors import HeadraceError, RpcError, UsageError
    from headrace.limits import Limits

    target, arguments = peer_of(server, command, options)
    level = options["log_level"]
    if level is not None:
        arguments.update(log_level=level, on_log=_show_log)
    try:
        if options["connect_timeout"] is not None:
            arguments["limits"] = Limits(connect_timeout=options["connect_timeout"])
        manager = connect(target, **arguments)
    except (UsageError, ValueError) as exc:
        raise click.UsageError(str(exc)) from None

    async def main() -> T:
        async with manager as client:
            return await body(client)

    try:
        return asyncio.run(main())
    except UsageError as exc:
        raise click.UsageError(str(exc)) from None
    except HeadraceError as exc:
        if options["with_traceback"]:
            traceback.print_exception(exc)
        text = str(exc)
        if isinstance(exc, RpcError) and exc.data is not None:
            text += f": {json.dumps(exc.data, ensure_ascii=False, default=str)}"
        raise Failure(text) from exc


def _show_log(message: Any) -> None:
    data = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
    source = f" {message.logger}" if message.logger else ""
    print(f"[{message.level}]{source}: {data}", file=sys.stderr)
