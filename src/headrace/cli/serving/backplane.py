"""Options of what several processes of a server share, on one machine or on many."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import click

from headrace.cli.app import Failure, complain
from headrace.cli.serving.plan import Group, Plan

__all__ = ("group",)

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NEEDS = "this server runs as several processes that share nothing; the option --backplane URL lets them share"


class _Backplane(Group):
    options = (
        click.option(
            "--backplane",
            metavar="URL",
            help="The Redis in which processes share sessions, changes and tasks: redis://HOST:PORT and others.",
        ),
        click.option("--backplane-optional", is_flag=True, help="Start without it when it cannot be reached."),
        click.option(
            "--backplane-prefix",
            metavar="NAME",
            help="Begins all keys; who has the same is one server. By default headrace: and the name of the server.",
        ),
    )

    def check(self, plan: Plan) -> None:
        options = plan.options
        several = (options["workers"] or 1) > 1
        if several and options["legacy_sse"]:
            raise plan.wrong("legacy_sse", "is for one process: what is posted could reach another than the stream's")
        if options["backplane"] is None:
            for name in ("backplane_optional", "backplane_prefix"):
                if plan.typed(name):
                    raise plan.wrong(name, "is for --backplane URL")
            return
        if plan.on_stdio:
            raise plan.wrong("backplane", "is for servers on sockets: say --http HOST:PORT as well, or --unix or --tcp")
        prefix = options["backplane_prefix"]
        if prefix is not None and not _PREFIX.fullmatch(prefix):
            raise plan.wrong(
                "backplane_prefix",
                f"{prefix!r}: up to 64 letters, digits and the characters _ . : - are accepted",
            )
        from headrace.errors import UsageError
        from headrace.hosting.backplane.redis_url import RedisUrl

        try:
            RedisUrl(options["backplane"])
        except UsageError as exc:
            raise Failure(f"{plan.name_of('backplane')}: {exc}") from None

    def prepare(self, plan: Plan) -> None:
        options = plan.options
        setter = getattr(plan.server, "set_backplane", None)
        if options["backplane"] is not None:
            if setter is None:
                why = getattr(plan.server, "sessions_stay", "an ASGI application shares nothing with other processes")
                raise plan.wrong("backplane", f"cannot be used here: {why}")
            from headrace.hosting.backplane.redis import RedisBackplane

            prefix = options["backplane_prefix"] or _prefix_of(plan.server.name)  # type: ignore[union-attr]
            setter(RedisBackplane(options["backplane"], prefix=prefix, optional=options["backplane_optional"]))
        elif (options["workers"] or 1) > 1 and setter is not None:
            plan.server.share_nothing(_NEEDS)  # type: ignore[union-attr]
            if options["http"] and not options["stateless"]:
                plan.http["sealed_sessions"] = True

    def ready(self, plan: Plan, addresses: list[str]) -> None:
        """The supervisor learns what this worker is called among the processes, for when it dies; and says once what
        workers that share nothing cannot do."""
        options = plan.options
        if plan.supervisor is not None and options["backplane"] is None and options["workers"] > 1:
            complain(
                "warning: several workers without --backplane: HTTP session ids carry their sessions; tasks, "
                "subscriptions, and questions to clients before 2026-07-28 are not offered"
                if not options["stateless"]
                else "warning: several workers without --backplane: tasks and subscriptions are not offered",
                "warning",
            )
        backplane = getattr(plan.server, "backplane", None)
        if backplane is not None and plan.worker is not None and plan.worker.line is not None:
            plan.worker.line.send("named", worker=backplane.worker)

    @contextlib.asynccontextmanager
    async def around(self, plan: Plan) -> AsyncIterator[None]:
        from headrace.protocol.backplane import BackplaneLost

        backplane = getattr(plan.server, "backplane", None)
        burials: set[asyncio.Task[None]] = set()
        if backplane is not None and plan.worker is not None and plan.worker.line is not None:

            def died(fields: dict[str, Any]) -> None:
                task = asyncio.get_running_loop().create_task(_bury(backplane, fields["worker"]))
                burials.add(task)
                task.add_done_callback(burials.discard)

            plan.worker.line.on("died", died)
        try:
            yield
        except BackplaneLost as exc:
            if backplane is None or (backplane.worker and backplane.available):
                raise
            raise Failure(f"{plan.name_of('backplane')}: {exc}") from exc
        finally:
            for task in burials:
                task.cancel()


def _prefix_of(name: str) -> str:
    """Two servers in one Redis must not take each other's sessions and tasks for theirs."""
    return "headrace:" + re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:48]


async def _bury(backplane: Any, worker: str) -> None:
    """Its lease would end by itself; nobody needs to wait for that."""
    with contextlib.suppress(OSError):
        await backplane.bury(worker)


group = _Backplane()
