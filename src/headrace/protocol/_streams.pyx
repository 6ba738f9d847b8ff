"""The part of a session's streams that every event passes: names, ids, what is kept (HO-20, HO-22).

:class:`~headrace.protocol.session_streams.StreamingSession` has one; HTTP exchanges call it without going
through Python.
"""

from headrace.jsonrpc import R4

from headrace.protocol._event_memory cimport MemoryEventStore

__all__ = ("StreamKeeper",)


cdef class StreamKeeper:
    """The named streams of `session`, which has ``server``, ``mux``, ``id`` and ``ended``. `settings` is a
    StreamSettings. A session makes one with its first stream: most have none."""

    def __init__(self, session, settings):
        self.session = session
        self.posts = {}
        self.make_store = settings.make_store
        self.retry_ms = -1 if settings.retry_interval is None else int(settings.retry_interval * 1000)
        self.primed = -1

    cdef object event_store(self):
        if self.store is None and self.make_store is not None and self.session is not None and not self.session.ended:
            try:
                self.store = self.make_store(self.session.id)
            except Exception as exc:
                self.report("an event store could not be made", exc)
            if type(self.store) is MemoryEventStore:
                self.memory = self.store
        return self.store

    cdef int report(self, str text, object exc) except -1:
        if self.session is not None:
            self.session.server.runtime.report(text, exc)
        return 0

    cdef str open_named(self, object sink, bint get):
        """A name for the stream that `sink` becomes; None when it will not have ids."""
        cdef str name
        if self.store is None and self.event_store() is None:
            return None
        self.made += 1
        if get:
            return f"g{self.made}"
        name = f"p{self.made}"
        self.posts[name] = sink
        return name

    cdef bytes keep_event(self, str stream, bytes data):
        """Keeps an event that is being sent; gives its id, or None when it goes without."""
        if self.store is None:
            return None
        try:
            if self.memory is not None:
                return self.memory.put(stream, data)
            return self.store.append(stream, data).encode("ascii")
        except Exception as exc:
            self.report("an event could not be kept", exc)
            return None

    cdef int post_over(self, str stream) except -1:
        """A POST stream got its last event."""
        self.posts.pop(stream, None)
        return self.end_named(stream)

    cdef int end_named(self, str stream) except -1:
        if self.store is None:
            return 0
        try:
            if self.memory is not None:
                self.memory.end(stream)
            else:
                self.store.end(stream)
        except Exception as exc:
            self.report("an event store failed", exc)
        return 0

    cdef bint priming(self) except -1:
        if self.primed >= 0:
            return self.primed
        if self.make_store is None:
            self.primed = False
        elif self.session is None or self.session.mux is None or self.session.mux.current is None:
            return False
        else:
            self.primed = self.session.mux.current.name >= R4
        return self.primed

    def end(self):
        """The session has ended. Gives the store away, to be closed."""
        store, self.store, self.memory = self.store, None, None
        self.session = None
        self.posts.clear()
        return store

    @property
    def events(self):
        """The event store; made when the first stream needs it. None: streams have no ids."""
        return self.event_store()

    @property
    def primes(self):
        """Streams begin with an event that has an id and no data; earlier clients choke on it (HO-22, B38)."""
        return self.priming()

    def stream_closed(self, str stream not None):
        """A GET stream got its last event for now."""
        self.end_named(stream)
