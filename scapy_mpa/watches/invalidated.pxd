cimport cython
@cython.final
cdef class InvalidationWatch:
    cdef public dict stags
    cdef public long long _peer_end
    cdef public set _used
