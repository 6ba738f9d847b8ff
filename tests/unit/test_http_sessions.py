"""The session store without any socket: ids, bounds, idle end, streams (HO-30..HO-33, B44, B47)."""

import os

import pytest

from headrace.errors import ConnectionClosed, RpcError
from headrace.limits import Limits
from headrace.mux import FrameSink, Revision, Runtime
from headrace.protocol.http_sessions import SessionStore, new_key
from headrace.protocol.session import Hello
from headrace.protocol.session_streams import MAX_STREAMS
from headrace.protocol.tables import Features, Tables


class Future:
    def __init__(self):
        self.error = None
        self._done = False

    def done(self):
        return self._done

    def set_exception(self, exc):
        self._done, self.error = True, exc


class Handle:
    def cancel(self):
        pass


class Owner:
    def __init__(self, **limits):
        self.now = 100.0
        self.limits = Limits(**limits)
        self.sessions = set()
        self.tables = Tables(Features({"name": "t", "version": "1"}, None, lambda r: {}, lambda r: {}))
        self.runtime = Runtime(
            create_future=Future, call_soon=lambda f: Handle(), call_at=lambda t, f: Handle(), time=lambda: self.now,
            spawn=None, run_thread=None, post=None, report=lambda m, e: None,
        )  # fmt: skip

    def session_ended(self, session):
        self.sessions.discard(session)

    def notified(self, session, envelope, sink):
        pass


class Stream:
    """Stands for the sink of a GET."""

    def __init__(self, session):
        self.session = session
        self.ended = False
        self.stream = None

    def end_stream(self):
        self.ended = True
        self.session.stream_ended(self)


def test_ids_are_visible_ascii_and_differ():
    store = SessionStore(Owner())
    ids = [store.begin().id for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(len(i) >= 32 and all(0x21 <= ord(c) <= 0x7E for c in i) for i in ids)
    assert store.by_id[ids[3].encode()].id == ids[3] and len(store) == 100


def test_b47_bound():
    store = SessionStore(Owner(max_sessions=2))
    first = store.begin()
    store.begin()
    with pytest.raises(RpcError) as caught:
        store.begin()
    assert caught.value.http_status == 503
    store.end(first)
    assert store.begin() is not first


def test_end_forgets_the_session_and_fails_its_calls():
    owner = Owner()
    store = SessionStore(owner)
    session = store.begin()
    mux = session.mux
    call = mux.call("ping", None, FrameSink(lambda frame: None))
    stream = Stream(session)
    session.stream_opened(stream)
    assert owner.sessions == {session}
    store.end(session, "over")
    store.end(session, "again")
    assert session.ended and stream.ended and session.sink is None
    assert isinstance(call.future.error, ConnectionClosed)
    assert len(store) == 0 and owner.sessions == set()
    assert not any(mux.debug_counts().values()) and session.mux is None


def test_b47_idle_sessions_are_swept():
    owner = Owner(session_idle_timeout=10.0)
    store = SessionStore(owner)
    quiet, used, streaming = [store.begin() for _ in range(3)]
    stream = Stream(streaming)
    streaming.stream_opened(stream)
    for _ in range(6):
        owner.now += 4
        used.active = True
        store.sweep()
    assert quiet.ended and not used.ended and not streaming.ended
    stream.end_stream()
    for _ in range(6):
        owner.now += 4
        store.sweep()
    assert used.ended and streaming.ended and len(store) == 0


def test_b44_the_newest_stream_takes_over():
    session = SessionStore(Owner()).begin()
    streams = [Stream(session) for _ in range(MAX_STREAMS)]
    for stream in streams:
        session.stream_opened(stream)
        assert session.sink is stream
    streams[-1].end_stream()
    assert session.sink is streams[-2]
    session.stream_opened(streams[-1])
    one_more = Stream(session)
    session.stream_opened(one_more)
    assert streams[0].ended and session.sink is one_more and len(session.streams) == MAX_STREAMS


def test_ho41_the_version_is_that_of_the_handshake():
    owner = Owner()
    session = SessionStore(owner).begin()
    session.opened(owner.tables.by_name["2025-11-25"], Hello(owner.tables.by_name["2025-11-25"], b"{}"))
    assert session.version == b"2025-11-25"


def test_close_ends_all():
    store = SessionStore(Owner())
    sessions = [store.begin() for _ in range(5)]
    store.close()
    assert all(s.ended for s in sessions) and len(store) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_ho30_a_child_process_gives_ids_of_its_own():
    """Ids come from random bytes that were read in one go: a fork must not give those of its parent again."""
    new_key()
    end, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(begin, b"".join(new_key() for _ in range(40)))
        os._exit(0)
    os.close(begin)
    with os.fdopen(end, "rb") as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    theirs = {text[at : at + 48] for at in range(0, len(text), 48)}
    ours = {new_key() for _ in range(80)}
    assert len(theirs) == 40 and len(ours) == 80 and not theirs & ours
    assert all(len(key) == 48 and bytes.fromhex(key.decode()) for key in theirs | ours)


def test_clients_that_say_the_same_share_nothing_that_can_change():
    """The params of `initialize` are remembered by their bytes; what a handler does to its copy stays there."""
    revision = Revision("2025-11-25", modern=False)
    hello = Hello(revision, b'{"capabilities":{"roots":{}},"clientInfo":{"name":"one","version":"1"}}')
    hello.capabilities["sampling"] = {}
    hello.client_info["name"] = "two"
    assert hello.capabilities == {"roots": {}} and hello.client_info == {"name": "one", "version": "1"}
    assert Hello(revision, b"{}").capabilities == {} and Hello(revision, b"{}").client_info == {}
