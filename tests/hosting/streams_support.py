"""Several servers of one hub with sessions that all of them serve, for tests of streams alone.

What sessions are and how they are found is as plain as it can be: a record is written when a session begins, and read
when another server is asked for it. How it is really done is headrace.protocol.shared_sessions.
"""

import asyncio
import contextlib
import time

from http_support import Site, make_server, tiny

from headrace.hosting.backplane import MemoryBackplane, MemoryHub
from headrace.protocol.context import Context
from headrace.protocol.http_sessions import HttpSession, SessionStore
from headrace.protocol.session import Hello
from headrace.protocol.session_streams import StreamSettings
from headrace.protocol.shared_streams import OWNER_PART, SharedStreams
from headrace.protocol.stream_sharing import StreamSharing
from headrace.transports import http_server

PROGRESS = {"progressToken": "t"}
LIST_CHANGED = "notifications/tools/list_changed"


class PlainSession(StreamSharing, HttpSession):
    """A session of several servers."""


class PlainSessions(SessionStore):
    """`known` is what all servers know of the sessions: key -> (creator, revision, hello)."""

    def __init__(self, server, known, **options):
        super().__init__(server, **options)
        self.known = known
        self.shared = SharedStreams(server.backplane, server.runtime, server.limits)
        self.settings = StreamSettings(self.shared.make_store, options.get("retry_interval"))

    def begin(self, principal=None):
        session = super().begin(principal)
        session.__class__ = PlainSession
        session.record = "session:" + session.id
        self.server.backplane.hub.records[session.record] = (time.monotonic() + 600, {"": b"x"})
        self.shared.begin(session)
        self.known[session.key] = (self.server.backplane.worker, session)
        return session

    def find(self, id, principal=None):
        session = self.by_id.get(id)
        if session is None and id in self.known:
            creator, first = self.known[id]
            session = PlainSession(self.server, self)
            session.key, session.id, session.record = id, id.decode(), first.record
            session.opened(self.server.tables.by_name[first.version.decode()], Hello(None, first.hello.raw))
            session.ready = True
            session.subscriptions = first.subscriptions
            _, parts = self.server.backplane.hub.records[session.record]
            self.shared.join(session, creator, parts.get(OWNER_PART))
            self.by_id[id] = session
            self.server.sessions.add(session)
        return session

    def close(self):
        for session in list(self.by_id.values()):
            session.ended = True
            del self.by_id[session.key]
            session.mux.close("the server is shutting down")
        self.shared.close()

    def sweep(self):
        super().sweep()
        self.shared.sweep()


class Worker(Site):
    """One server of several; `queue` lets its tool ``steps`` go on."""

    def __init__(self, app, listener, queue):
        super().__init__(app, listener)
        self.app = app
        self.queue = queue
        self.backplane = app.backplane

    @property
    def shared(self):
        return self.endpoint.sessions.shared

    def session(self, sid):
        return self.endpoint.sessions.by_id.get(sid.encode())

    async def die(self):
        """Ends as a killed process: connections break, and it says nothing more."""
        self.backplane.die()
        for link in list(self.endpoint.links):
            link.abort()
        for session in list(self.endpoint.sessions.by_id.values()):
            session.shared = None
            self.endpoint.sessions.end(session)
        await asyncio.sleep(0)


def steps_tool(app):
    """Tool ``steps``: sends 1, 2, ... whenever the test lets it, and ends at its word."""
    queue = asyncio.Queue()

    @app.tool
    async def steps(ctx: Context, pad: int = 0) -> str:
        done = 0
        while (word := await queue.get()) != "end":
            for _ in range(word):
                done += 1
                await ctx.progress(done, message="x" * pad if pad else None)
        return f"done {done}"

    return queue


@contextlib.asynccontextmanager
async def workers(monkeypatch, count=2, hub=None, limits=None, **options):
    """Servers that share one hub and their sessions."""
    hub = hub or MemoryHub()
    known = {}
    limits = limits or tiny(notify_interval=0.01)
    monkeypatch.setattr(http_server, "SessionStore", lambda server, **kept: PlainSessions(server, known, **kept))
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            app = make_server(limits)
            app.set_backplane(MemoryBackplane(hub))
            queue = steps_tool(app)
            await stack.enter_async_context(app.running())
            listener = await http_server.serve_http(
                app, host="127.0.0.1", port=0, principal_of=lambda fields: None, **options
            )
            found.append(Worker(app, listener, queue))
        try:
            yield found
        finally:
            for each in found:
                for peer in each.peers:
                    peer.reset()
            for each in found:
                for session in list(each.endpoint.sessions.by_id.values()):
                    session.server.hub.session_ended(session)
                await asyncio.wait_for(each.listener.close(), 15)


def call_steps(worker, sid, id=1, pad=0):
    """The call of ``steps`` as bytes."""
    return worker.legacy(sid, "tools/call", {"name": "steps", "arguments": {"pad": pad}, "_meta": PROGRESS}, id)


def said(events):
    """Progress values and results of events, in order."""
    return [
        message["params"]["progress"] if "params" in message else message.get("result", message.get("error"))
        for _, message in events
    ]
