"""The line side of a load run: thousands of ids in flight on one stdio, unix or TCP stream.

Strategy: a connection has one lane for each call in flight, and the id of a call names its lane: ``id % slots`` is the
slot, ``id / slots`` counts its calls, so that an answer finds its call without a table and a second or late answer
is recognised. All answers of one read are looked at, the next calls are written behind each other into one buffer,
and that leaves in one write.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp

from headrace.bench._load cimport LOAD_DRAINING, LOAD_RUNNING, Lane, Load, now_ns
from headrace.bench._tally cimport Tally
from headrace.wire._cjson cimport (
    HR_BATCH, HR_ERROR, HR_INVALID, HR_NOTIFICATION, HR_OK, HR_REQUEST, HR_RESULT, HR_T_OBJECT, HR_T_STRING,
    hr_envelope, hr_envelope_scan, hr_token,
)
from headrace.wire._lines cimport LINE_FRAME, LINE_NONE, LINE_TOO_LONG, LineFramer
from headrace.wire._outbuf cimport Outbuf

from headrace.jsonrpc import METHOD_NOT_FOUND

__all__ = ("MAX_LINE", "LineConn")

include "_result_check.pxi"

MAX_LINE = 256 * 1024 * 1024
"""Bytes of the longest answer that is read."""

cdef enum:
    RESULT
    STREAM
    ACCEPTED
    ENDED
    LISTEN
    MAX_DEPTH = 1024
    SHOWN = 240         # bytes of an answer in a sample
    LATE_MAX = 100_000  # ids remembered whose calls timed out

cdef double EOF_TIME = 0.25  # s
cdef dict ANSWERS = {"result": RESULT, "stream": STREAM, "accepted": ACCEPTED, "ended": ENDED, "listen": LISTEN}
cdef bytes PROGRESS = b'"notifications/progress"'
cdef bytes CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}\n'
cdef bytes ACKNOWLEDGED = b'"notifications/subscriptions/acknowledged"'


cdef LineStep prepare(step):
    cdef LineStep made = LineStep.__new__(LineStep)
    made.before = step.before
    made.token = step.token
    made.after = step.after
    made.expects = step.expects
    made.member = step.member
    made.method = step.method
    made.answer = ANSWERS[step.answer]
    made.hold = -1 if step.hold_s is None else <int64_t>(step.hold_s * 1e9)
    return made


cdef str shown(const char *p, Py_ssize_t n):
    cdef str text = PyBytes_FromStringAndSize(p, min(n, <Py_ssize_t>SHOWN)).decode("utf-8", "replace")
    return text if n <= SHOWN else text + "..."


cdef inline bint is_text(const hr_token *t, bytes quoted) noexcept:
    return t.n == <size_t>PyBytes_GET_SIZE(quoted) and memcmp(t.p, PyBytes_AS_STRING(quoted), t.n) == 0


cdef int64_t number(const hr_token *t) noexcept:
    """A token that is one of our ids, also as text; else -1."""
    cdef int64_t value = 0
    cdef const char *p = t.p
    cdef size_t n = t.n
    if t.type == HR_T_STRING:
        p += 1
        n -= 2
    if n == 0 or n > 18:
        return -1
    while n:
        if p[0] < c'0' or p[0] > c'9':
            return -1
        value = value * 10 + (p[0] - 48)
        p += 1
        n -= 1
    return value


cdef str judge(LineStep step, const hr_envelope *env):
    """The kind of error of an answer; None: it is right."""
    if env.kind == HR_ERROR:
        return "rpc_error"
    if env.result.type != HR_T_OBJECT:
        return "wrong_content"
    return result_fault(&env.result, MAX_DEPTH, step.expects, step.member)


@cython.final
cdef class LineStep:
    """A step, ready to be written."""


@cython.final
cdef class LineLane(Lane):
    """One call in flight."""

    cdef int start(self) except -1:
        if self.conn.state == CONN_UP:
            return self.send()
        if self.conn.state == CONN_GONE:
            self.load.wrong(self, "connect", self.conn.why)
            return self.load.settle()
        self.waiting = True
        return 0

    cdef int send(self) except -1:
        cdef LineConn conn = self.conn
        cdef list steps = <list>PyList_GET_ITEM(conn.ops, self.op)
        cdef LineStep step
        cdef Outbuf out = conn.out
        self.waiting = False
        while True:
            if self.step == len(steps):
                # Nothing is waited for: over once it is written, and not in this call stack.
                conn.after.append(self)
                return conn.touch()
            step = <LineStep>PyList_GET_ITEM(steps, self.step)
            if step.answer == ENDED:
                self.step += 1
                continue
            if step.answer != ACCEPTED:
                break
            out.put_bytes(step.before)
            out.put(b"\n", 1)
            conn.tally.requests += 1
            self.step += 1
        self.now = step
        self.generation += 1
        self.id = 7 if conn.fixed_id else self.generation * conn.slots + self.slot
        self.notes = 0
        self.acknowledged = 0
        out.put_bytes(step.before)
        out.put_int(self.id)
        if step.token:
            out.put_bytes(step.token)
            out.put_int(self.id)
        out.put_bytes(step.after)
        out.put(b"\n", 1)
        conn.tally.requests += 1
        if not conn.in_turn:
            conn.touch()
        return 0

    cdef int fail(self, str kind, object sample, bint again) except -1:
        self.id = 0
        self.waiting = False
        self.acknowledged = 0
        self.load.wrong(self, kind, sample)
        if again:
            return self.load.ready(self)
        return self.load.settle()

    cdef int done(self) except -1:
        """A right answer to the step that was waited for."""
        self.id = 0
        self.step += 1
        if self.step < len(<list>PyList_GET_ITEM(self.conn.ops, self.op)):
            self.deadline = now_ns() + self.load.timeout
            return self.send()
        self.load.right(self)
        return self.load.ready(self)

    cdef int expired(self) except -1:
        cdef LineConn conn = self.conn
        if not self.busy:
            return 0
        if self.acknowledged:
            return self.hold_over()
        if self.waiting:
            return self.fail("connect", conn.why or "the connection is down", conn.state != CONN_GONE)
        if self.id:
            if len(conn.late) < LATE_MAX:
                conn.late.add(self.id)
            words = conn.words() if conn.words is not None else ""
            self.fail("timeout", f"no answer to {self.now.method} within {self.load.timeout / 1e9:g} s"
                      + (f" (stderr: {words})" if words else ""), True)
        return 0

    cdef int leave(self) except -1:
        if self.acknowledged:
            return self.hold_over()
        if self.waiting:
            # Never sent, and nothing new is: it is no failure of its own, the connection's was counted.
            self.fail("connect", self.conn.why or "the connection is down", False)
        return 0

    def hold_over(self):
        """A listen was held open long enough."""
        cdef LineConn conn = self.conn
        if conn.state == CONN_UP:
            conn.out.put_bytes(CANCEL % self.id)
            conn.touch()
        if len(conn.late) < LATE_MAX:
            conn.late.add(self.id)
        self.began = now_ns() - (self.acknowledged - self.began)
        self.acknowledged = 0
        self.done()
        return 0


@cython.final
cdef class LineConn:
    """One connection; the protocol object of its transport.

    ``side`` gets ``up(conn)`` when the opening is through, and ``down(conn, reason)`` when the connection is gone. It
    calls :meth:`give_up` when there is no use in connecting again. ``in_flight`` is the number of lanes.
    """

    def __init__(self, Load load not None, side, Py_ssize_t in_flight):
        cdef LineLane lane
        cdef Py_ssize_t i
        if in_flight < 1:
            raise ValueError("in_flight is at least 1")
        self.load = load
        self.tally = load.tally
        self.loop = load.loop
        self.side = side
        self.state = CONN_DOWN
        self.out = Outbuf()
        self.slots = 16
        while self.slots < in_flight:
            self.slots *= 2
        self.ops = [[prepare(step) for step in op.steps] for op in load.plan.operations]
        self.opening = [prepare(step) for step in load.plan.opening]
        if len(self.opening) >= 15:
            raise ValueError("an opening has at most 14 steps")
        self.fixed_id = load.plan.fixed_id
        if self.fixed_id and in_flight > 1:
            raise ValueError("a fixed id allows one call in flight")
        self.late = set()
        self.after = []
        self.lanes = []
        for i in range(in_flight):
            lane = LineLane.__new__(LineLane)
            lane.conn = self
            lane.slot = i
            self.lanes.append(lane)
            load.add(lane)

    # --- protocol callbacks -------------------------------------------------------------------------

    def connection_made(self, transport):
        """The opening begins."""
        self.transport = transport
        self.write = transport.write
        self.framer = LineFramer(MAX_LINE)
        self.out.clear()
        self.late.clear()
        self.paused = False
        self.useful = False
        self.why = None
        self.opened = 0
        self.state = CONN_OPENING
        self.open_next()
        self.flush()

    def data_received(self, data):
        """Looks at all complete lines, then writes what they led to."""
        cdef const char *p
        cdef Py_ssize_t n
        cdef int kind
        cdef LineFramer framer = self.framer
        if self.state != CONN_UP and self.state != CONN_OPENING:
            return
        self.tally.bytes_in += len(data)
        framer.feed(data if type(data) is bytes else bytes(data))
        self.in_turn = True
        try:
            while self.state == CONN_UP or self.state == CONN_OPENING:
                kind = framer.next(&p, &n)
                if kind == LINE_NONE:
                    break
                if kind == LINE_FRAME:
                    self.on_line(p, n)
                elif kind == LINE_TOO_LONG:
                    self.stray("not_json", f"a line of more than {MAX_LINE} bytes")
        finally:
            self.in_turn = False
        self.flush()

    def eof_received(self):
        """The server says no more. Its end follows in a moment and says why; one that lives on has none to come."""
        self.loop.call_later(EOF_TIME, self.silenced, self.transport)
        return False

    def silenced(self, transport):
        """Timer: an end of the output that no end of the connection has followed."""
        if transport is not None and transport is self.transport:
            self.abort("the server closed its output and goes on running")

    def pause_writing(self):
        """The server reads slowly: what is to be sent waits here."""
        self.paused = True

    def resume_writing(self):
        """Goes on."""
        self.paused = False
        self.flush()

    def connection_lost(self, exc):
        """All that waits fails."""
        cdef LineLane lane
        cdef bint was_opening = self.state == CONN_OPENING
        if self.state == CONN_GONE or self.state == CONN_DOWN:
            self.transport = self.write = None
            return
        self.state = CONN_DOWN
        self.transport = self.write = None
        if self.why is None:
            self.why = str(exc) if exc is not None and str(exc) else "the server closed the connection"
        over, self.after = self.after, []
        if was_opening:
            if self.load.phase < LOAD_DRAINING:
                self.stray("connect", self.why)
        for one in self.lanes:
            lane = <LineLane>one
            if lane.busy and not lane.waiting:
                lane.fail("closed", self.why, False)
        self.side.down(self, self.why)

    # --- what the side calls ------------------------------------------------------------------------

    def count_reconnect(self):
        """The connection was lost and is back."""
        self.tally.reconnects += 1

    def failed(self, str reason not None):
        """An attempt to connect has failed."""
        self.why = reason
        self.stray("connect", reason)
        self.side.down(self, reason)

    def begin(self):
        """The connection is up: the lanes get to work, first what has waited for it."""
        cdef LineLane lane
        self.in_turn = True
        try:
            for one in self.lanes:
                lane = <LineLane>one
                if self.state != CONN_UP:
                    break
                if lane.waiting:
                    lane.send()
                elif not lane.busy and not lane.parked:
                    self.load.ready(lane)
        finally:
            self.in_turn = False
        self.flush()

    def give_up(self, str reason not None):
        """No further attempt is made. What waits for the connection fails."""
        cdef LineLane lane
        self.state = CONN_GONE
        self.why = reason
        for one in self.lanes:
            lane = <LineLane>one
            if lane.waiting:
                lane.fail("connect", reason, False)

    def abort(self, str reason=None):
        """Closes the connection at once."""
        if reason is not None and self.why is None:
            self.why = reason
        if self.transport is not None:
            self.transport.abort()

    def close(self):
        """Closes the connection; what it still brings is not looked at."""
        self.state = CONN_GONE
        if self.transport is not None:
            self.transport.close()

    # --- output -------------------------------------------------------------------------------------

    cdef int touch(self) except -1:
        if not self.in_turn and not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.on_turn)
        return 0

    def on_turn(self):
        """The end of a loop turn in which something was sent."""
        self.scheduled = False
        self.flush()

    def flush(self):
        """Writes what has gathered."""
        cdef LineLane lane
        if self.transport is None:
            return
        if self.out.n and not self.paused:
            self.tally.bytes_out += self.out.n
            self.write(self.out.take())
        if self.after:
            over, self.after = self.after, []
            for one in over:
                lane = <LineLane>one
                if lane.busy:
                    self.load.right(lane)
                    self.load.ready(lane)

    # --- input --------------------------------------------------------------------------------------

    cdef int on_line(self, const char *p, Py_ssize_t n) except -1:
        cdef hr_envelope env
        if hr_envelope_scan(p, n, MAX_DEPTH, 0, &env) != HR_OK:
            return self.stray("not_json", shown(p, n))
        if env.kind == HR_RESULT or env.kind == HR_ERROR:
            if self.state == CONN_OPENING:
                return self.on_opening(&env, p, n)
            return self.on_answer(&env, p, n)
        if env.kind == HR_NOTIFICATION:
            return self.on_note(&env)
        if env.kind == HR_REQUEST:
            return self.on_request(&env)
        return self.stray("not_json", f"no JSON-RPC message: {shown(p, n)}")

    cdef LineLane lane_of(self, int64_t id):
        """The lane that waits for the answer to ``id``, or None."""
        cdef LineLane lane
        cdef int64_t slot = 0 if self.fixed_id else id & (self.slots - 1)
        if id <= 0 or slot >= len(self.lanes):
            return None
        lane = <LineLane>PyList_GET_ITEM(self.lanes, slot)
        return lane if lane.busy and lane.id == id else None

    cdef int on_answer(self, const hr_envelope *env, const char *p, Py_ssize_t n) except -1:
        cdef LineLane lane = self.lane_of(env.id_int) if env.id_small else None
        cdef str kind
        if lane is None:
            if env.id_small and env.id_int in self.late:
                self.late.discard(env.id_int)
                return 0
            return self.stray("rpc_error" if env.kind == HR_ERROR and not env.id_usable else "wrong_id", shown(p, n))
        kind = judge(lane.now, env)
        if kind is not None:
            return lane.fail(kind, shown(p, n), True)
        if lane.now.answer == LISTEN:
            return lane.fail("closed", f"the server ended the subscription: {shown(p, n)}", True)
        if lane.now.answer == STREAM and lane.notes == 0:
            return lane.fail("no_notes", shown(p, n), True)
        self.useful = True
        return lane.done()

    cdef int on_note(self, const hr_envelope *env) except -1:
        cdef LineLane lane
        self.tally.notes += 1
        if is_text(&env.method, PROGRESS):
            lane = self.lane_of(number(&env.note_token))
            if lane is not None:
                lane.notes += 1
        elif is_text(&env.method, ACKNOWLEDGED):
            lane = self.lane_of(number(&env.subscription_id))
            if lane is not None and lane.now.answer == LISTEN and not lane.acknowledged:
                self.useful = True
                lane.acknowledged = now_ns()
                lane.deadline = 0 if lane.now.hold < 0 else max(lane.acknowledged + lane.now.hold, 1)
                if self.load.phase >= LOAD_DRAINING:
                    lane.leave()
        return 0

    cdef int on_request(self, const hr_envelope *env) except -1:
        """A server that asks must not wait for ever: a ping gets its answer, all else an error."""
        cdef bytes id = PyBytes_FromStringAndSize(env.id.p, env.id.n)
        self.tally.notes += 1
        if is_text(&env.method, b'"ping"'):
            self.out.put_bytes(b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % id)
        else:
            self.out.put_bytes(
                b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":"a load generator answers no requests"}}\n'
                % (id, METHOD_NOT_FOUND))
        return self.touch()

    cdef int stray(self, str kind, object sample) except -1:
        """A failure that belongs to no call."""
        return self.tally.stray(0, kind, sample)

    # --- opening ------------------------------------------------------------------------------------

    cdef int open_next(self) except -1:
        """Sends the next step of the opening that wants an answer, or reports that all are through."""
        cdef LineStep step
        while self.opened < len(self.opening):
            step = <LineStep>PyList_GET_ITEM(self.opening, self.opened)
            self.opened += 1
            if step.answer == ENDED:
                continue
            self.out.put_bytes(step.before)
            if step.answer != ACCEPTED:
                self.out.put_int(self.opened)
                self.out.put_bytes(step.after)
            self.out.put(b"\n", 1)
            if step.answer != ACCEPTED:
                return self.touch()
        self.state = CONN_UP
        self.touch()
        self.side.up(self)
        return 0

    cdef int on_opening(self, const hr_envelope *env, const char *p, Py_ssize_t n) except -1:
        cdef LineStep step = <LineStep>PyList_GET_ITEM(self.opening, self.opened - 1) if self.opened else None
        if step is None or not env.id_small or env.id_int != self.opened:
            return self.stray("wrong_id", shown(p, n))
        if env.kind == HR_ERROR:
            self.abort(f"{step.method}: {shown(p, n)}")
            return 0
        return self.open_next()
