# Part of the module _mux: the bounds of a mux, read once from Limits that cannot change.


cdef struct Bounds:
    Py_ssize_t in_flight, total, parked, pending
    unsigned int depth
    double patience


cdef object last_limits = None       # whose bounds these are: a server makes all its muxes with the same
cdef Bounds bounds


cdef int read_bounds(object limits) except -1:
    global last_limits
    last_limits = None
    bounds.in_flight = limits.max_in_flight
    bounds.total = limits.max_in_flight_total
    bounds.parked = limits.max_parked
    bounds.pending = limits.max_pending
    bounds.depth = limits.max_depth
    bounds.patience = limits.max_input_time
    if type(limits) is Limits:
        last_limits = limits         # it cannot change
    return 0
