"""What an ASGI or RSGI server costs alone: every request is answered with the same body, unread.

`asgi_canned.py headrace|uvicorn|granian-asgi|granian-rsgi PORT BODY_FILE`: headrace on uvloop, uvicorn on uvloop and
httptools, granian on uvloop with one worker.
"""

import asyncio
import os
import sys

BODY = b""
if path := os.environ.get("BENCH_CANNED_BODY") or (sys.argv[3] if len(sys.argv) > 3 else ""):
    with open(path, "rb") as f:
        BODY = f.read()
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())],
}
REPLY = {"type": "http.response.body", "body": BODY}
RSGI_HEADERS = [("content-type", "application/json")]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send(REPLY)


async def rsgi(scope, protocol):
    await protocol()
    protocol.response_bytes(200, RSGI_HEADERS, BODY)


async def hosted(port: int) -> None:
    from headrace.transports.asgi import serve

    await serve(asgi, host="127.0.0.1", port=port)
    await asyncio.get_running_loop().create_future()


def main() -> None:
    kind, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if kind == "uvicorn":
        import uvicorn

        uvicorn.run(asgi, host="127.0.0.1", port=port, loop="uvloop", http="httptools", lifespan="off", log_level="error", access_log=False)
    elif kind == "headrace":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(hosted(port))
    else:
        from granian import Granian
        from granian.constants import Interfaces, Loops

        os.environ["BENCH_CANNED_BODY"] = path  # the worker process imports this file anew
        interface = Interfaces.RSGI if kind == "granian-rsgi" else Interfaces.ASGINL
        target = "asgi_canned:rsgi" if kind == "granian-rsgi" else "asgi_canned:asgi"
        Granian(target, address="127.0.0.1", port=port, interface=interface, loop=Loops.uvloop, workers=1, log_enabled=False).serve()


if __name__ == "__main__":
    main()
