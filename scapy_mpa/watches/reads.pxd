cimport cython
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.watches.ddp cimport DDPWatch
from scapy_mpa.watches.fpdus cimport FPDUWatch
from scapy_mpa.watches.outstanding cimport Outstanding

@cython.final
cdef class ReadWatch:
    cdef public FPDUWatch requester, responder
    cdef public list _doubtful
    cdef public long long _answers, _requests
    cdef public object _depth
    cdef public Outstanding outstanding
    cdef public set _opcodes

    @cython.locals(ddp=DDPWatch, under_way=cython.longlong)
    cpdef requested(self, LocatedFPDU fpdu, bint has_hole)
    @cython.locals(answers=cython.longlong)
    cpdef answered(self, LocatedFPDU fpdu)
    @cython.locals(ddp=DDPWatch)
    cpdef answer_after_error(self, LocatedFPDU fpdu)
