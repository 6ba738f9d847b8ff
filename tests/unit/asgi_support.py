"""An ASGI host written by hand: it says what a test wants it to say, in the order in which the test says it."""

import asyncio
import contextlib
import json

from http_support import BOTH, META, R4, R5, Answer

LOCAL = ("127.0.0.1", 8000)


def scope_of(method="POST", path="/mcp", headers=(), *, query=b"", root_path="", server=LOCAL, **more):
    names = {name for name, _ in headers}
    found = [(b"host", b"127.0.0.1:8000")] if b"host" not in names else []
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": root_path,
        "headers": found + list(headers),
        "client": ("127.0.0.1", 50000),
        "server": server,
        "state": {},
    } | more


class Call:
    """One request: what the application is told, and what it says."""

    def __init__(self, app, scope, *messages):
        self.app = app
        self.scope = scope
        self.inbox = asyncio.Queue()
        for message in messages:
            self.inbox.put_nowait(message)
        self.sent = []
        self.asked = 0
        self.news = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.task = None

    async def receive(self):
        self.asked += 1
        return await self.inbox.get()

    async def send(self, message):
        await self.may_send.wait()
        self.sent.append(message)
        self.news.set()

    def tell(self, body, more=False):
        self.inbox.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self):
        self.inbox.put_nowait({"type": "http.disconnect"})

    def start(self):
        self.task = asyncio.create_task(self.app(self.scope, self.receive, self.send))
        return self

    async def until(self, condition, timeout=5.0):
        """Waits until `condition(self)` holds for what was sent."""

        async def waiting():
            while not condition(self):
                self.news.clear()
                await self.news.wait()

        await asyncio.wait_for(waiting(), timeout)

    async def over(self, timeout=5.0):
        """Waits for the end of the application's call, which must be well; gives the answer."""
        await asyncio.wait_for(self.task, timeout)
        return self.answer

    @property
    def begun(self):
        return bool(self.sent)

    @property
    def whole(self):
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def answer(self):
        start = self.sent[0]
        assert start["type"] == "http.response.start"
        headers = {}
        for name, value in start["headers"]:
            assert type(name) is bytes and type(value) is bytes and name == name.lower()
            headers.setdefault(name.decode(), []).append(value.decode("latin-1"))
        assert all(message["type"] == "http.response.body" for message in self.sent[1:])
        assert all(type(message["body"]) is bytes for message in self.sent[1:])
        return Answer(start["status"], headers, self.body, [message["body"] for message in self.sent[1:]])


def modern(method, params=None, id=1, **fields):
    """Headers and body of a request of the modern era."""
    params = {"_meta": META, **(params or {})}
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"accept", BOTH.encode()),
        (b"mcp-protocol-version", R5.encode()),
        (b"mcp-method", method.encode()),
        (b"content-length", b"%d" % len(body)),
    ]
    if "name" in params:
        headers.append((b"mcp-name", params["name"].encode()))
    return headers, body


def handshake(method, params=None, id=1, session=None):
    """The same of the handshake era."""
    message = {"jsonrpc": "2.0", "method": method} | ({"id": id} if id is not None else {})
    body = json.dumps(message | ({"params": params} if params is not None else {})).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"accept", BOTH.encode()),
        (b"content-length", b"%d" % len(body)),
    ]
    if session is not None:
        headers += [(b"mcp-session-id", session.encode()), (b"mcp-protocol-version", R4.encode())]
    return headers, body


HELLO = {"protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def post(app, headers, body, *, pieces=None, **scope):
    """A POST that has begun; ``pieces`` cuts the body into so many messages."""
    call = Call(app, scope_of("POST", scope.pop("path", "/mcp"), headers, **scope))
    size = -(-len(body) // pieces) if pieces else len(body)
    cut = [body[at : at + size] for at in range(0, len(body), size)] if size else [b""]
    for number, piece in enumerate(cut, 1):
        call.tell(piece, number < len(cut))
    return call.start()


async def ask(app, method, params=None, **scope):
    """The whole answer to a request of the modern era."""
    return await post(app, *modern(method, params), **scope).over()


async def open_session(app, **scope):
    """A session of the handshake era; gives its id."""
    answer = await post(app, *handshake("initialize", HELLO), **scope).over()
    assert answer.status == 200, answer
    session = answer.get("mcp-session-id")
    answer = await post(app, *handshake("notifications/initialized", id=None, session=session), **scope).over()
    assert answer.status == 202
    return session


def get(app, session=None, *fields, path="/mcp", **scope):
    """A GET of an event stream that has begun."""
    headers = [(b"accept", b"text/event-stream"), *fields]
    if session is not None:
        headers += [(b"mcp-session-id", session.encode()), (b"mcp-protocol-version", R4.encode())]
    return Call(app, scope_of("GET", path, headers, **scope)).start()


class Life:
    """The lifespan of a host."""

    def __init__(self, app):
        self.inbox = asyncio.Queue()
        self.sent = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        self.task = asyncio.create_task(app(scope, self.inbox.get, self.sent.put))

    async def step(self, name, timeout=10.0):
        """Sends an event; gives what the application answers."""
        self.inbox.put_nowait({"type": f"lifespan.{name}"})
        return await asyncio.wait_for(self.sent.get(), timeout)


@contextlib.asynccontextmanager
async def living(app):
    life = Life(app)
    assert (await life.step("startup"))["type"] == "lifespan.startup.complete"
    try:
        yield app
    finally:
        assert (await life.step("shutdown"))["type"] == "lifespan.shutdown.complete"
        await asyncio.wait_for(life.task, 5)
