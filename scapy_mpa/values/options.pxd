cimport cython
from scapy_mpa.values._inline cimport queued
from scapy_mpa.values.segment cimport Segment

cdef long long _HEADER, _TIMESTAMPS_LENGTH

@cython.locals(octets=bytes, at=cython.Py_ssize_t, length=cython.Py_ssize_t)
cpdef list _options(Segment seg)
cpdef announced(Segment syn)
@cython.locals(at=cython.longlong, kinds=cython.longlong)
cpdef (long long, long long) timestamps_of(Segment seg) except *
