"""The least that an echo of a large text needs on uvloop: collect the body, decode, encode, write.

No HTTP rules, no protocol rules, no bounds: a measure for large messages. `bare_echo.py PORT`
"""

import asyncio
import sys

import msgspec
import uvloop


class Arguments(msgspec.Struct):
    text: str
    n: int


class Params(msgspec.Struct):
    name: str
    arguments: Arguments


class Request(msgspec.Struct):
    id: int
    params: Params


class Text(msgspec.Struct, tag="text"):
    text: str


class Result(msgspec.Struct):
    content: list[Text]


class Reply(msgspec.Struct):
    id: int
    result: Result
    jsonrpc: str = "2.0"


decode = msgspec.json.Decoder(Request).decode
encode = msgspec.json.Encoder().encode


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.have = 0
        self.need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        self.have += len(data)
        if self.need < 0:
            head = b"".join(self.parts)
            end = head.find(b"\r\n\r\n")
            if end < 0:
                return
            at = head.index(b"Content-Length: ") + 16
            self.head = end + 4
            self.need = self.head + int(head[at : head.index(b"\r", at)])
        if self.have < self.need:
            return
        body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        request = decode(memoryview(body)[self.head :])
        reply = encode(Reply(request.id, Result([Text(request.params.arguments.text)])))
        self.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply))
        self.write(reply)
        self.parts.clear()
        self.have, self.need = 0, -1


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
