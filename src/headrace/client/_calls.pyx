"""The plain tool call: from the application's `await` to the wire and back without a Python frame.

One object is the coroutine that the application awaits, the entry in the multiplexer's table and what
reads the answer. Everything unusual (progress, middleware, tasks, rounds of input, a session that was lost)
goes on in a coroutine of :mod:`headrace.client.core`, which this one then drives.

An answer stays raw bytes until the waiting task runs: a burst of answers makes no objects that the garbage
collector has to look at.
"""

import asyncio
import inspect
import warnings
from collections.abc import Coroutine

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcpy

from headrace.client.arguments import as_object, encode, seconds
from headrace.errors import HeadraceError, RemoteProtocolError

from headrace.mux._mux cimport Mux, PendingCall, Sink
from headrace.wire._cjson cimport hr_token

cdef extern from *:
    """
    /* `await` asks for am_send first (3.11); a cdef class has no other way to fill it. */
    static void hr_set_send(PyObject *type, int (*send)(PyObject *, PyObject *, PyObject **))
    {
        PyTypeObject *t = (PyTypeObject *)type;
        t->tp_as_async->am_send = (sendfunc)(void (*)(void))send;
        PyType_Modified(t);
    }
    """
    void hr_set_send(object, int (*)(PyObject *, PyObject *, PyObject **) except -1)

cdef extern from "Python.h":
    void Py_INCREF(object)
    int PyIter_Send(object, object, PyObject **) except -1
    object PyErr_SetObject(object, object)

__all__ = ("ToolCall", "ToolCaller")

cdef enum:
    NEW = 0        # not awaited yet
    WAITING = 1    # sent
    LONG = 2       # a coroutine of the client goes on
    OVER = 3


cdef class ToolCaller:
    """What the plain tool calls of one client share; the base class of :class:`headrace.Client`."""

    cdef public Mux _mux
    cdef public Sink _sink
    cdef public object _http             # the HTTP channel, or None
    cdef public object _recovery
    cdef public object _headers          # ToolHeaders, or None
    cdef public dict _prefixes           # members before the arguments, by tool
    cdef public dict _output_schemas
    cdef public bytes _tail              # what closes the params
    cdef public double _timeout
    cdef public bint _direct             # a plain call takes the short way
    cdef public object _read_call        # reads a plain result, strictly
    cdef public object _decode_call      # reads every result

    def call_tool(
        self,
        name,
        arguments=None,
        *,
        timeout=None,
        on_progress=None,
        reset_timeout_on_progress=None,
        max_total_timeout=None,
        meta=None,
        input_responses=None,
        request_state=None,
    ):
        """Calls a tool; ``await`` gives its :class:`CallResult`.

        :param arguments: a dict, or a Struct, dataclass or pydantic model that becomes a JSON object.
        :param timeout: seconds without an answer (default: that of the connection; infinity: no limit).
        :param on_progress: called with ``(progress, total, message)`` in order and before this returns;
            may be async, then the calls are awaited one after the other.
        :param reset_timeout_on_progress: progress restarts the clock of ``timeout`` (B80); the default is that
            of the connection.
        :param max_total_timeout: seconds in all, whatever the progress (default: that of the connection, else
            one hour with ``reset_timeout_on_progress``, else none).
        :param meta: members for the request's ``_meta``.
        :param input_responses, request_state: answers by key and the server's state, to go on by hand after
            :class:`InputRequired`.

        When the server asks for client input in the modern era, the callbacks of :func:`headrace.connect`
        answer and the call goes on by itself (MX-32). With ``tasks=True`` a call that the server makes a task
        is followed to its end; ``timeout`` is then for each look at it, ``max_total_timeout`` for all of it,
        and whoever stops waiting cancels the task.

        A tool that fails gives a result with ``is_error``. Raises :class:`RpcError` for the server's error
        answer, :class:`RequestTimeout` (the server is told), :class:`ConnectionClosed` when the connection
        ends first, :class:`RemoteProtocolError` for an answer that is no tool result, or whose structured
        content does not fit the output schema that the tool was last listed with (SF-06). Cancelling the
        waiting task cancels the call at the server (B75). Raises :class:`InputRequired` when the server asks
        for input that has no callback, :class:`InputRefused` when a callback refuses or fails.
        """
        cdef ToolCall call
        if (
            not self._direct
            or on_progress is not None
            or meta is not None
            or reset_timeout_on_progress
            or max_total_timeout is not None
            or input_responses is not None
            or request_state is not None
            or type(name) is not str
        ):
            return self._call_tool(
                name, arguments, timeout, on_progress, reset_timeout_on_progress, max_total_timeout, meta,
                input_responses, request_state)
        call = ToolCall.__new__(ToolCall)
        call.caller = self
        call.name = name
        call.arguments = arguments
        call.limit = timeout
        return call


