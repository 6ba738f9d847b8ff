"""Options of several processes: how many, how long they live, where they run."""

from __future__ import annotations

import random
import socket
from typing import Any

import click

from headrace.cli.serving.plan import Group, Plan

__all__ = ("FD_VARIABLE", "group")

FD_VARIABLE = "HEADRACE_WORKER_FD"
"""Of :mod:`headrace.hosting.workers.worker`, which is imported where it is set."""

MOST = 512


class _Count(click.ParamType[int]):
    name = "workers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value == "auto":
            from headrace.hosting.workers.cpus import usable_cpus

            return usable_cpus()
        if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MOST:
            self.fail(f"{value!r} is neither a number from 1 to {MOST} nor auto.", param, ctx)
        return int(value)


class _Workers(Group):
    options = (
        click.option(
            "--workers",
            metavar="N|auto",
            type=_Count(),
            help="Serve with N processes that share the addresses; auto: one for each processor. SIGHUP replaces them.",
        ),
        click.option(
            "--max-requests",
            metavar="N",
            type=click.IntRange(1),
            help="Replace a worker when it has begun that many requests.",
        ),
        click.option(
            "--max-requests-jitter",
            metavar="N",
            type=click.IntRange(0),
            default=0,
            help="Up to so many more, at random, so that workers are not replaced all at once.",
        ),
        click.option("--pin-cpus", is_flag=True, help="Bind each worker to a processor of its own."),
        click.option(
            "--start-timeout",
            metavar="SECONDS",
            type=click.FloatRange(0, 86_400, min_open=True),
            default=120.0,
            show_default=True,
            help="Within which a worker has to be ready.",
        ),
        click.option(
            "--hang-timeout",
            metavar="SECONDS",
            type=click.FloatRange(0, 86_400, min_open=True),
            help="Kill and replace a worker whose event loop is blocked for so long; never by default.",
        ),
    )

    def check(self, plan: Plan) -> None:
        options = plan.options
        if options["workers"] is None:
            for name in ("max_requests", "max_requests_jitter", "pin_cpus", "start_timeout", "hang_timeout"):
                if plan.typed(name) and plan.worker is None:
                    raise plan.wrong(name, "is for several processes: say --workers N as well")
            return
        if plan.on_stdio:
            raise plan.wrong("workers", "is for servers on sockets: say --http HOST:PORT as well, or --unix or --tcp")
        if options["max_requests_jitter"] and options["max_requests"] is None:
            raise plan.wrong("max_requests_jitter", "is for --max-requests N")
        if not hasattr(socket, "send_fds"):
            raise plan.wrong("workers", "needs a system where processes can pass connections to each other")
        if options["pin_cpus"]:
            from headrace.hosting.workers.cpus import PINNING

            if not PINNING:
                raise plan.wrong("pin_cpus", "is not possible on this system")

    def prepare(self, plan: Plan) -> None:
        """In a worker: what concerns the process and the server in it."""
        from headrace.cli.guest import Guest

        options = plan.options
        if plan.worker is None:
            return
        guest = plan.server if isinstance(plan.server, Guest) and options["http"] else None
        if guest is not None and options["workers"] > 1 and not (options["stateless"] or guest.stateless):
            raise plan.wrong("workers", f"{options['workers']}: {guest.sessions_stay}; say --stateless as well")
        if options["max_requests"] is not None:
            plan.worker.max_requests = options["max_requests"] + random.randint(0, options["max_requests_jitter"])
        if options["pin_cpus"]:
            from headrace.hosting.workers.cpus import pin

            pin(plan.worker.index)


group = _Workers()
