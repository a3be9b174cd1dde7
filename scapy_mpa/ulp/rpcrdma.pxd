cimport cython
from libc.stdint cimport int64_t
from scapy_mpa.values._inline cimport place, word

cdef Py_ssize_t _SEGMENT_LENGTH, _WORD_LENGTH

@cython.final
cdef class _Reader:
    cdef public bytes _octets
    cdef public Py_ssize_t at

    cpdef int64_t word(self) except -1
    @cython.locals(value=cython.longlong)
    cpdef bint flag(self) except -1
    cpdef segment(self, object use)

@cython.locals(reader=_Reader)
cpdef transport_header(bytes octets, long long length)
