# Part of the module _mux: how methods are served, and the tables of one revision.


cdef class Revision:
    """The prepared tables of one protocol revision.

    `requests` maps a method name (bytes) to its Handler, `fallback` serves all others. `tail` closes every
    result object: ``b"}"``, or for the modern era the members that every result carries (JR-10, VN-30).
    """

    def __init__(self, str name not None, *, bint modern, dict requests=None, bytes tail=b"}", Handler fallback=None):
        self.name = name
        self.token = b'"' + name.encode() + b'"'
        self.version = name.encode()
        self.modern = modern
        self.structured = name >= "2025-06-18"
        self.index = REVISION_NAMES.index(name) if name in REVISION_NAMES else HR_REVISIONS - 1
        self.requests = {} if requests is None else requests
        self.fallback = fallback
        self.tail = tail
        self.last_method = b""
        self.last_handler = None

    def __repr__(self):
        return f"<Revision {self.name}>"

    def changed(self):
        """To be called after `requests` was changed."""
        self.last_method = b""
        self.last_handler = None

    @property
    def result_tail(self):
        """The bytes that close a result object."""
        return self.tail

    @result_tail.setter
    def result_tail(self, bytes tail not None):
        self.tail = tail

    cdef Handler find(self, const hr_token *method):
        cdef bytes name
        cdef object found
        if token_is(method, self.last_method) and self.last_handler is not None:
            return self.last_handler
        if method.escaped:
            name = token_str(method).encode("utf-8", "surrogatepass")
        else:
            name = PyBytes_FromStringAndSize(method.p + 1, <Py_ssize_t>method.n - 2)
        found = self.requests.get(name)
        if found is None:
            found = self.fallback
        if found is not None:
            self.last_method = name
            self.last_handler = <Handler?>found
        return <Handler>found


cdef class Handler:
    """How one method is served. Subclasses override the C-level methods."""

    def __cinit__(self, *args, **kwargs):
        self.urgent = False
        self.cancellable = True

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        """Decodes what it needs of `env` (valid during this call only) and runs the handler. Ends in
        ex.finish / ex.fail, or leaves a task or future in the exchange."""
        raise LocalProtocolError("a handler without a body")

    cdef int again(self, Exchange ex) except -1:
        """Runs the handler once more for ex, which it has not answered. Ends like `start`."""
        raise LocalProtocolError("this handler cannot run again")

    cdef object ready(self, Exchange ex, object result):
        """`result` as write_result takes it. All code that is not ours (encoding hooks, properties of the
        application's objects) runs in here, before a byte of the answer is written; an exception fails
        the exchange. The default wants a JSON object: as bytes, a RawResult, or a value that encodes to
        one."""
        cdef bytes body
        if isinstance(result, BaseException):
            raise result
        if type(result) is RawResult:
            body = (<RawResult>result).body
            if memchr(PyBytes_AS_STRING(body), c'\n', PyBytes_GET_SIZE(body)) is NULL:
                return result
            return RawResult(one_line(body))
        body = one_line(<bytes>result if type(result) is bytes else encode(result))
        if PyBytes_GET_SIZE(body) < 2 or body[0] != c'{' or body[PyBytes_GET_SIZE(body) - 1] != c'}':
            raise TypeError(f"a result must be a JSON object, not {type(result).__name__}")
        return body

    cdef int write_result(self, Exchange ex, Outbuf out, object result) except -1:
        """Writes what `ready` gave, including the revision's tail."""
        cdef bytes body
        cdef bytes tail = ex.revision.tail
        if type(result) is RawResult:
            return out.put_bytes((<RawResult>result).body)
        body = <bytes?>result
        out.put(PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body) - 1)
        if PyBytes_GET_SIZE(body) == 2 and tail[0] == c',':
            # An empty object takes the tail without its leading comma.
            return out.put(PyBytes_AS_STRING(tail) + 1, PyBytes_GET_SIZE(tail) - 1)
        return out.put_bytes(tail)

    cdef bint tells_failure(self, object ready) except -1:
        """Whether what `ready` gave for a tools/call says that the tool failed (isError)."""
        return says_error((<RawResult>ready).body if type(ready) is RawResult else <bytes?>ready)

    cdef object error_of(self, Exchange ex, object exc):
        """The answer to an exception of the handler: an RpcError, or a result object to send. This is
        the one place where exceptions become answers; unexpected text never leaks (JR-38).

        An exception may know better, by ``answer_for(exchange)``: it gives an RpcError, a ToolError (whose
        text may be shown), a result, or None when the request goes on."""
        own = getattr(type(exc), "answer_for", None)
        if own is not None:
            answer = own(exc, ex)
            return RpcError(INTERNAL_ERROR, str(answer)) if isinstance(answer, ToolError) else answer
        if isinstance(exc, RpcError):
            return exc
        if isinstance(exc, RemoteProtocolError):
            return RpcError(exc.rpc_code, str(exc), http_status=exc.http_status)
        ex.mux.runtime.fault(f"unexpected error while serving request {ex.id.decode('utf-8', 'replace')[:80]}", exc)
        return internal_error()


cdef class FunctionHandler(Handler):
    """Serves a method by a Python function of one Exchange.

    `function(exchange)` returns the result (bytes of a JSON object, or anything msgspec encodes to
    one) or an awaitable of it, or raises RpcError; or it calls ``exchange.hold(future)`` and returns
    None. ``exchange.params`` and ``exchange.meta`` hold raw
    bytes. `urgent` requests are served over the in-flight limit as well.
    """

    def __init__(self, function, *, bint urgent=False, bint cancellable=True):
        self.function = function
        self.urgent = urgent
        self.cancellable = cancellable

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        ex.keep(env)
        return self.run(ex)

    cdef int again(self, Exchange ex) except -1:
        return self.run(ex)

    cdef int run(self, Exchange ex) except -1:
        try:
            result = self.function(ex)
        except BaseException as exc:
            ex.fail(exc)
            if isinstance(exc, KeyboardInterrupt):
                raise
            return 0
        if ex.task is not None or ex.state != RUNNING:
            return 0  # it holds the exchange, or has answered by itself
        if type(result) is coroutine_type:
            return ex.run_coroutine(result)
        if hasattr(result, "add_done_callback"):
            return ex.run_future(result)
        if hasattr(result, "__await__"):
            return ex.run_coroutine(result if hasattr(result, "send") else await_it(result))
        return ex.finish(result)


cdef class AnyMethod(FunctionHandler):
    """Serves whatever has no handler of its own (see Revision): for layers above that dispatch by
    themselves. `function(exchange)` is a FunctionHandler's; ``exchange.method`` names the method.

    `loose`: params may be an array, and a result any JSON value, as in bare JSON-RPC 2.0.
    """

    def __init__(self, function, *, bint urgent=False, bint cancellable=True, bint loose=False):
        FunctionHandler.__init__(self, function, urgent=urgent, cancellable=cancellable)
        self.loose = loose

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        ex.named = token_str(&env.method)
        ex.keep(env)
        return self.run(ex)

    cdef object ready(self, Exchange ex, object result):
        if self.loose and type(result) is not RawResult and not isinstance(result, BaseException):
            return RawResult(one_line(<bytes>result if type(result) is bytes else encode(result)))
        return Handler.ready(self, ex, result)


async def await_it(awaitable):
    """A coroutine of any awaitable."""
    return await awaitable


cdef class RawResult:
    """A result object that is sent exactly as it is (it already carries what its revision asks)."""

    def __init__(self, bytes body not None):
        self.body = body
