# cython: binding=False
"""Starts the coroutine of a request at once, inside the callback that read the request.

``spawner(loop)`` gives the fastest correct ``spawn(coro)`` for that loop. What it returns is always a
genuine ``asyncio.Task``: one object from the first step to the last, so timeouts, cancel scopes, task groups
and context variables see what they always see. Stepping a coroutine by hand and making a Task only
when it suspends is wrong in ways that show late (a cancel is lost, ``asyncio.timeout`` never fires).

- Python 3.12 and later: ``asyncio.Task(..., eager_start=True)``.
- Python 3.11 has no public way: ``Task.__init__`` always schedules the first step. The C Task is
  allocated, its fields are filled as ``Task.__init__`` fills them, and its own step function runs at once.
  The layout of the struct is private but final (3.11 takes security fixes only), and nothing trusts it
  unseen: at import a Task made by ``asyncio`` is compared with the expected layout field by field.
  A request whose coroutine ends in its first step needs no finished Task: when nobody has kept the one it
  saw (`Spawner311.start`), it serves the next such coroutine.
- Where that comparison fails, where a task factory is set, or where ``asyncio.Task`` was replaced:
  ``loop.create_task``. The coroutine then starts in the next turn of the loop, which callers must expect of
  any coroutine anyway.
"""

import asyncio
import sys
from asyncio import format_helpers, iscoroutine, tasks
from types import CoroutineType

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cimport cython

from headrace.mux._mux cimport Starter

cdef extern from *:
    """
    /* The C Task of CPython 3.11 (Modules/_asynciomodule.c). Used only after `matches` compared it with a
       live Task. */
    typedef struct {
        PyObject_HEAD
        PyObject *loop;
        PyObject *callback0;
        PyObject *context0;
        PyObject *callbacks;
        PyObject *exception;
        PyObject *exception_tb;
        PyObject *result;
        PyObject *source_tb;
        PyObject *cancel_msg;
        int state;
        int log_tb;
        int blocking;
        PyObject *dict;
        PyObject *weakrefs;
        PyObject *cancelled_exc;
        PyObject *fut_waiter;
        PyObject *coro;
        PyObject *name;
        PyObject *context;
        int must_cancel;
        int log_destroy_pending;
        int num_cancels;
    } hr_task311;

    /* What Task hands to call_soon: a callable that runs one step of `task`. */
    typedef struct {
        PyObject_HEAD
        PyObject *task;
        PyObject *arg;
    } hr_step311;
    """
    ctypedef struct hr_task311:
        PyObject *loop
        PyObject *callback0
        PyObject *callbacks
        PyObject *exception
        PyObject *result
        PyObject *source_tb
        PyObject *cancel_msg
        int state
        int log_tb
        int blocking
        PyObject *dict
        PyObject *weakrefs
        PyObject *cancelled_exc
        PyObject *fut_waiter
        PyObject *coro
        PyObject *name
        PyObject *context
        int must_cancel
        int log_destroy_pending
        int num_cancels
    ctypedef struct hr_step311:
        PyObject *task
        PyObject *arg

cdef extern from "Python.h":
    object PyContext_CopyCurrent()
    int PyContext_Enter(object) except -1
    int PyContext_Exit(object) except -1
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void *PyUnicode_1BYTE_DATA(object)
    void PyObject_GC_UnTrack(void *)
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(object iterator, object value, PyObject **result) noexcept
    int PyDict_SetItem(dict, object key, object value) except -1
    int PyDict_DelItem(dict, object key) except -1
    void PyErr_Fetch(PyObject **type, PyObject **value, PyObject **traceback)
    void PyErr_NormalizeException(PyObject **type, PyObject **value, PyObject **traceback)
    int PyException_SetTraceback(PyObject *exc, PyObject *traceback)
    Py_ssize_t Py_REFCNT(object)
    ctypedef object (*ternaryfunc)(object, object, PyObject *)

cdef extern from *:
    """
    #define hr_call_type(t) (Py_TYPE(t)->tp_call)
    #define hr_alloc(t) (((PyTypeObject *)(t))->tp_alloc((PyTypeObject *)(t), 0))
    """
    ternaryfunc hr_call_type(object)
    object hr_alloc(object)

__all__ = ["EAGER", "spawner"]

cdef object enter_task = tasks._enter_task
cdef object leave_task = tasks._leave_task
cdef object register_task = tasks._register_task
cdef dict current_tasks = tasks._current_tasks if sys.version_info < (3, 12) else {}
cdef object Task = asyncio.Task        # as it was at import: a later replacement is noticed in `spawner`
cdef object coroutine_type = CoroutineType
cdef tuple NO_ARGS = ()
cdef object step = None                # 3.11: the reusable callable that steps a task; None: layout not known
cdef uint64_t named = 0                # tasks given a name so far

