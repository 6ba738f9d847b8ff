"""ASGI applications to be hosted: `asgi_pages.py headrace|uvicorn PORT` serves `app`; `headrace` is ours.

Below ``/s`` and ``/w`` there are Starlette applications, elsewhere plain ASGI. Prints "ready" once it is served.
"""

import asyncio
import contextlib
import json
import sys

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute

BACKGROUND = []
GONE = []


async def stamp(request, call_next):
    response = await call_next(request)
    response.headers["x-stamp"] = request.url.path
    return response


async def form(request):
    data = await request.form()
    found = {}
    for key, value in data.items():
        found[key] = value if isinstance(value, str) else [value.filename, len(await value.read())]
    return JSONResponse(found)


async def counted(request):
    total = 0
    async for piece in request.stream():
        total += len(piece)
    return JSONResponse({"total": total, "state": request.state.began, "url": str(request.url.path)})


async def streamed(request):
    async def pieces():
        for i in range(5):
            yield f"{i} " * 100
            await asyncio.sleep(0)

    return StreamingResponse(pieces(), media_type="text/plain")


async def endless(request):
    async def pieces():
        try:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0.005)
        finally:
            GONE.append("endless")

    return StreamingResponse(pieces())


async def watch(request):
    """Waits for the disconnect."""
    try:
        while not await request.is_disconnected():
            await asyncio.sleep(0.005)
        GONE.append("watch")
    except ClientDisconnect:
        GONE.append("watch")
    return PlainTextResponse("gone")


async def background(request):
    async def later():
        await asyncio.sleep(0.01)
        BACKGROUND.append("done")

    return PlainTextResponse("now", background=BackgroundTask(later))


async def noted(request):
    return JSONResponse({"background": BACKGROUND, "gone": sorted(GONE)})


async def fail(request):
    raise RuntimeError("swordfish")


async def file(request):
    return FileResponse(__file__, media_type="text/x-python")


async def events(request):
    from sse_starlette.sse import EventSourceResponse

    async def several():
        for i in range(3):
            yield {"event": "tick", "data": str(i)}
            await asyncio.sleep(0.002)

    return EventSourceResponse(several())


async def talk(websocket):
    await websocket.accept()
    await websocket.close()


starlette = Starlette(
    routes=[
        Route("/form", form, methods=["POST"]),
        Route("/counted", counted, methods=["POST", "PUT"]),
        Route("/streamed", streamed),
        Route("/background", background),
        Route("/noted", noted),
        Route("/fail", fail),
        Route("/file", file),
        Route("/events", events),
        Route("/redirect", lambda request: RedirectResponse("/s/noted")),
        Route("/items/{name:path}", lambda request: PlainTextResponse(request.path_params["name"])),
        WebSocketRoute("/talk", talk),
    ],
    middleware=[
        Middleware(CORSMiddleware, allow_origins=["https://app.example"]),
        Middleware(BaseHTTPMiddleware, dispatch=stamp),
        Middleware(GZipMiddleware, minimum_size=1000),
    ],
)


async def plain(scope, receive, send):
    """What the host says, and what it makes of answers of every form."""
    path = scope["path"]
    body, events, more = b"", 0, True
    while more and path != "/early":
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body += event.get("body", b"")
        events += bool(event.get("body"))
        more = event.get("more_body", False)
    headers = [(b"content-type", b"text/plain"), (b"x-many", b"1"), (b"x-many", b"2")]
    if path == "/scope":
        keep = ("type", "http_version", "method", "scheme", "path", "root_path")
        found = {key: scope[key] for key in keep}
        found["raw_path"] = scope["raw_path"].decode()
        found["query"] = scope["query_string"].decode()
        found["headers"] = [[n.decode(), v.decode("latin-1")] for n, v in scope["headers"] if n != b"host"]
        found["client"] = scope["client"][0]
        found["server"] = scope["server"][0]
        found["state"] = scope["state"]
        body = json.dumps(found, sort_keys=True).encode()
    status = int(path[1:]) if path[1:].isdigit() else 200
    if path == "/length":
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if path == "/pieces":
        for at in range(0, len(body), 3):
            await send({"type": "http.response.body", "body": body[at : at + 3], "more_body": True})
            await asyncio.sleep(0)
        body = b""
    if path == "/broken":
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        await asyncio.sleep(0.01)
        raise RuntimeError("swordfish")
    await send({"type": "http.response.body", "body": body if status not in (204, 304) else b""})


# BaseHTTPMiddleware hides a disconnect from what is behind it.
waiting = Starlette(routes=[Route("/endless", endless), Route("/watch", watch)])


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"began": "yes"}


app = Starlette(routes=[Mount("/s", app=starlette), Mount("/w", app=waiting), Mount("/", app=plain)], lifespan=lifespan)


async def strip(scope, receive, send):
    """Starlette's mounts change the path; the plain application is called without one."""
    if scope["type"] == "http" and not scope["path"].startswith(("/s/", "/w/")):
        await plain(scope, receive, send)
    else:
        await app(scope, receive, send)


def main():
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "uvicorn":
        import uvicorn

        uvicorn.run(strip, host="127.0.0.1", port=port, log_level="critical", access_log=False)
        return
    from headrace.transports.asgi import serve

    async def run():
        listener = await serve(strip, host="127.0.0.1", port=port)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await listener.close()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())


if __name__ == "__main__":
    main()
