"""The compiled path of tools/call: find the tool, decode its arguments, call it, write its result."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from libc.math cimport isfinite
from libc.string cimport memchr, memcmp

import msgspec

from headrace.errors import RpcError, ToolError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, LOG_LEVELS, PARSE_ERROR

from headrace.mux._mux cimport Diverted, Exchange, Handler, RawResult
from headrace.wire._cjson cimport (
    HR_T_INT, HR_T_NONE, HR_T_NULL, HR_T_OBJECT, HR_T_STRING, hr_envelope, hr_token,
)
from headrace.wire._envelope cimport token_str
from headrace.wire._outbuf cimport Outbuf

cimport cython

__all__ = ("ASYNC", "INLINE", "NamedHandler", "THREAD", "ToolHandler")

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char *p, Py_ssize_t n, int flags)
    object PyObject_CallOneArg(object f, object arg)
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    int PyBUF_READ

cdef extern from *:
    """
    /* Calls function(*[getattr(args, name) for name in names]), with `context` put in at position `at`
       (beyond the names: no context). The values live on the stack, one slot in front of them is the
       callee's to use. Needs at most HR_MAX_VECTOR names. */
    #define HR_MAX_VECTOR 16
    static PyObject *hr_call_fields(PyObject *function, PyObject *args, PyObject *names, PyObject *context,
                                    Py_ssize_t at)
    {
        PyObject *slots[HR_MAX_VECTOR + 2];
        PyObject **argv = slots + 1;
        PyObject *result = NULL;
        Py_ssize_t count = PyTuple_GET_SIZE(names), n = 0, i;
        for (i = 0; i <= count; i++) {
            if (i == at) {
                Py_INCREF(context);
                argv[n++] = context;
            }
            if (i == count)
                break;
            argv[n] = PyObject_GetAttr(args, PyTuple_GET_ITEM(names, i));
            if (argv[n] == NULL)
                goto done;
            n++;
        }
        result = PyObject_Vectorcall(function, argv, (size_t)n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    done:
        for (i = 0; i < n; i++)
            Py_DECREF(argv[i]);
        return result;
    }

    /* Whether the JSON text holds the letters "null": msgspec writes NaN and infinities so. */
    static int hr_has_null(const char *p, Py_ssize_t n)
    {
        const char *e = p + n;
        while (e - p >= 4 && (p = memchr(p, 'n', (size_t)(e - p) - 3)) != NULL) {
            if (memcmp(p, "null", 4) == 0)
                return 1;
            p++;
        }
        return 0;
    }
    """
    enum:
        HR_MAX_VECTOR
    object hr_call_fields(object function, object args, object names, object context, Py_ssize_t at)
    bint hr_has_null(const char *p, Py_ssize_t n) noexcept

cdef enum:
    MODE_INLINE = 0
    MODE_ASYNC = 1
    MODE_THREAD = 2
    COPY_BELOW = 4096         # smaller argument spans are cheaper to copy than to wrap (ceiling.md 1a)

INLINE = MODE_INLINE
ASYNC = MODE_ASYNC
THREAD = MODE_THREAD


class _Call(msgspec.Struct):
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


cdef object decode_call = msgspec.json.Decoder(_Call).decode
cdef object ValidationError = msgspec.ValidationError
cdef object DecodeError = msgspec.DecodeError
cdef object encode = msgspec.json.Encoder().encode
cdef bytes NO_ARGUMENTS = b"{}"
cdef bytes TEXT_OPEN = b'{"content":[{"type":"text","text":"'
cdef bytes TEXT_CLOSE = b'"}]'
cdef bytes ERROR_CLOSE = b'"}],"isError":true'
cdef bytes STRUCTURED = b',"structuredContent":'
cdef frozenset LEVELS = frozenset(LOG_LEVELS)


cdef class ToolFailure:
    """A result with isError that carries one text."""

    cdef str text

    def __init__(self, str text not None):
        self.text = text


@cython.freelist(16)
cdef class Structured:
    """The JSON of a result that is structured content and, as text, the one text block."""

    cdef bytes data


cdef class ToolHandler(Handler):
    """One tool.

    `function` is called with the fields `positional` and `keyword` of the decoded arguments Struct;
    a context made by `context_type(exchange)` goes in at position `context_at` (-1: none) or as
    `context_keyword`. `mode` is INLINE, ASYNC or THREAD. `describe(exc, raw)` makes the text of an
    isError answer to bad arguments (JR-36); `repair(raw, exc)` gets a second look at arguments that did
    not fit. `render(value, revision_name)` makes the bytes of a result object; the most common results
    are written here instead, byte for byte as it does: str where `plain_text` allows it, numbers and
    bools that are free or promised, and instances of the class `promised` by the output schema. `keep_bytes` asks for
    arguments as bytes of their own because decoded values may alias them. `timeout` in seconds ends
    the call with an isError answer (0: none).
    """

    def __init__(self, str name not None, function, *, decode, repair, describe, render, tuple positional,
                 tuple keyword=(), context_type=None, Py_ssize_t context_at=-1, str context_keyword=None,
                 int mode=MODE_ASYNC, bint keep_bytes=False, bint plain_text=True, promised=None, double timeout=0):
        self.name = name
        self.method = "tools/call"
        self.tool = name
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
        self.free = plain_text
        self.promised = promised
        self.timeout = timeout
        self.direct = (mode != MODE_THREAD and not keyword and context_keyword is None
                       and len(positional) <= HR_MAX_VECTOR)

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        cdef object raw = None
        cdef object args
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
            args = self.decoded(ex, raw)
        finally:
            if type(raw) is memoryview:
                raw.release()
        if args is None:
            return 0
        if self.context_type is not None:
            ex.keep(env)
        return self.run(ex, args)

    cdef int again(self, Exchange ex) except -1:
        if ex.params is None:
            raise UsageError(f"tool {self.name!r} asks for input: give it a parameter annotated with Context")
        args = self.decoded(ex, bytes(decode_call(ex.params).arguments))
        return 0 if args is None else self.run(ex, args)

    cdef object decoded(self, Exchange ex, object raw):
        """The arguments Struct; None when they did not fit and the exchange is answered."""
        try:
            return PyObject_CallOneArg(self.decode, raw)
        except Exception as exc:
            return self.second_look(ex, exc, raw)

    cdef int run(self, Exchange ex, object args) except -1:
        cdef object result
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
            ex.task.add_done_callback(Deadline(ex, self, runtime.time() + self.timeout).over)
        return 0

    cdef object invoke(self, Exchange ex, object args):
        """Calls the function (or hands it to a thread) with the fields of `args`."""
        cdef object context = None
        cdef list held
        if self.context_at >= 0 or self.context_keyword is not None:
            context = PyObject_CallOneArg(self.context_type, ex)
        if self.direct:
            return hr_call_fields(self.function, args, self.positional, context, self.context_at)
        held = [getattr(args, name) for name in self.positional]
        if self.context_at >= 0:
            held.insert(self.context_at, context)
        keywords = {name: getattr(args, name) for name in self.keyword}
        if self.context_keyword is not None:
            keywords[self.context_keyword] = context
        if self.mode == MODE_THREAD:
            return ex.mux.runtime.run_thread(ThreadCall(self.function, held, keywords))
        return self.function(*held, **keywords)

    cdef object second_look(self, Exchange ex, object exc, object raw):
        """Arguments that only need repair, or None after the error was answered: arguments of the wrong
        shape are the tool's own error, broken JSON is the message's (JR-36)."""
        if isinstance(exc, ValidationError):
            raw = bytes(raw)
            try:
                return self.repair(raw, exc)
            except ValidationError as final:
                ex.finish(ToolFailure(self.describe(final, raw)))
                # Its frames may hold it: no work for the garbage collector.
                final.__traceback__ = final.__context__ = exc.__traceback__ = None
            except Exception as fault:
                ex.fail(fault)
        elif isinstance(exc, (DecodeError, UnicodeDecodeError, RecursionError)):
            ex.fail(RpcError(PARSE_ERROR, "not a JSON text", http_status=400))
        else:
            ex.fail(exc)
        return None

    cdef object ready(self, Exchange ex, object result):
        cdef object made
        if (type(result) is str and self.plain_text) or type(result) is ToolFailure or self.scalar(result):
            return result
        made = self.structured(result)
        if made is not None:
            return made
        if isinstance(result, BaseException):
            raise result
        if type(result) is RawResult:
            return Handler.ready(self, ex, result)
        return Handler.ready(self, ex, self.render(result, ex.revision.name))

    cdef bint scalar(self, object result) except -1:
        """A number or bool that is written without further checks."""
        cdef int overflow = 0
        if type(result) is int:
            if self.free or self.promised is int or self.promised is float:
                PyLong_AsLongLongAndOverflow(result, &overflow)
                return overflow == 0
        elif type(result) is float:
            return (self.free or self.promised is float) and isfinite(<double>result)
        elif type(result) is bool:
            return self.free or self.promised is bool
        return False

    cdef object structured(self, object result):
        """The JSON of an instance of the promised class; None when that takes a closer look."""
        cdef Structured made
        cdef bytes data
        if self.promised is None or type(result) is not self.promised:
            return None
        try:
            data = encode(result)
        except Exception:
            return None
        if memchr(PyBytes_AS_STRING(data), c'\n', PyBytes_GET_SIZE(data)) is not NULL or (
            hr_has_null(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        ):
            return None
        made = Structured.__new__(Structured)
        made.data = data
        return made

    cdef int write_result(self, Exchange ex, Outbuf out, object result) except -1:
        cdef bytes data
        cdef bint known = ex.revision.structured
        if type(result) is bytes or type(result) is RawResult:
            return Handler.write_result(self, ex, out, result)
        out.put_bytes(TEXT_OPEN)
        if type(result) is str:
            out.put_text(<str>result)
            out.put_bytes(TEXT_CLOSE)
        elif type(result) is ToolFailure:
            out.put_text((<ToolFailure>result).text)
            out.put_bytes(ERROR_CLOSE)
        else:
            if type(result) is Structured:
                data = (<Structured>result).data
                out.put_escaped(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
                known = known and (ex.revision.modern or data[0] == c'{')
            else:
                data = encode(result)
                out.put_bytes(data)
                known = ex.revision.modern and not self.free
            out.put_bytes(TEXT_CLOSE)
            if known:
                out.put_bytes(STRUCTURED)
                out.put_bytes(data)
        return out.put_bytes(ex.revision.tail)

    cdef bint tells_failure(self, object ready) except -1:
        if type(ready) is ToolFailure:
            return True
        return (type(ready) is RawResult or type(ready) is bytes) and Handler.tells_failure(self, ready)

    cdef object error_of(self, Exchange ex, object exc):
        if isinstance(exc, ToolError):
            return ToolFailure(str(exc))
        own = getattr(type(exc), "answer_for", None)
        if own is not None:
            answer = own(exc, ex)
            return ToolFailure(str(answer)) if isinstance(answer, ToolError) else answer
        if isinstance(exc, RpcError):
            return exc
        ex.mux.runtime.fault(f"tool {self.name!r} failed", exc)
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
    """The time limit of one call: a timer that the end of the handler takes away."""

    cdef Exchange ex
    cdef ToolHandler tool
    cdef object timer

    def __init__(self, Exchange ex, ToolHandler tool, double when):
        self.ex = ex
        self.tool = tool
        self.timer = ex.mux.runtime.call_at(when, self.reached)

    def over(self, task):
        """Done callback of the handler."""
        self.timer.cancel()
        self.timer = None
        self.ex = None

    def reached(self):
        """Timer callback: the answer is the error, and the handler is stopped."""
        ex = self.ex
        try:
            ex.finish(ToolFailure(f"tool {self.tool.name!r} took longer than {self.tool.timeout:g} s"))
        finally:
            ex.task.cancel()


cdef class NamedHandler(Handler):
    """A method whose ``params.name`` chooses the handler.

    `handlers` maps names (UTF-8 bytes) to handlers and is shared with the registry that fills it;
    `missing(name)` makes the RpcError for a name that is not there (JR-35). `guard(exchange, name)`, where it
    is set, sees requests whose params have a ``task`` before a handler that makes no tasks; it gives the
    RpcError to answer with, or None.
    """

    def __init__(self, dict handlers not None, missing):
        self.handlers = handlers
        self.missing = missing
        self.names = True
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
            if self.last_handler.method is None:
                self.last_handler.method = self.method
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
        if env.log_level.n and ex.revision.modern and token_str(&env.log_level) not in LEVELS:
            return ex.fail(RpcError(INVALID_PARAMS, "unknown log level"))  # SF-41
        if env.tasked and self.guard is not None and type(handler) is not Diverted:
            ex.keep(env)
            error = self.guard(ex, token_str(&env.name))
            if error is not None:
                return ex.fail(error)
        ex.handler = handler
        return handler.start(ex, env)
