# What every Context is made of.
from headrace.mux._mux cimport Exchange


cdef class ContextBase:
    cdef public Exchange _exchange
    cdef public dict _meta               # as it was read once
    cdef Py_ssize_t sends
