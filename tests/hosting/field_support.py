"""What the field trials of hosting share: a server whose tools show what it holds, and a plain HTTP client that keeps
its connection, repeats nothing and gives every answer as it came."""

import http.client
import json

import pytest

from hosting.metrics_support import fetch, parsed
from hosting.processes import META, serving

R4, R5 = "2025-11-25", "2026-07-28"
BOTH = "application/json, text/event-stream"
TIMEOUT = 30.0

APP = '''
import asyncio, os, threading, time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from headrace import Context, Server

def note(text):
    with open("notes", "a") as file:
        file.write(text + "\\n")

@asynccontextmanager
async def lifespan(server):
    note(f"enter {os.getpid()}")
    yield
    note(f"exit {os.getpid()}")

app = Server("trial", version="1", lifespan=lifespan)
who = ContextVar("who", default="nobody")
three = threading.Barrier(3)

@app.add_middleware
async def name(call, next):
    who.set(call.context.headers.get("x-who", "nobody"))
    return await next(call)

@app.tool
async def echo(text: str) -> str:
    return text

@app.tool
async def sleep(ms: float, key: str = "") -> str:
    """Says in a file that it began, and how it ended."""
    note(f"begun {key}")
    how = "cancelled"
    try:
        await asyncio.sleep(ms / 1000)
        how = "finished"
    finally:
        note(f"{how} {key}")
    return how

@app.tool
def meet() -> str:
    """Answers when three threads are in it at once."""
    three.wait(25)
    return "met"

@app.tool
def block(gate: str) -> str:
    """Blocks its thread until there is a file of this name; gives the context variable that it sees."""
    end = time.monotonic() + 50
    while not Path(gate).exists() and time.monotonic() < end:
        time.sleep(0.01)
    return who.get()

@app.tool
async def progress(ctx: Context, n: int, gap_ms: float = 0) -> str:
    for step in range(n):
        await ctx.progress(step + 1, n)
        await asyncio.sleep(gap_ms / 1000)
    return "done"

@app.tool
async def gated(ctx: Context, n: int, gate: str) -> str:
    """One step at once, the others when there is a file of this name."""
    for step in range(n):
        await ctx.progress(step + 1, n)
        while not Path(gate).exists():
            await asyncio.sleep(0.01)
    return "done"

@app.tool
async def state() -> dict:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "pid": os.getpid(), "tasks": len(asyncio.all_tasks()), "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")), "memory": pages * os.sysconf("SC_PAGESIZE"),
    }

if Path("changed").exists():
    @app.tool
    async def more() -> str:
        return "more"
'''


@pytest.fixture
def app(tmp_path):
    """A directory with the server in it."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def start(app, *options, port=0, env=None):
    """`headrace serve` of that server."""
    return serving("app.py", "--http", f"127.0.0.1:{port}", *options, cwd=app, env=env)


def notes(app):
    """What the server wrote down, a line each."""
    path = app / "notes"
    return path.read_text().splitlines() if path.exists() else []


def scrape(port):
    """The metrics at the path /metrics."""
    status, text, _ = fetch(f"http://127.0.0.1:{port}/metrics")
    assert status == 200
    return parsed(text)[0]


class Peer:
    """One client on one connection. ``sid`` is its session; without one its requests are of the modern era."""

    def __init__(self, port, sid=None):
        self.sid = sid
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()

    def send(self, method="POST", message=None, path="/mcp", **fields):
        headers = {"Accept": "text/event-stream" if method == "GET" else BOTH}
        if self.sid:
            headers |= {"Mcp-Session-Id": self.sid, "MCP-Protocol-Version": R4}
        body = None
        if message is not None:
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            headers["Content-Type"] = "application/json"
        headers |= {name.replace("_", "-"): value for name, value in fields.items()}
        self.connection.request(method, path, body, headers)
        return self

    def request(self, method, params=None, id=1, **fields):
        """Sends a request of this client's era, and does not wait for the answer."""
        params = dict(params or {})
        if self.sid is None and method != "initialize":
            params["_meta"] = {**META, **params.get("_meta", {})}
            fields = {"MCP_Protocol_Version": R5, "Mcp_Method": method} | fields
            if "name" in params:
                fields["Mcp_Name"] = params["name"]
        return self.send(message={"id": id, "method": method, "params": params}, **fields)

    def answer(self):
        """(status, header fields, messages) of what was sent last."""
        response = self.connection.getresponse()
        text = response.read().decode()
        if response.headers.get_content_type() == "text/event-stream":
            found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        elif response.headers.get_content_type() == "application/json":
            found = [json.loads(text)]
        else:
            found = []
        return response.status, response.headers, found

    def ask(self, method, params=None, **options):
        """(status, last message) of a request."""
        status, _, found = self.request(method, params, **options).answer()
        return status, found[-1] if found else None

    def tool(self, name, **arguments):
        """Sends a call of a tool."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def text(self):
        """The text of the tool's result that was sent for last."""
        status, _, found = self.answer()
        assert status == 200 and "result" in found[-1], (status, found)
        return found[-1]["result"]["content"][0]["text"]

    def call(self, name, **arguments):
        return self.tool(name, **arguments).text()

    def initialize(self, **fields):
        """(status, header fields) of an initialize; the session is this client's from now on, where there is one."""
        self.sid = None
        hello = {"protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        status, headers, _ = self.request("initialize", hello, id=0, **fields).answer()
        self.sid = headers.get("mcp-session-id")
        return status, headers

    def begin(self):
        """The id of a session that was begun as clients do."""
        status, _ = self.initialize()
        assert status == 200
        status, _, _ = self.send(message={"method": "notifications/initialized"}).answer()
        assert status == 202
        return self.sid

    def delete(self):
        return self.send("DELETE").answer()[0]

    def listen(self):
        """Opens the session's event stream; gives the response, of which the head has been read."""
        response = self.send("GET").connection.getresponse()
        assert response.status == 200, response.read()
        return response

    def state(self):
        status, message = self.ask("tools/call", {"name": "state", "arguments": {}})
        assert status == 200, message
        return message["result"]["structuredContent"]
