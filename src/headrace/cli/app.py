"""The command group: loads commands when they are asked for, and turns every failure into a plain line."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any

import click

from headrace._version import __version__

__all__ = ("CommandGroup", "Failure", "WrongArguments", "complain", "complain_as", "harmless", "run")

COMMANDS = {
    "serve": "headrace.cli.serve",
    "ls": "headrace.cli.ls",
    "call": "headrace.cli.call",
    "read": "headrace.cli.read",
    "prompt": "headrace.cli.prompt",
    "listen": "headrace.cli.listen",
    "trace": "headrace.cli.trace",
    "bench": "headrace.cli.bench",
}
"""Name of a command: the module whose ``command`` it is."""

_HELP = """Serve, list, call, watch and measure MCP (Model Context Protocol) servers.

\b
  headrace serve weather.py                            host a server on stdio
  headrace serve weather.py --http 127.0.0.1:8000      host it on a socket
  headrace ls http://127.0.0.1:8000/mcp                what tools a server has
  headrace ls -- headrace serve weather.py             the same of a command
  headrace call http://127.0.0.1:8000/mcp forecast city=Oslo days=3
  headrace call forecast city=Oslo -- weather.py
  headrace read docs://intro -- headrace serve docs.py
  headrace prompt review language=python -- headrace serve prompts.py
  headrace trace -- headrace serve weather.py          every message of a session, both ways
  headrace bench http://127.0.0.1:8000/mcp             how fast it answers, every answer checked

A server is a URL (http://, https://), unix:PATH, tcp:HOST:PORT, a command behind "--", or a name in
a --config file. A single word behind "--" that is file.py, file.py:attr or module:attr, and no program,
is hosted by "headrace serve" in a child process:

\b
  headrace ls -- weather.py
  headrace bench forecast city=Oslo -- weather:app

Exit status: 0 success, 1 the call or the start failed, 2 bad usage, 130 ended by Ctrl-C.
"""


class Failure(click.ClickException):
    """What went wrong while running, as plain text (exit status 1)."""

    exit_code = 1


class WrongArguments(click.UsageError):
    """Bad arguments of a tool (exit status 2): not the command's help explains them, but the tool's schema."""


class _ReaderGone(Exception):
    """Whoever read the output has enough."""


class CommandGroup(click.Group):
    """Imports the module of a command when the command is used."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            raise _ReaderGone from exc  # click would end the process on its own

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


def _group() -> CommandGroup:
    group = CommandGroup(
        "headrace", help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
    )
    return click.version_option(__version__, "-V", "--version", message="headrace %(version)s")(group)


_line_of: Callable[[str, str], str] | None = None


def complain(text: str, level: str = "notice") -> None:
    """One plain line on stderr; line breaks of foreign texts become spaces, and they cannot move the cursor. ``level``
    is ``notice``, ``warning`` or ``error``, and is told where lines are JSON."""
    text = harmless(" ".join(text.split()))
    print(f"headrace: {text}" if _line_of is None else _line_of(text, level), file=sys.stderr)


def complain_as(line_of: Callable[[str, str], str] | None) -> None:
    """Has these lines made by a function of their text and their level; None: as usual."""
    global _line_of
    _line_of = line_of


def harmless(text: str, file: IO[str] | None = None) -> str:
    """A server's text without what moves a terminal's cursor, hides text or changes its order. Unchanged where ``file``
    is no terminal: what reads it there wants it as it is."""
    if text.isprintable() or (file is not None and not file.isatty()):
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text.replace("\r\n", "\n"))


_PIPE_CLOSED = 128 + 13
"""What a shell reports of a program that SIGPIPE ended: whoever read the output has enough."""

_OUTPUT_ERRORS = frozenset((errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF))


def _forget_output() -> None:
    """What is still buffered for standard output goes nowhere, without a complaint of the interpreter."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(arguments: list[str]) -> int:
    """Runs one command line; what follows the first ``--`` is the command of a server. Gives the exit status."""
    command: list[str] | None = None
    complain_as(None)
    if "--" in arguments:
        at = arguments.index("--")
        command = arguments[at + 1 :]
        arguments = arguments[:at]
    try:
        if command == []:
            raise click.UsageError("there is no command behind '--'")
        if command is not None:
            from headrace.cli.target import command_of

            command = command_of(command)
        status = _group().main(arguments, prog_name="headrace", standalone_mode=False, obj=command)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as exc:
        print(exc.format_message())
        return 2
    except WrongArguments as exc:
        complain(exc.format_message())
        return 2
    except click.UsageError as exc:
        # One line: a client that starts us quotes the last one.
        name = f"headrace {arguments[0]}" if arguments and arguments[0] in COMMANDS else "headrace"
        complain(f"{exc.format_message().rstrip('.')} ({name} --help explains)", "error")
        return 2
    except click.ClickException as exc:
        complain(exc.format_message(), "error")
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, _ReaderGone):
        _forget_output()
        return _PIPE_CLOSED
    except OSError as exc:
        _forget_output()
        where = exc.filename or ("standard output" if exc.errno in _OUTPUT_ERRORS else type(exc).__name__)
        complain(f"{where}: {exc.strerror or exc}", "error")
        return 1
    return status if isinstance(status, int) else 0
