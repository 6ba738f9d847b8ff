"""A raw line connection to a Server in the same process: frames in as JSON, frames out as JSON."""

import asyncio
import json
from typing import Any

from headrace.mux import FrameSink
from headrace.protocol.session import Hello
from headrace.server.app import Server

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "0"},
}


class Pipe:
    """One session of ``server``; every frame it sends is in ``out``, oldest first."""

    def __init__(self, server: Server) -> None:
        self.out: list[dict[str, Any]] = []
        self.session, self.mux = server.new_session()
        self.sink = FrameSink(lambda frame: self.out.append(json.loads(frame)))
        self.session.sink = self.sink

    def raw(self, frame: bytes) -> None:
        self.mux.receive_frame(frame, self.sink)

    def send(self, id: Any, method: str, params: Any = None, *, meta: Any = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if meta is not None:
            params = {**(params or {}), "_meta": meta}
        if params is not None:
            message["params"] = params
        self.raw(json.dumps(message).encode())

    def handshake(self) -> None:
        """Initializes 2025-11-25 and takes the answer away."""
        self.send("init", "initialize", INITIALIZE)
        assert self.out.pop()["result"]["protocolVersion"] == "2025-11-25"
        self.send(None, "notifications/initialized")

    def declares(self, capabilities: dict[str, Any]) -> None:
        """What the client said it can do at its handshake is this."""
        hello = self.session.hello
        assert hello is not None
        self.session.hello = Hello(hello.revision, json.dumps({"capabilities": capabilities}).encode())

    async def ask(self, id: Any, method: str, params: Any = None, *, meta: Any = None) -> dict[str, Any]:
        """Sends a request and waits for its answer, which is taken out of ``out``."""
        self.send(id, method, params, meta=meta)
        for _ in range(2000):
            for index, message in enumerate(self.out):
                if "method" not in message and message.get("id") == id and type(message.get("id")) is type(id):
                    return self.out.pop(index)
            await asyncio.sleep(0.002)
        raise AssertionError(f"no answer to {id!r}; got {self.out}")

    async def call(self, tool: str, arguments: Any = None, *, meta: Any = META, id: Any = "c") -> dict[str, Any]:
        """Calls a tool; ``meta=None`` calls it in the handshake era."""
        return await self.ask(id, "tools/call", {"name": tool, "arguments": arguments or {}}, meta=meta)
