"""What one ``headrace serve`` is going to do, and the groups of options that decide it.

Each group of options is one file of this package: it declares its options, refuses what contradicts itself before
the target is loaded, writes down what it means once the server is known, and keeps what it runs around the serving.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from headrace.cli.options import source_of

if TYPE_CHECKING:
    from headrace.cli.guest import AsgiGuest, Guest
    from headrace.hosting.metrics import Metrics
    from headrace.hosting.workers.supervisor import Supervisor
    from headrace.hosting.workers.worker import Worker
    from headrace.server.app import Server
    from headrace.transports.health import Health

__all__ = ("Group", "Plan")


class Plan:
    """One run of the command. ``options`` are all values by name; ``server`` is set once the target is loaded."""

    def __init__(self, ctx: click.Context, target: str, options: dict[str, Any]) -> None:
        self.ctx = ctx
        self.target = target
        self.options = options
        self.server: Server | Guest | AsgiGuest | None = None
        self.worker: Worker | None = None
        """This process as a worker of ``--workers``, which serves what another process accepts."""
        self.supervisor: Supervisor | None = None
        """That other process has it: it never loads the server."""
        self.http: dict[str, Any] = {}
        """Options of the HTTP endpoint, see :class:`headrace.transports.http_options.HttpOptions`."""
        self.health: Health | None = None
        """Whether the server is ready, once the target is loaded."""
        self.metrics: Metrics | None = None
        """What counts in this process, where metrics are wanted."""

    @property
    def on_stdio(self) -> bool:
        """No address was given: standard input and output are served."""
        return not (self.options["http"] or self.options["unix"] or self.options["tcp"])

    def typed(self, name: str) -> bool:
        """Whether the option was given, on the command line or in the environment, and is no default."""
        source = self.ctx.get_parameter_source(name)
        return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

    def wrong(self, option: str, text: str) -> click.UsageError:
        """The error for a wrong use of ``--option``, to be raised: one line, status 2. It names the environment
        variable where that gave it."""
        return click.UsageError(f"{self.name_of(option)} {text}", self.ctx)

    def name_of(self, option: str) -> str:
        """What messages call an option: ``--option``, or the environment variable that gave it."""
        return source_of(self.ctx, option)


class Group:
    """Some options of ``headrace serve`` that belong together."""

    options: tuple[Callable[..., Any], ...] = ()
    """What ``click.option`` makes, in the order of the help."""

    def check(self, plan: Plan) -> None:
        """Raises :class:`click.UsageError` for what cannot be meant, before the target is loaded."""

    def prepare(self, plan: Plan) -> None:
        """Writes down what the options mean, now that ``plan.server`` is known. Raises as :meth:`check`."""

    def ready(self, plan: Plan, addresses: list[str]) -> None:
        """All addresses accept connections now. Called in the supervisor too, when all workers are ready."""

    def stopping(self, plan: Plan) -> None:
        """A signal, or the supervisor, ended the serving: from now on it drains. Called in the supervisor too."""

    @contextlib.asynccontextmanager
    async def around(self, plan: Plan) -> AsyncIterator[None]:
        """Runs on the server's loop around its serving: entered before anything is opened, left when all is closed."""
        yield

    @contextlib.asynccontextmanager
    async def around_workers(self, plan: Plan, supervisor: Supervisor) -> AsyncIterator[None]:
        """The same in the supervisor: entered before the first worker starts, left when all have ended."""
        yield
