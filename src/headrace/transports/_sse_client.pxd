# The transport of 2024-11-05 from the client's side.
from headrace.transports._http_client cimport ClientPost, HttpChannel
from headrace.transports._http_request cimport ClientRequest


cdef class SseStream(ClientRequest):
    # The event stream that carries everything the server sends.
    cdef readonly object future          # the endpoint event's data (str), or why there is none
    cdef readonly bint ended


cdef class SseCall(ClientPost):
    # A request of ours; its answer comes on the stream.
    cdef bint waits(self)


cdef class SseChannel(HttpChannel):
    cdef readonly SseStream stream
    cdef bytes _post_target              # where messages are POSTed, None before the endpoint event
