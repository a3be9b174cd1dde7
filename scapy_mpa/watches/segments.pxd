cimport cython
from scapy_mpa.stream.connection cimport Arrival

cdef class SegmentWatch:
    cdef public Arrival first
    cdef public long long longest
    cdef public object _hop_limit, _path_mtu, _pause, _tiny, _unaligned

    @cython.locals(length=cython.longlong)
    cpdef arrived(self, Arrival arrival)
    cpdef bint is_expected(self, object hop_limit) except -1
    cpdef arrived_aligned(self, long long length)
