"""What a pair of message streams needs of the compiled core: messages come out as they came, and lines go in.

Strategy: an SDK that speaks JSON-RPC itself correlates its own requests, so over lines its mux is passed by.
Over HTTP the mux keeps the calls, because an answer belongs to the connection of its request; everything
else is handed over.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize

from headrace.mux._mux cimport Mux, Sink
from headrace.transports._link cimport LineLink
from headrace.wire._cjson cimport hr_envelope

__all__ = ("StreamMux", "hold", "write_line")


cdef class StreamMux(Mux):
    """A mux that hands over messages: ``take(raw: bytes)`` is called once a message, in their order.

    With `matches` answers to calls of ours go to their calls, and only requests and notifications are handed
    over, ``notifications/progress`` and ``notifications/cancelled`` among them.
    """

    cdef readonly object take
    cdef bint matches

    def __init__(self, runtime, gate, limits, take, *, bint matches=False):
        Mux.__init__(self, runtime, gate, limits)
        self.take = take
        self.matches = matches

    cdef int receive(self, const char *p, Py_ssize_t n, Sink sink) except -1:
        if self.closed:
            return 0
        if self.matches:
            return Mux.receive(self, p, n, sink)
        self.take(PyBytes_FromStringAndSize(p, n))
        return 0

    cdef int request(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink, bint unparked) except -1:
        try:
            self.take(PyBytes_FromStringAndSize(p, n))
        except Exception as exc:
            self.runtime.fault("a message could not be handed over", exc)
        return 0

    cdef int notification(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
        self.take(PyBytes_FromStringAndSize(p, n))
        return sink.accepted()


def write_line(LineLink link not None, bytes message not None):
    """Queues one message, which holds no line end; it leaves in this turn's one write.

    False when the connection is gone. ``link.wait_drained()`` says whether the peer takes it.
    """
    if link.closed or link.transport is None:
        return False
    link.out.put_bytes(message)
    link.out.put(b"\n", 1)
    link.wake()
    return True


def hold(LineLink link not None, bint held):
    """Stops reading while nobody takes what was read, or goes on."""
    if held:
        link.pause()
    else:
        link.resume()
