# One connection of a load run; included by _http_load.pyx.

cdef str quoted(const char *p, Py_ssize_t n):
    """At most 300 characters of what a server sent."""
    return PyBytes_FromStringAndSize(p, min(n, 1200)).decode("utf-8", "replace")[:300]


@cython.final
cdef class HttpLane(Lane):
    """One connection: at most one operation, and one request of it, at a time."""

    def __cinit__(self):
        self.held = Outbuf.__new__(Outbuf)
        self.body = Outbuf.__new__(Outbuf)
        self.id = FIRST_ID - 1
        memset(&self.head, 0, sizeof(self.head))

    # --- what the load asks for ---------------------------------------------------------------------

    cdef int start(self) except -1:
        self.session = self.base
        self.retried = False
        if self.opened:
            self.script = <tuple>PyTuple_GET_ITEM(self.side.operations, self.op)
        else:
            self.opening = True
            self.script = self.side.opening
        return self.send()

    cdef int expired(self) except -1:
        if self.state == TAIL:
            self.drop()
            return self.step_over()
        if self.state == HELD:
            return self.end_listen()
        if self.state != WAITING:
            return 0
        return self.bad("timeout", f"{'only a part of the' if self.touched else 'no'} answer to {self.what()} within "
                                   f"{self.side.plan.timeout_s:g} s")

    cdef int leave(self) except -1:
        if self.state == HELD:
            return self.end_listen()
        return 0

    # --- out ----------------------------------------------------------------------------------------

    cdef str what(self):
        """The method of the step under way."""
        return (<Shot>PyTuple_GET_ITEM(self.script, self.step)).method

    cdef int send(self) except -1:
        """Sends the step, on a new connection when there is none."""
        cdef HttpLink link = self.link
        cdef HttpSide side = self.side
        cdef Tally tally = self.load.tally
        cdef Shot shot
        cdef size_t head, session = 0, tail
        cdef Py_ssize_t sent = 0
        cdef char *out
        cdef int64_t now, v
        cdef int i
        if link is None:
            return self.dial()
        shot = <Shot>PyTuple_GET_ITEM(self.script, self.step)
        head = <size_t>PyBytes_GET_SIZE(shot.head)
        tail = <size_t>PyBytes_GET_SIZE(shot.tail)
        if shot.opens:
            self.session = None     # a session of the operation's own, beside that of the connection
        if self.session is not None:
            session = <size_t>PyBytes_GET_SIZE(self.session)
        side.reserve(head + session + tail)
        out = side.scratch
        memcpy(out, PyBytes_AS_STRING(shot.head), head)
        if session:
            memcpy(out + head, PyBytes_AS_STRING(self.session), session)
        out += head + session
        memcpy(out, PyBytes_AS_STRING(shot.tail), tail)
        if side.fixed_id:
            self.id = 7
        elif shot.id_at >= 0:
            self.id += 1
            v = self.id
            for i in range(ID_WIDTH - 1, -1, -1):
                out[shot.id_at + i] = <char>(c'0' + v % 10)
                v //= 10
            if shot.token_at >= 0:
                memcpy(out + shot.token_at, out + shot.id_at, ID_WIDTH)
        head += session + tail
        out = side.scratch
        now = now_ns()
        self.stale = link.uses > 0 and now - self.answered_at > SILENCE
        self.deadline = now + self.load.timeout
        self.state = WAITING
        self.reading = AT_HEAD
        self.touched = self.answered = self.reported = False
        self.kind = None
        self.notes = 0
        self.interim = 0
        link.uses += 1
        tally.requests += 1
        tally.bytes_out += head
        if link.fd >= 0:
            sent = bench_send(link.fd, out, head)
            if sent == <Py_ssize_t>head:
                return 0
            if sent < 0:
                # The end of the connection, and perhaps an answer before it, is still to be read.
                link.fd = -1
                return 0
            link.fd = -1         # from now on in the transport's order
        link.transport.write(PyBytes_FromStringAndSize(out + sent, <Py_ssize_t>head - sent))
        return 0

    cdef int dial(self) except -1:
        self.state = CONNECTING
        self.deadline = 0
        self.task = self.load.loop.create_task(self.side.connect(self))
        return 0

    def connected(self):
        """The link is up."""
        self.task = None
        if self.had_link:
            self.load.tally.reconnects += 1
        self.had_link = False
        self.failing = 0
        if self.state == CONNECTING:
            self.send()

    def not_connected(self, exc):
        """No link came up."""
        self.task = None
        if self.state != CONNECTING:
            return
        self.state = IDLE
        if self.failing == 0:
            self.failing = now_ns()
        self.given_up = now_ns() - self.failing > max(self.load.timeout, GIVE_UP)
        self.failed("connect", str(exc))

    # --- in -----------------------------------------------------------------------------------------

    cdef int consume(self, const char *p, const char *e) except -1:
        cdef HttpSide side = self.side
        cdef const char *start
        cdef size_t n, before
        cdef hr_span piece
        cdef int rc, kind
        if self.state == IDLE:
            if p != e:
                self.load.tally.stray(self.op, "bad_http", "bytes that answer nothing: " + quoted(p, e - p))
                self.drop()
            return 0
        self.touched = True
        while p != e:
            if self.reading == AT_HEAD:
                before = <size_t>self.held.n
                if before:
                    self.held.put(p, e - p)
                    start = self.held.base
                    n = <size_t>self.held.n
                else:
                    start = p
                    n = <size_t>(e - p)
                rc = hr_http1_response(start, n, &side.head_limits, &self.head)
                if rc == HR_NEED_MORE:
                    if not before:
                        self.held.put(p, e - p)
                    return 0
                if rc != HR_OK:
                    return self.bad("bad_http", quoted(start, <Py_ssize_t>n))
                p += self.head.head_len - before
                if self.head.status < 200:
                    self.held.clear()
                    self.interim += 1
                    if self.head.status == 101 or self.interim > MAX_INTERIM:
                        return self.bad("bad_http", f"HTTP {self.head.status} in place of an answer")
                    continue
                self.persist = (self.head.flags & HR_F_PERSIST) != 0
                rc = self.on_head()
                self.held.clear()
                if rc:
                    return 0
                kind = hr_http1_response_body(&self.head, False)
                self.left = 0
                if kind == HR_BODY_NONE:
                    self.whole(p, 0)
                    return self.message_over(p != e)
                if kind == HR_BODY_LENGTH:
                    self.left = self.head.content_length
                    if self.mode == BODY_JSON and self.left > side.max_body:
                        return self.bad("bad_http", f"an answer of {self.left} bytes, over the limit")
                    self.reading = AT_LENGTH
                elif kind == HR_BODY_CHUNKED:
                    self.reading = AT_CHUNKS
                    memset(&self.chunks, 0, sizeof(self.chunks))
                else:
                    self.reading = AT_CLOSE
                    self.persist = False
                if self.mode == BODY_EVENTS:
                    if self.framer is None:
                        self.framer = SseFramer(self.side.limits.max_message_bytes)
                    self.framer.begin(None)
            elif self.reading == AT_LENGTH:
                n = <size_t>(e - p)
                if n > self.left:
                    n = <size_t>self.left
                self.left -= n
                if self.left == 0 and self.mode == BODY_JSON and self.body.n == 0:
                    self.whole(p, <Py_ssize_t>n)             # the usual case: no copy
                    return self.message_over(p + n != e)
                if self.take(p, <Py_ssize_t>n):
                    return 0
                p += n
                if self.left == 0:
                    self.whole(self.body.base, self.body.n)
                    return self.message_over(p != e)
            elif self.reading == AT_CHUNKS:
                rc = hr_chunked_next(&self.chunks, &p, e, &side.head_limits, &piece)
                if rc == HR_CHUNK_DATA:
                    if self.take(piece.p, <Py_ssize_t>piece.n):
                        return 0
                elif rc == HR_OK:
                    self.whole(self.body.base, self.body.n)
                    return self.message_over(p != e)
                elif rc != HR_NEED_MORE:
                    return self.bad("bad_http", "malformed chunked coding")
            else:
                if self.take(p, e - p):
                    return 0
                p = e
        if self.state == WAITING and self.answered:
            self.tail()
        return 0

    cdef int on_head(self) except -1:
        """Judges status and type. 1: the answer was given up."""
        cdef const hr_head *h = &self.head
        cdef Shot shot = <Shot>PyTuple_GET_ITEM(self.script, self.step)
        cdef const hr_span *type_ = &h.known[HR_H_CONTENT_TYPE]
        cdef int answer = shot.answer
        if answer == A_ACCEPTED or answer == A_ENDED:
            self.mode = BODY_IGNORED
            if 200 <= h.status < (300 if answer == A_ACCEPTED else 205) or (
                answer == A_ENDED and (h.status == 404 or h.status == 405)
            ):
                self.answered = True
                if sse_type(type_.p, <Py_ssize_t>type_.n):
                    self.mode = BODY_EVENTS
                    self.answered = True
            else:
                self.mode = BODY_REFUSED
            return 0
        if h.status != 200:
            self.mode = BODY_REFUSED
            return 0
        if h.seen >> HR_H_CONTENT_ENCODING & 1:
            self.bad("bad_http", "a Content-Encoding that was not asked for")
            return 1
        if type_.n and json_type(type_.p, <Py_ssize_t>type_.n) and answer != A_LISTEN:
            self.mode = BODY_JSON
        elif type_.n and sse_type(type_.p, <Py_ssize_t>type_.n):
            self.mode = BODY_EVENTS
            if shot.is_get:
                self.acknowledged()
                if self.state != HELD:
                    return 1
        elif answer == A_LISTEN and type_.n and json_type(type_.p, <Py_ssize_t>type_.n):
            self.mode = BODY_JSON            # an error, most likely
        else:
            self.bad("bad_http", "HTTP 200 with the content type " + quoted(type_.p, <Py_ssize_t>type_.n)
                     if type_.n else "HTTP 200 without a content type")
            return 1
        if shot.opens and h.seen >> HR_H_MCP_SESSION_ID & 1:
            type_ = &h.known[HR_H_MCP_SESSION_ID]
            if type_.n == 0 or type_.n > 1024 or h.duplicate >> HR_H_MCP_SESSION_ID & 1:
                self.bad("bad_http", "a bad Mcp-Session-Id")
                return 1
            self.session = b"Mcp-Session-Id: " + PyBytes_FromStringAndSize(type_.p, <Py_ssize_t>type_.n) + b"\r\n"
        return 0

    cdef int take(self, const char *p, Py_ssize_t n) except -1:
        """A piece of the body. 1 when the answer was given up."""
        cdef const char *e = p + n
        cdef hr_sse_event event
        cdef HttpLink link = self.link
        if self.mode == BODY_EVENTS:
            try:
                while self.framer.next(&p, e, &event):
                    if event.data.n and event.flags & HR_SSE_MESSAGE:
                        self.on_event(event.data.p, <Py_ssize_t>event.data.n)
                        if self.link is not link:
                            return 1
            except HeadraceError as exc:
                self.bad("bad_sse", str(exc))
                return 1
            return 0
        if self.mode == BODY_JSON:
            if <uint64_t>(self.body.n + n) > self.side.max_body or self.side.kept + n > self.side.max_kept:
                self.bad("bad_http", f"an answer of more than {self.body.n} bytes, over the limit")
                return 1
            self.side.kept += <uint64_t>n
            self.body.put(p, n)
            return 0
        # Only quoted or not wanted at all: `interim` counts what was read of it.
        self.interim += <uint64_t>n
        if self.mode == BODY_REFUSED and self.body.n < EXCERPT:
            n = min(n, EXCERPT - self.body.n)
            self.side.kept += <uint64_t>n
            self.body.put(p, n)
        if self.interim > IGNORE:
            self.persist = False
            self.whole(self.body.base, self.body.n)
            self.message_over(False)
            return 1
        return 0

    cdef int on_event(self, const char *p, Py_ssize_t n) except -1:
        if not self.judge(p, n):
            if self.state == WAITING and (<Shot>PyTuple_GET_ITEM(self.script, self.step)).answer == A_LISTEN:
                return self.acknowledged()
            return 0
        if self.state == HELD:
            return self.bad(self.kind or "closed", self.sample if self.kind else "the server ended the listen")
        if self.answered:
            if self.reported or self.kind is None:
                self.verdict("wrong_id", "a second answer on one event stream: " + quoted(p, n))
            return 0
        self.answered = True
        return 0

    cdef int whole(self, const char *p, Py_ssize_t n) except -1:
        """The body is complete: what is wrong with it, if anything."""
        cdef Shot shot
        if self.reported or self.mode == BODY_IGNORED:
            return 0
        shot = <Shot>PyTuple_GET_ITEM(self.script, self.step)
        if self.mode == BODY_JSON:
            if not self.judge(p, n) and self.kind is None:
                self.verdict("not_json" if n == 0 else "wrong_id",
                             "an empty body" if n == 0 else "a notification in place of the answer: " + quoted(p, n))
            self.answered = True
        elif self.mode == BODY_REFUSED:
            if n and hr_envelope_scan(p, <size_t>n, self.side.max_depth, 0, &self.side.env) == HR_OK \
                    and self.side.env.kind == HR_ERROR:
                self.verdict("rpc_error", f"HTTP {self.head.status}: " + quoted(p, n))
            else:
                said = ": " + quoted(p, n) if n else ""
                self.verdict("http_status", f"HTTP {self.head.status} to {shot.method}{said}")
            if self.head.status == 404 and self.session is not None and self.session is self.base:
                self.opened = PyTuple_GET_SIZE(self.side.opening) == 0      # the session is gone
                self.base = None
        elif not self.answered and shot.answer != A_LISTEN:
            self.verdict("bad_sse", "the event stream ended before the answer")
        if self.kind is None and shot.answer == A_STREAM and self.notes == 0:
            self.verdict("no_notes", f"the answer to {shot.method} came without a notification before it")
        elif self.kind is None and shot.answer == A_LISTEN:
            self.verdict("closed", "the server ended the listen")
        return 0

    cdef bint judge(self, const char *p, Py_ssize_t n) except -1:
        """Checks one message. True: it ends the wait for the answer; `kind` says what is wrong with it."""
        cdef HttpSide side = self.side
        cdef hr_envelope *env = &side.env
        cdef Shot shot
        cdef str fault
        if hr_envelope_scan(p, <size_t>n, side.max_depth, 0, env) != HR_OK:
            self.verdict("not_json", quoted(p, n))
            return True
        if env.kind == HR_RESULT:
            if not env.id_small or env.id_int != self.id:
                self.verdict("wrong_id", f"asked {self.id}: " + quoted(p, n))
                return True
            if env.result.type != HR_T_OBJECT:
                self.verdict("not_json", "a result that is no object: " + quoted(p, n))
                return True
            shot = <Shot>PyTuple_GET_ITEM(self.script, self.step)
            fault = result_fault(&env.result, side.max_depth, shot.expects, shot.member)
            if fault is not None:
                self.verdict(fault, quoted(p, n))
            return True
        if env.kind == HR_NOTIFICATION:
            self.notes += 1
            self.load.tally.notes += 1
            return False
        if env.kind == HR_ERROR:
            self.verdict("rpc_error", quoted(p, n))
        elif env.kind == HR_REQUEST:
            if bench_has(env.method.p, env.method.n, b'"ping"', 6):
                return False
            self.verdict("asked", quoted(p, n))
        else:
            self.verdict("not_json", "not one JSON-RPC message: " + quoted(p, n))
        return True

    # --- how it goes on -----------------------------------------------------------------------------

    cdef int verdict(self, str kind, object sample) except -1:
        """Something is wrong with the step; the first fault is the one that counts."""
        if self.reported:
            self.load.tally.stray(self.op, kind, sample)
        elif self.kind is None:
            self.kind = kind
            self.sample = sample
        return 0

    cdef int message_over(self, bint more) except -1:
        """The HTTP message is complete. `more`: bytes follow it that belong to nothing."""
        self.answered_at = now_ns()
        if self.body.n:
            self.release()
        if more:
            self.verdict("bad_http", "bytes behind the end of the answer")
        if more or not self.persist:
            self.drop()
        return self.step_over()

    cdef int step_over(self) except -1:
        """The answer to the step is complete."""
        cdef object waiter
        if self.reported:
            return self.next()
        if self.kind is not None:
            return self.failed(self.kind, self.sample)
        self.retried = False
        self.step += 1
        if self.step < PyTuple_GET_SIZE(self.script):
            return self.send()
        if not self.opening:
            self.load.right(self)
            return self.next()
        self.opening = False
        if not self.side.closed:
            self.opened = True
            self.base = self.session
        if self.waiter is not None:
            waiter = self.waiter
            self.waiter = None
            self.state = IDLE
            self.deadline = 0
            if not waiter.done():
                waiter.set_result(None)
            return 0
        self.script = <tuple>PyTuple_GET_ITEM(self.side.operations, self.op)
        self.step = 0
        return self.send()

    cdef int tail(self) except -1:
        """The answer came by an event stream that has not ended: it counts now, the stream may end later."""
        cdef Shot shot = <Shot>PyTuple_GET_ITEM(self.script, self.step)
        self.whole(NULL, 0)
        if not self.opening and (self.kind is not None or self.step + 1 == PyTuple_GET_SIZE(self.script)):
            if self.kind is None:
                self.load.right(self)
            else:
                self.load.wrong(self, self.kind, self.sample)
            self.reported = True
        self.state = TAIL
        self.deadline = now_ns() + TAIL_TIME
        return 0

    cdef int acknowledged(self) except -1:
        cdef Shot shot = <Shot>PyTuple_GET_ITEM(self.script, self.step)
        self.acked_at = now_ns()
        self.state = HELD
        self.deadline = self.acked_at + shot.hold if shot.hold else 0
        if self.load.phase != LOAD_RUNNING:
            return self.end_listen()
        return 0

    cdef int end_listen(self) except -1:
        """Ends a listen from our side, which is right; its latency is the time to the acknowledgement."""
        cdef int64_t now = now_ns()
        self.drop()
        self.had_link = False
        self.answered_at = now
        self.began += now - self.acked_at
        return self.step_over()

    cdef int bad(self, str kind, object sample) except -1:
        """The connection is of no use any more."""
        self.drop()
        if self.reported:
            self.load.tally.stray(self.op, kind, sample)
            return self.next()
        return self.failed(kind, sample)

    def broke(self, exc):
        """A fault of ours or of the socket while an answer was handled."""
        self.bad("bad_http", f"could not be handled: {type(exc).__name__}: {exc}")

    cdef int failed(self, str kind, object sample) except -1:
        cdef object waiter = self.waiter
        self.kind = None
        self.sample = None
        self.deadline = 0
        if self.opening:
            self.opening = False
            self.drop()
            if waiter is not None:
                self.waiter = None
                self.state = IDLE
                if not waiter.done():
                    waiter.set_result((kind, sample))
                return 0
            sample = f"opening the connection: {sample}"
        if not self.busy:
            return 0
        self.load.wrong(self, kind, sample)
        if self.given_up:
            self.state = IDLE
            self.side.gone(self)
            return self.load.settle()
        if kind == "connect":
            self.state = IDLE
            if self.load.phase == LOAD_RUNNING:
                self.pause = self.load.loop.call_later(RETRY, self.again)
                return 0
        return self.next()

    def again(self):
        """Timer: after a failure to connect."""
        self.pause = None
        self.next()

    cdef int next(self) except -1:
        self.state = IDLE
        self.reported = False
        self.kind = None
        self.deadline = 0
        if self.side.closed:
            return self.load.settle()
        return self.load.ready(self)

    cdef int drop(self) except -1:
        """Lets the connection go."""
        cdef HttpLink link = self.link
        if link is not None:
            self.link = None
            link.lane = None
            link.transport.abort()
            self.had_link = True
        self.held.clear()
        hr_http1_reset(&self.head)
        self.release()
        return 0

    cdef int release(self) except -1:
        """Forgets what was kept of a body."""
        self.side.kept -= <uint64_t>self.body.n
        self.body.clear()
        return 0

    cdef int lost(self, object exc) except -1:
        """The connection ended."""
        cdef bint until_close = self.state == WAITING and self.reading == AT_CLOSE
        cdef uint64_t uses = self.link.uses
        if until_close:
            self.whole(self.body.base, self.body.n)
        self.drop()
        if self.state == IDLE:
            return 0
        if self.state == TAIL or until_close:
            self.answered_at = now_ns()
            return self.step_over()
        if self.state == HELD:
            return self.bad("closed", "the connection of a listen ended")
        if self.state == WAITING and self.stale and not self.touched and not self.retried:
            self.retried = True
            return self.send()
        return self.bad("closed", f"the connection ended {'within' if self.touched else 'before'} the answer"
                                  f" to {self.what()}, its request number {uses}" + (f": {exc}" if exc else ""))
