"""The heart of a load run: which operation comes next, when it is due, how it ended.

Strategy: a lane is one slot of concurrency (an HTTP connection, or one id in flight on a line stream). A lane that is
free asks for its next operation and sends it in the same call stack; there are no tasks, futures or queues per call.
In a closed loop the next operation starts at once. In an open loop operation k is due at origin + k / rate, whatever
the server does: when no lane is free it starts late, and its latency still counts from the time it was due, so that a
stall of the server is seen by all the calls it delayed (no coordinated omission).
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.errors import LocalProtocolError

from headrace.bench._tally cimport Tally

__all__ = ("Load",)

cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <string.h>
    #include <time.h>
    #include <unistd.h>
    static inline int64_t bench_now(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    #ifdef __linux__
    #include <sys/timerfd.h>
    static int bench_timer(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); }
    static int bench_timer_set(int fd, int64_t at)
    {
        struct itimerspec s;
        memset(&s, 0, sizeof s);
        s.it_value.tv_sec = at / 1000000000;
        s.it_value.tv_nsec = at % 1000000000;
        return timerfd_settime(fd, TFD_TIMER_ABSTIME, &s, NULL);
    }
    #else
    static int bench_timer(void) { return -1; }
    static int bench_timer_set(int fd, int64_t at) { (void)fd; (void)at; return -1; }
    #endif
    static void bench_timer_read(int fd) { uint64_t n; if (read(fd, &n, sizeof n) < 0) { } }
    static void bench_close(int fd) { if (fd >= 0) close(fd); }
    """
    int64_t bench_now() noexcept nogil
    int bench_timer() noexcept
    int bench_timer_set(int fd, int64_t at) noexcept
    void bench_timer_read(int fd) noexcept
    void bench_close(int fd) noexcept

cdef int64_t now_ns() noexcept nogil:
    return bench_now()


cdef class Lane:
    """One slot of concurrency. Subclasses send and receive."""

    cdef int start(self) except -1:
        raise LocalProtocolError("a lane of no kind")

    cdef int expired(self) except -1:
        raise LocalProtocolError("a lane of no kind")

    cdef int leave(self) except -1:
        return 0


