"""The part of a session's streams that every event passes: names, ids, what is kept (HO-20, HO-22).

:class:`~headrace.protocol.session_streams.StreamingSession` builds on it; HTTP exchanges call it without
going through Python.
"""

from headrace.jsonrpc import R4

from headrace.protocol._event_memory cimport MemoryEventStore

__all__ = ("StreamKeeper",)


cdef class StreamKeeper:
    """Base of a session with ``server``, ``mux``, ``id`` and ``ended``.

    ``settings`` is a StreamSettings, see there.
    """

    def __cinit__(self, *args, **kwargs):
        self.posts = {}
        self.retry_ms = -1
        self.primed = -1

    def keep_streams(self, settings):
        """To be called once, before the first stream."""
        self.make_store = settings.make_store
        if settings.retry_interval is not None:
            self.retry_ms = int(settings.retry_interval * 1000)

    cdef object event_store(self):
        if self.store is None and self.make_store is not None and not self.ended:
            try:
                self.store = self.make_store(self.id)
            except Exception as exc:
                self.server.runtime.report("an event store could not be made", exc)
            if type(self.store) is MemoryEventStore:
                self.memory = self.store
        return self.store

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
            self.server.runtime.report("an event could not be kept", exc)
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
            self.server.runtime.report("an event store failed", exc)
        return 0

    cdef bint priming(self) except -1:
        if self.primed >= 0:
            return self.primed
        if self.make_store is None:
            self.primed = False
        elif self.mux is None or self.mux.current is None:
            return False
        else:
            self.primed = self.mux.current.name >= R4
        return self.primed

    def drop_store(self):
        """Gives the store away, to be closed: the session has ended."""
        store, self.store, self.memory = self.store, None, None
        return store

    @property
    def resumable(self):
        """Whether streams of this session have event ids."""
        return self.make_store is not None

    @property
    def events(self):
        """The event store; made when the first stream needs it."""
        return self.event_store()

    @property
    def primes(self):
        """Streams begin with an event that has an id and no data; earlier clients choke on it (HO-22, B38)."""
        return self.priming()

    def open_stream(self, sink, *, get):
        """A name for the stream that ``sink`` becomes; None when it will not have ids."""
        return self.open_named(sink, get)

    def keep(self, str stream not None, bytes data not None):
        """Keeps an event that is being sent; gives its id, or None when it goes without."""
        return self.keep_event(stream, data)

    def post_ended(self, str stream not None):
        """A POST stream got its last event."""
        self.post_over(stream)

    def stream_closed(self, str stream not None):
        """Any stream got its last event for now."""
        self.end_named(stream)
