"""The link between a line stream and the multiplexer: stdio, unix sockets and TCP (ST-01..ST-09).

One object is the transport's protocol and the connection's sink. Bytes become frames, handler calls
and reply bytes in the call stack of data_received; replies of one loop turn leave in one write.
"""

from cpython.bytes cimport PyBytes_GET_SIZE

from headrace.errors import ConnectionClosed, HeadraceError
from headrace.jsonrpc import INVALID_REQUEST

from headrace.mux._mux cimport Exchange, Mux, Sink
from headrace.wire._lines cimport LINE_FRAME, LINE_NONE, LINE_TOO_LONG, LineFramer

__all__ = ("LineLink",)


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
        self.max_inline = limits.max_inline_frames
        self.max_output = limits.max_output_bytes
        self.persistent = True
        self.closed = True
        self.reading = True

    # --- protocol callbacks -------------------------------------------------------------------------

    def connection_made(self, transport):
        self.transport = transport
        self.write = transport.write
        transport.set_write_buffer_limits(high=self.max_output)
        self.closed = False

    def data_received(self, data):
        self.framer.feed(data if type(data) is bytes else bytes(data))
        self.consume()

    def eof_received(self):
        """End of input: the last line counts even without its newline (B12); then drain and close."""
        self.at_eof = True
        self.framer.finish()
        self.consume()
        if not self.serves:
            if self.transport.get_extra_info("pid") is None:
                self.mux.close(ConnectionClosed("the peer closed the connection"))
            # A child's exit follows in a moment and says why (B82).
            return False
        self.drain()
        return True

    def connection_lost(self, exc):
        if self.closed and self.transport is None:
            return
        self.closed = True
        self.out.clear()
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
        self.mux.close(reason)
        self.transport = None
        self.write = None
        if self.on_lost is not None:
            callback = self.on_lost
            self.on_lost = None
            callback(reason)

    def pause_writing(self):
        """The transport holds max_output_bytes: stop reading, so that no more is produced (4.8)."""
        self.output_full = True
        self.stall_size = self.transport.get_write_buffer_size()
        runtime = self.mux.runtime
        if self.stall_timer is None:
            self.stall_timer = runtime.call_at(runtime.time() + self.limits.write_timeout, self.check_stall)
        self.steer()

    def resume_writing(self):
        self.output_full = False
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None
        self.release_waiters()
        self.steer()
        if not self.closed:
            self.consume()

    def check_stall(self):
        """The peer takes nothing: bounded in time as well as in memory."""
        self.stall_timer = None
        if self.closed or not self.output_full:
            return
        size = self.transport.get_write_buffer_size()
        if size >= self.stall_size:
            self.transport.abort()
            return
        self.stall_size = size
        runtime = self.mux.runtime
        self.stall_timer = runtime.call_at(runtime.time() + self.limits.write_timeout, self.check_stall)

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
            while not self.closed and not self.input_held and not self.output_full:
                kind = self.framer.next(&p, &n)
                if kind == LINE_NONE:
                    break
                if kind == LINE_TOO_LONG:
                    self.mux.refuse_frame(
                        INVALID_REQUEST, f"message longer than {self.limits.max_message_bytes} bytes", self)
                    continue
                try:
                    self.mux.receive(p, n, self)
                except Exception as exc:
                    self.mux.runtime.report("a message could not be handled", exc)
                count += 1
                if count >= self.max_inline:
                    # One chatty peer must not hold the loop: the rest follows in the next turn.
                    self.continue_due = True
                    self.mux.runtime.call_soon(self.continue_input)
                    self.steer()
                    break
        finally:
            self.busy = False
            self.flush()
        return 0

    def continue_input(self):
        """The next turn's share of frames that are already here."""
        self.continue_due = False
        self.steer()
        self.consume()
        if self.at_eof and not self.continue_due:
            self.drain()

    cdef int pause(self) except -1:
        self.input_held = True
        return self.steer()

    cdef int resume(self) except -1:
        self.input_held = False
        self.steer()
        return self.consume()

    cdef int steer(self) except -1:
        """Reading goes on only while nothing holds it."""
        cdef bint want = not (self.input_held or self.output_full or self.continue_due)
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
        self.flush_due = False
        if self.out.n and self.write is not None:
            self.write(self.out.take())

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        self.mark = self.out.n
        return 0

    cdef int close_response(self, Exchange ex) except -1:
        self.out.put(b"\n", 1)
        return self.wake()

    cdef int open_message(self, Exchange ex) except -1:
        # Notifications are optional: a peer that does not read, under a handler that does not wait,
        # loses them beyond four times the bound instead of costing memory without end.
        if self.output_full and self.out.n + self.transport.get_write_buffer_size() > 4 * self.max_output:
            return 0
        self.mark = self.out.n
        return 1

    cdef int close_message(self, Exchange ex) except -1:
        self.out.put(b"\n", 1)
        return self.wake()

    cdef int rollback(self) except -1:
        self.out.n = self.mark
        return 0

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

    def drain(self):
        """Lets requests in flight be answered, then closes; gives up after drain_timeout (ST-21)."""
        if self.closed or self.continue_due:
            return
        waiter = self.mux.wait_idle()
        if waiter is None:
            self.close()
            return
        waiter.add_done_callback(self.drain_done)
        if self.drain_timer is None:
            runtime = self.mux.runtime
            self.drain_timer = runtime.call_at(runtime.time() + self.limits.drain_timeout, self.drain_over)

    def drain_done(self, future):
        self.close()

    def drain_over(self):
        """Drain limit reached: what still runs is cancelled."""
        self.drain_timer = None
        self.mux.cancel_all("shutdown")
        self.close()

    def close(self):
        """Flushes and closes the stream; safe to call again."""
        if self.transport is not None:
            self.flush()
            self.closed = True
            self.transport.close()

    def abort(self):
        """Closes at once and drops queued output."""
        if self.transport is not None:
            self.closed = True
            self.transport.abort()
