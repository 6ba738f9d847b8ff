"""A FastMCP server (3 or 4) with what FastMCP has: `fastmcp_features.py HOST KIND [PORT] [WORD...]`.

HOST is `own` (its own transports) or `headrace`; KIND is `stdio`, `http`, or `both` (standard streams and HTTP of one
server object, by headrace). Words: `stateless`, `json`, `auth` (static tokens), `jwt` (signed tokens and
protected-resource metadata), `guarded` (ASGI middleware of the user's), `broken` (its lifespan fails).
"""

import asyncio
import contextlib
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from fastmcp import Context, FastMCP  # noqa: E402
from fastmcp.exceptions import ToolError  # noqa: E402
from fastmcp.server.dependencies import get_access_token, get_http_headers, get_http_request  # noqa: E402
from fastmcp.server.middleware import Middleware  # noqa: E402
from pydantic import BaseModel  # noqa: E402
from starlette.middleware import Middleware as ASGIMiddleware  # noqa: E402
from starlette.responses import JSONResponse, PlainTextResponse  # noqa: E402

HOST, KIND, *REST = sys.argv[1:]
PORT = int(REST.pop(0)) if KIND != "stdio" else 0
WORDS = set(REST)
journal: list[str] = []
counts = {"entered": 0, "left": 0}


@contextlib.asynccontextmanager
async def lifespan(server):
    if "broken" in WORDS:
        raise RuntimeError("the lifespan fails")
    counts["entered"] += 1
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        yield {"database": "open"}
    counts["left"] += 1


class Watch(Middleware):
    """Sees everything, and changes the result of one tool."""

    async def on_message(self, context, call_next):
        # (what FastMCP 4 itself sees of a hidden message may differ by its transport, so only these)
        if context.method in ("tools/call", "tools/list", "initialize"):
            journal.append(f"{context.type} {context.method}")
        return await call_next(context)

    async def on_call_tool(self, context, call_next):
        if context.message.name == "forbidden":
            raise ToolError("the middleware forbids it")
        return await call_next(context)


def auth_of():
    from fastmcp.server.auth import RemoteAuthProvider
    from fastmcp.server.auth.providers.jwt import JWTVerifier, RSAKeyPair, StaticTokenVerifier

    if "auth" in WORDS:
        people = {
            "alice-token": {"client_id": "alice", "scopes": ["use"], "sub": "alice"},
            "bob-token": {"client_id": "bob", "scopes": ["use"], "sub": "bob"},
            "guest-token": {"client_id": "guest", "scopes": []},
        }
        return StaticTokenVerifier(tokens=people, required_scopes=["use"])
    if "jwt" in WORDS:
        keys = RSAKeyPair.generate()
        token = keys.create_token(subject="carol", issuer="https://issuer.example", audience="me", scopes=["use"])
        print(token, file=sys.stderr, flush=True)
        verifier = JWTVerifier(
            public_key=keys.public_key, issuer="https://issuer.example", audience="me", required_scopes=["use"]
        )
        return RemoteAuthProvider(
            token_verifier=verifier,
            authorization_servers=["https://issuer.example"],
            base_url=f"http://127.0.0.1:{PORT}",
        )
    return None


mcp = FastMCP("features", version="1.2.3", instructions="Features.", lifespan=lifespan, auth=auth_of())
mcp.add_middleware(Watch())
child = FastMCP("child")
behind = FastMCP("behind")


class Point(BaseModel):
    x: int
    y: float


class Name(BaseModel):
    name: str


@mcp.tool
async def echo(text: str) -> str:
    return text


@mcp.tool
def add(a: int, b: int = 2) -> int:
    """A function that is not a coroutine."""
    return a + b


@mcp.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
async def shaped() -> dict:
    return {"n": 5}


@mcp.tool
async def point(x: int, y: float) -> Point:
    return Point(x=x, y=y)


@mcp.tool
async def fail(message: str) -> str:
    raise ToolError(message)


@mcp.tool
async def crash() -> str:
    raise ValueError("a crash")


@mcp.tool
async def forbidden() -> str:
    return "never"


