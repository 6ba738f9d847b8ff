"""A line server that follows a script: tests decide what each method is answered with."""

import asyncio
import json

from headrace.jsonrpc import R4, R5, SERVER_INFO

MODERN = {
    "resultType": "complete",
    "supportedVersions": [R5],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
    "instructions": "be kind",
    "_meta": {SERVER_INFO: {"name": "m", "version": "2"}},
}


def handshake(version=R4):
    return {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "h", "version": "1"}}


def error(code, data=None):
    return {"code": code, "message": "no", **({"data": data} if data is not None else {})}


class Script:
    """A line server: `on(method, handler)`; a handler gives a result dict, an error via Fail, or None."""

    def __init__(self, **answers):
        self.answers = answers
        self.seen = []  # messages, over all connections
        self.connections = 0
        self.ends = 0
        self.writers = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.target = f"tcp:127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc):
        self.server.close()
        for writer in self.writers:
            writer.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        try:
            while line := await reader.readline():
                message = json.loads(line)
                self.seen.append(message)
                if isinstance(message, list):
                    continue  # answers to an array
                answer = self.answers.get(message.get("method", "").replace("/", "_").replace("server_", ""))
                if callable(answer):
                    answer = answer(message, writer)
                    if asyncio.iscoroutine(answer):
                        answer = await answer
                if answer is None or "id" not in message:
                    continue
                key = "error" if "code" in answer else "result"
                writer.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], key: answer}).encode() + b"\n")
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.ends += 1
            writer.close()

    @property
    def methods(self):
        return [m.get("method") for m in self.seen]

    async def ended(self):
        for _ in range(500):
            if self.ends == self.connections:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("a connection was left open")
