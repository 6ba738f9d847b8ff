"""Options of what is written to standard error."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Iterator

import click

from headrace.cli.app import complain_as
from headrace.cli.serving.plan import Group, Plan

__all__ = ("group", "logging_to_stderr")


def _speak(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Before anything else is looked at: what the command says of itself is in the format, too."""
    complain_as(_as_json if value == "json" else None)
    return value


class _Logs(Group):
    options = (
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="warning",
            show_default=True,
            help="What the server logs to stderr.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["plain", "json"]),
            is_eager=True,
            callback=_speak,
            help="Log lines that say of which request they are, as text or as JSON.",
        ),
        click.option("--access-log", is_flag=True, help="One line on stderr for each request, in the same format."),
        click.option("--traceback", "with_traceback", is_flag=True, help="Show tracebacks of failures."),
    )

    def prepare(self, plan: Plan) -> None:
        from headrace.cli.guest import AsgiGuest

        if plan.options["access_log"] and isinstance(plan.server, AsgiGuest):
            raise plan.wrong("access_log", f"is for MCP servers: {plan.server.name} is an ASGI application")

    @contextlib.asynccontextmanager
    async def around(self, plan: Plan) -> AsyncIterator[None]:
        log_format, access = plan.options["log_format"], None
        ends = []
        if log_format is not None or plan.options["access_log"]:
            from headrace.hosting.access_log import AccessLog
            from headrace.hosting.logs import RequestContext
            from headrace.transports.runtime import observe_all

            if log_format is not None:
                ends.append(observe_all(RequestContext()))
            if plan.options["access_log"]:
                access = AccessLog(as_json=log_format == "json")
                ends.append(observe_all(access))
        try:
            yield
        finally:
            for end in ends:
                end()
            if access is not None:
                access.flush()


def _as_json(text: str, level: str) -> str:
    from headrace.hosting.logs import encoded, stamp

    text = text.removeprefix("warning: ")
    return encoded({"time": stamp(time.time()), "level": level, "logger": "headrace", "message": text})


def _configure(handler: logging.Handler, log_format: str | None) -> None:
    if log_format is None:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        return
    from headrace.hosting.logs import JsonFormatter, PlainFormatter, RequestFilter

    handler.setFormatter(JsonFormatter() if log_format == "json" else PlainFormatter())
    handler.addFilter(RequestFilter())


@contextlib.contextmanager
def logging_to_stderr(level: str, *, given: bool, log_format: str | None = None) -> Iterator[None]:
    """Logs to stderr, from the import of the target on, unless the target configures the logging itself; a level
    that was ``given``, and a format, hold in any case: handlers of the target that write to stderr get that format."""
    handler = logging.StreamHandler(sys.stderr)
    _configure(handler, log_format)
    root = logging.getLogger()
    root.setLevel(level)
    before, logging.lastResort = logging.lastResort, handler
    try:
        yield
    finally:
        logging.lastResort = before
        if not root.handlers:
            root.addHandler(handler)
        elif log_format is not None:
            for each in root.handlers:
                if isinstance(each, logging.StreamHandler) and each.stream in (sys.stderr, sys.__stderr__):
                    _configure(each, log_format)
        if given:
            root.setLevel(level)


group = _Logs()
