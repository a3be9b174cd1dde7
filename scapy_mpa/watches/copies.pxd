cimport cython
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.stream.connection cimport Arrival

cdef long long BAD, FIN, GOOD, RST, SYN, WRONG

@cython.final
cdef class _Passed:
    cdef public long long crc, end, last_frame, offset

@cython.locals(run=PlainRun)
cpdef long long _count_of(object passed) except -1
@cython.locals(one=_Passed)
cpdef _Passed _passed_of(long long offset, long long end, long long crc, long long last_frame)

@cython.final
cdef class CopyWatch:
    cdef public dict _doubtful
    cdef public list _fpdus, _starts
    cdef public long long _count, _highest
    cdef public object _differing, _dropped, _keep_alives, _layout, _startup_frame

    cpdef arrived(self, Arrival arrival)
    cpdef arrived_aligned(self, long long end)
    cpdef passed(self, LocatedFPDU fpdu)
    cpdef passed_run(self, PlainRun run)
    cpdef _remember(self, object offset, long long count, object passed)
