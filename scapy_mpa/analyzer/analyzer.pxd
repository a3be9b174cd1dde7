cimport cython
from scapy_mpa.analyzer.connection cimport CapturedConnection
from scapy_mpa.receiver.connection cimport ConnectionReader
from scapy_mpa.receiver.fpdus cimport FPDUReader
from scapy_mpa.stream.connection cimport Arrival, Flows, TCPConnection, TCPHalf
from scapy_mpa.stream.copies cimport Copies
from scapy_mpa.values._octets cimport numbers_of

cdef class FollowedConnection:
    cdef public object is_left_out, is_reported, is_stray, path_mtu, strays, syns
    cdef public CapturedConnection mpa
    cdef public ConnectionReader reader

cdef class Analyzer:
    cdef dict __dict__
    cdef public dict _holding
    cdef public list _pending
    cdef public long long _frame, _held
    cdef public object _followed, _hands_octets, _listener, _time
    cdef public Flows _flows

    @cython.locals(flags=cython.longlong, connection=TCPConnection, d=cython.Py_ssize_t)
    cpdef feed(self, object segments)
    @cython.locals(
        frame=cython.longlong, flags=cython.longlong, reader=ConnectionReader, half=TCPHalf, mpa=CapturedConnection,
        arrival=Arrival, other=FPDUReader, copies=Copies,
    )
    cpdef _receive(self, TCPConnection connection, FollowedConnection followed, Py_ssize_t d, object seg)
