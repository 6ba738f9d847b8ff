"""``headrace serve``: hosts a server object, of headrace or of another SDK, on stdio or on sockets."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import click

from headrace.cli.app import Failure
from headrace.cli.options import GroupedCommand, limit_options, limits_of
from headrace.cli.serving import GROUPS, Plan, serve_options
from headrace.cli.serving.logs import logging_to_stderr
from headrace.cli.serving.workers import FD_VARIABLE
from headrace.cli.target import load_server

__all__ = ("command",)

_HELP = """Host the server TARGET: on stdio, or where the options say.

TARGET is module:attr, file.py or file.py:attr; attr may be a function that makes the server. Without attr it
is "app", "mcp", "server", or the only server of the module. Servers of the official SDK (MCPServer, FastMCP,
low-level Server) and of FastMCP are hosted as they are, and so is an ASGI application, with --http.

\b
  headrace serve weather.py
  headrace serve weather:app --http 127.0.0.1:8000
  headrace serve weather.py --http 8000 --unix /run/weather.sock
  headrace serve weather.py --http 0.0.0.0:8000 --allow-host weather.example.com
  headrace serve weather.py --http 8000 --workers auto

On a socket one line on stderr tells when it is ready. On stdio the server ends with its input; on a
socket at Ctrl-C or SIGTERM, when requests in flight have been answered (--grace). With --workers, SIGHUP
replaces the processes one by one: no connection is refused, no call fails.
"""


@click.command("serve", cls=GroupedCommand, help=_HELP, short_help="Host a server on stdio or on a socket.")
@click.argument("target")
@serve_options
@click.option("--loop", type=click.Choice(["auto", "asyncio", "uvloop"]), default="auto", help="The event loop.")
@limit_options
@click.pass_context
def command(ctx: click.Context, /, target: str, **options: Any) -> int:
    if ctx.obj is not None:
        raise click.UsageError("serve takes a TARGET, not a command behind '--'", ctx)
    plan = Plan(ctx, target, options)
    if FD_VARIABLE in os.environ:
        from headrace.hosting.workers.worker import current

        plan.worker = current()
    for group in GROUPS:
        group.check(plan)
    if options["workers"] is not None and plan.worker is None:
        from headrace.cli.serving.supervise import supervise

        return supervise(plan, GROUPS)
    at_terminal = sys.stdin is not None and sys.stdin.isatty()  # asked before standard input is taken over
    with contextlib.ExitStack() as stack:
        claimed = None
        if plan.on_stdio:
            from headrace.errors import HeadraceError
            from headrace.transports.stdio import claim

            # Before the target is imported: what it prints must not reach the protocol (B08).
            try:
                claimed = stack.enter_context(claim())
            except HeadraceError as exc:
                raise Failure(str(exc)) from exc
        with logging_to_stderr(
            options["log_level"].upper(), given=plan.typed("log_level"), log_format=options["log_format"]
        ):
            plan.server = load_server(target, with_traceback=options["with_traceback"])
            plan.server.set_limits(limits_of(options, plan.server.limits))
            for group in GROUPS:
                group.prepare(plan)
        from headrace.cli.serving.run import host

        host(plan, GROUPS, claimed=claimed, at_terminal=at_terminal)
    return 0