cdef enum:                             # of a future's state
    PENDING = 0
    FINISHED = 2


cdef class Probe:
    """Stands in for a loop while one Task is made, and keeps what Task asked it to schedule."""

    cdef object step
    cdef object context

    def get_debug(self):
        return False

    def call_soon(self, callback, *, context=None):
        self.step = callback
        self.context = context


cdef bint matches(object task, object probe, object coro, object context, object scheduled) except -1:
    """Whether a Task made by asyncio and the step it scheduled have the layout written above."""
    cdef hr_task311 *t = <hr_task311 *><PyObject *>task
    cdef hr_step311 *s = <hr_step311 *><PyObject *>scheduled
    if Task.__basicsize__ != sizeof(hr_task311) or type(scheduled).__basicsize__ != sizeof(hr_step311):
        return False
    if (Task.__weakrefoffset__ + <Py_ssize_t>sizeof(void *)
            != <Py_ssize_t>(<char *>&t.cancelled_exc - <char *>t)):
        return False
    if s.task != <PyObject *>task or s.arg != NULL:
        return False
    if (t.loop != <PyObject *>probe or t.coro != <PyObject *>coro or t.context != <PyObject *>context
            or t.name == NULL or <object>t.name != "probe" or t.state != PENDING):
        return False
    if (t.exception != NULL or t.result != NULL or t.source_tb != NULL or t.cancel_msg != NULL
            or t.cancelled_exc != NULL or t.fut_waiter != NULL):
        return False
    if (t.log_tb, t.blocking, t.must_cancel, t.log_destroy_pending, t.num_cancels) != (0, 0, 0, 1, 0):
        return False
    task._asyncio_future_blocking = True
    task.cancel("why")
    if (t.blocking, t.must_cancel, t.num_cancels) != (1, 1, 1) or t.cancel_msg == NULL:
        return False
    task._log_destroy_pending = False
    if t.log_destroy_pending != 0 or <object>t.cancel_msg != "why":
        return False
    if t.callback0 != NULL or t.callbacks != NULL or t.weakrefs != NULL or t.dict != NULL:
        return False
    # A Task shares the head of its struct with Future, whose state is easier to move.
    future = asyncio.Future(loop=probe)
    future.add_done_callback(print)
    t = <hr_task311 *><PyObject *>future
    if t.callback0 != <PyObject *>print or t.callbacks != NULL:
        return False
    future.add_done_callback(print)
    if t.callbacks == NULL or future.remove_done_callback(print) != 2:
        return False
    error = ValueError()
    future.set_exception(error)
    t = <hr_task311 *><PyObject *>future
    if (t.state, t.log_tb) != (FINISHED, 1) or t.exception != <PyObject *>error:
        return False
    future.exception()
    return t.log_tb == 0


async def nothing():
    pass


