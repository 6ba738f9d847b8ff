from headrace.transports._link cimport LineLink


cdef class LengthLink(LineLink):
    # The same for a stream under Content-Length framing.
    pass
