"""A service that is not MCP: LSP's shape, methods of its own. Served by a plain handler in this process, or as a program:

    python lsp_echo.py FRAMING
"""

import asyncio
import sys

from headrace.errors import RpcError
from headrace.limits import Limits
from headrace.mux import LSP
from headrace.transports import RpcHost, serve_blocking

MANY = Limits(max_in_flight=10_100)


class Echo:
    """Counts what reaches it; answers as its methods say."""

    def __init__(self):
        self.told = []
        self.cancelled = 0
        self.gate = None

    async def handler(self, method, params, exchange):
        match method:
            case "initialize":
                return {"capabilities": {"echo": True}, "serverInfo": {"name": "echo"}}
            case "echo/any":
                return params
            case "echo/slow":
                self.gate = self.gate or asyncio.Event()
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
                return params
            case "echo/open":
                self.gate.set()
                return None
            case "echo/ask":
                found = await exchange.request("workspace/configuration", {"items": [{"section": params["section"]}]})
                return {"configured": found}
            case "echo/work":
                for done in range(params["steps"]):
                    exchange.tell("$/progress", {"token": params["workDoneToken"], "value": {"done": done}})
                await exchange.notify("window/logMessage", {"type": 3, "message": "worked"})
                return params["steps"]
            case "echo/fail":
                raise RpcError(-32802, "server cancelled", {"retriggerRequest": True})
            case "echo/crash":
                raise ValueError("not for others to see")
            case "echo/seen":
                return {"told": self.told, "cancelled": self.cancelled}
            case "echo/id":
                return exchange.request_id
            case "shutdown":
                return None
        raise RpcError(-32601, f"unhandled method {method}")

    def notified(self, method, params, exchange):
        self.told.append([method, params])
        if method == "echo/shout":
            exchange.tell("echo/heard", params)


def make_host(limits=MANY):
    echo = Echo()
    return RpcHost(echo.handler, on_notify=echo.notified, names=LSP, limits=limits, name="echo")


if __name__ == "__main__":
    serve_blocking(make_host(), stdio=True, framing=sys.argv[1])
