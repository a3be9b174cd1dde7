cimport cython
from libc.stdint cimport int64_t
from scapy_mpa.stream.connection cimport TCPHalf
from scapy_mpa.stream.copies cimport Copies

cdef long long KEY_LENGTH, LARGEST_WINDOW
cdef long long NEVER, SEQ_MASK, SHORT, STARTUP_HEADER_LENGTH, _REV_AT

@cython.final
cdef class FoundFrame:
    cdef public bint is_damaged
    cdef public long long end, end_seq, frame, seq, start, time, under_way
    cdef public object ack, key, startup

    cpdef FoundFrame shifted(self, long long origin)

@cython.final
cdef class KeySearch:
    cdef public dict candidates
    cdef public long long _edge
    cdef public object _begin
    cdef public TCPHalf half

    @cython.locals(
        copies=Copies, at=cython.longlong, covered=cython.longlong, high=cython.longlong, low=cython.longlong,
        offset=cython.longlong, reach=cython.longlong, octets=bytes, index=cython.Py_ssize_t, found=FoundFrame,
    )
    cpdef FoundFrame receive(self, long long start, long long end, bint is_over=*)
    cpdef int64_t _valid_end(self, long long offset) except -1
    @cython.locals(copies=Copies, edge=cython.longlong, end=cython.longlong, stop=cython.longlong,
                   captured=cython.longlong, key=bytes, header=bytes)
    cpdef FoundFrame _frame_at(self, long long offset, bint is_over)
    @cython.locals(copies=Copies, frame=cython.longlong, time=cython.longlong)
    cpdef FoundFrame _found(self, object startup, long long offset, long long end, bytes key=*)
    @cython.locals(first=cython.longlong)
    cpdef bytes _private_data(self, long long offset, long long end)
    @cython.locals(copies=Copies, end=cython.longlong)
    cpdef bytes header_at(self, long long offset)

cpdef int64_t _counted_length(bytes header) except -1
