"""The seam for other SDKs: plain handlers behind every transport."""

import asyncio
import json

import pytest

from headrace.errors import RpcError
from headrace.limits import DEFAULT
from headrace.transports._link import LineLink
from headrace.transports.http_server import serve_http
from headrace.transports.memory import memory_pair
from headrace.transports.plain import McpHost, RpcHost


def _pair(host, other):
    """Two connected peers in memory."""
    ends = []
    links = []
    for each in (host, other):
        peer, mux = each.new_session()
        link = LineLink(mux, DEFAULT)
        peer.sink = link
        ends.append(peer)
        links.append(link)
    memory_pair(*links)
    return ends


async def _echo(method, params, exchange):
    return {"method": method, "params": params}


def test_any_method_both_ways(run):
    async def main():
        async def ask_back(method, params, exchange):
            return {"asked": await exchange.request("other/side", {"n": 10**30})}

        host, other = RpcHost(ask_back), RpcHost(_echo)
        async with host.running(), other.running():
            server, client = _pair(host, other)
            found = await client.request("initialize", {"x": 1})
            assert found == {"asked": {"method": "other/side", "params": {"n": 10**30}}}
            server.sink.close()
            await asyncio.sleep(0)

    run(main)


@pytest.mark.parametrize("id", ["listen-1", "7", 12, "é\n"])
def test_ids_that_the_caller_chose(run, id):
    async def main():
        seen = []

        async def handler(method, params, exchange):
            seen.append(exchange.request_id)
            exchange.progress(1, 2, "half")
            await asyncio.sleep(0)
            return {}

        notes = []
        host, other = RpcHost(handler), RpcHost(_echo)
        async with host.running(), other.running():
            _, client = _pair(host, other)
            params = {"_meta": {"progressToken": id}}
            call = client.request("x", params, id=id, on_progress=lambda *each: notes.append(each))
            with pytest.raises(ValueError, match="in flight"):
                client.request("x", id=id)
            assert await call == {}
            assert seen == [id]
            assert notes == [(1, 2, "half")]
            assert not client.mux.pending
            assert await asyncio.gather(*(client.request("x") for _ in range(20))) == [{}] * 20

    run(main)


def test_initialize_is_the_handlers_and_begins_a_session(run):
    async def main():
        told = []

        async def handler(method, params, exchange):
            if method == "initialize":
                return {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {}}
            if method == "refuse":
                raise RpcError(-32000, "no")
            return {"revision": exchange.revision, "session": exchange.session.id, "agent": exchange.headers["user-agent"]}

        host = McpHost(handler, on_notify=lambda *each: told.append(each[:2]))
        async with host.running():
            listener = await serve_http(host, host="127.0.0.1")
            port = int(listener.url.rpartition(":")[2].partition("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)

            async def post(body, *fields):
                raw = json.dumps({"jsonrpc": "2.0", **body}).encode()
                head = [
                    "POST /mcp HTTP/1.1", "Host: 127.0.0.1", "User-Agent: t", "Content-Type: application/json",
                    "Accept: application/json, text/event-stream", f"Content-Length: {len(raw)}", *fields,
                ]
                writer.write("\r\n".join([*head, "", ""]).encode() + raw)
                answer = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = [line for line in answer.splitlines() if line.lower().startswith("content-length:")]
                text = await reader.readexactly(int(length[0].partition(":")[2])) if length else b""
                return answer, json.loads(text) if text else None

            answer, _ = await post({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
            key = next(x for x in answer.splitlines() if x.lower().startswith("mcp-session-id")).split()[1]
            fields = (f"Mcp-Session-Id: {key}", "MCP-Protocol-Version: 2025-06-18")
            answer, _ = await post({"method": "notifications/initialized"}, *fields)
            assert answer.startswith("HTTP/1.1 202")
            assert told == [("notifications/initialized", None)]
            _, body = await post({"id": 2, "method": "any/thing"}, *fields)
            assert body["result"] == {"revision": "2025-06-18", "session": key, "agent": "t"}
            _, body = await post({"id": 3, "method": "refuse"}, *fields)
            assert body["error"] == {"code": -32000, "message": "no"}
            _, body = await post({"id": 4, "method": "initialize", "params": {"protocolVersion": "1"}})
            assert body["error"]["code"] == -32603
            assert listener.sessions == 1
            writer.close()
            await listener.close()

    run(main)
