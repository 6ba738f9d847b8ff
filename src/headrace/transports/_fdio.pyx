# cython: binding=False
"""A byte transport on raw descriptors: pipes, sockets, terminals, files (B16, B25-B28, B112).

Strategy: an asyncio-like transport that does its own read and write calls and uses the event loop for one
thing only, to be told that something is ready. It watches one descriptor of its own, the gate (see
``csrc/hr_fd.h``), so the loop never touches a description that is shared with other processes, and asyncio and
uvloop behave alike. Input whose description is ours alone is watched by the loop itself, which is cheaper. How to
read and write without blocking is ``_rawfd``'s business; it never sets O_NONBLOCK on a shared description.

Output goes to the kernel at once; what it does not take is queued. Where a small message was answered in the
call stack of ``data_received``, the next one is often there in less time than it takes to fall asleep and be
woken: it is waited for awake for that long, at most `TURN` times in a turn of the loop (``RawReader.soon``).

The end comes in one of these ways, each giving exactly one ``connection_lost``:

- ``close()``: queued output is flushed, then ``connection_lost(None)``; ``abort(exc)``: at once.
- end of input: ``eof_received()``; a false answer closes.
- the output breaks (EPIPE): what the peer had sent before is still read, then ``connection_lost(exc)``.
- the input breaks, or ``data_received`` raises: ``connection_lost(exc)``.

``on_end``, where given, is asked first about the ends that the peer caused; it answers with ``lose(exc)`` (a
child's exit status is known a moment later than the end of its output).
"""

import logging
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport ENOSYS, ECONNABORTED, ECONNRESET, EIO, EPIPE

from headrace.transports._rawfd cimport (
    HR_FD_OWN, HR_FD_READABLE, HR_FD_WRITABLE, RAW_AGAIN, RAW_DATA, RAW_END, RawReader, RawWriter,
    hr_fd_close, hr_gate_open, hr_gate_set,
)

from headrace.errors import ConnectionClosed
from headrace.transports.readthread import ReadThread

__all__ = ("FdTransport", "live_transports")

cdef enum:
    DRAIN_MAX = 4 * 1024 * 1024   # read after the output broke, against a peer that sends for ever
    HIGH = 64 * 1024              # write buffer marks, as in asyncio
    LOW = 16 * 1024
    ROUNDS = 16                   # reads in one turn of the loop while draining
    SMALL = 4096                  # bytes: more than that came by being sent ahead, not in turn
    TURN = 8                      # messages answered one after the other in one turn of the loop

cdef object log = logging.getLogger("headrace.transports")
cdef int live = 0


def live_transports():
    """How many transports hold descriptors (leak tests, B22)."""
    return live


