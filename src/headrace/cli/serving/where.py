"""Options that say where a server is reached."""

from __future__ import annotations

import click

from headrace.cli.serving.plan import Group

__all__ = ("group",)


class _Where(Group):
    options = (
        click.option(
            "--http",
            metavar="ADDRESS",
            help="Serve Streamable HTTP on HOST:PORT; PORT: 127.0.0.1:PORT. Also unix:PATH, fd:N, fd:NAME, systemd.",
        ),
        click.option("--unix", metavar="PATH", help="Serve line streams on a unix socket."),
        click.option("--tcp", metavar="HOST:PORT", help="Serve line streams on TCP."),
    )


group = _Where()
