# Part of the module _http_exchange: a message without an answer is taken (202), now or when it is in safe hands.

cdef str NOT_TAKEN = "what the processes of this server share cannot be reached now: try again"


cdef int put_accepted(HttpExchange self) except -1:
    """202 without a body and without a type (B57)."""
    cdef Outbuf out = self.link.queue()
    if self.extra is None and self.keep_alive():
        out.put(b"HTTP/1.1 202 Accepted\r\n", 23)
        out.put_bytes(self.link.endpoint.date)
        return out.put(b"Content-Length: 0\r\n\r\n", 21)
    return put_response_head(out, 202, self.link.endpoint.date + (self.extra or b""), 0, False, not self.keep_alive())


cdef int wait_taken(HttpExchange self) except -1:
    """Answers when `taken` is done."""
    cdef object future = self.taken
    if future.done():
        return tell_taken(self, future)
    self.accept &= ~ACCEPT_SSE           # it is no stream, however long that takes
    future.add_done_callback(Taken(self))
    return 0


cdef int tell_taken(HttpExchange self, object future) except -1:
    cdef bint keep
    self.taken = None
    if future.cancelled() or future.exception() is not None:
        if self.closed or self.link is None:
            return 0
        keep = self.keep_alive()
        self.link.endpoint.runtime.refused("backplane")
        put_rpc_error(self.link.endpoint, self.link.queue(), 503, INTERNAL_ERROR, NOT_TAKEN, None, self.extra or b"",
                      not keep, False)
        return self.end()
    if self.closed or self.link is None:
        return 0
    put_accepted(self)
    return self.end()


cdef class Taken:
    """Done callback of such a future."""
    cdef HttpExchange exchange

    def __init__(self, HttpExchange exchange):
        self.exchange = exchange

    def __call__(self, future):
        cdef HttpExchange exchange = self.exchange
        if exchange.taken is future:
            tell_taken(exchange, future)
        elif not future.cancelled():
            future.exception()           # the exchange is another one's now
