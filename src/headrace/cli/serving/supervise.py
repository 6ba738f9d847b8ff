"""``headrace serve --workers``: this process keeps others that serve."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

import click

from headrace.cli.app import Failure, complain
from headrace.cli.options import limits_of
from headrace.cli.serving.plan import Group, Plan

__all__ = ("command_line", "supervise")


def command_line() -> list[str]:
    """What runs this command line again, on this Python with its options."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    if os.path.basename(sys.argv[0]) != "__main__.py" and "-P" not in flags and "-I" not in flags:
        flags.append("-P")  # run as a script: the working directory shadows no module
    return [sys.executable, *flags, "-m", "headrace", *sys.argv[1:]]


def supervise(plan: Plan, groups: Sequence[Group]) -> int:
    """Runs the workers until a signal ends them; gives the exit status. Raises Failure, click.UsageError."""
    from headrace.errors import UsageError
    from headrace.hosting.open_files import raise_limit
    from headrace.hosting.workers.binding import bind
    from headrace.hosting.workers.signals import signals
    from headrace.hosting.workers.supervisor import StartFailed, Supervisor
    from headrace.limits import DEFAULT
    from headrace.transports.address import why_not_bound
    from headrace.transports.run import loop_factory

    options = plan.options
    limits = limits_of(dict(options), DEFAULT)
    where = {name: options[name] for name in ("http", "unix", "tcp")}
    raise_limit()

    def ready(name: str, addresses: list[str]) -> None:
        for group in groups:
            group.ready(plan, addresses)
        workers = f"{options['workers']} worker{'' if options['workers'] == 1 else 's'}"
        for address in addresses:
            complain(f"serving {name} on {address} with {workers}")

    def stopping() -> None:
        for group in groups:
            group.stopping(plan)

    async def main() -> None:
        bound = await bind(**where)
        supervisor = plan.supervisor = Supervisor(
            command_line(),
            options["workers"],
            bound,
            grace=limits.drain_timeout,
            start_timeout=options["start_timeout"],
            hang_timeout=options["hang_timeout"],
            on_stop=stopping,
            say=complain,
            warn=partial(complain, level="warning"),
        )
        with signals(supervisor):
            async with contextlib.AsyncExitStack() as stack:
                for group in groups:
                    await stack.enter_async_context(group.around_workers(plan, supervisor))
                await supervisor.run(ready)

    try:
        with asyncio.Runner(loop_factory=loop_factory(options["loop"])) as runner:
            runner.run(main())
    except UsageError as exc:
        raise click.UsageError(str(exc)) from None
    except StartFailed as exc:
        if exc.told:
            return exc.status
        raise Failure(str(exc)) from None
    except OSError as exc:
        text = why_not_bound(exc)
        addresses = [str(each) for each in where.values() if each]
        if not any(each in text for each in addresses):
            text = f"{', '.join(addresses)}: {text}"
        raise Failure(f"{plan.target} cannot be served: {text}") from exc
    return 0
