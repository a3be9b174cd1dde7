cimport cython
from scapy_mpa.stream.connection cimport Arrival
from scapy_mpa.watches.counts cimport Counts, UnalignedSegment

cdef long long FEWEST_TINY, MIN_MULPDU, NOT_TINY, PAUSE

@cython.final
cdef class SegmentWatch:
    cdef public Arrival first
    cdef public long long longest
    cdef public long long _hop_limit, _tiny
    cdef public object _path_mtu, _unaligned
    cdef public UnalignedSegment _pause

    @cython.locals(length=cython.longlong, limit=cython.longlong, before=cython.longlong)
    cpdef arrived(self, Arrival arrival)
    @cython.locals(aligned=cython.longlong, segments=cython.longlong, pause=UnalignedSegment)
    cpdef finish(self, Counts counts, bint fits, object now)
    cpdef explained(self, object breaches, long long octets=*, long long longest=*)
    cpdef bint is_expected(self, long long hop_limit) except -1
    cpdef arrived_aligned(self, long long length)
    @cython.locals(pause=UnalignedSegment, length=cython.longlong)
    cpdef unaligned(self, UnalignedSegment segment)
