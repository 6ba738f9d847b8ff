# A GET of a session that several processes serve.
from headrace.transports._http_endpoint cimport Connection
from headrace.transports._http_exchange cimport HttpExchange


cdef class RelayExchange(HttpExchange):
    cdef object follower                 # of a POST stream that goes on here, or None

    cdef int begin(self, Connection link, object session, object last, bytes extra) except -1
    cdef int turn_down(self, int status, int code, str text) except -1
