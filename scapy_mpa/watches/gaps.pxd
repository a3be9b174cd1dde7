cimport cython
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.stream.connection cimport Arrival

cdef long long BAD, NEAR

@cython.final
cdef class GapWatch:
    cdef public bint _crc, _is_beginning, has_gap
    cdef public long long _cut_end, _located_end, _lost_end
    cdef public list _damaged
    cdef public object _next

    @cython.locals(cut=cython.longlong)
    cpdef arrived(self, Arrival arrival)
    @cython.locals(offset=cython.longlong, end=cython.longlong, crc=cython.longlong)
    cpdef passed(self, LocatedFPDU fpdu)
    cpdef finish(self, object rest, long long edge, object closed, object acknowledged, object now)
    cpdef passed_run(self, PlainRun run)
