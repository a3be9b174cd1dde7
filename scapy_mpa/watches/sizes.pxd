cimport cython
from scapy_mpa.watches.ddp cimport DDPWatch

cdef long long MAX_MULPDU, MAX_ULPDU_LENGTH

@cython.final
cdef class SizeWatch:
    cdef public bint _markers
    cdef public long long _emss, _limit, _longest_fpdu, longest
    cdef public object _at, _said_of_long

    @cython.locals(limit=cython.longlong)
    cpdef list finish(self, DDPWatch ddp, long long longest_segment)
