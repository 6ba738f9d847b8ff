"""The limit of a Python event loop: a raw uvloop protocol that answers every read with the same bytes.

`canned_server.py PORT REPLY_FILE`
"""

import asyncio
import sys

import uvloop


class Canned(asyncio.Protocol):
    reply = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.write(self.reply)


async def main() -> None:
    with open(sys.argv[2], "rb") as f:
        Canned.reply = f.read()
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
