# Streamable HTTP, client side: the sink of a client's mux.
from headrace.transports._http_reconnect cimport Reconnect
from headrace.transports._http_request cimport ChannelState, ClientRequest
from headrace.wire._sse cimport SseFramer


cdef class ClientPost(ClientRequest):
    # A notification or an answer (POST), or the end of the session (DELETE).
    cdef bytes body
    cdef bytes method                    # for Mcp-Method, or None
    cdef bint delete
    cdef bint sent
    cdef readonly object future          # done when it was accepted, or None


cdef class ClientStream(ClientRequest):
    # The server's own event stream (GET), reopened until it is closed or refused.
    cdef object notify_end               # callable(exc) or None
    cdef readonly bint opened            # it was answered with an event stream at least once
    cdef readonly bint ended
    cdef bint news                       # this connection brought a message
    cdef Reconnect reconnect
    cdef object first                    # future of answered(), or None
    cdef int settle(self) except -1
    cdef int wait(self, SseFramer framer, object exc) except -1
    cdef int finish(self, object exc) except -1


cdef class HttpChannel(ChannelState):
    cdef Py_ssize_t mark                 # where the message being written starts in `out`
    cdef set streams

    cdef int post_out(self) except -1
