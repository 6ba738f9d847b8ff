from headrace.mux._mux cimport Exchange, Handler


cdef class ToolHandler(Handler):
    # One tool: arguments decoder, caller and result writer, prepared once.
    cdef readonly str name
    cdef object function
    cdef object decode
    cdef object repair
    cdef object describe
    cdef object render
    cdef object context_type
    cdef tuple positional
    cdef tuple keyword
    cdef str context_keyword
    cdef Py_ssize_t context_at
    cdef int mode
    cdef bint keep_bytes
    cdef bint plain_text
    cdef bint direct                     # called with positional values alone
    cdef bint free                       # no output schema
    cdef object promised                 # the class that the output schema promises, or None
    cdef double timeout

    cdef int run(self, Exchange ex, object args) except -1
    cdef object invoke(self, Exchange ex, object args)
    cdef bint scalar(self, object result) except -1
    cdef object structured(self, object result)
    cdef object decoded(self, Exchange ex, object raw)
    cdef object second_look(self, Exchange ex, object exc, object raw)


cdef class NamedHandler(Handler):
    # A method whose params.name chooses the handler: tools/call.
    cdef readonly dict handlers          # name (bytes, UTF-8) -> Handler
    cdef object missing                  # (name: str) -> RpcError
    cdef public object guard             # (exchange, name) -> RpcError or None, for params with a task member; or None
    cdef bytes last_name
    cdef Handler last_handler

    cdef Handler find(self, const char *p, Py_ssize_t n)
