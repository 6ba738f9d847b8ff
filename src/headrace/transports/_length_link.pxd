# The line link under Content-Length framing: see _length_link.pyx.
from headrace.transports._link cimport LineLink


cdef class LengthLink(LineLink):
    # The same for a stream under Content-Length framing.
    pass
