"""Options of the HTTP endpoint: its path, who may call, how sessions and streams behave."""

from __future__ import annotations

import os

import click

from headrace.cli.serving.plan import Group, Plan
from headrace.cli.target import load_application

__all__ = ("group",)

_MEANING = {
    "path": "path",
    "allow_host": "allowed_hosts",
    "allow_origin": "allowed_origins",
    "cors": "cors_origins",
    "cors_origin": "cors_origins",
    "json_only": "json_only",
    "no_resume": "event_store",
    "retry_interval": "retry_interval",
    "legacy_sse": "legacy_sse",
    "sealed_sessions": "sealed_sessions",
    "stateless": "stateless",
    "beside": "beside",
}
"""Name of an option: what it sets of :class:`headrace.transports.http_options.HttpOptions`."""

_GUARDS = {name: meaning for name, meaning in _MEANING.items() if meaning.startswith(("allowed_", "cors_"))}


class _Endpoint(Group):
    options = (
        click.option("--path", metavar="PATH", default="/mcp", show_default=True, help="The HTTP endpoint."),
        click.option(
            "--beside", metavar="TARGET", help="An ASGI application for all other paths of --http: module:attr."
        ),
        click.option(
            "--allow-host", metavar="HOST", multiple=True, help="Host names HTTP requests may be for. Repeatable."
        ),
        click.option("--allow-origin", metavar="ORIGIN", multiple=True, help="Web origins that may call. Repeatable."),
        click.option(
            "--cors",
            metavar="ORIGIN",
            multiple=True,
            help="Web origins whose pages may call and read the answers, or * for all. Repeatable.",
        ),
        click.option("--cors-origin", metavar="ORIGIN", multiple=True, hidden=True),
        click.option(
            "--json-only", is_flag=True, help="Answer requests over HTTP with JSON alone: no notes on the way."
        ),
        click.option("--no-resume", is_flag=True, help="HTTP event streams have no ids: clients cannot resume them."),
        click.option(
            "--retry-interval",
            metavar="SECONDS",
            type=click.FloatRange(0, 3600),
            help="How long HTTP clients wait before they resume a stream; their own choice by default.",
        ),
        click.option(
            "--legacy-sse",
            is_flag=True,
            help="Serve the HTTP+SSE transport of 2024-11-05 too, at 'sse' beside the endpoint.",
        ),
        click.option(
            "--sealed-sessions",
            is_flag=True,
            help="HTTP session ids carry their session, sealed under HEADRACE_SECRET, for any process that has it.",
        ),
        click.option("--stateless", is_flag=True, help="No HTTP sessions: every request stands for itself."),
    )

    def check(self, plan: Plan) -> None:
        """What is typed for HTTP must not be passed over in silence where no HTTP is served."""
        typed = [name for name in _MEANING if plan.typed(name)]
        if typed and not plan.options["http"]:
            raise plan.wrong(typed[0], "is for HTTP: say --http HOST:PORT as well")
        from headrace.errors import UsageError
        from headrace.transports.guards import Guards

        for name in ("allow_host", "allow_origin", "cors", "cors_origin"):
            try:
                Guards(None, **{_GUARDS[name]: plan.options[name]})
            except UsageError as exc:
                said = str(exc)
                raise plan.wrong(name, said[said.find("'") :] if "'" in said else said) from None
        if plan.options["sealed_sessions"] and plan.options["stateless"]:
            raise plan.wrong("stateless", "excludes --sealed-sessions: a stateless server has no sessions")
        if plan.options["http"]:
            from headrace.transports.http_options import check_options

            try:
                check_options({"path": plan.options["path"]})
            except UsageError as exc:
                raise plan.wrong("path", str(exc).removeprefix("path ")) from None
        if os.environ.get("HEADRACE_SECRET"):  # a bad one must not wait for the first call that needs it
            from headrace.protocol.seal import Sealer

            try:
                Sealer()
            except UsageError as exc:
                raise click.UsageError(str(exc)) from None

    def prepare(self, plan: Plan) -> None:
        """A guest is asked whether it can have what was typed, and gets no HTTP option that was not: its own settings
        hold there."""
        from headrace.cli.guest import AsgiGuest, Guest

        options = plan.options
        if options["beside"] is not None:
            try:
                options["beside"] = load_application(options["beside"], with_traceback=options["with_traceback"])
            except click.UsageError as exc:
                raise plan.wrong("beside", f"{options['beside']!r}: {exc.message}") from None
        names = set(_MEANING)
        if isinstance(plan.server, Guest | AsgiGuest):
            names = {name for name in names if plan.typed(name)}
            plan.server.check(options, names)
        values = {**options, "no_resume": not options["no_resume"]}
        for name in ("allow_host", "allow_origin"):
            values[name] = list(options[name]) or None
        values["cors"] = values["cors_origin"] = [*options["cors"], *options["cors_origin"]] or None
        plan.http.update({meaning: values[name] for name, meaning in _MEANING.items() if name in names})


group = _Endpoint()
