"""``headrace serve``: hosts a server object, of headrace or of another SDK, on stdio or on sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from headrace.cli.app import Failure, complain
from headrace.cli.leave import leave_within
from headrace.cli.options import GroupedCommand, limit_options, limits_of
from headrace.cli.target import load_application, load_server

if TYPE_CHECKING:
    from headrace.cli.guest import AsgiGuest, Guest
    from headrace.server.app import Server

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

On a socket one line on stderr tells when it is ready. On stdio the server ends with its input; on a
socket at Ctrl-C or SIGTERM, when requests in flight have been answered (--drain-timeout).
"""


@click.command("serve", cls=GroupedCommand, help=_HELP, short_help="Host a server on stdio or on a socket.")
@click.argument("target")
@click.option("--http", metavar="HOST:PORT", help="Serve Streamable HTTP; a bare PORT means 127.0.0.1.")
@click.option("--unix", metavar="PATH", help="Serve line streams on a unix socket.")
@click.option("--tcp", metavar="HOST:PORT", help="Serve line streams on TCP.")
@click.option("--path", metavar="PATH", default="/mcp", show_default=True, help="The HTTP endpoint.")
@click.option("--beside", metavar="TARGET", help="An ASGI application for all other paths of --http: module:attr.")
@click.option("--allow-host", metavar="HOST", multiple=True, help="Host names HTTP requests may be for. Repeatable.")
@click.option("--allow-origin", metavar="ORIGIN", multiple=True, help="Web origins that may call. Repeatable.")
@click.option("--cors-origin", metavar="ORIGIN", multiple=True, help="Origins that get CORS headers. Repeatable.")
@click.option("--json-only", is_flag=True, help="Answer requests over HTTP with JSON alone: no notes on the way.")
@click.option("--no-resume", is_flag=True, help="HTTP event streams have no ids: clients cannot resume them.")
@click.option(
    "--retry-interval",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    help="How long HTTP clients wait before they resume a stream; their own choice by default.",
)
@click.option(
    "--legacy-sse", is_flag=True, help="Serve the HTTP+SSE transport of 2024-11-05 too, at 'sse' beside the endpoint."
)
@click.option(
    "--sealed-sessions",
    is_flag=True,
    help="HTTP session ids carry their session, sealed under HEADRACE_SECRET: any process that has it serves them.",
)
@click.option("--stateless", is_flag=True, help="No HTTP sessions: every request stands for itself.")
@click.option("--loop", type=click.Choice(["auto", "asyncio", "uvloop"]), default="auto", help="The event loop.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What the server logs to stderr.",
)
@click.option("--traceback", "with_traceback", is_flag=True, help="Show tracebacks of failures.")
@limit_options
@click.pass_context
def command(ctx: click.Context, /, target: str, with_traceback: bool, log_level: str, loop: str, **options: Any) -> int:
    if ctx.obj is not None:
        raise click.UsageError("serve takes a TARGET, not a command behind '--'", ctx)
    if not options["http"]:
        _refuse_http_options(ctx)
    at_terminal = sys.stdin is not None and sys.stdin.isatty()  # asked before standard input is taken over
    on_stdio = not (options["http"] or options["unix"] or options["tcp"])
    with contextlib.ExitStack() as stack:
        claimed = None
        if on_stdio:
            from headrace.errors import HeadraceError
            from headrace.transports.stdio import claim

            # Before the target is imported: what it prints must not reach the protocol (B08).
            try:
                claimed = stack.enter_context(claim())
            except HeadraceError as exc:
                raise Failure(str(exc)) from exc
        given = ctx.get_parameter_source("log_level") is ParameterSource.COMMANDLINE
        with _logging(log_level.upper(), given=given):
            server = load_server(target, with_traceback=with_traceback)
            if options["beside"] is not None:
                options["beside"] = load_application(options["beside"], with_traceback=with_traceback)
        server.set_limits(limits_of(options, server.limits))
        _refuse_what_it_has_not(server, ctx, options)
        _host(server, loop, with_traceback, claimed, at_terminal, options)
    return 0


_OF_HTTP = (
    "path", "beside", "allow_host", "allow_origin", "cors_origin", "json_only", "no_resume", "retry_interval",
    "legacy_sse", "sealed_sessions", "stateless",
)  # fmt: skip


