"""The option for OpenTelemetry. Where spans go is said as for any program: by OTEL_... variables."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from importlib.metadata import entry_points
from typing import Any

import click

from headrace.cli.app import Failure
from headrace.cli.serving.plan import Group, Plan

__all__ = ("group",)

_LAST_SPANS = 2.0
"""Seconds that the last spans have to leave at the end."""

_PACKAGES = {
    "otlp_proto_http": "opentelemetry-exporter-otlp-proto-http",
    "otlp_proto_grpc": "opentelemetry-exporter-otlp-proto-grpc",
}


class _Tracing(Group):
    options = (
        click.option("--otel", is_flag=True, help="Trace requests with OpenTelemetry, as its OTEL_... variables say."),
    )

    def check(self, plan: Plan) -> None:
        if plan.options["otel"]:
            try:
                import opentelemetry.sdk.trace
                import opentelemetry.trace  # noqa: F401
            except ImportError:
                raise Failure("--otel needs OpenTelemetry: pip install 'headrace[otel]'") from None

    def prepare(self, plan: Plan) -> None:
        from headrace.cli.guest import AsgiGuest

        if plan.options["otel"] and isinstance(plan.server, AsgiGuest):
            raise plan.wrong("otel", f"is for MCP servers: {plan.server.name} is an ASGI application")

    @contextlib.asynccontextmanager
    async def around(self, plan: Plan) -> AsyncIterator[None]:
        if not plan.options["otel"]:
            yield
            return
        from opentelemetry import trace

        from headrace.hosting.tracing import Tracing
        from headrace.transports.runtime import observe_all

        provider = None
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # the target has set none
            provider = _provider(plan)
            trace.set_tracer_provider(provider)
        end = observe_all(Tracing())
        try:
            yield
        finally:
            end()
            if provider is not None:
                await _bounded(provider.shutdown)


def _provider(plan: Plan) -> Any:
    """A provider as the environment describes it; the server's name is the service's, unless that is said."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    server = plan.server
    assert server is not None
    facts: dict[str, Any] = {}
    if not os.environ.get("OTEL_SERVICE_NAME") and "service.name=" not in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        facts["service.name"] = server.name
        if version := getattr(server, "version", None):
            facts["service.version"] = str(version)
    if plan.worker is not None:
        facts["headrace.worker"] = plan.worker.index
    exporters = [_exporter(name) for name in _exporter_names()]
    provider = TracerProvider(resource=Resource.create(facts), shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter_names() -> list[str]:
    said = [name.strip() for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(",")]
    names = []
    for name in said:
        if name in ("", "none"):
            continue
        if name == "otlp":
            protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
                "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
            )
            name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
        names.append(name)
    return names


def _exporter(name: str) -> Any:
    for found in entry_points(group="opentelemetry_traces_exporter", name=name):
        try:
            return found.load()()
        except Exception as exc:
            raise Failure(f"--otel: the exporter {name} cannot be used: {type(exc).__name__}: {exc}") from exc
    package = _PACKAGES.get(name)
    hint = f"pip install {package}" if package is not None else "OTEL_TRACES_EXPORTER names it"
    raise Failure(f"--otel: there is no exporter {name} ({hint})")


async def _bounded(function: Any) -> None:
    """Runs what may wait for a network that is not there, for a short time."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        with contextlib.suppress(Exception):
            function()
        with contextlib.suppress(RuntimeError):  # the loop has gone on without it
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="headrace-spans", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(done.wait(), _LAST_SPANS)


group = _Tracing()
