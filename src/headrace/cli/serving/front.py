"""Options for what stands in front of a server: TLS, proxies, and the service manager that starts it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import click

from headrace.cli.app import Failure, complain
from headrace.cli.serving.plan import Group, Plan
from headrace.transports import systemd

if TYPE_CHECKING:
    from headrace.hosting.workers.supervisor import Supervisor

__all__ = ("group",)

log = logging.getLogger("headrace")

_MEANING = ("certfile", "keyfile", "keyfile_password_file", "proxy_protocol", "forwarded_allow_ips", "forwarded_header")


class _Front(Group):
    options = (
        click.option("--certfile", metavar="FILE", help="Serve HTTPS with this certificate chain (PEM)."),
        click.option("--keyfile", metavar="FILE", help="Its private key; --certfile may hold it too."),
        click.option("--keyfile-password-file", metavar="FILE", help="A file whose first line opens the key."),
        click.option(
            "--forwarded-allow-ips",
            metavar="ADDRESSES",
            multiple=True,
            help="Proxies whose X-Forwarded-For and -Proto are believed: addresses, networks, unix, or *. Repeatable.",
        ),
        click.option(
            "--forwarded-header",
            type=click.Choice(["x-forwarded-for", "forwarded"]),
            default="x-forwarded-for",
            show_default=True,
            help="The one of the two that these proxies write.",
        ),
        click.option(
            "--proxy-protocol",
            is_flag=True,
            help="Every HTTP connection begins with a PROXY header (v1 or v2). For ports only a balancer reaches.",
        ),
    )

    def check(self, plan: Plan) -> None:
        options = plan.options
        typed = [name for name in _MEANING if plan.typed(name)]
        if typed and not options["http"]:
            raise plan.wrong(typed[0], "is for HTTP: say --http HOST:PORT as well")
        for name in ("keyfile", "keyfile_password_file"):
            if options[name] is not None and options["certfile"] is None:
                raise plan.wrong(name, f"{options[name]}: say --certfile FILE as well")
        if plan.typed("forwarded_header") and not options["forwarded_allow_ips"]:
            raise plan.wrong("forwarded_header", "is believed from nobody: say --forwarded-allow-ips as well")
        from headrace.errors import UsageError
        from headrace.transports.forwarded import Trusted

        try:
            Trusted(_entries(options["forwarded_allow_ips"]))
        except UsageError as exc:
            raise plan.wrong("forwarded_allow_ips", str(exc).removeprefix("trusted proxy ")) from None

    def prepare(self, plan: Plan) -> None:
        from headrace.transports.tls import Certificate, CertificateError

        options = plan.options
        if options["certfile"] is not None:
            try:
                plan.http["ssl"] = Certificate(
                    options["certfile"], options["keyfile"], options["keyfile_password_file"]
                )
            except CertificateError as exc:
                said = str(exc).replace("no keyfile", "no --keyfile").replace("is keyfile", "is --keyfile")
                raise Failure("--" + said.replace("keyfile password file", "keyfile-password-file")) from None
        if options["proxy_protocol"]:
            plan.http["proxy_protocol"] = True
        if options["forwarded_allow_ips"]:
            plan.http["forwarded_allow_ips"] = _entries(options["forwarded_allow_ips"])
            plan.http["forwarded_header"] = options["forwarded_header"]

    def ready(self, plan: Plan, addresses: list[str]) -> None:
        if plan.worker is not None:
            return  # its supervisor speaks with the service manager, and reloads by starting others
        where = ", ".join(addresses)
        systemd.notify(f"READY=1\nSTATUS=serving {plan.server.name if plan.server else plan.target} on {where}")

    def stopping(self, plan: Plan) -> None:
        if plan.worker is None:
            systemd.notify("STOPPING=1\nSTATUS=finishing what is in flight")

    @contextlib.asynccontextmanager
    async def around(self, plan: Plan) -> AsyncIterator[None]:
        if plan.worker is not None:
            yield
            return
        loop = asyncio.get_running_loop()
        certificate = plan.http.get("ssl")
        # Without either a SIGHUP means what it means to any program: its terminal is gone.
        reloads = hasattr(signal, "SIGHUP") and (certificate is not None or bool(os.environ.get("NOTIFY_SOCKET")))
        if reloads:
            loop.add_signal_handler(signal.SIGHUP, _reload, certificate)
        try:
            with _watchdog():
                yield
        finally:
            if reloads:
                loop.remove_signal_handler(signal.SIGHUP)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end is near: it must not become a sudden one

    @contextlib.asynccontextmanager
    async def around_workers(self, plan: Plan, supervisor: Supervisor) -> AsyncIterator[None]:
        supervisor.on_roll = _rolls
        with _watchdog():
            yield


def _rolls(begins: bool) -> None:
    if begins:
        systemd.reloading()
    else:
        systemd.notify("READY=1")


@contextlib.contextmanager
def _watchdog() -> Iterator[None]:
    """Tells the service manager again and again that the loop runs: what blocks the loop keeps it from being told."""
    loop = asyncio.get_running_loop()
    interval = systemd.watchdog_interval()
    timer: asyncio.TimerHandle | None = None

    def alive() -> None:
        nonlocal timer
        assert interval is not None
        systemd.notify("WATCHDOG=1")
        timer = loop.call_later(interval / 2, alive)

    if interval is not None:
        alive()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def _reload(certificate: object) -> None:
    from headrace.transports.tls import Certificate, CertificateError

    systemd.reloading()
    try:
        if isinstance(certificate, Certificate):
            certificate.reload()
            complain(f"the certificate was read again: {certificate.certfile}")
    except CertificateError as exc:
        log.error("the certificate stays as it was: %s", exc)
    finally:
        systemd.notify("READY=1")


def _entries(given: tuple[str, ...]) -> list[str]:
    """Each may be a list with commas: in an environment variable there is no other way."""
    return [entry.strip() for each in given for entry in each.split(",")]


group = _Front()
