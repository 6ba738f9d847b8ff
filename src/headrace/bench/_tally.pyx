"""What a load run has seen: calls by operation, latencies, errors by kind with one sample each, traffic.

Strategy: plain counters and one histogram an operation, plus one for the current second, which :meth:`Tally.tick`
takes away. Several load processes send theirs as bytes; adding them up loses nothing, as histograms add exactly.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

import msgspec

from headrace.bench._histogram cimport Histogram

__all__ = ("ERROR_KINDS", "SAMPLE_MAX", "Tally")

SAMPLE_MAX = 300
ERROR_KINDS = {
    "connect": "no connection, or the command could not be started",
    "closed": "the connection ended before the answer",
    "timeout": "no answer in time",
    "http_status": "an HTTP status that is no answer to this request",
    "bad_http": "not HTTP/1.1",
    "bad_sse": "an event stream that ended, or broke a bound, before the answer",
    "not_json": "not JSON, or not a JSON-RPC message",
    "rpc_error": "a JSON-RPC error",
    "is_error": "a tool result that says isError",
    "wrong_id": "an answer to an id that was not asked, or asked already",
    "wrong_content": "an answer without the expected text, or without the list that its kind of answer has",
    "unfinished": "an answer that asks for input or hands out a task in place of the result",
    "asked": "the server asks the client something, which a load generator does not answer",
    "no_notes": "a progress stream without a notification",
}
"""Kinds of failed calls, and what each means. Reports and scripts may rely on the names."""


class _Data(msgspec.Struct, array_like=True):
    names: tuple[str, ...]
    ok: list[int]
    failed: list[int]
    histograms: list[bytes]
    errors: dict[str, tuple[int, str]]
    traffic: tuple[int, int, int, int, int, int, int, int]


@cython.final
cdef class Tally:
    """Counters of one load process, or of several merged.

    Parameters: ``names`` are those of the plan's operations, in order.
    """

    def __cinit__(self, names):
        self.names = tuple(names)
        self.n = len(self.names)
        self.ok = <uint64_t *>calloc(max(1, self.n), sizeof(uint64_t))
        self.failed = <uint64_t *>calloc(max(1, self.n), sizeof(uint64_t))
        if self.ok == NULL or self.failed == NULL:
            raise MemoryError
        self.histograms = [Histogram() for _ in self.names]
        self.errors = {}
        self.second = Histogram()
        self.recording = True

    def __dealloc__(self):
        free(self.ok)
        free(self.failed)

    cdef int right(self, Py_ssize_t op, int64_t ns) except -1:
        if self.recording:
            self.ok[op] += 1
            self.second_ok += 1
            (<Histogram>self.histograms[op]).record_ns(ns)
            self.second.record_ns(ns)
        return 0

    cdef int wrong(self, Py_ssize_t op, str kind, object sample) except -1:
        """Failures count from the first byte on: a server that fails during warm-up is no good server."""
        cdef list entry = self.errors.get(kind)
        if entry is None:
            text = sample() if callable(sample) else str(sample)
            entry = self.errors[kind] = [0, text if len(text) <= SAMPLE_MAX else text[:SAMPLE_MAX - 3] + "..."]
        entry[0] += 1
        self.failed[op] += 1
        self.second_failed += 1
        if not self.recording:
            self.early += 1
        return 0

    cdef int stray(self, Py_ssize_t op, str kind, object sample) except -1:
        """A failure that ends no call: an answer nobody waits for, text between the messages, no connection."""
        if self.recording:
            self.strays += 1
        return self.wrong(op, kind, sample)

    def add(self, Py_ssize_t op, ns=None, *, str kind=None, sample=""):
        """Counts one call of operation ``op`` by hand: right after ``ns`` nanoseconds, or wrong by ``kind``."""
        if not 0 <= op < self.n:
            raise IndexError(f"there are {self.n} operations, not {op + 1}")
        if kind is None:
            self.right(op, ns)
        elif kind in ERROR_KINDS:
            self.wrong(op, kind, sample)
        else:
            raise ValueError(f"{kind!r} is no kind of error; there are {', '.join(ERROR_KINDS)}")

    def ok_of(self, Py_ssize_t op):
        """Right answers of one operation."""
        if not 0 <= op < self.n:
            raise IndexError(op)
        return self.ok[op]

    def failed_of(self, Py_ssize_t op):
        """Failed calls of one operation."""
        if not 0 <= op < self.n:
            raise IndexError(op)
        return self.failed[op]

    @property
    def ok_total(self):
        """Right answers of all operations."""
        return sum(self.ok[i] for i in range(self.n))

    @property
    def failed_total(self):
        """Failed calls of all operations."""
        return sum(self.failed[i] for i in range(self.n))

    @property
    def error_list(self):
        """``(kind, count, sample)``, the most frequent first."""
        found = [(kind, count, sample) for kind, (count, sample) in self.errors.items()]
        return sorted(found, key=lambda e: (-e[1], e[0]))

    def latency(self):
        """One histogram of all operations."""
        made = Histogram()
        for one in self.histograms:
            made.merge(one)
        return made

    def tick(self):
        """Takes away what came since the last tick: ``(ok, failed, dumped histogram)``."""
        taken = (self.second_ok, self.second_failed, self.second.dump())
        self.second_ok = self.second_failed = 0
        self.second.clear()
        return taken

    def merge(self, Tally other not None):
        """Adds all of another tally of the same operations (ValueError for others). The current second is left out."""
        cdef Py_ssize_t i
        if other.names != self.names:
            raise ValueError("tallies of different operations cannot be merged")
        for i in range(self.n):
            self.ok[i] += other.ok[i]
            self.failed[i] += other.failed[i]
            (<Histogram>self.histograms[i]).merge(<Histogram>other.histograms[i])
        for kind, (count, sample) in other.errors.items():
            entry = self.errors.setdefault(kind, [0, sample])
            entry[0] += count
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.reconnects += other.reconnects
        self.notes += other.notes
        self.requests += other.requests
        self.unsent += other.unsent
        self.early += other.early
        self.strays += other.strays

    def dump(self):
        """Everything but the current second as bytes for :meth:`load`."""
        return msgspec.msgpack.encode(_Data(
            self.names, [self.ok[i] for i in range(self.n)], [self.failed[i] for i in range(self.n)],
            [one.dump() for one in self.histograms], {kind: tuple(e) for kind, e in self.errors.items()},
            (self.bytes_in, self.bytes_out, self.reconnects, self.notes, self.requests, self.unsent,
             self.early, self.strays)))

    @staticmethod
    def load(bytes data not None):
        """The tally that :meth:`dump` wrote. Raises ValueError for anything else."""
        cdef Tally made
        cdef Py_ssize_t i
        try:
            read = msgspec.msgpack.decode(data, type=_Data)
            made = Tally(read.names)
            if not len(read.ok) == len(read.failed) == len(read.histograms) == made.n:
                raise ValueError("counts of another number of operations")
            for i in range(made.n):
                made.ok[i] = read.ok[i]
                made.failed[i] = read.failed[i]
                made.histograms[i] = Histogram.load(read.histograms[i])
        except (msgspec.MsgspecError, OverflowError) as exc:
            raise ValueError(f"no dumped tally: {exc}") from None
        made.errors = {kind: list(entry) for kind, entry in read.errors.items()}
        (made.bytes_in, made.bytes_out, made.reconnects, made.notes, made.requests, made.unsent, made.early,
         made.strays) = read.traffic
        return made
