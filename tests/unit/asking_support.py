"""A raw client for tests of questions: it declares capabilities, and answers by hand in either era."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from server_pipe import Pipe

from headrace.server.app import Server

__all__ = ("ALL", "AskPipe", "accept", "meta", "text_of", "until")

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}}
R5 = "2026-07-28"


def meta(capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
    """``_meta`` of a modern request."""
    return {
        "io.modelcontextprotocol/protocolVersion": R5,
        "io.modelcontextprotocol/clientCapabilities": ALL if capabilities is None else capabilities,
    }


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def until(condition: Any) -> Any:
    """Waits until ``condition()`` is true and gives its value."""
    for _ in range(2000):
        found = condition()
        if found:
            return found
        await asyncio.sleep(0.002)
    raise AssertionError("it never happened")


class AskPipe(Pipe):
    """A session whose client can be asked. ``revision`` decides the era."""

    def __init__(self, server: Server, revision: str = R5, capabilities: dict[str, Any] | None = None) -> None:
        super().__init__(server)
        self.revision = revision
        self.capabilities = ALL if capabilities is None else capabilities
        self.questions: list[dict[str, Any]] = []
        self.rounds: list[dict[str, Any]] = []
        self._ids = 0
        if revision != R5:
            hello = {"protocolVersion": revision, "capabilities": self.capabilities, "clientInfo": {"name": "t", "version": "0"}}
            self.send("init", "initialize", hello)
            assert self.out.pop()["result"]["protocolVersion"] == revision
            self.send(None, "notifications/initialized")

    def request(self, method: str, params: dict[str, Any], **more: Any) -> Any:
        """Sends one request, and gives its id."""
        self._ids += 1
        self.send(self._ids, method, {**params, **more}, meta=meta(self.capabilities) if self.revision == R5 else None)
        return self._ids

    async def answer_to(self, id: Any) -> dict[str, Any]:
        return await until(lambda: self.take(lambda m: m.get("id") == id and "method" not in m))

    def take(self, match: Any) -> Any:
        for index, message in enumerate(self.out):
            if match(message):
                return self.out.pop(index)
        return None

    async def question(self) -> dict[str, Any]:
        """Era H: the next request of the server."""
        found: dict[str, Any] = await until(lambda: self.take(lambda m: "method" in m and "id" in m))
        self.questions.append(found)
        return found

    def reply(self, question: dict[str, Any], result: Any = None, error: Any = None) -> None:
        body = {"result": result} if error is None else {"error": error}
        self.raw(json.dumps({"jsonrpc": "2.0", "id": question["id"], **body}).encode())

    async def run(self, method: str, params: dict[str, Any], answer: Any, *, most: int = 20) -> dict[str, Any]:
        """One request to its end: ``answer(method, params)`` gives the result object of each question, in
        either era. Gives the final response; rounds of era M are in ``rounds``."""
        more: dict[str, Any] = {}
        for _ in range(most):
            id = self.request(method, params, **more)
            if self.revision != R5:
                while True:
                    got = await until(
                        lambda: self.take(lambda m: m.get("id") == id and "method" not in m)  # noqa: B023
                        or self.take(lambda m: "method" in m and "id" in m)
                    )
                    if "method" not in got:
                        return got
                    self.questions.append(got)
                    self.reply(got, answer(got["method"], got.get("params")))
            response = await self.answer_to(id)
            result = response.get("result", {})
            if result.get("resultType") != "input_required":
                return response
            self.rounds.append(result)
            more = {"requestState": result["requestState"]}
            if "inputRequests" in result:
                self.questions += result["inputRequests"].values()
                more["inputResponses"] = {
                    key: answer(q["method"], q.get("params")) for key, q in result["inputRequests"].items()
                }
        raise AssertionError("it asks for ever")

    async def tool(self, name: str, answer: Any, arguments: Any = None) -> dict[str, Any]:
        """Calls a tool to its end; its result object or error object."""
        response = await self.run("tools/call", {"name": name, "arguments": arguments or {}}, answer)
        return response["result"] if "result" in response else response["error"]


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]
