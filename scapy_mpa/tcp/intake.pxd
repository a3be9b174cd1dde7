cimport cython
from scapy_mpa.tcp.half cimport Half

cdef class Intake:
    cdef public object _acks, _connection, _operation, _phase, _refuted, _weigh, first_syn, segments, syn, take
    cdef public Half half
    cdef public Intake peer
    cdef public bint is_reset_in_doubt

    @cython.locals(half=Half, sent=cython.longlong)
    cpdef bint acknowledge(self, object seg) except -1
