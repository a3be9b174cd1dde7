cdef class RecentOctets

cdef class RecentBudget:
    cdef public long long _held
    cdef public object _order

    cpdef keep(self, RecentOctets owner, long long octets)

cdef class RecentOctets:
    cdef public RecentBudget _budget
    cdef public object _pieces

    cpdef keep(self, object start, object copy)
    cpdef long long forget_first(self) except -1
