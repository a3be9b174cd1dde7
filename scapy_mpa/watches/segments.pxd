cimport cython
from scapy_mpa.stream.connection cimport Arrival

cdef class SegmentWatch:
    cdef public Arrival first
    cdef public long long longest
    cdef public long long _hop_limit
    cdef public object _path_mtu, _pause, _tiny, _unaligned

    @cython.locals(length=cython.longlong, limit=cython.longlong, before=cython.longlong)
    cpdef arrived(self, Arrival arrival)
    cpdef bint is_expected(self, long long hop_limit) except -1
    cpdef arrived_aligned(self, long long length)
