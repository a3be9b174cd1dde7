cimport cython
from scapy_mpa.stream.copies cimport Copy

cdef long long _FEW

cdef class RecentOctets

cdef class RecentBudget:
    cdef public list _order
    cdef public long long _gone, _held

    @cython.locals(order=list, oldest=RecentOctets, weight=cython.longlong, most=cython.longlong)
    cpdef keep(self, RecentOctets owner, long long octets)

cdef class RecentOctets:
    cdef public RecentBudget _budget
    cdef public list _pieces
    cdef public long long _gone

    @cython.locals(copy=Copy)
    cpdef keep(self, tuple piece)
    @cython.locals(pieces=list, gone=cython.longlong, first=tuple, copy=Copy)
    cpdef long long forget_first(self) except -1
