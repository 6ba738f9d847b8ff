"""A server of several in a process of its own: ``python streams_server.py REDIS_URL``; prints its port."""

import asyncio
import sys

from http_support import tiny

from headrace.hosting.backplane import RedisBackplane
from headrace.transports.http_server import serve_http
from hosting.session_support import shared_server


async def main(url):
    app = shared_server(tiny(notify_interval=0.01))
    app.set_backplane(RedisBackplane(url, lease=1.5))

    @app.tool
    def change() -> str:
        app.hub.changed("tools")
        return "changed"

    async with app.running():
        listener = await serve_http(app, host="127.0.0.1", port=0)
        print(listener.url.rpartition(":")[2].partition("/")[0], flush=True)
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
