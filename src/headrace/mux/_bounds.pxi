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


cdef str refusal_of(object error):
    """What a message that no handler saw is counted as: see headrace.transports.refusals."""
    cdef object code
    if error.refusal is not None:
        return error.refusal
    code = error.code
    if code == METHOD_NOT_FOUND:
        return "unknown_method"
    if code == INVALID_REQUEST or code == PARSE_ERROR:
        return "bad_message"
    return "internal_error" if code == INTERNAL_ERROR else "bad_request"


cdef str bound_met(Mux mux, Sink sink):
    """Which bound keeps a request from being started or parked."""
    if mux.runtime.in_flight >= mux.runtime.max_in_flight or not mux.scoped:
        return "max_in_flight_total"
    return "max_parked" if sink.persistent else "max_in_flight"
