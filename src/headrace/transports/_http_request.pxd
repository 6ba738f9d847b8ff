# Requests of a Streamable HTTP client and the state they share.
from headrace.mux._mux cimport Mux, PendingCall, Sink
from headrace.transports._http_conn cimport HttpPool, HttpRequest
from headrace.transports._http_reconnect cimport Reconnect
from headrace.wire._chttp cimport hr_head, hr_sse_event
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer


cdef class ChannelState(Sink):
    cdef readonly Mux mux
    cdef readonly HttpPool pool
    cdef readonly object limits
    cdef bytes host                      # value of Host
    cdef readonly bytes target           # of the request line
    cdef bytes user_fields               # header lines the user adds
    cdef str _protocol_version
    cdef str _session_id
    cdef bint _modern
    cdef bytes post_head                 # up to the fields that vary
    cdef bytes bare_head                 # the same for initialize: no version, no session
    cdef bytes get_head
    cdef bytes state_fields              # version and session
    cdef bytes delete_head
    cdef ClientRequest receiving         # whose answer the mux is reading
    cdef Outbuf scratch
    cdef str last_name
    cdef bytes last_encoded
    cdef list asleep                     # streams that wait until a call gets through, or None
    cdef public object watcher           # callable(request, status, header lines) or None: see watch

    cdef int prepare(self) except -1
    cdef bytes head_for(self, bytes method, bytes own, bytes more)
    cdef int watch(self, ClientRequest request, const hr_head *h) except -1
    cdef bytes encoded(self, str name)
    cdef int deliver(self, ClientRequest request, const char *p, Py_ssize_t n) except -1
    cdef int adopt(self, const hr_head *h) except -1
    cdef int wake(self) except -1


cdef class ClientRequest(HttpRequest):
    # What every request of a channel shares: redirects, one retry, errors by status.
    cdef readonly ChannelState channel
    cdef PendingCall call                # the call that the answer is for, or None
    cdef readonly int status             # HTTP status of the answer, 0 before it
    cdef readonly str session_id         # the session it was sent under, or None
    cdef int hops                        # redirects followed
    cdef bint retried
    cdef bytes redirect                  # the target to go on with
    cdef object problem                  # what to fail with when the answer has been read
    cdef dict fields                     # header fields kept for an error
    cdef bint json                       # the answer says it is application/json
    cdef readonly bytes own              # the user's header lines of this request, in place of the channel's, or None

    cdef str what(self)
    cdef bint safe(self)
    cdef int failed(self, object exc) except -1
    cdef int again(self) except -1
    cdef int judge(self, const hr_head *h) except -2
    cdef int judge_error(self, const hr_head *h) except -1
    cdef object status_error(self, const char *p, Py_ssize_t n)
    cdef int lost(self, object exc, bint untouched, bint reused) except -1


cdef class CallOptions:
    # What one call wants otherwise than its channel: given to Mux.call(extra=).
    cdef readonly bytes fields           # further header lines, or None
    cdef readonly bytes own              # the user's header lines, in place of the channel's, or None
    cdef readonly bytes resume           # the event id behind which the answer goes on, or None
    cdef readonly object on_event_id     # callable(id: str) for each event of the answer that has one, or None


cdef class ClientCall(ClientRequest):
    # A request of ours: one PendingCall.
    cdef bytes method
    cdef bytes params
    cdef bytes name                      # encoded for Mcp-Name, or None
    cdef bytes extra                     # header lines of this call alone, or None
    cdef bint sent
    cdef bint modern                     # the era it was sent in
    cdef bint resumed                    # the answer to a request of earlier is asked for
    cdef object on_event_id              # see CallOptions
    cdef Reconnect reconnect             # once its event stream has ended too early (era H), else None
    cdef bint news                       # this stream brought a message
    cdef int take_options(self, CallOptions options) except -1
    cdef bint waits(self)
    cdef int stream_ended(self, SseFramer framer, object exc) except -1
    cdef int refused(self, const char *p, Py_ssize_t n) except -1
    cdef int tell_id(self, const hr_sse_event *event) except -1


cdef bytes encode_header(str text)      # HN-11
cdef bint passing(int status)           # the same request may succeed later

cdef bytes POSTED                       # fields of every POST
cdef bytes STREAMED                     # and of a GET
