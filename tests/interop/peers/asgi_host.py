"""Hosts an ASGI application until it is told to stop: `asgi_host.py HOST MODULE:FACTORY PORT`.

HOST is uvicorn, hypercorn, granian or headrace. MODULE:NAME() calls the factory NAME.
"""

import os
import sys
from importlib import import_module

kind, target, port = sys.argv[1:4]
port = int(port)
module, _, name = target.partition(":")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "apps"))


def load():
    found = getattr(import_module(module), name.removesuffix("()"))
    return found() if name.endswith("()") else found


if kind == "uvicorn":
    import uvicorn

    uvicorn.run(load(), host="127.0.0.1", port=port, log_level="warning", access_log=False)
elif kind == "hypercorn":
    import asyncio
    import signal

    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    async def main():
        config = Config()
        config.bind = [f"127.0.0.1:{port}"]
        config.graceful_timeout = 1.0
        stop = asyncio.Event()
        for signum in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signum, stop.set)
        await serve(load(), config, shutdown_trigger=stop.wait)

    asyncio.run(main())
elif kind == "granian":
    from granian import Granian
    from granian.constants import Interfaces, Loops

    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    Granian(
        f"{module}:{name.removesuffix('()')}", factory=name.endswith("()"), address="127.0.0.1", port=port,
        interface=Interfaces.ASGI, loop=Loops.uvloop, workers=1, log_access=False, workers_kill_timeout=5,
    ).serve()  # fmt: skip
elif kind == "headrace":
    import asyncio

    from headrace.transports.asgi import serve
    from headrace.transports.run import run_until_stopped

    async def main():
        listener = await serve(load(), host="127.0.0.1", port=port)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await listener.close()

    run_until_stopped(main)
else:
    sys.exit(f"unknown host {kind!r}")
