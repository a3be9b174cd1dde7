cimport cython
from scapy_mpa.stream.connection cimport TCPHalf
from scapy_mpa.stream.copies cimport Copies

cdef long long KEY_LENGTH, LARGEST_WINDOW
cdef long long NEVER, SEQ_MASK, SHORT, STARTUP_HEADER_LENGTH, _REV_AT

cdef class KeySearch:
    cdef public dict candidates
    cdef public long long _edge
    cdef public object _begin
    cdef public TCPHalf half

    @cython.locals(
        copies=Copies, at=cython.longlong, covered=cython.longlong, high=cython.longlong, low=cython.longlong,
        offset=cython.longlong, reach=cython.longlong,
    )
    cpdef receive(self, long long start, long long end, bint is_over=*)
    @cython.locals(copies=Copies, edge=cython.longlong, end=cython.longlong, stop=cython.longlong)
    cpdef _frame_at(self, long long offset, bint is_over)
    @cython.locals(copies=Copies, end=cython.longlong)
    cpdef header_at(self, long long offset)