def learn_step():
    """Compares the layout of a live Task; gives the callable that steps one, or None where it differs."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11):
        return None
    if Task is not getattr(sys.modules.get("_asyncio"), "Task", None):
        return None
    cdef Probe probe = Probe()
    coro = nothing()
    context = PyContext_CopyCurrent()
    task = Task(coro, loop=probe, name="probe", context=context)
    tasks._unregister_task(task)
    task._log_destroy_pending = True
    scheduled = probe.step
    probe.step = None
    if probe.context is not context or not matches(task, probe, coro, context, scheduled):
        task._log_destroy_pending = False
        coro.close()
        return None
    coro.close()
    # From here on the callable borrows the task of the moment instead of owning one: see Spawner311.spawn.
    PyObject_GC_UnTrack(<PyObject *>scheduled)
    cdef hr_step311 *s = <hr_step311 *><PyObject *>scheduled
    Py_XDECREF(s.task)
    s.task = NULL
    return scheduled


step = learn_step()

#: Whether ``spawn`` runs the first step at once on this Python (a task factory still takes precedence).
EAGER = step is not None or sys.version_info >= (3, 12)


cdef object next_name():
    """A name unlike that of any other task, in the form "headrace-N"."""
    global named
    cdef char digits[24]
    cdef int at = 24
    cdef uint64_t n
    named += 1
    n = named
    while True:
        at -= 1
        digits[at] = <char>(48 + n % 10)
        n //= 10
        if n == 0:
            break
    name = PyUnicode_New(9 + 24 - at, 127)
    cdef char *out = <char *>PyUnicode_1BYTE_DATA(name)
    memcpy(out, b"headrace-", 9)
    memcpy(out + 9, &digits[at], 24 - at)
    return name


cdef inline PyObject *owned(object o) noexcept:
    Py_INCREF(o)
    return <PyObject *>o


@cython.freelist(16)
cdef class Outcome:
    """Stands in for a coroutine whose first step was run: gives what came of it to the Task that asks."""

    cdef PySendResult status
    cdef PyObject *value                   # owned until it is given: what it yielded, returned or raised
    cdef PyObject *task
    cdef object coro                       # the coroutine itself
    cdef bint must_cancel                  # it asked for its own cancellation in that step

    def __dealloc__(self):
        Py_XDECREF(self.value)

    cdef int stand_in(self) except -1:
        """From here to `stand_back` the Task has this for its coroutine."""
        cdef hr_task311 *t = <hr_task311 *>self.task
        t.coro = owned(self)
        Py_XDECREF(<PyObject *>self.coro)
        return 0

    cdef int stand_back(self) except -1:
        cdef hr_task311 *t = <hr_task311 *>self.task
        if t.coro == <PyObject *>self:
            t.coro = owned(self.coro)
            Py_XDECREF(<PyObject *>self)
        return 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef object value = <object>self.value
        cdef hr_task311 *t = <hr_task311 *>self.task
        Py_XDECREF(self.value)
        self.value = NULL
        t.must_cancel = self.must_cancel
        self.stand_back()
        if self.status == PYGEN_NEXT:
            return value
        if self.status == PYGEN_ERROR:
            raise value
        raise StopIteration(value)


cdef inline int step_in(object context, object task) except -1:
    """One step of `task` by its own step function, inside `context`."""
    cdef hr_step311 *s = <hr_step311 *><PyObject *>step
    PyContext_Enter(context)
    try:
        # Borrowed, and read before anything else can run: one callable serves all tasks.
        s.task = <PyObject *>task
        hr_call_type(step)(step, NO_ARGS, NULL)
    finally:
        s.task = NULL
        PyContext_Exit(context)
    return 0


cdef class Spawner(Starter):
    """What all of them share; `spawn` is each one's own `spawn_task`."""

    def start_now(self, coro):
        """As exchanges start it: (True, its result) when it ended in its first step, else (False, its Task)."""
        cdef bint finished = False
        found = self.start(coro, &finished)
        return finished, found


