cimport cython

cdef class Half:
    cdef public long long ack, echo, edge, stamp, window
    cdef public long long _shift
    cdef public object _acks, _last, _then, announced, ending, fin, key, origin, path_mtu, rst
    cdef public Half peer
    cdef public list sacked

    cpdef acknowledge(self, long long ack)
    cpdef keep_last(self, object seg)
