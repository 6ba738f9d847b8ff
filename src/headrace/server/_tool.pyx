"""The compiled path of tools/call: find the tool, decode its arguments, call it, write its result."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcmp

import msgspec

from headrace.errors import RpcError, ToolError
from headrace.jsonrpc import INVALID_PARAMS, LOG_LEVELS, PARSE_ERROR

from headrace.mux._mux cimport Exchange, Handler, RawResult
from headrace.wire._cjson cimport (
    HR_T_INT, HR_T_NONE, HR_T_NULL, HR_T_OBJECT, HR_T_STRING, hr_envelope, hr_token,
)
from headrace.wire._envelope cimport token_str
from headrace.wire._outbuf cimport Outbuf

__all__ = ("ASYNC", "INLINE", "NamedHandler", "THREAD", "ToolHandler")

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char *p, Py_ssize_t n, int flags)
    object PyObject_Vectorcall(object f, PyObject *const *args, size_t n, PyObject *names)
    object PyObject_CallOneArg(object f, object arg)
    int PyBUF_READ

cdef enum:
    MODE_INLINE = 0
    MODE_ASYNC = 1
    MODE_THREAD = 2
    COPY_BELOW = 4096         # smaller argument spans are cheaper to copy than to wrap (ceiling.md 1a)
    MAX_VECTOR = 24

INLINE = MODE_INLINE
ASYNC = MODE_ASYNC
THREAD = MODE_THREAD

cdef object ValidationError = msgspec.ValidationError
cdef object DecodeError = msgspec.DecodeError
cdef bytes NO_ARGUMENTS = b"{}"
cdef bytes TEXT_OPEN = b'{"content":[{"type":"text","text":"'
cdef bytes TEXT_CLOSE = b'"}]'
cdef bytes ERROR_CLOSE = b'"}],"isError":true'
cdef frozenset LEVELS = frozenset(level.encode() for level in LOG_LEVELS)


class ToolFailure:
    """A result with isError that carries one text."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


cdef class ToolHandler(Handler):
    """One tool.

    `function` is called with the fields `positional` and `keyword` of the decoded arguments Struct;
    a context made by `context_type(exchange)` goes in at position `context_at` (-1: none) or as
    `context_keyword`. `mode` is INLINE, ASYNC or THREAD. `describe(exc, raw)` makes the text of an
    isError answer to bad arguments (JR-36); `render(value, revision_name)` makes the bytes of a
    result object, except for str where `plain_text` allows the short way; `repair(raw, exc)` gets a
    second look at arguments that did not fit. `keep_bytes` asks for
    arguments as bytes of their own because decoded values may alias them. `timeout` in seconds ends
    the call with an isError answer (0: none).
    """

    def __init__(self, str name not None, function, *, decode, repair, describe, render, tuple positional, tuple keyword=(),
                 context_type=None, Py_ssize_t context_at=-1, str context_keyword=None, int mode=MODE_ASYNC,
                 bint keep_bytes=False, bint plain_text=True, double timeout=0):
        self.name = name
        self.function = function
        self.decode = decode
        self.repair = repair
        self.describe = describe
        self.render = render
        self.positional = positional
        self.keyword = keyword
        self.context_type = context_type
        self.context_at = context_at
        self.context_keyword = context_keyword
        self.mode = mode
        self.keep_bytes = keep_bytes
        self.plain_text = plain_text
        self.timeout = timeout

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        cdef object raw = None
        cdef object args
        cdef object result
        if env.arguments.type == HR_T_OBJECT:
            if env.arguments.n < COPY_BELOW or self.keep_bytes:
                raw = PyBytes_FromStringAndSize(env.arguments.p, env.arguments.n)
            else:
                raw = PyMemoryView_FromMemory(<char *>env.arguments.p, env.arguments.n, PyBUF_READ)
        elif env.arguments.type == HR_T_NONE or env.arguments.type == HR_T_NULL:
            raw = NO_ARGUMENTS
        else:
            return ex.fail(RpcError(INVALID_PARAMS, "arguments must be an object"))
        try:
            args = PyObject_CallOneArg(self.decode, raw)
        except Exception as exc:
            args = self.second_look(ex, exc, raw)
            if args is None:
                return 0
        finally:
            if type(raw) is memoryview:
                raw.release()
        if self.context_type is not None:
            ex.keep(env)
        try:
            result = self.invoke(ex, args)
        except BaseException as exc:
            ex.fail(exc)
            if isinstance(exc, KeyboardInterrupt):
                raise
            return 0
        if self.mode == MODE_INLINE:
            return ex.finish(result)
        if self.mode == MODE_ASYNC:
            ex.run_coroutine(result)
        else:
            ex.run_future(result)
        if self.timeout > 0 and ex.counted:
            runtime = ex.mux.runtime
            timer = runtime.call_at(runtime.time() + self.timeout, Deadline(ex, self))
            ex.task.add_done_callback(lambda task: timer.cancel())
        return 0

    cdef object invoke(self, Exchange ex, object args):
        """Calls the function (or hands it to a thread) with the fields of `args`."""
        cdef PyObject *argv[MAX_VECTOR]
        cdef list held = []
        cdef Py_ssize_t n = 0
        cdef object value
        cdef tuple names = self.keyword
        if self.context_at >= 0 or self.context_keyword is not None:
            context = PyObject_CallOneArg(self.context_type, ex)
        else:
            context = None
        for name in self.positional:
            if n == self.context_at:
                held.append(context)
                n += 1
            held.append(getattr(args, name))
            n += 1
        if n == self.context_at:
            held.append(context)
            n += 1
        if self.mode == MODE_THREAD or names or self.context_keyword is not None or n > MAX_VECTOR:
            keywords = {name: getattr(args, name) for name in names}
            if self.context_keyword is not None:
                keywords[self.context_keyword] = context
            if self.mode == MODE_THREAD:
                return ex.mux.runtime.run_thread(ThreadCall(self.function, held, keywords))
            return self.function(*held, **keywords)
        for i in range(n):
            argv[i] = <PyObject *>(held[i])
        return PyObject_Vectorcall(self.function, argv, n, NULL)

    cdef object second_look(self, Exchange ex, object exc, object raw):
        """Arguments that only need repair, or None after the error was answered: arguments of the wrong
        shape are the tool's own error, broken JSON is the message's (JR-36)."""
        if isinstance(exc, ValidationError):
            raw = bytes(raw)
            try:
                return self.repair(raw, exc)
            except ValidationError as final:
                ex.finish(ToolFailure(self.describe(final, raw)))
            except Exception as fault:
                ex.fail(fault)
        elif isinstance(exc, (DecodeError, UnicodeDecodeError, RecursionError)):
            ex.fail(RpcError(PARSE_ERROR, "not a JSON text", http_status=400))
        else:
            ex.fail(exc)
        return None

    cdef int write_result(self, Exchange ex, Outbuf out, object result) except -1:
        if type(result) is str and self.plain_text:
            out.put_bytes(TEXT_OPEN)
            out.put_text(<str>result)
            out.put_bytes(TEXT_CLOSE)
            return out.put_bytes(ex.revision.tail)
        if type(result) is ToolFailure:
            out.put_bytes(TEXT_OPEN)
            out.put_text(result.text)
            out.put_bytes(ERROR_CLOSE)
            return out.put_bytes(ex.revision.tail)
        if type(result) is not RawResult:
            result = self.render(result, ex.revision.name)
        return Handler.write_result(self, ex, out, result)

    cdef object error_of(self, Exchange ex, object exc):
        if isinstance(exc, ToolError):
            return ToolFailure(str(exc))
        if isinstance(exc, RpcError):
            return exc
        ex.mux.runtime.report(f"tool {self.name!r} failed", exc)
        return ToolFailure(f"tool {self.name!r} failed: internal error")


