"""JSON-RPC envelopes as Python objects: one scan, then attributes that are made when asked for.

Routing in compiled code works on the ``hr_envelope`` struct itself; an :class:`Envelope` is for what
leaves it (gates, tests, other SDKs). All parts are raw bytes, so ids and numbers keep their digits
(JR-04, B71, B73).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint32_t

from headrace.wire._cjson cimport (
    HR_BAD_UTF8, HR_BATCH, HR_ERROR, HR_INVALID, HR_NOTIFICATION, HR_OK, HR_REQUEST, HR_RESULT,
    HR_SCAN_ANY_RESULT, HR_SCAN_LOOSE, HR_T_STRING, HR_TOO_DEEP, hr_envelope, hr_envelope_rebase, hr_envelope_scan,
    hr_json_skip, hr_json_unescape, hr_json_ws, hr_token,
)

from headrace.errors import RemoteProtocolError, UsageError
from headrace.jsonrpc import PARSE_ERROR

__all__ = ("Envelope", "scan_envelope", "split_batch")

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX
    str PyUnicode_DecodeUTF8(const char *p, Py_ssize_t n, const char *errors)

cdef enum:
    STACK_TEXT = 256   # unescaped on the stack up to this length
    DEPTH_CAP = 1024   # as in hr_json.h


cdef str token_str(const hr_token *t):
    cdef char small[STACK_TEXT]
    cdef char *text = small
    cdef size_t n
    if t.type != HR_T_STRING:
        return None
    n = t.n - 2
    if not t.escaped:
        return PyUnicode_DecodeUTF8(t.p + 1, <Py_ssize_t>n, NULL)
    if n > STACK_TEXT:
        text = <char *>PyMem_Malloc(n)
        if text is NULL:
            raise MemoryError
    try:
        n = hr_json_unescape(text, t.p + 1, n)
        return PyUnicode_DecodeUTF8(text, <Py_ssize_t>n, NULL)
    finally:
        if text is not small:
            PyMem_Free(text)


cdef bytes token_bytes(const hr_token *t):
    if t.n == 0:
        return None
    return PyBytes_FromStringAndSize(t.p, <Py_ssize_t>t.n)


cdef Envelope envelope_from(const char *p, Py_ssize_t n, const hr_envelope *env):
    cdef Envelope self = Envelope.__new__(Envelope)
    self.data = PyBytes_FromStringAndSize(p, n)
    self.env = env[0]
    hr_envelope_rebase(&self.env, p, PyBytes_AS_STRING(self.data))
    return self


cdef list batch_items(const char *p, Py_ssize_t n, Py_ssize_t most=PY_SSIZE_T_MAX):
    cdef list items = []
    cdef hr_token item
    cdef const char *e = p + n
    p = hr_json_ws(hr_json_ws(p, e) + 1, e)
    while p < e and p[0] != c']' and len(items) < most:
        # checked before: what is left to know is where each element ends
        if hr_json_skip(p, e, 0, DEPTH_CAP, &item) != HR_OK:
            raise ValueError("not a checked array")
        items.append(token_bytes(&item))
        p = hr_json_ws(p + item.n, e)
        if p < e and p[0] == c',':
            p = hr_json_ws(p + 1, e)
    return items


cdef Envelope envelope_of(bytes item, unsigned int max_depth, unsigned int flags=0):
    cdef Envelope self = Envelope.__new__(Envelope)
    self.data = item
    if hr_envelope_scan(PyBytes_AS_STRING(item), PyBytes_GET_SIZE(item), max_depth, flags, &self.env) != HR_OK:
        self.env.kind = HR_INVALID
        self.env.id_usable = 0
        self.env.reason = b"not a JSON text"
    return self


cdef class Envelope:
    """A scanned JSON-RPC message. Read-only; every part is the raw JSON text as it came, or ``None``.

    ``kind`` is ``"request"``, ``"notification"``, ``"result"``, ``"error"``, ``"batch"`` (a JSON array)
    or ``"invalid"`` (JSON, but no JSON-RPC message: answer -32600; ``reason`` says why).
    """

    def __init__(self):
        raise TypeError("envelopes come from scan_envelope()")

    def __repr__(self):
        return f"<Envelope {self.kind} id={self.id!r} method={self.method!r}>"

    @property
    def kind(self) -> str:
        cdef int kind = self.env.kind
        if kind == HR_REQUEST:
            return "request"
        if kind == HR_NOTIFICATION:
            return "notification"
        if kind == HR_RESULT:
            return "result"
        if kind == HR_ERROR:
            return "error"
        return "batch" if kind == HR_BATCH else "invalid"

    @property
    def reason(self) -> str | None:
        return None if self.env.reason is NULL else self.env.reason.decode("ascii")

    @property
    def id_usable(self) -> bool:
        """The id is a string or an integer, so an answer may repeat it."""
        return self.env.id_usable != 0

    @property
    def method(self) -> str | None:
        """The method, decoded."""
        return token_str(&self.env.method)

    @property
    def id(self) -> bytes | None:
        return token_bytes(&self.env.id)

    @property
    def params(self) -> bytes | None:
        return token_bytes(&self.env.params)

    @property
    def result(self) -> bytes | None:
        return token_bytes(&self.env.result)

    @property
    def error(self) -> bytes | None:
        return token_bytes(&self.env.error)

    @property
    def name(self) -> bytes | None:
        """``params.name``."""
        return token_bytes(&self.env.name)

    @property
    def uri(self) -> bytes | None:
        """``params.uri``."""
        return token_bytes(&self.env.uri)

    @property
    def arguments(self) -> bytes | None:
        """``params.arguments``."""
        return token_bytes(&self.env.arguments)

    @property
    def cursor(self) -> bytes | None:
        """``params.cursor``."""
        return token_bytes(&self.env.cursor)

    @property
    def meta(self) -> bytes | None:
        """``params._meta``."""
        return token_bytes(&self.env.meta)

    @property
    def request_id(self) -> bytes | None:
        """``params.requestId`` (notifications/cancelled)."""
        return token_bytes(&self.env.request_id)

    @property
    def note_token(self) -> bytes | None:
        """``params.progressToken`` (notifications/progress)."""
        return token_bytes(&self.env.note_token)

    @property
    def task_id(self) -> bytes | None:
        """``params.taskId``."""
        return token_bytes(&self.env.task_id)

    @property
    def progress_token(self) -> bytes | None:
        """``params._meta.progressToken``."""
        return token_bytes(&self.env.progress_token)

    @property
    def protocol_version(self) -> bytes | None:
        """``io.modelcontextprotocol/protocolVersion`` of ``params._meta``."""
        return token_bytes(&self.env.protocol_version)

    @property
    def client_capabilities(self) -> bytes | None:
        """``io.modelcontextprotocol/clientCapabilities`` of ``params._meta``."""
        return token_bytes(&self.env.client_capabilities)

    @property
    def client_info(self) -> bytes | None:
        """``io.modelcontextprotocol/clientInfo`` of ``params._meta``."""
        return token_bytes(&self.env.client_info)

    @property
    def log_level(self) -> bytes | None:
        """``io.modelcontextprotocol/logLevel`` of ``params._meta``."""
        return token_bytes(&self.env.log_level)

    @property
    def subscription_id(self) -> bytes | None:
        """``io.modelcontextprotocol/subscriptionId`` of ``params._meta``."""
        return token_bytes(&self.env.subscription_id)


cdef bytes _exact(data):
    """``data`` itself when it is exactly bytes, else one copy of its buffer."""
    return <bytes>data if type(data) is bytes else bytes(memoryview(data))


def scan_envelope(data, *, max_depth=256, bint loose=False, bint any_result=False):
    """Scans one JSON-RPC message (JR-01..JR-16).

    :param data: the message without its line end.
    :param max_depth: nesting of arrays and objects that is accepted, 1 to 1024 (B108).
    :param loose: pass over ``params.arguments`` and ``result`` by structure only; for a caller that
        decodes these parts and so checks them anyway.
    :param any_result: a result may be any JSON value, as in bare JSON-RPC 2.0; MCP's are objects (JR-10).
    :returns: an :class:`Envelope`; also for JSON that is no message (``kind == "invalid"``).
    :raises RemoteProtocolError: not JSON, not UTF-8 or nested too deep: ``rpc_code`` -32700, ``offset``
        in bytes, and ``id`` (raw bytes) when a usable id came before the fault (JR-13).
    """
    cdef Envelope self = Envelope.__new__(Envelope)
    cdef int rc
    cdef uint32_t flags = (HR_SCAN_LOOSE if loose else 0) | (HR_SCAN_ANY_RESULT if any_result else 0)
    if not 1 <= max_depth <= DEPTH_CAP:
        raise UsageError(f"max_depth must be between 1 and {DEPTH_CAP}, not {max_depth!r}")
    self.data = _exact(data)
    rc = hr_envelope_scan(PyBytes_AS_STRING(self.data), PyBytes_GET_SIZE(self.data), <uint32_t>max_depth,
                          flags, &self.env)
    if rc != HR_OK:
        if rc == HR_BAD_UTF8:
            message = "not valid UTF-8"
        elif rc == HR_TOO_DEEP:
            message = f"nested deeper than {max_depth} levels"
        else:
            message = "not valid JSON"
        raise RemoteProtocolError(message, rpc_code=PARSE_ERROR, offset=self.env.fault,
                                  id=token_bytes(&self.env.id) if self.env.id_usable else None)
    return self


def split_batch(data):
    """The elements of a JSON array as raw bytes (JR-20), each to be scanned on its own.

    :raises RemoteProtocolError: ``data`` is not one JSON array.
    """
    cdef Envelope batch = scan_envelope(data, max_depth=DEPTH_CAP)
    if batch.env.kind != HR_BATCH:
        raise RemoteProtocolError("not a JSON array")
    return batch_items(PyBytes_AS_STRING(batch.data), PyBytes_GET_SIZE(batch.data))
