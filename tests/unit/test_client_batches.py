"""JSON arrays that a server of 2025-03-26 sends to the client: lines, JSON answers and events (JR-20..JR-23, B83)."""

import asyncio
import json

import pytest
from http_peer import END, event, plain, sse_head
from http_script import DONE, HttpScript
from scripted_peer import Script, error, handshake

from headrace import Limits, RemoteProtocolError, connect
from headrace.jsonrpc import R1, R2, R3, R4


async def until(condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def note(text):
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}}


def request(id, method="ping"):
    return {"jsonrpc": "2.0", "id": id, "method": method}


def reply(id, text="done"):
    return {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}}


def line_server(version, batch):
    def call(message, writer):
        writer.write(json.dumps(batch(message["id"])).encode() + b"\n")

    return Script(discover=error(-32601), initialize=handshake(version), tools_call=call)


class HttpServer(HttpScript):
    """`how`: the array comes as the JSON answer of a call, as an event of its stream, or on the GET stream."""

    def __init__(self, version, batch, how):
        self.batch, self.how = batch, how
        self.stream = None
        super().__init__(
            discover=error(-32601), initialize=handshake(version), tools_call=self.call, GET=self.get
        )

    def get(self, request):
        self.stream = request.conn
        return sse_head()

    def call(self, request):
        array = self.batch(request.id)
        if self.how == "json":
            return plain("200 OK", json.dumps(array).encode(), Content_Type="application/json")
        if self.how == "event":
            return sse_head() + event(array) + END
        self.stream.send(event(array))
        request.conn.send(sse_head())
        return DONE

    async def _handle(self, conn):
        while (request := await conn.request()) is not None:
            request.conn = conn
            self.seen.append(request)
            if request.method == "POST" and (isinstance(request.body, list) or "method" not in request.body):
                conn.send(plain("202 Accepted"))
                continue
            key = request.body["method"] if request.method == "POST" else request.method
            key = key.replace("server/", "").replace("notifications/", "").replace("/", "_")
            answer = self.replies.get(key, plain("202 Accepted"))
            answer = answer(request) if callable(answer) else answer
            if isinstance(answer, dict):
                kind = "error" if "code" in answer else "result"
                body = json.dumps({"jsonrpc": "2.0", "id": request.id, kind: answer}).encode()
                answer = plain("200 OK", body, Content_Type="application/json")
            if answer is not DONE:
                conn.send(answer)


@pytest.mark.parametrize("how", ["lines", "json", "event", "stream"])
def test_jr20_jr22_each_entry_is_handled(run, how):
    """Notes, requests and the answer of a call in one array; the answers to the requests leave as one array."""
    logs = []

    def batch(id):
        return [note("a"), request("p1"), reply(id), request(7, "nothing/known"), note("b"), {"jsonrpc": "2.0"}, 5]

    async def main():
        server = line_server(R2, batch) if how == "lines" else HttpServer(R2, batch, how)
        async with server as script:
            target = script.target if how == "lines" else script.url
            async with connect(target, on_log=lambda m: logs.append(m.data)) as client:
                assert client.protocol_version == R2
                if how == "stream":
                    await until(lambda: script.stream)
                assert (await client.call_tool("t")).text == "done"
                bodies = (lambda: script.seen) if how == "lines" else (lambda: [r.body for r in script.seen])
                await until(lambda: any(isinstance(b, list) for b in bodies()))
                (answers,) = [b for b in bodies() if isinstance(b, list)]
                assert {a["id"]: a.get("result", a.get("error", {}).get("code")) for a in answers} == {
                    "p1": {}, 7: -32601
                }  # fmt: skip
                await until(lambda: logs == ["a", "b"])

    run(main)


@pytest.mark.parametrize("how", ["lines", "json", "event", "stream"])
@pytest.mark.parametrize("version", [R1, R3, R4])
def test_b83_jr23_arrays_of_other_revisions_do_no_harm(run, how, version):
    """Nothing of them runs and nothing is answered; the connection lives; a call answered so fails."""
    logs = []

    async def main():
        good = []

        def batch(id):
            return reply(id) if good else [note("a"), request("p1"), reply(id)]

        server = line_server(version, batch) if how == "lines" else HttpServer(version, batch, how)
        async with server as script:
            target = script.target if how == "lines" else script.url
            async with connect(target, on_log=lambda m: logs.append(m.data)) as client:
                if how == "stream":
                    await until(lambda: script.stream)
                with pytest.raises((RemoteProtocolError, TimeoutError, ConnectionError)):
                    await client.call_tool("t", timeout=0.1)
                good.append(1)
                assert (await client.call_tool("t")).text == "done"
                bodies = script.seen if how == "lines" else [r.body for r in script.seen]
                assert not any(isinstance(b, list) or (b and "method" not in b) for b in bodies)
                assert logs == []

    run(main)


@pytest.mark.parametrize("array", [[], [1], [[]], [[request(1)]], [None, "x"], [{"jsonrpc": "2.0", "id": "q", "result": {}}]])
def test_b83_odd_arrays(run, array):
    """Empty, without a message in them, nested, or with strange answers: ignored, and never answered (B07)."""

    async def main():
        def batch(id):
            return array

        async with line_server(R2, batch) as script, connect(script.target) as client:
            with pytest.raises(TimeoutError):
                await client.call_tool("t", timeout=0.05)
            await asyncio.sleep(0.02)
            assert [m["method"] for m in script.seen[-2:]] == ["tools/call", "notifications/cancelled"]
            assert not client.closed

    run(main)


def test_max_batch_bounds_an_array(run):
    async def main():
        def batch(id):
            return [request(i) for i in range(5)] + [reply(id)]

        async with line_server(R2, batch) as script:
            async with connect(script.target, limits=Limits(max_batch=5)) as client:
                with pytest.raises(TimeoutError):
                    await client.call_tool("t", timeout=0.05)
            async with connect(script.target, limits=Limits(max_batch=6)) as client:
                assert (await client.call_tool("t")).text == "done"

    run(main)


def test_jr22_answers_of_calls_in_flight_may_come_in_any_order(run):
    """One array answers three calls on a line connection."""

    async def main():
        waiting = []

        def call(message, writer):
            waiting.append(message["id"])
            if len(waiting) == 3:
                writer.write(json.dumps([reply(id, str(id)) for id in reversed(waiting)]).encode() + b"\n")

        script = Script(discover=error(-32601), initialize=handshake(R2), tools_call=call)
        async with script, connect(script.target) as client:
            results = await asyncio.gather(*(client.call_tool("t") for _ in range(3)))
            assert [r.text for r in results] == [str(id) for id in waiting]

    run(main)
