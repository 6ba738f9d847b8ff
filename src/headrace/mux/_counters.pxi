# Part of the module _mux: live objects of debug builds.

cdef extern from *:
    """
    #ifndef HR_DEBUG
    #define HR_DEBUG 0
    #endif
    """
    const int HR_DEBUG

cdef Py_ssize_t live_exchanges = 0
cdef Py_ssize_t live_calls = 0
cdef Py_ssize_t live_sinks = 0


def live_objects():
    """Counts of live objects by kind and bytes queued in output buffers; debug builds only, zeros otherwise."""
    return {
        "exchanges": live_exchanges, "calls": live_calls, "sinks": live_sinks, "outbox_bytes": live_bytes(),
    }
