cimport cython
from scapy_mpa.receiver.connection cimport ConnectionReader
from scapy_mpa.stream.connection cimport TCPConnection, TCPHalf

cdef class FollowedConnection:
    cdef public object is_left_out, is_reported, is_stray, mpa, strays, syns
    cdef public ConnectionReader reader

cdef class Analyzer:
    cdef dict __dict__
    @cython.locals(flags=cython.longlong, reader=ConnectionReader, half=TCPHalf)
    cpdef _receive(self, TCPConnection connection, FollowedConnection followed, Py_ssize_t d, object seg)
