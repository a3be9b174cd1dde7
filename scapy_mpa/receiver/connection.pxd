from scapy_mpa.stream.connection cimport TCPConnection

cdef class ConnectionReader:
    cdef object __weakref__
    cdef dict __dict__
    cdef public list _deviations, arrivals, readers
    cdef public long long _few
    cdef public object _limits, _recent
    cdef public TCPConnection connection
