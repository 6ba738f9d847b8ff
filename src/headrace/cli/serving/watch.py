"""Options of being seen from outside: whether the server is ready, and its metrics."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import click

from headrace.cli.app import Failure, complain
from headrace.cli.serving.plan import Group, Plan

if TYPE_CHECKING:
    from headrace.hosting.metrics import Metrics
    from headrace.hosting.workers.supervisor import Supervisor

__all__ = ("group",)

_ASKERS = 128
"""Connections to an address that only shows metrics."""


class _Watch(Group):
    options = (
        click.option(
            "--metrics",
            metavar="HOST:PORT|/PATH",
            help="Metrics for Prometheus: on an address of their own (at /metrics), or at a path of --http.",
        ),
        click.option(
            "--health/--no-health",
            default=True,
            show_default=True,
            help="Answer /healthz and /readyz on --http (and on the address of --metrics).",
        ),
    )

    def check(self, plan: Plan) -> None:
        """Whether the metrics can be where they are wanted."""
        where = plan.options["metrics"]
        if where is None:
            return
        if where.startswith("/"):
            if not plan.options["http"]:
                raise plan.wrong("metrics", f"{where} is a path of HTTP: say --http HOST:PORT as well")
            if not where.isascii() or any(c in where for c in " ?#") or where in (plan.options["path"], "/"):
                raise plan.wrong("metrics", f"{where!r}: a path of its own, without a space, ? or #, is accepted")
        else:
            _address(plan, where)
        from headrace.errors import UsageError
        from headrace.hosting.metrics_page import require

        try:
            require()
        except UsageError as exc:
            raise Failure(f"--metrics: {exc}") from None

    def prepare(self, plan: Plan) -> None:
        """Puts health and a path of metrics beside the endpoint. An application that is served has its own paths
        first, unless --health was typed."""
        from headrace.cli.guest import AsgiGuest, Guest
        from headrace.transports.health import Health

        beside = plan.http.get("beside")
        yields = not plan.typed("health") and (beside is not None or isinstance(plan.server, Guest | AsgiGuest))
        if plan.worker is None:
            plan.health = Health(yields=yields)
        else:
            from headrace.hosting.health import WorkerHealth

            plan.health = WorkerHealth(plan.worker, yields=yields)
        if plan.options["http"] and plan.options["health"]:
            plan.http["health"] = plan.health
        where = plan.options["metrics"]
        if where is None:
            return
        from headrace.hosting.metrics import Metrics
        from headrace.hosting.metrics_page import Page

        metrics = plan.metrics = Metrics()
        if not where.startswith("/"):
            return
        if isinstance(plan.server, AsgiGuest):
            plan.server.put_behind(lambda app: Page(_asking(plan, metrics), path=where, beside=app))
        else:
            # Where routes of a guest come first, this answers for the endpoint.
            health = plan.http.get("health") if beside is None else None
            plan.http["beside"] = Page(_asking(plan, metrics), path=where, health=health, beside=beside)

    def ready(self, plan: Plan, addresses: list[str]) -> None:
        """From now on ``/readyz`` is 200."""
        if plan.health is not None:
            plan.health.started()

    def stopping(self, plan: Plan) -> None:
        """From now on it is 503."""
        if plan.health is not None:
            plan.health.draining()

    @contextlib.asynccontextmanager
    async def around(self, plan: Plan) -> AsyncIterator[None]:
        """Counts, and shows what was counted until the very end of the server; a worker tells its supervisor."""
        metrics = plan.metrics
        if metrics is None:
            yield
            return
        where = plan.options["metrics"]
        async with contextlib.AsyncExitStack() as stack:
            if plan.worker is not None:
                from headrace.hosting.metrics_workers import telling

                assert plan.worker.line is not None
                stack.enter_context(telling(plan.worker.line, metrics))
            elif not where.startswith("/"):
                await stack.enter_async_context(_served(plan, where, _asking(plan, metrics)))
            stack.enter_context(metrics.hosting())
            yield

    @contextlib.asynccontextmanager
    async def around_workers(self, plan: Plan, supervisor: Supervisor) -> AsyncIterator[None]:
        """Collects what the workers count, and shows it."""
        where = plan.options["metrics"]
        if where is None:
            yield
            return
        from headrace.hosting.health import SupervisorHealth
        from headrace.hosting.metrics_workers import Collecting

        plan.health = SupervisorHealth(supervisor)
        text = Collecting(supervisor).text
        async with contextlib.nullcontext() if where.startswith("/") else _served(plan, where, text):
            yield


Ask = Callable[[str], Awaitable[tuple[bytes, str]]]


def _asking(plan: Plan, metrics: Metrics) -> Ask:
    """What gives the text of a page that this process shows."""
    from headrace.hosting.metrics import Totals
    from headrace.hosting.metrics_page import text_of

    worker = plan.worker
    if worker is not None:
        from headrace.hosting.metrics_workers import asking_supervisor

        return asking_supervisor(lambda: worker.line)

    async def ask(accept: str) -> tuple[bytes, str]:
        return text_of(Totals.alone(metrics.figures()), accept)

    return ask


def _address(plan: Plan, where: str) -> tuple[str, int]:
    from headrace.errors import UsageError
    from headrace.transports.address import parse_address

    try:
        return parse_address(where)
    except UsageError:
        raise plan.wrong("metrics", f"{where!r}: use HOST:PORT, a PORT on 127.0.0.1, or a /PATH of --http") from None


@contextlib.asynccontextmanager
async def _served(plan: Plan, where: str, ask: Ask) -> AsyncIterator[None]:
    """The page of the metrics at an address of its own, and health beside it. Raises Failure where that is taken."""
    from headrace.hosting.metrics_page import Page
    from headrace.limits import Limits
    from headrace.transports.address import why_not_bound
    from headrace.transports.asgi import serve

    # Few ask for it; whoever opens more shall not take the descriptors of those who call.
    limits = Limits(max_connections=_ASKERS, max_message_bytes=65_536, max_in_flight=_ASKERS)
    host, port = _address(plan, where)
    health = plan.health if plan.options["health"] else None
    try:
        listener = await serve(Page(ask, health=health), host=host, port=port, limits=limits)
    except OSError as exc:
        text = why_not_bound(exc)
        raise Failure(f"--metrics {text if where in text else f'{where}: {text}'}") from exc
    complain(f"metrics on {listener.url}/metrics")
    try:
        yield
    finally:
        await listener.close()


group = _Watch()