cdef class ThreadCall:
    """A call prepared on the loop, made in a worker thread."""

    cdef object function
    cdef list args
    cdef dict keywords

    def __init__(self, function, list args, dict keywords):
        self.function = function
        self.args = args
        self.keywords = keywords

    def __call__(self):
        return self.function(*self.args, **self.keywords)


cdef class Deadline:
    """Timer callback of a tool with a time limit."""

    cdef Exchange ex
    cdef ToolHandler tool

    def __init__(self, Exchange ex, ToolHandler tool):
        self.ex = ex
        self.tool = tool

    def __call__(self):
        if self.ex.open:
            self.ex.finish(ToolFailure(f"tool {self.tool.name!r} took longer than {self.tool.timeout:g} s"))
        if self.ex.task is not None:
            self.ex.task.cancel()


cdef class NamedHandler(Handler):
    """A method whose ``params.name`` chooses the handler.

    `handlers` maps names (UTF-8 bytes) to handlers and is shared with the registry that fills it;
    `missing(name)` makes the RpcError for a name that is not there (JR-35).
    """

    def __init__(self, dict handlers not None, missing):
        self.handlers = handlers
        self.missing = missing
        self.last_name = b""

    def changed(self):
        """To be called after `handlers` was changed."""
        self.last_name = b""
        self.last_handler = None

    cdef Handler find(self, const char *p, Py_ssize_t n):
        cdef bytes name
        cdef object found
        if (
            n == PyBytes_GET_SIZE(self.last_name) and n != 0
            and memcmp(p, PyBytes_AS_STRING(self.last_name), n) == 0
        ):
            return self.last_handler
        name = PyBytes_FromStringAndSize(p, n)
        found = self.handlers.get(name)
        if found is not None:
            self.last_name = name
            self.last_handler = <Handler?>found
        return <Handler>found

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        cdef Handler handler
        cdef bytes name
        if env.name.type != HR_T_STRING:
            return ex.fail(RpcError(INVALID_PARAMS, "params.name must be a string"))
        if env.name.escaped:
            name = token_str(&env.name).encode("utf-8", "surrogatepass")
            handler = self.find(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        else:
            handler = self.find(env.name.p + 1, <Py_ssize_t>env.name.n - 2)
        if handler is None:
            return ex.fail(self.missing(token_str(&env.name)))
        if env.log_level.n and (
            env.log_level.type != HR_T_STRING
            or PyBytes_FromStringAndSize(env.log_level.p + 1, <Py_ssize_t>env.log_level.n - 2) not in LEVELS
        ):
            return ex.fail(RpcError(INVALID_PARAMS, "unknown log level"))  # SF-41
        ex.handler = handler
        return handler.start(ex, env)