cdef class Spawner311(Spawner):
    """`spawn` for CPython 3.11: a C Task, filled by hand, stepped by its own step function."""

    cdef object loop
    cdef object get_debug
    cdef object spare                      # a Task that nobody has seen the end of, to be used again
    cdef object spare_name

    def __cinit__(self, loop):
        self.spawn = self.spawn_task
        self.loop = loop
        self.get_debug = loop.get_debug

    cdef object start(self, object coro, bint *finished):
        cdef hr_task311 *t
        cdef PyObject *current
        cdef PyObject *value = NULL
        cdef PyObject *kind = NULL
        cdef PyObject *trace = NULL
        cdef PySendResult status
        if type(coro) is not coroutine_type and not iscoroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        loop = self.loop
        context = PyContext_CopyCurrent()
        task = self.spare
        if task is None:
            task = hr_alloc(Task)
            name = next_name()
            t = <hr_task311 *><PyObject *>task
            t.loop = owned(loop)
            t.name = owned(name)
        else:
            name = self.spare_name
            self.spare = None
            t = <hr_task311 *><PyObject *>task
        t.coro = owned(coro)
        t.context = owned(context)
        t.log_destroy_pending = 1
        current = PyDict_GetItemWithError(current_tasks, loop)
        outer = <object>current if current != NULL else None
        PyDict_SetItem(current_tasks, loop, task)
        PyContext_Enter(context)
        status = PyIter_Send(coro, None, &value)
        if status == PYGEN_ERROR:
            PyErr_Fetch(&kind, &value, &trace)
            PyErr_NormalizeException(&kind, &value, &trace)
            if trace != NULL:
                PyException_SetTraceback(value, trace)
            Py_XDECREF(kind)
            Py_XDECREF(trace)
        PyContext_Exit(context)
        if outer is None:
            PyDict_DelItem(current_tasks, loop)
        else:
            PyDict_SetItem(current_tasks, loop, outer)
        if (
            status != PYGEN_NEXT and Py_REFCNT(task) == 1 and t.weakrefs == NULL and t.dict == NULL
            and t.callback0 == NULL and t.callbacks == NULL and t.num_cancels == 0 and t.must_cancel == 0
            and t.cancel_msg == NULL and t.name == <PyObject *>name and t.state == PENDING
        ):
            # Nobody will ever ask this task for its outcome.
            t.log_destroy_pending = 0
            t.coro = t.context = NULL
            Py_XDECREF(<PyObject *>coro)
            Py_XDECREF(<PyObject *>context)
            self.spare = task
            self.spare_name = name
            result = <object>value
            Py_XDECREF(value)
            if status == PYGEN_ERROR:
                raise result
            finished[0] = True
            return result
        self.pass_on(task, coro, context, outer, status, value)
        if t.state == PENDING:
            return task
        finished[0] = True
        return task.result()

    cdef int pass_on(self, object task, object coro, object context, object outer, PySendResult status,
                     PyObject *value) except -1:
        """The task itself draws the consequences of the step that was run for it."""
        cdef hr_task311 *t = <hr_task311 *><PyObject *>task
        cdef Outcome outcome = Outcome.__new__(Outcome)
        outcome.status = status
        outcome.value = value
        outcome.task = <PyObject *>task
        outcome.must_cancel = t.must_cancel
        t.must_cancel = 0
        if self.get_debug():
            t.source_tb = owned(format_helpers.extract_stack(sys._getframe()))
        if outer is not None:
            leave_task(self.loop, outer)
        outcome.coro = coro
        outcome.stand_in()
        try:
            step_in(context, task)
        finally:
            outcome.stand_back()
            if outer is not None:
                enter_task(self.loop, outer)
        if t.state == PENDING:
            register_task(task)
        return 0

    def spawn_task(self, coro):
        """Starts `coro` in a copy of the current context and returns its Task."""
        cdef hr_task311 *t
        cdef PyObject *current
        if type(coro) is not coroutine_type and not iscoroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        context = PyContext_CopyCurrent()
        loop = self.loop
        task = hr_alloc(Task)
        t = <hr_task311 *><PyObject *>task
        t.loop = owned(loop)
        t.coro = owned(coro)
        t.context = owned(context)
        t.name = owned(next_name())
        if self.get_debug():
            t.source_tb = owned(format_helpers.extract_stack(sys._getframe()))
        t.log_destroy_pending = 1

        current = PyDict_GetItemWithError(current_tasks, loop)
        outer = <object>current if current != NULL else None
        if outer is not None:
            leave_task(loop, outer)
        try:
            step_in(context, task)
        finally:
            if outer is not None:
                enter_task(loop, outer)
        if t.state == PENDING:
            register_task(task)
        return task


cdef class SpawnerStdlib(Spawner):
    """`spawn` for Python 3.12 and later.

    A task that never suspended has given up its coroutine, and `get_coro()` of such a task crashes 3.12.1:
    take the result of a finished task and let it go.
    """

    cdef object loop

    def __cinit__(self, loop):
        self.spawn = self.spawn_task
        self.loop = loop

    def spawn_task(self, coro):
        """Starts `coro` in a copy of the current context and returns its Task."""
        return Task(coro, loop=self.loop, context=PyContext_CopyCurrent(), eager_start=True)


cdef class SpawnerLater(Spawner):
    """`spawn` where the first step has to wait for the next turn of the loop."""

    cdef object create_task

    def __cinit__(self, loop):
        self.spawn = self.spawn_task
        self.create_task = loop.create_task

    def spawn_task(self, coro):
        """Makes a Task for `coro` in a copy of the current context and returns it."""
        return self.create_task(coro, context=PyContext_CopyCurrent())


def spawner(loop):
    """Gives the fastest correct way to start coroutines on `loop`.

    :param loop: a running event loop (asyncio's, uvloop's, or any with the same interface).
    :returns: ``spawn(coro)``: runs the first step of the coroutine `coro` at once, in a copy of the current
        context, and returns its ``asyncio.Task``. If the task is ``done()`` the coroutine never suspended
        and the result can be taken at once; otherwise add a done callback. `spawn` must be called on the
        thread of `loop`, from a callback of the loop or from inside a task. It raises TypeError for what is
        not a coroutine, and passes on KeyboardInterrupt and SystemExit raised by the first step, as the
        loop would. A task factory that the loop has when `spawner` is called makes the tasks instead.
    """
    factory = loop.get_task_factory()
    if asyncio.Task is not Task or (factory is not None
                                    and factory is not getattr(asyncio, "eager_task_factory", None)):
        return SpawnerLater(loop).spawn
    if step is not None:
        return Spawner311(loop).spawn
    if sys.version_info >= (3, 12):
        return SpawnerStdlib(loop).spawn
    return SpawnerLater(loop).spawn
