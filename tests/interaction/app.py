"""The server of the interaction tests: one of everything. `python app.py LOOP` serves it over stdio."""

import asyncio
import sys
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace import (
    Audio,
    CannotAsk,
    Context,
    Declined,
    Image,
    InputNeeded,
    Limits,
    RpcError,
    Server,
    ToolError,
    ask_elicit,
    ask_roots,
)
from headrace.server.features import CacheHint
from headrace.types import EmbeddedResource, ResourceLink, TextResourceContents

__all__ = ("INSTRUCTIONS", "PAGE", "make_app")

PAGE = 7
INSTRUCTIONS = "Everything, for tests."
PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x24\x00\x00\x00WAVE"
ICON = {"src": "https://example.test/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}


class Point(msgspec.Struct):
    x: int
    y: float


class Person(msgspec.Struct):
    name: str
    age: Annotated[int, Meta(ge=0)] = 30
    color: Literal["red", "green"] = "red"


class Sure(msgspec.Struct):
    sure: bool


def make_app() -> Server:
    """A new server with all of it; its `journal` tells how calls ended."""
    app = Server(
        "everything",
        version="1.2.3",
        title="Everything",
        instructions=INSTRUCTIONS,
        icons=[ICON],
        website_url="https://example.test",
        limits=Limits(page_size=PAGE),
        extensions={"test.example/thing": {"level": 1}},
    )
    app.journal = []  # type: ignore[attr-defined]
    _answers(app)
    _work(app)
    _questions(app)
    _resources(app)
    _prompts(app)
    _changes(app)
    _tasks(app)
    app.cache_hints(tools=CacheHint(60, "public"), read=CacheHint(5))
    return app


def _answers(app: Server) -> None:
    @app.tool(title="Addition", annotations={"readOnlyHint": True}, icons=[ICON], meta={"test.example/a": 1})
    async def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    @app.tool
    async def echo(text: str) -> str:
        """Returns the text it is given."""
        return text

    @app.tool
    async def point(x: int, y: float) -> Point:
        """A structured result."""
        return Point(x, y)

    @app.tool
    async def blocks() -> list[Any]:
        """One block of every kind."""
        inner = TextResourceContents(uri="note://inner", text="inner")
        link = ResourceLink(uri="note://static", name="static")
        return ["text", Image(PNG), Audio(WAV), EmbeddedResource(resource=inner), link]

    @app.tool
    async def big(size: int) -> str:
        """A long text."""
        return "x" * size

    @app.tool
    async def fail(message: str) -> str:
        """Fails with a text for the model."""
        raise ToolError(message)

    @app.tool
    async def crash() -> str:
        """Fails in a way nobody expected."""
        raise RuntimeError("a secret of the server")

    @app.tool
    async def refuse(code: int) -> str:
        """Answers with an error of its own."""
        raise RpcError(code, "as told", {"why": "told"})

    @app.tool
    async def who(ctx: Context) -> dict[str, Any]:
        """What the server knows of its caller."""
        info = ctx.client_info or {}
        meta = {key: value for key, value in ctx.meta.items() if key.startswith("test.example/")}
        return {"name": info.get("name"), "revision": ctx.protocol_version, "meta": meta}


def _work(app: Server) -> None:
    journal = app.journal  # type: ignore[attr-defined]

    @app.tool
    async def count(ctx: Context, to: int) -> str:
        """Counts and reports progress."""
        for number in range(1, to + 1):
            await ctx.progress(number, to, f"at {number}")
        return f"counted to {to}"

    @app.tool
    def count_in_thread(ctx: Context, to: int) -> str:
        """The same in a worker thread."""
        for number in range(1, to + 1):
            ctx.progress(number, to)
        return f"counted to {to}"

    @app.tool
    async def log(ctx: Context, level: str, text: str) -> str:
        """Sends one log message."""
        await ctx.log(level, text, "tests")
        return "logged"

    @app.tool
    async def slow(seconds: float, tag: str) -> str:
        """Takes a while; the journal tells how it ended."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            journal.append(f"{tag} cancelled")
            raise
        return tag

    @app.tool
    async def read_journal() -> list[str]:
        """What `slow` wrote so far."""
        return journal


def _questions(app: Server) -> None:
    @app.tool
    async def ask_person(ctx: Context) -> str:
        """A form."""
        answer = await ctx.elicit("Who are you?", Person)
        return f"{answer.action} {answer.content}" if answer.accepted else answer.action

    @app.tool
    def ask_person_in_thread(ctx: Context) -> str:
        """A form, asked from a worker thread."""
        return f"{ctx.elicit('Who are you?', Person).content}"

    @app.tool
    async def ask_url(ctx: Context) -> str:
        """A URL to open."""
        return (await ctx.elicit_url("Please sign in.", "https://example.test/signin")).action

    @app.tool
    async def think(ctx: Context, prompt: str) -> str:
        """The client's model."""
        try:
            return (await ctx.sample(prompt, max_tokens=10)).content.text
        except Declined:
            return "declined"

    @app.tool
    async def where(ctx: Context) -> str:
        """The client's roots."""
        return " ".join(str(root.uri) for root in await ctx.list_roots())

    @app.tool
    async def ask_all(ctx: Context) -> str:
        """Three questions at once, then one more that depends on them."""
        person, thought, roots = await asyncio.gather(
            ctx.elicit("Who are you?", Person), ctx.sample("Think", max_tokens=10), ctx.list_roots()
        )
        sure = await ctx.elicit(f"Are you {person.content.name}?", Sure)
        return f"{person.content.name} {thought.content.text} {len(roots)} {sure.content.sure}"

    @app.tool
    async def explicit(ctx: Context) -> str | InputNeeded:
        """The explicit form."""
        answers = ctx.input_responses
        if answers is None:
            return InputNeeded({"who": ask_elicit("Who are you?", Person), "roots": ask_roots()}, state={"step": 1})
        return f"{answers.elicited('who', Person).content.name} {len(answers.roots('roots'))} {ctx.request_state}"

    @app.tool
    async def does_without(ctx: Context) -> str:
        """Asks where it can."""
        try:
            return (await ctx.elicit("Sure?", Sure)).action
        except CannotAsk:
            return "did without"

    @app.prompt
    async def asking(ctx: Context) -> str:
        """A prompt that asks."""
        return f"Write to {(await ctx.elicit('Who are you?', Person)).content.name}"

    @app.resource("asking://{topic}")
    async def asking_resource(ctx: Context, topic: str) -> str:
        """A resource that asks."""
        return f"{topic} for {(await ctx.elicit('Who are you?', Person)).content.name}"


def _resources(app: Server) -> None:
    @app.resource(
        "note://static",
        name="static",
        title="A note",
        mime_type="text/plain",
        size=11,
        annotations={"audience": ["user"], "priority": 0.5},
        icons=[ICON],
        meta={"test.example/b": 2},
    )
    async def static() -> str:
        """A note that stays."""
        return "static note"

    @app.resource("note://blob", mime_type="image/png")
    async def blob() -> bytes:
        """Bytes."""
        return PNG

    @app.resource("note://named/{name}{?lang}", complete={"lang": ["de", "en", "es"]})
    async def named(name: str, lang: str = "en") -> str:
        """A note by name."""
        return f"note of {name} in {lang}"

    @app.resource("note://number/{number}")
    async def number(number: int) -> str | None:
        """A note by number, up to three."""
        return f"note {number}" if number <= 3 else None


def _prompts(app: Server) -> None:
    @app.prompt(title="Greeting", icons=[ICON])
    async def greet(name: str, tone: Literal["kind", "curt"] = "kind") -> str:
        """Greets somebody.

        Args:
            name: whom
        """
        return f"Greet {name}, {tone}"

    @app.completion(prompt="greet", argument="name")
    async def names(value: str, arguments: dict[str, str]) -> list[str]:
        found = ["Ada", "Alan", "Grace", *(f"A{n:03}" for n in range(150))]
        tone = arguments.get("tone")
        return [each for each in found if each.startswith(value)] if tone is None else [f"{value}-{tone}"]


def _changes(app: Server) -> None:
    @app.tool
    async def grow(name: str) -> str:
        """One more tool, prompt and resource."""

        async def grown() -> str:
            """Grown."""
            return name

        app.add_tool(grown, name=name)
        app.add_prompt(grown, name=name)
        app.add_resource(f"grown://{name}", "grown")
        return name

    @app.tool
    async def shrink(name: str) -> str:
        """Takes them away again."""
        app.remove_tool(name)
        app.remove_prompt(name)
        app.remove_resource(f"grown://{name}")
        return name

    @app.tool
    async def touch(uri: str) -> str:
        """Says that a resource has new content."""
        app.notify_resource_updated(uri)
        return "touched"


def _tasks(app: Server) -> None:
    app.tasks(poll_interval=0.02, listing=True)

    @app.tool(task="optional")
    async def job(seconds: float) -> str:
        """May become a task."""
        await asyncio.sleep(seconds)
        return "job done"

    @app.tool(task="required")
    async def big_job(fail: bool = False) -> str:
        """Runs as a task only."""
        if fail:
            raise ToolError("the job failed")
        return "big job done"

    @app.tool(task="optional")
    async def asking_job(ctx: Context) -> str:
        """Asks while it runs."""
        return f"job of {(await ctx.elicit('Who are you?', Person)).content.name}"


if __name__ == "__main__":
    make_app().run(loop=sys.argv[1])