def _refuse_http_options(ctx: click.Context) -> None:
    """What is typed for HTTP must not be passed over in silence where no HTTP is served."""
    if typed := _typed(ctx):
        option = "--" + typed[0].replace("_", "-")
        raise click.UsageError(f"{option} is for HTTP: say --http HOST:PORT as well", ctx)


def _typed(ctx: click.Context) -> list[str]:
    """The options for HTTP that are on the command line."""
    return [name for name in _OF_HTTP if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def _refuse_what_it_has_not(server: Server | Guest | AsgiGuest, ctx: click.Context, options: dict[str, Any]) -> None:
    """A guest is asked whether it can have what was typed, and gets no HTTP option that was not: its own settings
    hold there."""
    from headrace.cli.guest import AsgiGuest, Guest

    if isinstance(server, Guest | AsgiGuest):
        typed = _typed(ctx)
        server.check(options, set(typed))
        options["only"] = typed


def _http_options(options: dict[str, Any]) -> dict[str, Any]:
    """What was typed as :class:`headrace.transports.http_options.HttpOptions`."""
    of = {
        "path": ("path", options["path"]),
        "beside": ("beside", options["beside"]),
        "allow_host": ("allowed_hosts", list(options["allow_host"]) or None),
        "allow_origin": ("allowed_origins", list(options["allow_origin"]) or None),
        "cors_origin": ("cors_origins", list(options["cors_origin"]) or None),
        "json_only": ("json_only", options["json_only"]),
        "no_resume": ("event_store", not options["no_resume"]),
        "retry_interval": ("retry_interval", options["retry_interval"]),
        "legacy_sse": ("legacy_sse", options["legacy_sse"]),
        "sealed_sessions": ("sealed_sessions", options["sealed_sessions"]),
        "stateless": ("stateless", options["stateless"]),
    }
    return dict(of[name] for name in options.get("only", _OF_HTTP))


@contextlib.contextmanager
def _logging(level: str, *, given: bool) -> Iterator[None]:
    """Logs to stderr, from the import of the target on, unless the target configures the logging itself; a level
    that was ``given`` on the command line holds in any case."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.setLevel(level)
    before, logging.lastResort = logging.lastResort, handler
    try:
        yield
    finally:
        logging.lastResort = before
        if not root.handlers:
            root.addHandler(handler)
        if given:
            root.setLevel(level)


def _host(
    server: Server | Guest | AsgiGuest, loop: str, with_traceback: bool, claimed: Any, at_terminal: bool,
    options: dict[str, Any],
) -> None:  # fmt: skip
    from headrace.cli.guest import AsgiGuest, Guest
    from headrace.errors import UsageError
    from headrace.server.hosting import serve
    from headrace.transports.run import run_until_stopped, start_made

    def ready(addresses: list[str]) -> None:
        start_made()
        for address in addresses:
            if address != "stdio":
                complain(f"serving {server.name} on {address}")
            elif at_terminal:
                complain(
                    f"serving {server.name} on stdio (for a client that starts it); "
                    "--http HOST:PORT for HTTP; end with Ctrl-D"
                )

    async def host() -> None:
        status = 1
        try:
            hosting = server.serve if isinstance(server, Guest | AsgiGuest) else partial(serve, server)
            await hosting(
                http=options["http"],
                unix=options["unix"],
                tcp=options["tcp"],
                claimed=claimed,
                on_ready=ready,
                **_http_options(options),
            )
            status = 0
        except asyncio.CancelledError:
            status = 0
            raise
        finally:
            leave_within(server.limits.drain_timeout, status)

    try:
        run_until_stopped(host, loop=loop)
    except UsageError as exc:
        raise click.UsageError(str(exc)) from None
    except KeyboardInterrupt:
        pass  # a loop without signal handlers ends this way; it is an orderly end all the same
    except Exception as exc:
        if with_traceback:
            traceback.print_exception(exc)
        if isinstance(exc, OSError):
            text = str(exc.strerror or exc)
            where = [str(options[way]) for way in ("http", "unix", "tcp") if options[way]]
            if where and not any(each in text for each in where):
                text = f"{exc.filename or ', '.join(where)}: {text}"
            raise Failure(f"{server.name} cannot be served: {text}") from exc
        raise Failure(f"{server.name} failed: {type(exc).__name__}: {exc}") from exc
