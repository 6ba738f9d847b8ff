"""Options that say where a server is reached."""

from __future__ import annotations

import click

from headrace.cli.serving.plan import Group

__all__ = ("group",)


class _Where(Group):
    options = (
        click.option("--http", metavar="HOST:PORT", help="Serve Streamable HTTP; a bare PORT means 127.0.0.1."),
        click.option("--unix", metavar="PATH", help="Serve line streams on a unix socket."),
        click.option("--tcp", metavar="HOST:PORT", help="Serve line streams on TCP."),
    )


group = _Where()
