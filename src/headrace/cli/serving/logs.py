"""Options of what is written to standard error."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

import click

from headrace.cli.serving.plan import Group

__all__ = ("group", "logging_to_stderr")


class _Logs(Group):
    options = (
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="warning",
            show_default=True,
            help="What the server logs to stderr.",
        ),
        click.option("--traceback", "with_traceback", is_flag=True, help="Show tracebacks of failures."),
    )


@contextlib.contextmanager
def logging_to_stderr(level: str, *, given: bool) -> Iterator[None]:
    """Logs to stderr, from the import of the target on, unless the target configures the logging itself; a level
    that was ``given`` holds in any case."""
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


group = _Logs()
