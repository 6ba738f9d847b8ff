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


cdef int park(Mux mux, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
    """Keeps a request until a place is free. When enough wait, reading pauses, unless we wait for
    answers that come the same way: then more requests are refused, or both sides could wait for
    ever (T19)."""
    cdef bint full = len(mux.parked) >= mux.max_parked or mux.parked_bytes >= PARKED_BYTES
    if full or not sink.persistent:
        return mux.refuse(env, sink, INTERNAL_ERROR, "too many requests in flight", 503, bound_met(mux, sink))
    mux.parked[mux.id_key(&env.id)] = (PyBytes_FromStringAndSize(p, n), sink)
    mux.parked_bytes += n
    if mux.in_flight < mux.max_in_flight:
        mux.runtime.waiting[mux] = None
    if mux.held is None and not mux.pending and (
        len(mux.parked) >= mux.max_parked or mux.parked_bytes >= PARKED_BYTES
    ):
        mux.held = sink
        sink.pause()
    return 0


cdef bint held(Mux mux, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink, bint unparked) except -1:
    """Whether a bound keeps a request from being started: then it was answered, or waits for its turn."""
    cdef Runtime runtime = mux.runtime
    cdef double wait
    if runtime.rates is not None and sink.metered and not unparked:
        wait = runtime.rates.take(sink.caller())
        if wait > 0:
            mux.refuse_error(env, sink, runtime.rates.refusal(wait))
            return True
    if (
        mux.in_flight >= mux.max_in_flight or runtime.in_flight >= runtime.max_in_flight
        or (mux.parked and not unparked)
    ):
        park(mux, p, n, env, sink)
        return True
    if runtime.max_share and runtime.shares.get(sink.caller(), 0) >= runtime.max_share:
        mux.refuse_error(env, sink, RpcError(
            INTERNAL_ERROR, f"too many requests in flight: at most {runtime.max_share} of one caller", http_status=429,
            refusal="max_in_flight_per_principal", retry_after=1.0))
        return True
    return False


cdef int join(Exchange ex, object caller) except -1:
    """Counts a request that is in flight for its caller."""
    cdef dict shares = ex.mux.runtime.shares
    shares[caller] = shares.get(caller, 0) + 1
    ex.share = caller
    return 0


cdef int leave(Exchange ex) except -1:
    cdef dict shares = ex.mux.runtime.shares
    cdef object left = shares[ex.share] - 1
    if left:
        shares[ex.share] = left
    else:
        del shares[ex.share]
    ex.share = None
    return 0


cdef int wait_of(object error) except -1:
    """Seconds of Retry-After beside an error, 0: none were said."""
    cdef object wait = error._retry_after
    return 0 if wait is None else max(1, min(ceil(wait), 0x7FFFFFFF))
