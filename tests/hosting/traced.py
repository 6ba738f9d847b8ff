"""A traced server for the tests of tracing, as a module and as a program on stdio that writes its spans to a file."""

import asyncio
import contextlib
import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import headrace
from headrace.errors import RpcError
from headrace.hosting import tracing
from headrace.transports.http_server import serve_http
from headrace.transports.stream import serve_lines


def current():
    """The span that is current here, as trace and span id in hexadecimal."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}-{context.span_id:016x}"


def make_app():
    app = headrace.Server("traced", version="1")

    @app.tool
    def thread() -> str:
        """A tool in a thread."""
        return current()

    @app.tool(inline=True)
    def inline() -> str:
        """A tool on the loop."""
        return current()

    @app.tool
    async def waits() -> str:
        """An async tool that gives way to others, and starts a task."""
        seen = {current()}
        await asyncio.sleep(0.001)
        seen.add(current())
        seen.add(await asyncio.create_task(later()))
        return " ".join(seen)

    @app.tool
    async def quick() -> str:
        """An async tool that never waits."""
        return current()

    @app.tool
    async def breaks() -> str:
        """Fails in an unforeseen way."""
        raise ValueError("what a surprise")

    @app.tool
    async def refuses() -> str:
        """Fails in a foreseen way."""
        raise headrace.ToolError("not today")

    @app.tool
    async def errs() -> str:
        """Answers an error."""
        raise RpcError(-32050, "no such luck")

    @app.tool
    async def asks(ctx: headrace.Context) -> str:
        """Has its client sample."""
        return (await ctx.sample("hello", max_tokens=9)).content.text

    @app.tool
    def asks_in_thread(ctx: headrace.Context) -> str:
        """The same from a thread."""
        return ctx.sample("hello", max_tokens=9).content.text

    @app.tool
    async def elicits(ctx: headrace.Context) -> str:
        """Has its client ask its user."""
        return (await ctx.elicit("well?", {"type": "object", "properties": {"a": {"type": "string"}}})).action

    @app.tool
    async def meta(ctx: headrace.Context) -> str:
        """What the request's _meta holds."""
        return json.dumps(ctx.meta)

    @app.tool
    async def hangs() -> str:
        """Never ends."""
        await asyncio.sleep(60)
        return ""

    @app.prompt
    def greeting() -> str:
        """A prompt."""
        return "hello"

    @app.resource("docs://intro")
    def intro() -> str:
        """A resource."""
        return "once upon a time"

    return app


async def later():
    await asyncio.sleep(0)
    return current()


class Spans:
    """A tracer provider whose spans stay in memory."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def all(self, name=None):
        found = self.exporter.get_finished_spans()
        return [span for span in found if name is None or span.name == name]

    def one(self, name):
        (span,) = self.all(name)
        return span

    async def until(self, name, count=1):
        """Spans of that name, once there are so many."""
        for _ in range(500):
            if len(self.all(name)) >= count:
                break
            await asyncio.sleep(0.01)
        return self.all(name)


def place(span):
    """A span as `current` says it."""
    return f"{span.context.trace_id:032x}-{span.context.span_id:016x}"


@contextlib.asynccontextmanager
async def serving(app, transport, path=None):
    """Where a client finds `app`."""
    if transport == "memory":
        yield app
        return
    async with app.running():
        if transport == "http":
            listener = await serve_http(app, host="127.0.0.1", port=0, path="/mcp")
            where = listener.url
        elif transport == "unix":
            listener = await serve_lines(app, unix=str(path))
            where = listener.addresses[0]
        else:
            listener = await serve_lines(app, host="127.0.0.1", port=0)
            where = listener.addresses[0]
        try:
            yield where
        finally:
            await listener.close()


class _Lines(SpanExporter):
    """Writes each span as a line of JSON."""

    def __init__(self, path):
        self._path = path

    def export(self, spans):
        with open(self._path, "a") as file:
            for span in spans:
                parent = None if span.parent is None else f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}"
                file.write(
                    json.dumps({"name": span.name, "at": place(span), "parent": parent, "facts": dict(span.attributes)})
                    + "\n"
                )
        return SpanExportResult.SUCCESS


def main():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_Lines(sys.argv[1])))
    app = make_app()
    tracing.instrument(app, provider)
    app.run(loop=sys.argv[2])


if __name__ == "__main__":
    main()
