# Part of the module _http_conn: which connection a request takes, and when one is opened or closed.

cdef class HttpPool:
    """The connections of one origin: at most `max_open` of them, the last used first.

    `opener(conn)` starts to connect and ends in ``conn.connection_made`` or
    ``conn.connect_failed(exc)``.
    """

    def __init__(self, runtime, limits, opener):
        self.runtime = runtime
        self.limits = limits
        self.head_limits = head_limits(limits)
        self.opener = opener
        self.max_open = limits.max_client_connections
        self.conns = set()
        self.idle = []
        self.draining = set()
        self.waiting = OrderedDict()
        self.timer_at = 0

    @property
    def counts(self):
        """Numbers of connections and of requests that wait for one."""
        return {"connections": len(self.conns), "idle": len(self.idle), "waiting": len(self.waiting)}

    cdef HttpConn ready(self):
        """A usable idle connection, taken out, or None."""
        cdef HttpConn conn
        cdef double now
        if not self.idle:
            return None
        now = self.runtime.time()
        while self.idle:
            conn = <HttpConn>self.idle.pop()
            if conn.idle_until > now and conn.alive():
                return conn
            conn.shut()
        return None

    cdef int submit(self, HttpRequest request) except -1:
        """Sends `request` now, or as soon as a connection is free."""
        cdef HttpConn conn = self.ready()
        if conn is not None:
            return conn.start(request)
        if self.closed:
            raise ConnectionClosed("the connection is closed")
        if request.urgent:
            if self.open < self.max_open + URGENT_EXTRA:
                self.open_one(request, True)
                return 0
            if len(self.waiting) >= self.limits.max_pending:
                raise LocalProtocolError("too many requests wait for a connection (limit max_pending)")
            self.waiting[request] = None
            self.waiting.move_to_end(request, False)
            return 0
        self.waiting[request] = None
        if self.open < self.max_open and self.connecting < len(self.waiting):
            self.open_one(None, True)
        return 0

    cdef int submit_alone(self, HttpRequest request) except -1:
        """Sends `request` on a connection opened for it, outside the count."""
        self.open_one(request, False)
        return 0

    cdef bint submit_away(self, HttpRequest request) except -1:
        """Sends `request` now on an idle connection, which leaves the count and is replaced. False when there
        is none."""
        cdef HttpConn conn = self.ready()
        if conn is None:
            return False
        if conn.counted:
            conn.counted = False
            self.open -= 1
        conn.start(request)
        if not self.closed and self.open + self.connecting < self.max_open and not self.idle:
            self.open_one(None, True)
        return True

    cdef int withdraw(self, HttpRequest request) except -1:
        """`request` is not to be sent any more."""
        request.dropped = True
        self.waiting.pop(request, None)
        return 0

    cdef HttpConn open_one(self, HttpRequest reserved, bint counted):
        cdef HttpConn conn = HttpConn.__new__(HttpConn)
        conn.pool = self
        conn.reserved = reserved
        conn.counted = counted
        self.conns.add(conn)
        if reserved is None:
            conn.shared = True
            self.connecting += 1
        if counted:
            self.open += 1
        self.opener(conn)
        return conn

    def warm(self):
        """Opens one connection ahead of the first request and returns it (see ``conn.closed``)."""
        return self.open_one(None, True)

    cdef int release(self, HttpConn conn) except -1:
        """`conn` has nothing to do any more."""
        cdef HttpRequest request
        if conn.closed:
            return 0
        if self.closed or not conn.persist:
            return conn.shut()
        if self.open + (not conn.counted) > self.max_open and not self.waiting:
            return conn.shut()
        if not conn.counted:
            conn.counted = True
            self.open += 1
        if self.waiting:
            request = <HttpRequest>self.waiting.popitem(last=False)[0]
            return conn.start(request)
        conn.idle_until = self.runtime.time() + conn.keep
        self.idle.append(conn)
        return self.arm(conn.idle_until)

    cdef int gone(self, HttpConn conn) except -1:
        """`conn` is closed."""
        self.conns.discard(conn)
        if conn.counted:
            conn.counted = False
            self.open -= 1
        if conn in self.idle:
            self.idle.remove(conn)
        if self.waiting and not self.closed and self.open < self.max_open and (
            self.connecting < len(self.waiting)
        ):
            self.open_one(None, True)
        return 0

    cdef int drain(self, HttpConn conn) except -1:
        """Nobody wants the rest of the answer on `conn`: it may end by itself, within drain_timeout."""
        if conn.closed or conn.request is None or conn.drain_until != 0:
            return 0
        conn.drain_until = self.runtime.time() + self.limits.drain_timeout
        self.draining.add(conn)
        return self.arm(conn.drain_until)

    cdef int arm(self, double when) except -1:
        if self.timer is not None:
            if self.timer_at <= when:
                return 0
            self.timer.cancel()
        self.timer_at = when
        self.timer = self.runtime.call_at(when, self.sweep)
        return 0

    def sweep(self):
        """The pool's one timer: closes what was idle or unwanted for too long."""
        cdef HttpConn conn
        cdef double now = self.runtime.time() + 0.01
        cdef double next_at = 0
        self.timer = None
        for conn in list(self.idle):
            if conn.idle_until <= now:
                conn.shut()
            elif next_at == 0 or conn.idle_until < next_at:
                next_at = conn.idle_until
        draining = self.draining
        self.draining = set()
        for conn in draining:
            if conn.closed or conn.drain_until == 0:
                continue
            if conn.drain_until <= now:
                conn.abandon()
                continue
            self.draining.add(conn)
            if next_at == 0 or conn.drain_until < next_at:
                next_at = conn.drain_until
        if next_at != 0 and not self.closed:
            self.arm(next_at)

    def close(self, reason=None):
        """Closes every connection at once; requests that are still there fail with ConnectionClosed.
        Safe to repeat."""
        cdef HttpConn conn
        cdef HttpRequest request
        cdef list requests = list(self.waiting)
        self.closed = True
        self.waiting.clear()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for conn in list(self.conns):
            if conn.request is not None:
                requests.append(conn.request)
            if conn.reserved is not None:
                requests.append(conn.reserved)
            conn.abandon()
        self.idle.clear()
        self.draining.clear()
        exc = reason or ConnectionClosed("the connection was closed")
        for request in requests:
            request.on_lost(exc, False, False, None)
