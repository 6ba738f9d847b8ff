"""Options that say where a server is reached."""

from __future__ import annotations

import click

from headrace.cli.serving.plan import Group, Plan

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

    def check(self, plan: Plan) -> None:
        """Before the target is loaded, and before a supervisor binds anything."""
        from headrace.errors import UsageError
        from headrace.transports.address import http_address, parse_address

        for name, read in (("http", http_address), ("unix", _path), ("tcp", parse_address)):
            if plan.options[name] is not None:
                try:
                    read(plan.options[name])
                except UsageError as exc:
                    raise plan.wrong(name, str(exc)) from None


def _path(text: str) -> None:
    """An empty one would be an address that the system makes up."""
    from headrace.errors import UsageError

    if not text or "\0" in text:
        raise UsageError(f"{text!r}: the path of a socket is needed")


group = _Where()
