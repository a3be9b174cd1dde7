cimport cython
from libc.stdint cimport int64_t

cdef long long CLOSE, HALF, LARGEST_WINDOW, NEAR, NOWHERE, SEQ_MASK

@cython.final
cdef class SequenceSpace:
    cdef public long long last, zero
    cdef public object base
    cdef public list others

    @cython.locals(
        base=cython.longlong, edge=cython.longlong, ahead=cython.longlong, best=cython.longlong, offset=cython.longlong,
    )
    cpdef tuple nearest(self, long long seq)
    @cython.locals(base=cython.longlong, last=cython.longlong)
    cpdef int64_t distance_from_last(self, long long seq) except? -1
    @cython.locals(base=cython.longlong, last=cython.longlong, ahead=cython.longlong, offset=cython.longlong)
    cpdef int64_t offset_of(self, long long seq, long long length, long long rcv_wnd, long long acked=*) except? -1
