"""A scripted HTTP server and plans for the tests of the load generator's HTTP side."""

import asyncio
import json

from headrace.bench._http_load import HttpSide
from headrace.bench._load import Load
from headrace.bench.plan import HttpTarget, Operation, Plan, Step


def step(method="tools/call", **more):
    return Step(before=b'{"jsonrpc":"2.0","id":', after=f',"method":"{method}"}}'.encode(), method=method, **more)


def operation(*steps, name="call", weight=1):
    return Operation(name=name, steps=steps or (step(),), weight=weight)


def answer(id_, result='{"content":[]}'):
    return f'{{"jsonrpc":"2.0","id":{id_},"result":{result}}}'


NOTE = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'


def http(body, *, status="200 OK", kind="application/json", more=""):
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n{more}\r\n{body}".encode()


def events(*messages, end=True):
    out = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    for one in messages:
        data = f"event: message\ndata: {one}\n\n".encode()
        out += b"%x\r\n%b\r\n" % (len(data), data)
    return out + (b"0\r\n\r\n" if end else b"")


class Server:
    """Answers each request with what ``reply(request)`` gives: bytes, a list of pieces, or None for an end without
    an answer. Afterwards the connection ends when ``reply`` had set ``request["close"]``."""

    def __init__(self, reply):
        self.reply = reply
        self.requests = []
        self.connections = 0
        self.tasks = set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc):
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0.01)

    def serve(self, reader, writer):
        task = asyncio.ensure_future(self.speak(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def speak(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode().split("\r\n")
                fields = {k.lower(): v.strip() for k, _, v in (one.partition(":") for one in lines[1:-2])}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                request = {
                    "verb": lines[0].split()[0],
                    "path": lines[0].split()[1],
                    "fields": fields,
                    "message": json.loads(body) if body else None,
                    "close": False,
                    "connection": self.connections,
                }
                request["id"] = (request["message"] or {}).get("id")
                self.requests.append(request)
                out = self.reply(request)
                if out is None:
                    break
                for piece in [out] if isinstance(out, bytes) else out:
                    writer.write(piece)
                    await asyncio.sleep(0)
                if request["close"]:
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def plan_for(port, *operations, **more):
    more.setdefault("requests", 5)
    more.setdefault("timeout_s", 5.0)
    target = HttpTarget(host="127.0.0.1", port=port, headers=more.pop("headers", ()))
    return Plan(target=target, operations=operations or (operation(),), revision="2026-07-28", duration_s=None, **more)


async def drive(plan, *, during=None, **options):
    """Runs a plan to its end and gives the tally."""
    load = Load(plan, asyncio.get_running_loop())
    side = HttpSide(load, **options)
    await side.open()
    load.begin()
    over = load.wait()
    if during is not None:
        during(load)
    while not over.done():
        await asyncio.wait([over], timeout=0.02)
        load.sweep()
    await side.close()
    return load.tally


def kinds(tally):
    return {kind: count for kind, count, _ in tally.error_list}
