cimport cython
from scapy_mpa.values._octets cimport numbers_of, queued

cdef long long _HEADER, _TIMESTAMPS_LENGTH

@cython.locals(tcp=cython.longlong, at=cython.longlong, start=cython.longlong, kinds=cython.longlong)
cpdef (long long, long long) timestamps_of(object seg) except *
