cimport cython
from libc.stdint cimport int64_t
from scapy_mpa.values._inline cimport put_piece

cdef long long RIGHT, WRONG
cdef long long PIECE_LENGTH

@cython.final
cdef class RecentBudget:
    cdef public bytearray _octets
    cdef public long long _at, _most, _written

    @cython.locals(most=cython.longlong, size=cython.longlong, at=cython.longlong)
    cpdef int64_t keep(
        self, long long start, long long frame, long long time, long long check, long long before, object octets,
        long long first, long long last
    ) except? -1

@cython.final
cdef class RecentOctets:
    cdef public RecentBudget _budget
    cdef public long long _last, _origin

    cpdef keep(
        self, long long start, long long frame, long long time, long long check, object octets, long long first,
        long long last
    )
