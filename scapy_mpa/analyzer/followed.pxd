cimport cython
from scapy_mpa.stream.connection cimport TCPConnection

@cython.final
cdef class _ByIdleness:
    cdef public dict members
    cdef public list _heap

    cpdef add(self, TCPConnection connection)

@cython.final
cdef class Followed:
    cdef public long long _most
    cdef public object _over
    cdef public tuple _groups

    cpdef add(self, TCPConnection connection)
    @cython.locals(target=_ByIdleness, group=_ByIdleness)
    cpdef move(self, TCPConnection connection, bint has_mpa)
    @cython.locals(group=_ByIdleness)
    cpdef remove(self, TCPConnection connection)
