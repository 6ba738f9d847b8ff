"""Hosts the server of a plan in this process, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from headrace.cli.app import Failure, complain
from headrace.cli.guest import AsgiGuest, Guest
from headrace.cli.leave import leave_within
from headrace.cli.serving.plan import Group, Plan

__all__ = ("host",)


def host(plan: Plan, groups: Sequence[Group], *, claimed: Any, at_terminal: bool) -> None:
    """Serves ``plan.server``, with what each of ``groups`` runs around it. ``claimed`` is the claim of standard
    input and output, if these are served; ``at_terminal``: somebody sits there. Raises Failure, click.UsageError."""
    from headrace.errors import UsageError
    from headrace.hosting.open_files import raise_limit
    from headrace.server.hosting import serve
    from headrace.transports.address import why_not_bound
    from headrace.transports.run import run_until_stopped, start_made

    server, options = plan.server, plan.options
    assert server is not None
    worker = plan.worker
    where = {name: options[name] for name in ("http", "unix", "tcp")}
    if any(where.values()):
        raise_limit()

    def ready(addresses: list[str]) -> None:
        start_made()
        for group in groups:
            group.ready(plan, addresses)
        if worker is not None:
            worker.ready(server.name, addresses, grace=server.limits.drain_timeout)
            return
        for address in addresses:
            if address != "stdio":
                complain(f"serving {server.name} on {address}")
            elif at_terminal:
                complain(
                    f"serving {server.name} on stdio (for a client that starts it); "
                    "--http HOST:PORT for HTTP; end with Ctrl-D"
                )

    def stopping() -> None:
        for group in groups:
            group.stopping(plan)

    async def serving() -> None:
        status = 1
        try:
            hosting = server.serve if isinstance(server, Guest | AsgiGuest) else partial(serve, server)
            everything = partial(hosting, **where, claimed=claimed, on_ready=ready, **plan.http)
            async with contextlib.AsyncExitStack() as stack:
                if worker is not None:
                    grace = server.limits.drain_timeout
                    await stack.enter_async_context(worker.connected(grace=grace, on_stop=stopping))
                for group in groups:
                    await stack.enter_async_context(group.around(plan))
                await (everything() if worker is None else worker.run(everything))
            status = 0
        except asyncio.CancelledError:
            status = 0
            raise
        finally:
            # Of a worker the supervisor has waited long enough already.
            leave_within(
                server.limits.drain_timeout if worker is None else min(server.limits.drain_timeout, 1.0), status
            )

    try:
        run_until_stopped(serving, loop=options["loop"], on_stop=stopping)
    except UsageError as exc:
        raise click.UsageError(str(exc)) from None
    except KeyboardInterrupt:
        pass  # a loop without signal handlers ends this way; it is an orderly end all the same
    except Exception as exc:
        if options["with_traceback"]:
            traceback.print_exception(exc)
        if isinstance(exc, Failure):
            raise
        if isinstance(exc, OSError):
            text = why_not_bound(exc)
            addresses = [str(each) for each in where.values() if each]
            if addresses and not any(each in text for each in addresses):
                text = f"{', '.join(addresses)}: {text}"
            raise Failure(f"{server.name} cannot be served: {text}") from exc
        raise Failure(f"{server.name} failed: {type(exc).__name__}: {exc}") from exc
