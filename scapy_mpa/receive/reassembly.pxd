cimport cython
from scapy_mpa.framing.sequence cimport unwrap, wrap

cdef class Reassembly:
    cdef public long long base, captured, first, held, highest, next, origin, withdrawn
    cdef public object _chunks, checksums
    cdef public list _fresh, beyond, consumed, pieces, previously_consumed, starts

    @cython.locals(near=cython.longlong)
    cpdef long long offset_of(self, long long seq) except? -1
    cpdef long long seq_of(self, long long offset) except -1
    @cython.locals(end=cython.longlong)
    cpdef take_next(self, object seg, long long consumed)
    @cython.locals(start=cython.longlong)
    cpdef hold_next(self, object seg)
    cpdef _hold(self, long long start, long long end, Py_ssize_t index, object seg)
    cpdef _consume_pieces(self)
    @cython.locals(pieces=list, done=list, kept=cython.Py_ssize_t)
    cpdef take_followers(self, list new, long long consumed)

cdef class Postponed:
    cdef public long long highest, octets
    cdef public dict segments
    cdef public list starts
