# Part of the module _mux: requests counted and timed, where somebody wants to know.
#
# Strategy: numbers stand in C beside the handler that they are about, found once and then by one pointer. A runtime
# without a meter pays one test when a request begins and one when it ends. Names that clients may make up get
# numbers of their own only once the server has answered to them.

cdef extern from "hr_meter.h":
    enum:
        HR_BOUNDS
        HR_STATUSES
        HR_REVISIONS
    const long long *hr_bounds
    long long hr_now() noexcept
    void hr_cell_add(hr_cell *cell, int status, long long took) noexcept
    bint hr_says_error(const char *p, size_t n) noexcept

cdef enum:
    S_OK = 0
    S_TOOL_ERROR = 1
    S_ERROR = 2
    S_CANCELLED = 3

    MOST_SERIES = 4096                   # names that are told apart
    MOST_CODES = 64                      # error codes that are told apart

STATUSES = ("ok", "tool_error", "error", "cancelled")
BUCKETS = tuple(hr_bounds[i] / 1e9 for i in range(HR_BOUNDS))
cdef tuple REVISION_NAMES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "")
UNKNOWN = "(unknown)"
REFUSED = "(refused)"
cdef unsigned long long meters = 0


class _Failed(msgspec.Struct):
    isError: bool = False


cdef object decode_failed = msgspec.json.Decoder(_Failed).decode


cdef bint says_error(bytes body) except -1:
    """The JSON text of a tool's result says that the tool failed."""
    if not hr_says_error(PyBytes_AS_STRING(body), <size_t>PyBytes_GET_SIZE(body)):
        return False
    try:
        return decode_failed(body if body[PyBytes_GET_SIZE(body) - 1] == c'}' else body + b"}").isError
    except Exception:
        return False


cdef bint token_equals(const hr_token *t, bytes text) noexcept:
    return (
        t.type == HR_T_STRING and not t.escaped and <Py_ssize_t>t.n == PyBytes_GET_SIZE(text) + 2
        and memcmp(t.p + 1, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)) == 0)


cdef class Series:
    """The numbers of one method, or of one tool, by revision and status."""


cdef Series make_series(Meter meter, str method, str tool):
    cdef Series series = Series.__new__(Series)
    series.owner = meter.number
    series.method = method
    series.tool = tool
    series.calls = method == "tools/call"
    return series


