"""The link between a line stream and the multiplexer: stdio, unix sockets and TCP (ST-01..ST-09).

One object is the transport's protocol and the connection's sink. Bytes become frames, handler calls
and reply bytes in the call stack of data_received; replies of one loop turn leave in one write.
"""

import re

from cpython.bytes cimport PyBytes_GET_SIZE

from headrace.errors import ConnectionClosed, HeadraceError, LocalProtocolError, RemoteProtocolError
from headrace.jsonrpc import INVALID_REQUEST
from headrace.transports.forwarded import plain_host

from headrace.mux._mux cimport Exchange, Mux, Sink
from headrace.transports._rates cimport caller_of
from headrace.wire._lines cimport LINE_FRAME, LINE_NONE, LINE_SKIPPED, LINE_TOO_LONG, LineFramer

__all__ = ("LineLink",)

cdef enum:
    CLIENT_FRAMES = 64       # frames that a client takes in one turn

cdef object ID_FIRST = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*"(?:result|error)"')
cdef object IS_ANSWER = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:')
cdef object ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*\}\s*\Z')


cdef class LineLink(Sink):
    """Protocol of one line stream.

    `mux` is the connection's own Mux. `serves`: at the end of the stream requests in flight get
    ``limits.drain_timeout`` seconds to be answered (ST-21); otherwise the end of the stream ends the
    connection at once. `on_lost(exc)` is called once when the connection is gone.
    """

    def __init__(self, Mux mux not None, limits, *, bint serves=True, on_lost=None):
        self.mux = mux
        self.limits = limits
        self.serves = serves
        self.on_lost = on_lost
        self.framer = LineFramer(limits.max_message_bytes)
        # A client's answers wake tasks: a small share a turn is answered from the cache, and makes fewer
        # objects at once than the garbage collector waits for.
        self.max_inline = limits.max_inline_frames if serves else min(CLIENT_FRAMES, limits.max_inline_frames)
        self.max_output = limits.max_output_bytes
        self.framer.tells_end = not serves
        self.persistent = True
        self.metered = serves
        self.closed = True
        self.reading = True

    # --- protocol callbacks -------------------------------------------------------------------------

    def connection_made(self, transport):
        self.transport = transport
        self.write = transport.write
        transport.set_write_buffer_limits(high=self.max_output)
        self.closed = False
        if self.serves:
            self.mux.runtime.links.add(self)

    @property
    def peer(self):
        """The address at the other end; ``"unix"`` where there is none (a unix socket, pipes)."""
        cdef object name = self.transport.get_extra_info("peername") if self.transport is not None else None
        return plain_host(name[0]) if isinstance(name, tuple) and name else "unix"

    def data_received(self, data):
        if self.closed or self.at_eof:
            return
        self.framer.feed(data if type(data) is bytes else bytes(data))
        self.consume()

    def eof_received(self):
        """End of input: the last line counts even without its newline (B12); what came before is answered,
        then the connection is closed."""
        if self.closed or self.at_eof:
            return True
        self.at_eof = True
        self.framer.finish()
        if self.serves:
            self.end()
        else:
            self.ending = self.in_eof = True
        self.consume()
        # For a client False lets the transport close; True: held input is still to come (settle).
        self.in_eof = False
        return not self.over

    def connection_lost(self, exc):
        if self.transport is None:
            return
        self.closed = True
        self.transport = None
        self.write = None
        self.out.clear()
        self.mux.runtime.links.discard(self)
        for timer in (self.stall_timer, self.drain_timer):
            if timer is not None:
                timer.cancel()
        self.stall_timer = self.drain_timer = None
        self.release_waiters()
        if isinstance(exc, HeadraceError):
            reason = exc
        elif exc is None:
            reason = ConnectionClosed("the peer closed the connection")
        else:
            reason = ConnectionClosed(f"the connection broke: {exc}")
        callback = self.on_lost
        self.on_lost = None
        try:
            self.mux.close(reason)
        finally:
            if callback is not None:
                callback(reason)

    def pause_writing(self):
        """The transport holds max_output_bytes: a server stops reading, so that no more is produced (4.8).
        A client reads on: it is the answers it reads that let the server take more."""
        self.output_full = True
        self.steer()

    def resume_writing(self):
        self.output_full = False
        self.release_waiters()
        self.steer()
        if not self.closed:
            self.consume()

    cdef int watch(self) except -1:
        """From the first write on, looks every write_timeout whether the peer takes what is queued."""
        runtime = self.mux.runtime
        self.taken = self.handed - self.transport.get_write_buffer_size()
        self.stall_timer = runtime.call_at(runtime.time() + self.limits.write_timeout, self.check_stall)
        return 0

    def check_stall(self):
        """A peer that takes nothing is bounded in time as well as in memory."""
        cdef long long taken
        self.stall_timer = None
        if self.transport is None:
            return
        taken = self.handed - self.transport.get_write_buffer_size()
        if taken == self.handed:
            return
        if taken <= self.taken:
            self.mux.runtime.refused("write_timeout")
            self.abort()
            return
        self.watch()

    # --- input --------------------------------------------------------------------------------------

    cdef int consume(self) except -1:
        cdef const char *p
        cdef Py_ssize_t n
        cdef Py_ssize_t count = 0
        cdef int kind
        if self.busy or self.continue_due:
            return 0
        self.busy = True
        try:
            while not self.closed and not self.input_held and not (self.output_full and self.serves):
                if count >= self.max_inline:
                    # One chatty peer must not hold the loop: the rest follows in the next turn.
                    if self.framer.pending():
                        self.continue_due = True
                        self.mux.runtime.call_soon(self.continue_input)
                        self.steer()
                    break
                kind = self.framer.next(&p, &n)
                if kind == LINE_NONE:
                    break
                count += 1
                try:
                    if kind == LINE_FRAME:
                        self.mux.receive(p, n, self)
                    elif kind == LINE_TOO_LONG:
                        self.mux.refuse_frame(
                            INVALID_REQUEST, f"message longer than {self.limits.max_message_bytes} bytes", self,
                            refusal="max_message_bytes")
                        if not self.serves:
                            self.too_long()
                    elif kind == LINE_SKIPPED:
                        self.too_long()
                    else:
                        self.broken()
                except Exception as exc:
                    self.mux.runtime.report("a message could not be handled", exc)
                if self.out.n > self.max_output:
                    self.flush()  # large replies: learn whether the peer takes them before more are made
        finally:
            self.busy = False
            self.flush()
            if self.ending:
                self.settle()
        return 0

    cdef int too_long(self) except -1:
        """An answer was too long to be read: its call fails now. The id stands at the start or at the end,
        else the answer is that of the only call there is."""
        cdef object found = ID_FIRST.match(self.framer.head)
        cdef object call = None
        if found is None:
            if self.framer.skipping or IS_ANSWER.match(self.framer.head) is None:
                return 0
            found = ID_LAST.search(self.framer.tail)
        if found is not None:
            call = self.mux.pending.get(int(found[1]))
        elif len(self.mux.pending) == 1:
            call = next(iter(self.mux.pending.values()))
        if call is not None:
            call.fail(RemoteProtocolError(
                f"the answer to {call.method} is longer than {self.limits.max_message_bytes} bytes "
                "(limit max_message_bytes)"))
        return 0

    cdef int broken(self) except -1:
        """Where the next message begins cannot be known any more; only framings other than lines have that."""
        raise LocalProtocolError("a line stream has no framing to break")

    def continue_input(self):
        """The next turn's share of frames that are already here."""
        self.continue_due = False
        self.steer()
        self.consume()

    cdef int pause(self) except -1:
        self.input_held = True
        return self.steer()

    cdef int resume(self) except -1:
        self.input_held = False
        self.steer()
        return self.consume()

    cdef int steer(self) except -1:
        """Reading goes on only while nothing holds it."""
        cdef bint want = not (self.input_held or self.continue_due or (self.output_full and self.serves))
        if want == self.reading or self.transport is None or self.at_eof:
            return 0
        self.reading = want
        if want:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
        return 0

    # --- output -------------------------------------------------------------------------------------

    cdef int wake(self) except -1:
        if not self.busy and not self.flush_due:
            self.flush_due = True
            self.mux.runtime.call_soon(self.flush)
        return 0

    def flush(self):
        """Hands everything written since the last turn to the transport, in one write."""
        cdef Py_ssize_t n = self.out.n
        self.flush_due = False
        if n == 0 or self.write is None:
            return
        self.handed += n
        self.write(self.out.take())
        if self.stall_timer is None and self.transport is not None:
            self.watch()
        if self.serves:
            self.mux.runtime.sending(n)

    @property
    def unsent_bytes(self):
        """Output that the peer has not taken."""
        return self.out.n + self.transport.get_write_buffer_size() if self.transport is not None else 0

    def shed(self):
        """The connections of the server hold too much output, and this one the most: it ends."""
        self.abort()

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        self.mark = self.out.n
        return 0

    cdef int close_response(self, Exchange ex) except -1:
        self.end_frame()
        if (
            not self.serves and self.output_full and not self.overrun_due and self.transport is not None
            and self.out.n + self.transport.get_write_buffer_size() > 4 * self.max_output
        ):
            # A client goes on reading while its own output is full, so a server that floods it with
            # requests and reads no answers must be cut off.
            self.overrun_due = True
            self.mux.runtime.call_soon(self.overrun)
        if self.out.n > self.max_output and self.serves and not self.busy:
            self.flush()  # many large answers of one turn: what they hold is weighed as they are made
            return 0
        return self.wake()

    cdef int end_frame(self) except -1:
        """A message was written from `mark` on."""
        return self.out.put(b"\n", 1)

    def overrun(self):
        """The peer sends requests and reads no answers: the connection ends."""
        self.mux.close(ConnectionClosed("the peer sends requests and reads no answers"))
        self.abort()

    cdef int open_message(self, Exchange ex) except -1:
        # Notifications are optional: a peer that does not read, under a handler that does not wait,
        # loses them beyond four times the bound instead of costing memory without end.
        if self.transport is None:
            return 0
        if self.output_full and self.out.n + self.transport.get_write_buffer_size() > 4 * self.max_output:
            return 0
        self.mark = self.out.n
        return 1

    cdef int close_message(self, Exchange ex) except -1:
        self.end_frame()
        return self.wake()

    cdef int rollback(self) except -1:
        self.out.n = self.mark
        return 0

    cdef object caller(self):
        if self.principal is not None:
            return caller_of(self.principal, None)
        if self.known_caller is None:
            self.known_caller = caller_of(None, self.peer)
        return self.known_caller

    cdef bint congested(self):
        return self.output_full or self.out.n > self.max_output

    cdef object drained(self):
        if self.closed:
            return None
        if not self.output_full:
            self.flush()
            if not self.output_full:
                return None
        waiter = self.mux.runtime.create_future()
        if self.drain_waiters is None:
            self.drain_waiters = []
        self.drain_waiters.append(waiter)
        return waiter

    def release_waiters(self):
        """Output has drained, or never will: whoever waits goes on."""
        if self.drain_waiters is not None:
            waiters = self.drain_waiters
            self.drain_waiters = None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    # --- end ----------------------------------------------------------------------------------------

    cdef int settle(self) except -1:
        """Closes once every message that came is handled and answered."""
        if self.closed or self.busy or self.continue_due or self.over:
            return 0
        if self.at_eof and self.framer.pending():
            return 0  # held: resume, resume_writing or the time limit go on
        if not self.serves:
            self.over = True
            if self.transport.get_extra_info("pid") is None:
                self.mux.close(ConnectionClosed("the peer closed the connection"))
            # A child's exit follows in a moment and says why (B82).
            if not self.in_eof:
                self.close()
            return 0
        waiter = self.mux.wait_idle()
        if waiter is None:
            self.close()
        elif not self.awaiting_idle:
            self.awaiting_idle = True
            waiter.add_done_callback(self.idle)
        return 0

    def idle(self, future):
        """Done callback: nothing is in flight any more."""
        self.awaiting_idle = False
        self.settle()

    def end(self):
        """Closes when the messages that came are answered, or after drain_timeout (ST-21)."""
        if self.closed:
            return
        self.ending = True
        if self.drain_timer is None:
            runtime = self.mux.runtime
            self.drain_timer = runtime.call_at(runtime.time() + self.limits.drain_timeout, self.drain_over)
            self.mux.gate.ending()

    def drain(self):
        """Ends the connection from this side: requests in flight are answered, new ones are refused;
        gives up after drain_timeout (ST-21). Safe to call again."""
        self.mux.draining = True
        self.end()
        self.settle()

    def drain_over(self):
        """Drain limit reached: what still runs is cancelled."""
        self.drain_timer = None
        self.mux.cancel_all("shutdown")
        self.close()

    def close(self):
        """Flushes and closes the stream; safe to call again."""
        if self.transport is not None and not self.closed:
            self.flush()
            self.closed = True
            self.transport.close()

    def abort(self):
        """Closes at once and drops queued output."""
        if self.transport is not None:
            self.closed = True
            self.out.clear()
            self.transport.abort()
