"""Answers that are longer than a client reads: the call fails with an error of its own, the others go on (B10)."""

import asyncio
import json

import pytest
from scripted_peer import MODERN, Script

from headrace import Limits, RemoteProtocolError, connect

LIMIT = 4_000
BIG = json.dumps({"content": [{"type": "text", "text": 'x"id": 1, ' * 2_000}]})
FIRST = '{"jsonrpc":"2.0","id":%d,"result":%s}\n'
LAST = '{"result":%s,"jsonrpc":"2.0","id":%d}\n'


@pytest.mark.parametrize("order", ["id first", "id last", "id last, spaced"])
@pytest.mark.parametrize("pieces", [1, 7, 10_000])
def test_b10_an_answer_that_is_too_long_fails_its_own_call(run, order, pieces):
    """Found by its id at either end of the line, however the line is cut; other calls are not touched."""

    async def main():
        waiting = []

        async def call(message, writer):
            if message["params"]["name"] == "waits":
                waiting.append(message["id"])
                return None
            id = message["id"]
            line = FIRST % (id, BIG) if order == "id first" else LAST % (BIG, id)
            if order.endswith("spaced"):
                line = line[:-2] + " } \r\n"
            data = line.encode()
            step = len(data) // pieces + 1
            for i in range(0, len(data), step):
                writer.write(data[i : i + step])
                if pieces <= 7:
                    await asyncio.sleep(0)
            for id in waiting:
                answer = {"jsonrpc": "2.0", "id": id, "result": {"content": []}}
                writer.write(json.dumps(answer).encode() + b"\n")
            return None

        limits = Limits(max_message_bytes=LIMIT)
        async with Script(discover=MODERN, tools_call=call) as peer, connect(peer.target, limits=limits) as client:
            others = [asyncio.ensure_future(client.call_tool("waits")) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(RemoteProtocolError, match=f"longer than {LIMIT} bytes"):
                await client.call_tool("big")
            for other in others:
                assert (await other).content == []

    run(main)


def test_b08_b10_long_lines_that_are_no_answers_fail_nothing(run):
    """Log lines, notifications and requests of the server as long as that are passed over."""

    async def main():
        def call(message, writer):
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 9_000}}
            request = {"jsonrpc": "2.0", "id": message["id"], "method": "ping", "params": {"a": "x" * 9_000}}
            writer.write(b"x" * 9_000 + b"\n")
            writer.write(json.dumps(note).encode() + b"\n")
            writer.write(json.dumps(request).encode() + b"\n")
            writer.write(b'{"a":"' + b"x" * 9_000 + b'","id":%d}\n' % message["id"])
            return {"content": []}

        limits = Limits(max_message_bytes=LIMIT)
        async with Script(discover=MODERN, tools_call=call) as peer, connect(peer.target, limits=limits) as client:
            assert (await client.call_tool("t")).content == []

    run(main)