cdef class Meter:
    """Counts the requests of a runtime (see :meth:`Runtime.measure`) by method, tool, revision and status, and how
    long they took: from the moment when the handler was found to the moment when the answer is written.

    The tool is told apart for ``tools/call``. Where one handler serves many names (a host of another SDK, middleware),
    `methods` are those that are always told apart, and ``knows(tool)`` says what is a tool; any other name is known
    once a request of it has ended well, and counts under ``(unknown)`` until then. Requests that no handler was asked
    about count under the method ``(refused)``. May be made a base class; belongs to the loop of its
    runtimes, and may be read from other threads.
    """

    def __init__(self, methods=frozenset(), knows=None):
        global meters
        meters += 1
        self.number = meters
        self.methods = methods
        self.knows = knows
        self.table = {}
        self.errors = {}
        self.last_method = self.last_name = b""

    def attached(self, Runtime runtime):
        """Called when a runtime begins to be measured."""

    cdef Series entry(self, str method, str tool):
        """The numbers of a trusted name."""
        cdef object found = self.table.get((method, tool))
        if found is None:
            found = make_series(self, method, tool)
            if len(self.table) >= MOST_SERIES and tool != UNKNOWN and method != UNKNOWN:
                return self.entry(method, UNKNOWN) if tool else self.entry(UNKNOWN, "")
            self.table[(method, tool)] = found
        return <Series>found

    cdef Series prepare(self, Handler handler, str method):
        """The numbers of a handler, kept with it from now on."""
        cdef Series series
        if handler.method is not None:
            method = handler.method
        if isinstance(handler, AnyMethod) or (method == "tools/call" and handler.tool is None and not handler.names):
            series = make_series(self, method, "")
            series.chooses = True
        else:
            series = self.entry(method, handler.tool or (UNKNOWN if method == "tools/call" else ""))
        handler.series = series
        return series

    cdef int begin(self, Exchange ex, Handler handler, const hr_envelope *env) except -1:
        cdef Series series = handler.series
        if series is None or series.owner != self.number:
            series = self.prepare(handler, token_str(&env.method))
        if series.chooses:
            self.choose(ex, handler, env)
        ex.began = hr_now()
        return 0

    cdef int choose(self, Exchange ex, Handler handler, const hr_envelope *env) except -1:
        """Finds the numbers by what the request says; those of an unknown name are not kept yet."""
        cdef bint call
        cdef Series series = self.last
        cdef str method, tool = ""
        if (
            series is not None and token_equals(&env.method, self.last_method)
            and (not series.calls or token_equals(&env.name, self.last_name))
        ):
            return ex.count_in(series)
        method = token_str(&env.method)
        call = method == "tools/call"
        if call and env.name.type == HR_T_STRING:
            tool = token_str(&env.name)
        series = <Series>self.table.get((method, tool))
        if series is None:
            if call and not tool:
                series = self.entry(method, UNKNOWN)
            elif (self.knows is not None and self.knows(tool)) if call else method in self.methods:
                series = self.entry(method, tool)
            else:
                series = make_series(self, method, tool)
                series.provisional = True
                return ex.count_in(series)
        self.last = series
        self.last_method = method.encode("utf-8", "surrogatepass")
        self.last_name = tool.encode("utf-8", "surrogatepass")
        return ex.count_in(series)

    cdef Series settled(self, Series series, int status):
        """Where a request of a provisional name counts, now that it is over."""
        if status == S_OK:
            return self.entry(series.method, series.tool)
        if series.calls:
            return self.entry(series.method, UNKNOWN)
        return self.entry(UNKNOWN, "")

    cdef Series series_of(self, Exchange ex):
        cdef Series series
        if ex.series is not NULL:
            return <Series>ex.series
        series = ex.handler.series
        if series is None or series.owner != self.number:
            series = self.prepare(ex.handler, UNKNOWN)
        return series

    cdef int end(self, Exchange ex, int status) except -1:
        """The request is over."""
        return self.count(ex, self.series_of(ex), status)

    cdef int count(self, Exchange ex, Series series, int status) except -1:
        cdef long long took = hr_now() - ex.began
        ex.began = 0
        if ex.series is not NULL:
            ex.count_in(None)
            if series.provisional:
                series = self.settled(series, status)
        hr_cell_add(&series.cells[ex.revision.index], status, took)
        return 0

    cdef int answered(self, Exchange ex, object ready) except -1:
        """The request is answered with a result."""
        cdef Series series = self.series_of(ex)
        return self.count(ex, series, S_TOOL_ERROR if series.calls and ex.handler.tells_failure(ready) else S_OK)

    cdef int failed(self, Exchange ex, int code) except -1:
        """The request is answered with an error."""
        self.end(ex, S_ERROR)
        return self.erred(code)

    cdef int erred(self, int code) except -1:
        cdef object found = self.errors.get(code)
        if found is None:
            if len(self.errors) >= MOST_CODES:
                code = 0
                found = self.errors.get(code)
        self.errors[code] = 1 if found is None else found + 1
        return 0

    cdef int refused(self, const hr_envelope *env, object error) except -1:
        """A message was answered with an error before any handler was asked."""
        cdef Series series
        if env.kind == HR_REQUEST:
            series = self.entry(REFUSED, "")
            series.cells[HR_REVISIONS - 1].counts[S_ERROR] += 1
        return self.erred(code_of(error))

    def requests(self, bint changed=False):
        """What was counted: (method, tool, revision, numbers by status, numbers by bucket, seconds) each; see STATUSES
        and BUCKETS (the last number is that of all above). With `changed` only what changed since it was asked so
        last."""
        cdef Series series
        cdef hr_cell *cell
        cdef unsigned long long number
        cdef int i, k
        cdef list found = []
        for series in list(self.table.values()):
            for i in range(HR_REVISIONS):
                cell = &series.cells[i]
                number = 0
                for k in range(HR_STATUSES):
                    number += cell.counts[k]
                if number == 0 or (changed and number == cell.told):
                    continue
                if changed:
                    cell.told = number
                found.append((
                    series.method, series.tool, REVISION_NAMES[i], [cell.counts[k] for k in range(HR_STATUSES)],
                    [cell.buckets[k] for k in range(HR_BOUNDS + 1)], cell.total / 1e9))
        return found
