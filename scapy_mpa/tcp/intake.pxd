cimport cython
from scapy_mpa.tcp.acceptance cimport Segments
from scapy_mpa.tcp.half cimport Half

cdef class Intake:
    cdef public object _acks, _connection, _operation, _phase, _refuted, _weigh, first_syn, syn, take
    cdef public Segments segments
    cdef public Half half
    cdef public Intake peer
    cdef public bint is_reset_in_doubt

    cpdef _look_and_take(self, object seg)
    @cython.locals(segments=Segments)
    cpdef bint _passes_timestamp(self, object seg) except -1
    cpdef bint refuses(self, object seg) except -1
    @cython.locals(half=Half, sent=cython.longlong)
    cpdef bint acknowledge(self, object seg) except -1
