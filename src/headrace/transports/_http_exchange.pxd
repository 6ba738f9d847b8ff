# The sink of one HTTP exchange.
from libc.stdint cimport uint32_t

from headrace.mux._mux cimport Exchange, Revision, Sink
from headrace.protocol._streams cimport StreamKeeper
from headrace.transports._http_endpoint cimport Connection
from headrace.wire._outbuf cimport Outbuf


cdef class HttpExchange(Sink):
    # One POST from its head to the end of its answer, or one GET stream of a session.
    cdef readonly Connection link        # None once the connection is gone
    cdef readonly object session         # None: the modern era
    cdef readonly Exchange running       # in flight
    cdef StreamKeeper keeper             # the session, once `stream` has a name
    cdef readonly str stream             # name of the resumable stream that this is (HO-20), or None
    cdef Outbuf spool                    # a resumable stream without a connection: its events are only kept
    cdef Sink batch                      # of a JSON array, until everything is answered
    cdef object begun                    # session that this initialize opened, until it is answered
    cdef bytes head_bytes                # copy of the header lines, for requests that outlive the call
    cdef readonly bytes target           # of the request, once `keep_head` was called
    cdef readonly bint mirrors_params    # a header mirrors an argument of a tool, once `keep_head` was called
    cdef bytes extra                     # further header lines of the answer, or None
    cdef int mode
    cdef int accept
    cdef bint old                        # HTTP/1.0: no chunked coding
    cdef bint version_ok                 # MCP-Protocol-Version names the modern revision, once
    cdef Revision fixed                  # of a server without sessions: what the version header says
    cdef bint bare                       # neither a session nor a sign of the modern era
    cdef bint is_stream                  # GET
    cdef bint writing                    # between open_response and close_response
    cdef uint32_t since                  # tick of the last byte of a stream
    cdef Py_ssize_t mark
    cdef Py_ssize_t text_at

    cpdef int keep_head(self) except -1
    cdef int reset(self, Connection link, int accept) except -1
    cdef int put_head(self, Outbuf out, int status) except -1
    cdef int put_session(self, Outbuf out) except -1
    cdef int commit(self) except -1
    cdef int open_event(self, Outbuf out) except -1
    cdef int close_event(self, Outbuf out) except -1
    cdef int close_chunk(self, Outbuf out) except -1
    cdef int put_whole(self, Outbuf out, bytes id, bytes data, int retry_ms) except -1
    cdef int comment(self) except -1
    cdef int put_stream_head(self) except -1
    cdef int prime(self, int retry_ms) except -1
    cdef int put_events(self, list events) except -1
    cdef int start_stream(self, object name, list events) except -1
    cdef int replay_only(self, list events) except -1
    cdef int attach(self, Connection link, bytes extra, list events) except -1
    cpdef int part(self) except -1
    cpdef bint carry(self, bytes frame) except? False
    cdef int unlink(self) except -1
    cdef int end(self) except -1
    cpdef int end_stream(self) except -1
    cdef int retire(self) except -1
    cdef int status_for(self, Exchange ex, int code, int status) except -1
    cdef int answer_error(self, int status, int code, str text, bytes id=*) except -1
    cdef int keep_alive(self) except -1
    cdef int detach(self) except -1
    cdef int cancel_running(self, str reason) except -1