@cython.final
cdef class Load:
    """One load process's share of a plan.

    Parameters: ``plan`` is a :class:`headrace.bench.plan.Plan`, already divided among the processes; ``loop`` is the
    running event loop.
    """

    def __cinit__(self, plan, loop):
        cdef Py_ssize_t i
        cdef uint32_t total = 0
        self.timer = -1
        self.plan = plan
        self.loop = loop
        self.tally = Tally([op.name for op in plan.operations])
        self.tally.recording = False
        self.lanes = []
        self.idle = []
        self.n_ops = len(plan.operations)
        if self.n_ops == 0:
            raise ValueError("a plan needs at least one operation")
        self.upto = <uint32_t *>PyMem_Malloc(self.n_ops * sizeof(uint32_t))
        if self.upto == NULL:
            raise MemoryError
        for i in range(self.n_ops):
            if plan.operations[i].weight < 1:
                raise ValueError("the weight of an operation is at least 1")
            total += plan.operations[i].weight
            self.upto[i] = total
        self.weights = total
        self.random = (<uint64_t>(plan.seed & 0xFFFFFFFF) + 1) * <uint64_t>0x9E3779B97F4A7C15
        self.interval = 1e9 / plan.rate if plan.rate is not None else 0.0
        self.quota = plan.requests if plan.requests is not None else -1
        self.timeout = <int64_t>(plan.timeout_s * 1e9)
        self.phase = LOAD_IDLE

    def __dealloc__(self):
        PyMem_Free(self.upto)
        bench_close(self.timer)

    @property
    def in_flight(self):
        """Operations under way."""
        return self.busy

    @property
    def finished(self):
        """True once nothing new will be started and nothing is under way."""
        return self.phase == LOAD_OVER

    def wait(self):
        """A future that is done once nothing is under way and nothing new will be started."""
        if self.over is None:
            self.over = self.loop.create_future()
            self.settle()
        return self.over

    def begin(self, bint recording=True):
        """Starts the load on all free lanes. ``recording`` False: a warm-up (:meth:`record` ends it)."""
        self.tally.recording = recording
        self.origin = bench_now()
        self.scheduled = 0
        self.quota = self.plan.requests if recording and self.plan.requests is not None else -1
        self.phase = LOAD_RUNNING
        waiting, self.idle = self.idle, []
        for lane in waiting:
            (<Lane>lane).parked = False
            self.ready(<Lane>lane)
        if self.interval:
            self.arm()
        self.settle()

    def record(self):
        """Ends the warm-up: what is started from now on counts. Traffic counted so far is forgotten, errors stay."""
        cdef Tally tally = self.tally
        tally.tick()
        tally.recording = True
        self.quota = self.plan.requests if self.plan.requests is not None else -1
        tally.bytes_in = tally.bytes_out = tally.notes = tally.requests = 0
        if self.interval:
            self.origin = bench_now()
            self.scheduled = 0

    def drain(self):
        """Starts nothing new; what is under way may end (until its timeout)."""
        cdef uint64_t due
        if self.phase >= LOAD_DRAINING:
            return
        if self.interval and self.phase == LOAD_RUNNING:
            due = <uint64_t>((bench_now() - self.origin) / self.interval)
            if self.quota >= 0:
                due = min(due, self.scheduled + <uint64_t>self.quota)
            if due > self.scheduled:
                self.tally.unsent += due - self.scheduled
        self.phase = LOAD_DRAINING
        self.disarm()
        for lane in list(self.lanes):
            if (<Lane>lane).busy:
                (<Lane>lane).leave()
        self.settle()

    def sweep(self):
        """Ends what waits beyond its timeout. To be called a few times a second."""
        cdef int64_t now = bench_now()
        cdef Lane lane
        for one in list(self.lanes):
            lane = <Lane>one
            if lane.deadline and now >= lane.deadline:
                lane.deadline = 0
                lane.expired()

    def disarm(self):
        """Stops the timer of an open loop."""
        if self.timer >= 0:
            self.loop.remove_reader(self.timer)
            bench_close(self.timer)
            self.timer = -1
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    cdef int add(self, Lane lane) except -1:
        lane.load = self
        self.lanes.append(lane)
        return 0

    cdef Py_ssize_t pick(self) noexcept:
        cdef uint64_t x = self.random
        cdef uint32_t drawn
        cdef Py_ssize_t i
        if self.n_ops == 1:
            return 0
        x ^= x >> 12
        x ^= x << 25
        x ^= x >> 27
        self.random = x
        drawn = <uint32_t>(((x * <uint64_t>0x2545F4914F6CDD1D) >> 32) % self.weights)
        for i in range(self.n_ops):
            if drawn < self.upto[i]:
                return i
        return self.n_ops - 1

    cdef int ready(self, Lane lane) except -1:
        cdef int64_t now, due
        if self.phase != LOAD_RUNNING:
            if self.phase == LOAD_IDLE and not lane.parked:
                lane.parked = True
                self.idle.append(lane)
            elif self.phase == LOAD_DRAINING:
                self.settle()
            return 0
        if self.quota == 0:
            self.settle()
            return 0
        now = bench_now()
        if self.interval:
            due = self.origin + <int64_t>(self.scheduled * self.interval)
            if due > now:
                if not lane.parked:
                    lane.parked = True
                    self.idle.append(lane)
                    if len(self.idle) == 1:
                        self.arm()
                return 0
            self.scheduled += 1
            lane.began = due
        else:
            lane.began = now
        if self.quota > 0:
            self.quota -= 1
        lane.op = self.pick()
        lane.step = 0
        lane.busy = True
        lane.deadline = now + self.timeout
        self.busy += 1
        return lane.start()

    cdef int right(self, Lane lane) except -1:
        self.tally.right(lane.op, bench_now() - lane.began)
        lane.busy = False
        lane.deadline = 0
        self.busy -= 1
        return 0

    cdef int wrong(self, Lane lane, str kind, object sample) except -1:
        self.tally.wrong(lane.op, kind, sample)
        lane.busy = False
        lane.deadline = 0
        self.busy -= 1
        return 0

    cdef int settle(self) except -1:
        """Completes :meth:`wait` when nothing is under way and nothing will be."""
        if self.busy or self.phase == LOAD_IDLE:
            return 0
        if self.phase == LOAD_RUNNING and self.quota != 0:
            return 0
        self.phase = LOAD_OVER
        self.disarm()
        if self.over is not None and not self.over.done():
            self.over.set_result(None)
        return 0

    cdef int arm(self) except -1:
        """Wakes up when the next operation of the schedule is due."""
        cdef int64_t due = self.origin + <int64_t>(self.scheduled * self.interval)
        cdef int64_t now
        if not self.idle or self.phase != LOAD_RUNNING:
            return 0
        if self.timer < 0 and self.handle is None:
            self.timer = bench_timer()
            if self.timer >= 0:
                self.loop.add_reader(self.timer, self.on_timer)
        if self.timer >= 0 and bench_timer_set(self.timer, max(due, 1)) == 0:
            return 0
        now = bench_now()
        self.handle = self.loop.call_later(max(0, due - now) / 1e9, self.on_timer)
        return 0

    def on_timer(self):
        """An operation of the schedule is due."""
        cdef Lane lane
        if self.timer >= 0:
            bench_timer_read(self.timer)
        self.handle = None
        while self.idle and self.phase == LOAD_RUNNING and self.quota:
            if self.origin + <int64_t>(self.scheduled * self.interval) > bench_now():
                break
            lane = <Lane>self.idle.pop()
            lane.parked = False
            self.ready(lane)
        self.arm()
