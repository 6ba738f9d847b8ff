# The event stream of an HTTP+SSE session.
from headrace.transports._http_endpoint cimport Connection
from headrace.transports._http_exchange cimport HttpExchange


cdef class LegacyStream(HttpExchange):
    cdef int begin(self, Connection link, object session, bytes extra, bytes endpoint) except -1
