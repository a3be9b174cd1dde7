cimport cython

cdef class RecentOctets

cdef class RecentBudget:
    cdef public list _order
    cdef public long long _gone, _held

    cpdef keep(self, RecentOctets owner, long long octets)

cdef class RecentOctets:
    cdef public RecentBudget _budget
    cdef public list _pieces
    cdef public long long _gone

    cpdef keep(self, tuple piece)
    @cython.locals(pieces=list, gone=cython.longlong)
    cpdef long long forget_first(self) except -1