@mcp.tool
async def count(to: int, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return f"counted to {to}"


@mcp.tool
async def log(ctx: Context) -> str:
    await ctx.debug("one", logger_name="peer")
    await ctx.warning("two", extra={"n": 2})
    return "logged"


@mcp.tool
async def ask_name(ctx: Context) -> str:
    answer = await ctx.elicit("Your name?", Name)
    return f"Hello {answer.data.name}" if answer.action == "accept" else answer.action


@mcp.tool
async def think(prompt: str, ctx: Context) -> str:
    answer = await ctx.sample(prompt, max_tokens=10)
    return f"thought {answer.text}"


@mcp.tool
async def where(ctx: Context) -> str:
    return " ".join(str(root.uri) for root in await ctx.list_roots())


@mcp.tool
async def remember(value: str, ctx: Context) -> str:
    before = await ctx.get_state("value")
    await ctx.set_state("value", value)
    return str(before)


@mcp.tool
async def context(ctx: Context) -> dict:
    """What a handler finds around it."""
    found = {
        "transport": ctx.transport,
        "lifespan": ctx.lifespan_context,
        "server": ctx.fastmcp.name,
        "own": get_http_headers().get("x-own"),
        "origin": ctx.origin_request_id is not None if hasattr(ctx, "origin_request_id") else True,
        "entered": counts["entered"],
    }
    try:
        request = get_http_request()
        found["request"] = [request.method, request.url.path, request.headers.get("x-own")]
    except RuntimeError as exc:
        found["request"] = str(exc)
    token = get_access_token()
    found["token"] = None if token is None else [token.client_id, token.scopes, token.claims.get("sub")]
    return found


@mcp.tool
async def whoami(seconds: float, ctx: Context) -> list[str]:
    """The caller as its own request says, before and after a pause."""
    before = get_http_headers().get("x-own", "")
    await asyncio.sleep(seconds)
    return [before, get_http_headers().get("x-own", ""), str(await ctx.get_state("value"))]


@mcp.tool
async def meta(ctx: Context) -> dict:
    """What came in ``_meta`` that is not the SDK's own."""
    found = ctx.request_context.meta
    values = dict(found) if isinstance(found, dict) else {} if found is None else found.model_dump(exclude_none=True)
    return {key: value for key, value in values.items() if key in ("traceparent", "com.example/own")}


@mcp.tool
async def server_name() -> str:
    """The server that dependencies find."""
    from fastmcp.server.dependencies import get_server

    return get_server().name


@mcp.tool
async def flood(notes: int, size: int, mark: str, ctx: Context) -> str:
    for number in range(notes):
        await ctx.info(f"{mark} {number} {'x' * size}")
    return mark


@mcp.tool
async def session(ctx: Context) -> str:
    return ctx.session_id


@mcp.tool
async def slow(seconds: float, tag: str) -> str:
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        journal.append(f"{tag} cancelled")
        raise
    return tag


@mcp.tool
async def read_journal() -> list[str]:
    return list(journal)


@mcp.tool
async def grow(name: str, ctx: Context) -> str:
    async def grown() -> str:
        return name

    mcp.tool(grown, name=name)
    return name


@mcp.resource("note://static", mime_type="text/plain")
async def static() -> str:
    return "static note"


@mcp.resource("note://named/{name}")
async def named(name: str) -> str:
    return f"note of {name}"


@mcp.prompt
async def greet(name: str) -> str:
    return f"Greet {name}"


@mcp.custom_route("/health", methods=["GET"])
async def health(request):
    return JSONResponse({"status": "ok", **counts})


@child.tool
async def inner(ctx: Context) -> str:
    await ctx.report_progress(1, 1)
    return f"inner of {ctx.fastmcp.name}"


@child.resource("child://thing")
async def thing() -> str:
    return "a thing"


@child.custom_route("/child", methods=["GET"])
async def child_route(request):
    return JSONResponse({"child": True})


@behind.tool
async def far(n: int, ctx: Context) -> str:
    await ctx.report_progress(n, n, "far")
    return f"far {n}"


@behind.tool
async def far_name(ctx: Context) -> str:
    answer = await ctx.elicit("Far name?", Name)
    return f"Far {answer.data.name}" if answer.action == "accept" else answer.action


def proxy_of(backend):
    from fastmcp.server import create_proxy

    return create_proxy(backend, name="proxy")


mcp.mount(child, namespace="child")
mcp.mount(proxy_of(behind), namespace="via")

try:
    from fastmcp.tools import Tool
    from fastmcp.tools.tool_transform import ArgTransform

    plain = asyncio.run(mcp.get_tool("add"))
    mcp.add_tool(Tool.from_tool(plain, name="plus", transform_args={"a": ArgTransform(name="first")}))
except ImportError:
    pass


class Guard:
    """ASGI middleware that wants a header, and leaves a mark for handlers."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            if dict(scope["headers"]).get(b"x-refuse"):
                await PlainTextResponse("refused by the guard", 418, {"X-Guard": "yes"})(scope, receive, send)
                return
            scope.setdefault("state", {})["guard"] = "seen"
        await self.app(scope, receive, send)


@mcp.tool
async def guard() -> str:
    return str(getattr(get_http_request().state, "guard", None))


def main():
    middleware = [ASGIMiddleware(Guard)] if "guarded" in WORDS else None
    if HOST == "headrace":
        from headrace.integrations.fastmcp import run

        if KIND == "stdio":
            run(mcp)
        else:
            options = {"stateless": "stateless" in WORDS, "json_response": "json" in WORDS, "middleware": middleware}
            where = {"http": PORT, "stdio": True} if KIND == "both" else {"host": "127.0.0.1", "port": PORT}
            run(mcp, **where, **options)
    elif KIND == "stdio":
        mcp.run("stdio", show_banner=False)
    else:
        mcp.run(
            "http",
            show_banner=False,
            host="127.0.0.1",
            port=PORT,
            stateless_http="stateless" in WORDS,
            json_response="json" in WORDS,
            middleware=middleware,
            log_level="critical",
        )


main()