cdef class FdTransport:
    """FdTransport(loop, protocol, read_fd, write_fd, *, exclusive=False, extra=None, on_end=None,
    on_lost=None, strategy=None)

    ``read_fd`` and ``write_fd`` belong to the transport from the call on and are closed at the end, also
    when the call fails; either may be -1 (one direction only), both may be the same socket.
    ``exclusive``: no one else uses these open file descriptions, O_NONBLOCK may be set on them.
    ``on_end(exc)``: see the head of the module. ``on_lost()`` is called after ``connection_lost``, also when
    ``connection_made`` failed. ``strategy``: ``"nowait"`` or ``"poll"`` skip the better ways
    of reading shared descriptors (for tests). Raises OSError when a descriptor is not open.

    Nothing happens before :meth:`start`. All methods belong to the loop's thread.
    """

    def __cinit__(self):
        self.gate = -1
        self.high = HIGH
        self.low = LOW

    def __init__(self, loop, protocol, int read_fd, int write_fd, *, bint exclusive=False, dict extra=None,
                 on_end=None, on_lost=None, str strategy=None):
        global live
        if self.counted:
            raise RuntimeError("the transport is already set up")
        self.counted = True
        live += 1
        self.same = read_fd == write_fd
        self.r = RawReader(read_fd, exclusive)
        self.w = RawWriter(write_fd, exclusive)
        self.loop = loop
        self.on_end = on_end
        self.on_lost = on_lost
        try:
            self.r.look()
            self.w.look()
            self.gate = hr_gate_open()
            if self.gate < 0 and self.gate != -ENOSYS:
                raise OSError(-self.gate, os.strerror(-self.gate))
            # One descriptor for both directions is the reader's, until the writer has decided to keep it.
            self.w.owns = not self.same
            self.w.choose(self.gate, True, strategy)
            if self.w.fd == self.r.fd:
                self.w.owns = True
                self.r.owns = False
            self.r.choose(self.gate, False, strategy)
            if self.r.fd >= 0 and not self.r.pollable:
                self.thread = ReadThread(loop, os.dup(self.r.fd), self._thread_data)
                self.r.close()
            self.same = self.r.fd >= 0 and self.r.fd == self.w.fd
            self.direct = self.r.mode == HR_FD_OWN and self.r.fd >= 0 and not self.same
            self.extra = {"kinds": (self.r.kind, self.w.kind)}
            if extra is not None:
                self.extra.update(extra)
            self.set_protocol(protocol)
        except BaseException:
            self._stop_thread()
            self._release()
            raise

    def __dealloc__(self):
        self._release()

    def start(self):
        """Calls ``protocol.connection_made(self)`` and begins to read.

        What ``connection_made`` raises comes out of here; the descriptors are closed then and
        ``connection_lost`` is not called.
        """
        if self.started or self.ended:
            raise RuntimeError("the transport was already started")
        self.started = True
        try:
            if self.gate >= 0:
                self.loop.add_reader(self.gate, self._on_event)
            self.protocol.connection_made(self)
            if self.thread is not None:
                self.thread.start()
            self._arm()
        except BaseException:
            self.protocol = self.on_data = None
            self.abort()
            raise

    # -- asyncio's surface --------------------------------------------------------------------------

    def get_loop(self):
        """The event loop this transport belongs to."""
        return self.loop

    def get_extra_info(self, name, default=None):
        """``"kinds"``: the kinds of both descriptors, see ``fdkind.kind_of``; and what ``extra`` holds."""
        return self.extra.get(name, default)

    def get_protocol(self):
        """The protocol whose methods are called."""
        return self.protocol

    def set_protocol(self, protocol):
        """Calls another protocol from now on."""
        self.on_data = protocol.data_received
        self.protocol = protocol

    def is_closing(self):
        """Whether output is refused: closing, ended or broken."""
        return self.closing

    def is_reading(self):
        """Whether input is being delivered."""
        return self.started and not self.closing and not self.paused and not self.eof

    def pause_reading(self):
        """Stops ``data_received``; the kernel's buffer then stops the peer. Idempotent."""
        if not self.paused:
            self.paused = True
            self._arm()

    def resume_reading(self):
        """Undoes :meth:`pause_reading`. Idempotent."""
        if not self.paused:
            return
        self.paused = False
        if self.draining:
            if not self.ended:
                self.loop.call_soon(self._drain)
        elif self.held is not None and not self.closing:
            self.loop.call_soon(self._thread_resumed)
        else:
            self._arm()

    def get_write_buffer_size(self):
        """Queued output in bytes."""
        return self.w.queued

    def get_write_buffer_limits(self):
        """``(low, high)`` in bytes."""
        return self.low, self.high

    def set_write_buffer_limits(self, high=None, low=None):
        """``pause_writing`` is called above ``high`` queued bytes, ``resume_writing`` at ``low`` again.

        Missing values as in asyncio (low is a quarter of high). Raises ValueError unless
        ``high >= low >= 0``.
        """
        if high is None:
            high = HIGH if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self.high = high
        self.low = low

    def can_write_eof(self):
        """True: the output can be ended alone."""
        return True

    def write_eof(self):
        """Ends the output after what is queued; input goes on. Idempotent."""
        if self.weof or self.closing:
            return
        self.weof = True
        self._flushed()

    def write(self, data):
        """Writes bytes, at once where the kernel takes them; swallowed after the end of the output."""
        if type(data) is bytes:
            self.write_bytes(<bytes>data)
        elif isinstance(data, (bytes, bytearray, memoryview)):
            self.write_bytes(bytes(data))
        else:
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")

    def writelines(self, chunks):
        """Writes the joined chunks."""
        self.write(b"".join(chunks))

    def close(self):
        """Stops reading, flushes queued output, then ``connection_lost(None)``. Idempotent."""
        if self.draining and not self.ended:
            self._end(self.final)
        if self.closing:
            return
        self.closing = True
        self._stop_thread()
        self._flushed()

    def abort(self, exc=None):
        """Drops queued output; ``connection_lost(exc)`` comes in the next turn of the loop."""
        self._schedule_lost(exc)

    # -- for the one who holds on_end ---------------------------------------------------------------

    def lose(self, exc):
        """Answer to ``on_end``: ``connection_lost(exc)`` comes in the next turn of the loop."""
        self._schedule_lost(exc)

    def finish(self, exc):
        """The peer is gone for good: delivers what it sent before, then ``connection_lost(exc)``.

        Does not wait for the end of the input, which somebody else may hold open (B20).
        """
        if self.ended:
            return
        self.on_end = None
        if self.closing and not (self.draining or self.asked):
            self._schedule_lost(exc)
        elif self.draining and not self.asked:
            self.final = exc
        else:
            # While on_end made up its mind more may have come, unless the input was at its end.
            self.asked = False
            self._begin_drain(exc)

    # -- reading ------------------------------------------------------------------------------------

    cdef int _arm(self) except -1:
        # Brings what the gate watches in line with the state.
        cdef int r = 0
        cdef int w = 0
        cdef int code = 0
        if not self.started or self.lost:
            return 0
        if self.r.fd >= 0 and not (self.paused or self.eof or self.closing):
            r = HR_FD_READABLE
        if self.w.queued > 0:
            w = HR_FD_WRITABLE
        if r == self.rarmed and w == self.warmed:
            return 0
        if self.direct and r != self.rarmed:
            try:
                if r:
                    self.loop.add_reader(self.r.fd, self._on_readable)
                else:
                    self.loop.remove_reader(self.r.fd)
            except RuntimeError:
                if r:
                    raise
                # the loop is closed and has let go by itself
            self.rarmed = r
        if self.same:
            code = hr_gate_set(self.gate, self.r.fd, self.rarmed | self.warmed, r | w)
        else:
            if r != self.rarmed:
                code = hr_gate_set(self.gate, self.r.fd, self.rarmed, r)
            if w != self.warmed and code == 0:
                code = hr_gate_set(self.gate, self.w.fd, self.warmed, w)
        if code < 0:
            self._schedule_lost(ConnectionClosed(f"cannot watch the connection: {os.strerror(-code)}"))
            return 0
        self.rarmed = r
        self.warmed = w
        return 0

    def _on_readable(self):
        if self.rarmed:
            self._read_in_turn()

    def _on_event(self):
        # Which direction became ready is not asked: with output queued both are tried.
        cdef int error
        if self.warmed:
            error = self.w.flush()
            if error != 0:
                self._broken(error, True)
            else:
                self._flushed()
        if self.rarmed and not self.direct:
            self._read_in_turn()

    cdef int _read_in_turn(self) except -1:
        # One read, and more as long as small messages are answered at once and others follow at once.
        cdef int turns = TURN
        while True:
            self.wrote = False
            if self._read() != RAW_DATA or not self.wrote or self.r.last > SMALL:
                return 0
            turns -= 1
            if turns == 0 or not self.rarmed or self.w.queued > 0 or not self.r.soon():
                return 0

    cdef int _read(self) except -2:
        # A state of RawReader.read.
        cdef int state
        cdef bytes data = self.r.read(&state)
        if state == RAW_DATA:
            self._deliver(data)
        elif state == RAW_END:
            if self.r.error != 0:
                self._broken(self.r.error, False)
            else:
                self._at_eof()
        return state

    cdef int _deliver(self, bytes data) except -1:
        if self.draining:
            self.drained += PyBytes_GET_SIZE(data)
        try:
            if self.on_data is not None:
                self.on_data(data)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._failed(exc, "data_received() failed")
        return 0

    cdef int _at_eof(self) except -1:
        cdef bint keep = False
        self.eof = True
        self._arm()
        self._stop_thread()
        try:
            keep = self.protocol.eof_received()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._failed(exc, "eof_received() failed")
            return 0
        if self.draining or self.closing or keep:
            return 0
        if self.on_end is not None:
            self.closing = True
            self.w.drop()
            self._end(None)
        else:
            self.close()
        return 0

    def _thread_data(self, chunk):
        # From the reader thread: bytes, b"" at the end, or an OSError.
        if self.closing:
            return
        if self.paused:
            self.held = chunk
        elif not isinstance(chunk, bytes):
            self._broken(chunk.errno or EIO, False)
        elif not chunk:
            self._at_eof()
        else:
            self._deliver(chunk)
            if self.thread is not None and not self.closing:
                self.thread.taken()

    def _thread_resumed(self):
        if self.held is not None and not self.paused:
            chunk, self.held = self.held, None
            self._thread_data(chunk)

    cdef int _stop_thread(self) except -1:
        if self.thread is not None:
            thread, self.thread = self.thread, None
            thread.stop()
        self.held = None
        return 0

    # -- writing ------------------------------------------------------------------------------------

    cdef int write_from(self, const char *p, Py_ssize_t n) except -1:
        cdef Py_ssize_t done = 0
        if n <= 0 or self.closing or self.weof or self.w.fd < 0:
            return 0
        if self.w.queued == 0:
            done = self.w.write(p, n)
            if done == n:
                self.wrote = True
                return 0
            if done < 0:
                return self._broken(<int>-done, True)
        return self._queue((p + done)[:n - done], 0)

    cdef int write_bytes(self, bytes data) except -1:
        cdef Py_ssize_t n = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t done = 0
        if n == 0 or self.closing or self.weof or self.w.fd < 0:
            return 0
        if self.w.queued == 0:
            done = self.w.write(PyBytes_AS_STRING(data), n)
            if done == n:
                self.wrote = True
                return 0
            if done < 0:
                return self._broken(<int>-done, True)
        return self._queue(data, done)

    cdef int _queue(self, bytes data, Py_ssize_t offset) except -1:
        self.w.put(data, offset)
        self._arm()
        if self.w.queued > self.high and not self.wpaused:
            self.wpaused = True
            try:
                self.protocol.pause_writing()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                self._failed(exc, "pause_writing() failed")
        return 0

    cdef int _flushed(self) except -1:
        # After output was written: wakes the writer, and does what waited for an empty queue.
        if self.wpaused and self.w.queued <= self.low and not self.closing:
            self.wpaused = False
            try:
                self.protocol.resume_writing()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                return self._failed(exc, "resume_writing() failed")
        self._arm()
        if self.w.queued == 0 and not self.ended and not self.draining:
            if self.closing:
                self._schedule_lost(None)
            elif self.weof and self.w.fd >= 0:
                self.w.shutdown()
                if not self.same:
                    self.w.close()
        return 0

    # -- ending -------------------------------------------------------------------------------------

    cdef int _broken(self, int error, bint writing) except -1:
        # A read or write failed for good: said once, never tried again (B112).
        if self.ended or self.draining:
            self.eof = True
            return 0
        if error == EPIPE:
            exc = ConnectionClosed("the peer stopped reading")
        elif error == ECONNRESET or error == ECONNABORTED:
            exc = ConnectionClosed("reset by peer")
        else:
            exc = ConnectionClosed(f"{'write' if writing else 'read'} failed: {os.strerror(error)}")
        exc.__cause__ = OSError(error, os.strerror(error))
        log.debug("connection ended: %s", exc.reason)
        if self.closing:
            return self._schedule_lost(exc)
        if not writing:
            self.eof = True
        return self._begin_drain(exc)

    cdef int _begin_drain(self, object exc) except -1:
        # Output is over. What the peer had sent before is read first, but in another turn of the loop:
        # this may be inside the protocol's own write.
        self.draining = self.closing = True
        self.final = exc
        self.w.drop()
        self._arm()
        self._stop_thread()
        try:
            self.loop.call_soon(self._drain)
        except RuntimeError:
            self._schedule_lost(exc)
        return 0

    def _drain(self):
        for _ in range(ROUNDS):
            if self.ended or self.asked:
                return
            if self.r.fd < 0 or self.eof or self.drained > DRAIN_MAX:
                self._end(self.final)
                return
            if self.paused:  # resume_reading goes on with it
                return
            if self._read() == RAW_AGAIN:
                self._end(self.final)
                return
        self.loop.call_soon(self._drain)

    cdef int _end(self, object exc) except -1:
        # The peer ended the connection: asks whoever knows better, once.
        if self.ended or self.asked:
            return 0
        if self.on_end is None:
            return self._schedule_lost(exc)
        self.asked = True
        on_end, self.on_end = self.on_end, None
        on_end(exc)
        return 0

    cdef int _failed(self, object exc, str message) except -1:
        self.loop.call_exception_handler({
            "message": f"{message}: the connection is closed",
            "exception": exc, "transport": self, "protocol": self.protocol,
        })
        return self._schedule_lost(exc)

    cdef int _schedule_lost(self, object exc) except -1:
        if self.ended:
            return 0
        self.ended = self.closing = True
        self.final = exc
        self.on_end = None
        self.w.drop()
        self._arm()
        self._stop_thread()
        if self.started and self.gate >= 0:
            try:
                self.loop.remove_reader(self.gate)
            except RuntimeError:
                pass  # the loop is closed and has let go by itself
        try:
            self.loop.call_soon(self._call_lost)
        except RuntimeError:
            self._call_lost()
        return 0

    def _call_lost(self):
        # First the descriptors, so that connection_lost finds them free (B22).
        if self.lost:
            return
        self._release()
        protocol = self.protocol
        self.protocol = self.on_data = None
        exc, self.final = self.final, None
        on_lost, self.on_lost = self.on_lost, None
        try:
            if protocol is not None and self.started:
                protocol.connection_lost(exc)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.loop.call_exception_handler({
                "message": "connection_lost() failed", "exception": error,
                "transport": self, "protocol": protocol,
            })
        finally:
            if on_lost is not None:
                on_lost()

    cdef void _release(self) noexcept:
        global live
        if not self.counted or self.lost:
            return
        self.lost = self.ended = self.closing = True
        live -= 1
        if self.gate >= 0:
            hr_fd_close(self.gate)
            self.gate = -1
        if self.w is not None:
            self.w.close()
        if self.r is not None:
            self.r.close()

    def __repr__(self):
        state = "closed" if self.lost else "closing" if self.closing else "open"
        return f"<FdTransport {self.r.kind}/{self.w.kind} {state} queued={self.w.queued}>"
