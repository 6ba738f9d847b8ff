"""Servers as the command line names them: SERVER, a command behind ``--``, or a name in a config file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.app import Failure, harmless

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.client.config import Config, Entry

__all__ = ("config_of", "connect_options", "peer_of", "plain_failures", "run_with")

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
            click.option(
                "--input", metavar="ID=VALUE", multiple=True, help="What ${input:ID} of a --config file is. Repeatable."
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


def config_of(path: str) -> Config:
    """The servers of a --config file. Raises click.UsageError."""
    from headrace.client.config import read_config
    from headrace.errors import UsageError

    try:
        return read_config(path)
    except UsageError as exc:
        raise click.UsageError(f"--config {exc}") from None


def _configured(server: str, config: Config, options: dict[str, Any]) -> Entry:
    from headrace.errors import UsageError

    inputs = {}
    for text in options["input"]:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--input {text!r}: use ID=VALUE")
        inputs[name] = value
    if sys.stdin is not None and sys.stdin.isatty():
        for name in config.inputs(server):
            if name not in inputs:
                inputs[name] = click.prompt(f"{server} asks for {name}", hide_input=True, err=True)
    try:
        return config.entry(server, inputs=inputs)
    except UsageError as exc:
        text = re.sub(r"pass inputs=.*", "say --input ID=VALUE", str(exc))
        raise click.UsageError(f"--config {text}") from None


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
    else:
        config = config_of(options["config"]) if options["config"] is not None else None
        if config is not None and (server in config or not _ADDRESS.match(server)):
            entry = _configured(server, config, options)
            target = entry.target
            arguments.update(entry.options)
            headers = arguments.pop("headers", {}) | headers
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
    **more: Any,
) -> T:
    """Connects, runs ``body(client)``, closes; every failure becomes a plain line. ``more`` goes to ``connect``."""
    from headrace.cli.answers import Answers
    from headrace.client import connect
    from headrace.errors import UsageError
    from headrace.limits import Limits

    target, arguments = peer_of(server, command, options)
    logging.basicConfig(format="headrace: %(message)s")  # what the client warns of looks like all else we say
    arguments.update(more)
    level = options["log_level"]
    if level is not None:
        arguments.update(log_level=level, on_log=_show_log)
    try:
        if options["connect_timeout"] is not None:
            arguments["limits"] = Limits(connect_timeout=options["connect_timeout"])
        manager = connect(target, **arguments)
    except (UsageError, ValueError) as exc:
        raise click.UsageError(str(exc)) from None

    ended: list[int] = []

    async def main() -> T:
        _end_in_order(ended)
        async with manager as client:
            if isinstance(answers := more.get("elicitation"), Answers) and client.server_info is not None:
                answers.meet(client.server_info.title or client.server_info.name)
            return await body(client)

    try:
        with plain_failures(target, options):
            return asyncio.run(main())
    except asyncio.CancelledError:
        if not ended:
            raise
        signal.signal(ended[0], signal.SIG_DFL)
        signal.raise_signal(ended[0])
        raise Failure("ended by a signal") from None


@contextlib.contextmanager
def plain_failures(target: Any, options: dict[str, Any]) -> Iterator[None]:
    """Turns what a client raises into click.UsageError and Failure, with what to do about it."""
    from headrace.errors import HeadraceError, RpcError, UsageError
    from headrace.jsonrpc import INTERNAL_ERROR

    try:
        yield
    except UsageError as exc:
        raise click.UsageError(str(exc)) from None
    except HeadraceError as exc:
        if options["with_traceback"]:
            traceback.print_exception(exc)
        text = _explained(exc)
        if isinstance(exc, RpcError) and exc.data is not None:
            text += f": {json.dumps(exc.data, ensure_ascii=False, default=str)}"
        if isinstance(exc, RpcError) and exc.code == INTERNAL_ERROR and _may_show_log(target, options):
            text += "; run with --stderr to see the server's log"
        raise Failure(text) from exc


def _end_in_order(ended: list[int]) -> None:
    """SIGTERM and SIGHUP end the running task, so that no command of ours is left behind; a second one ends us at
    once. ``ended`` gets the signal."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def end(signum: int) -> None:
        loop.remove_signal_handler(signum)
        ended.append(signum)
        task.cancel()

    for name in ("SIGTERM", "SIGHUP"):
        signum = getattr(signal, name, None)
        # Not where it is ignored (nohup) or somebody else's, nor in other threads than the main one.
        if signum is not None and signal.getsignal(signum) is signal.SIG_DFL:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(signum, end, signum)


def _may_show_log(target: Any, options: dict[str, Any]) -> bool:
    """Whether ``--stderr`` would show the server's log, and was not said."""
    return isinstance(target, list) and not options["show_stderr"]


def _explained(exc: Exception) -> str:
    """What went wrong, with what to do about it on a command line."""
    from headrace.client.failures import refused_credentials
    from headrace.errors import AuthenticationFailed, ConnectFailed, ConnectionClosed, RpcError
    from headrace.jsonrpc import MISSING_CLIENT_CAPABILITY

    text = str(exc)
    if isinstance(exc, RpcError) and exc.code == MISSING_CLIENT_CAPABILITY:
        text += _how_to_answer(exc.data)
    refused = refused_credentials(exc)
    if isinstance(exc, AuthenticationFailed):
        text = text.partition("; pass a valid token")[0]
    elif refused is not None:
        text = f"authentication failed: {text}"
    if refused is not None or isinstance(exc, AuthenticationFailed):
        return f"{text}; say --header 'Authorization=Bearer TOKEN' with a valid token"
    if isinstance(exc, ConnectionClosed) and not isinstance(exc, ConnectFailed) and exc.exit_code is not None:
        return f"the server {'crashed' if exc.exit_code else 'ended'} before it answered: {text}"
    return text


def _how_to_answer(data: Any) -> str:
    """What makes the command able to do what -32021 says it cannot; ``data`` names the capabilities."""
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    if not isinstance(required, dict):
        return ""
    modes = required.get("elicitation")
    if isinstance(modes, dict):
        return (
            "; call it at a terminal to open the URL, or say --decline"
            if "url" in modes
            else "; say --answer NAME=VALUE or --decline, or call it at a terminal"
        )
    if "roots" in required:
        return "; say --root PATH"
    return "; headrace has no model of its own" if "sampling" in required else ""


def _show_log(message: Any) -> None:
    data = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
    source = f" {message.logger}" if message.logger else ""
    print(harmless(f"[{message.level}]{source}: {data}", sys.stderr), file=sys.stderr)