cdef class ToolCall(PendingCall):
    """A call on its way: a coroutine in all but type."""

    cdef ToolCaller caller
    cdef str name
    cdef object arguments
    cdef object limit                    # what the caller gave as timeout
    cdef bytes raw                       # the arguments as they were sent
    cdef bytes answer
    cdef object longer                   # the coroutine that goes on
    cdef object epoch                    # of the HTTP session it was sent in
    cdef unsigned char stage

    def __dealloc__(self):
        if self.stage == NEW and self.caller is not None:
            warnings.warn("coroutine 'Client.call_tool' was never awaited", RuntimeWarning)

    def __repr__(self):
        return f"<call of {self.name!r}>"

    # What tasks ask a coroutine for when they describe it.

    @property
    def __name__(self):
        return "call_tool"

    @property
    def __qualname__(self):
        return "Client.call_tool"

    @property
    def cr_running(self):
        return False

    # --- one step -----------------------------------------------------------------------------------

    cdef int begin(self) except -1:
        """Sends the call, or leaves it to the long way."""
        cdef ToolCaller caller = self.caller
        cdef double limit = caller._timeout if self.limit is None else seconds(self.limit, 0)
        cdef bytes prefix, tail, raw, params
        cdef Py_ssize_t a, b, c
        cdef char *p
        cdef object recovery = caller._recovery
        found = caller._prefixes.get(self.name)
        prefix = <bytes>found if found is not None else <bytes?>caller._prefix(self.name)
        raw = self.encoded()
        self.arguments = None
        if caller._http is not None and (
            (recovery is not None and recovery.running)
            or (caller._headers is not None and self.name in caller._headers)
        ):
            return self.go_on(caller._call_long(self.name, prefix + raw, raw, self.limit))
        if recovery is not None:
            self.epoch = recovery.epoch
        tail = caller._tail
        a, b, c = PyBytes_GET_SIZE(prefix), PyBytes_GET_SIZE(raw), PyBytes_GET_SIZE(tail)
        params = PyBytes_FromStringAndSize(NULL, 1 + a + b + c)
        p = PyBytes_AS_STRING(params)
        p[0] = c"{"
        memcpy(p + 1, PyBytes_AS_STRING(prefix), a)
        memcpy(p + 1 + a, PyBytes_AS_STRING(raw), b)
        memcpy(p + 1 + a + b, PyBytes_AS_STRING(tail), c)
        self.raw = raw
        self.sink = caller._sink
        self.method = "tools/call"
        caller._mux.send(self, b"tools/call", params, self.name, limit, 0)
        self.stage = WAITING
        return 0

    cdef bytes encoded(self):
        """The arguments as a JSON object."""
        if self.arguments is None:
            return b"{}"
        if type(self.arguments) is dict:
            try:
                return <bytes?>encode(self.arguments)
            except Exception:
                pass    # as_object says what is wrong
        return <bytes?>as_object(self.arguments, "arguments")

    cdef int go_on(self, object coroutine) except -1:
        self.longer = coroutine
        self.stage = LONG
        return 0

    cdef object step(self, bint *over):
        """What the coroutine yields next; `over`: what it gives."""
        if self.stage == NEW:
            self.stage = OVER      # should it fail
            self.begin()
            if self.stage == WAITING and not self.future.done():
                self.future._asyncio_future_blocking = True
                return self.future
        if self.stage == WAITING:
            if self.answer is None and not self.future.done():
                raise RuntimeError("await wasn't used with future")
            self.stage = OVER
            value = self.settle()
            if self.stage == OVER:
                over[0] = True
                return value
        return self.drive(over)

    cdef object drive(self, bint *over):
        """One step of the coroutine that goes on."""
        cdef PyObject *out = NULL
        cdef int how
        if self.stage != LONG:
            raise RuntimeError("cannot reuse already awaited coroutine")
        how = PyIter_Send(self.longer, None, &out)
        if how == 0:
            self.stage = OVER
            over[0] = True
        value = <object>out
        hr_decref(out)
        return value

    cdef object settle(self):
        """The value of an answered call; or the long way goes on, where it has to."""
        cdef ToolCaller caller = self.caller
        cdef bytes answer = self.answer
        if answer is None:
            try:
                self.future.result()   # raises
            except HeadraceError as exc:
                if not self.curable():
                    raise
                self.go_on(caller._call_again(self.name, self.raw, self.limit, exc, self, self.epoch))
                return None
            raise RuntimeError("a call ended without an answer")
        self.answer = None
        try:
            result = caller._read_call(answer)
            if result.result_type != "complete":
                result = None
        except Exception:
            result = None
        if result is None:
            # Not the usual shape: read again by the reader that knows them all.
            try:
                result = caller._decode_call(answer)
            except Exception as exc:
                raise RemoteProtocolError(f"the result of tools/call is not valid: {reason_of(exc)}") from None
            if caller._is_open(result):
                self.go_on(caller._call_long(
                    self.name, caller._prefix(self.name) + self.raw, self.raw, self.limit, result))
                return None
        if caller._output_schemas and self.name in caller._output_schemas:
            caller._check(self.name, result)
        return result

    cdef bint curable(self):
        """Whether there are causes of a failure that can be put right: see Core._cured."""
        return self.caller._http is not None and not self.caller._mux.closed

    cdef int resolve(self, const hr_token *result) except -1:
        if not self.future.done():
            self.answer = PyBytes_FromStringAndSize(result.p, result.n)
            self.future.set_result(None)
        return 0

    # --- the coroutine ------------------------------------------------------------------------------

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        cdef bint over = False
        value = self.step(&over)
        if over:
            raise StopIteration(value)
        return value

    def send(self, value):
        """One step, as the method of a coroutine."""
        if value is not None and self.stage == NEW:
            raise TypeError("can't send non-None value to a just-started coroutine")
        return self.__next__()

    def throw(self, kind, value=None, traceback=None):
        """Raises an exception where the coroutine waits: the call is given up."""
        cdef bint over = False
        if self.stage == OVER:
            raise RuntimeError("cannot reuse already awaited coroutine")
        if not isinstance(kind, BaseException):
            kind = value if isinstance(value, BaseException) else kind() if value is None else kind(value)
        if traceback is not None:
            kind = kind.with_traceback(traceback)
        if self.stage == LONG:
            return self.longer.throw(kind)
        if self.stage == WAITING:
            if self.curable() and self.future.done() and isinstance(kind, HeadraceError):
                # A task is told of a failed future in this way.
                self.go_on(self.caller._call_again(self.name, self.raw, self.limit, kind, self, self.epoch))
                found = self.drive(&over)
                if over:
                    raise StopIteration(found)
                return found
            self.cancel()
        self.stage = OVER
        raise kind

    def close(self):
        """Gives the call up."""
        if self.stage == LONG:
            self.longer.close()
        elif self.stage == WAITING:
            self.cancel()
        self.stage = OVER


cdef str reason_of(object exc):
    try:
        text = str(exc)
        return text.encode("utf-8", "replace").decode()
    except Exception:
        return f"({type(exc).__name__})"


cdef int send_slot(PyObject *self, PyObject *value, PyObject **out) except -1:
    # The slot am_send: 0 returned, 1 yielded.
    cdef bint over = False
    cdef object found
    out[0] = NULL
    found = (<ToolCall>self).step(&over)
    Py_INCREF(found)
    out[0] = <PyObject *>found
    return 0 if over else 1


cdef extern from "Python.h":
    void hr_decref "Py_DECREF"(PyObject *)


hr_set_send(ToolCall, send_slot)
Coroutine.register(ToolCall)

# Who asks whether call_tool has to be awaited looks at these marks.
if hasattr(inspect, "markcoroutinefunction"):
    inspect.markcoroutinefunction(ToolCaller.call_tool)
else:
    ToolCaller.call_tool._is_coroutine = asyncio.coroutines._is_coroutine
