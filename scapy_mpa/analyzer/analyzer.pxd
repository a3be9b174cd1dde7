cimport cython
from scapy_mpa.analyzer.connection cimport CapturedConnection, FullOperation
from scapy_mpa.analyzer.followed cimport Followed
from scapy_mpa.receiver.connection cimport ConnectionReader
from scapy_mpa.receiver.fpdus cimport FPDUReader
from scapy_mpa.stream.connection cimport Arrival, Flow, Flows, TCPConnection, TCPHalf
from scapy_mpa.stream.copies cimport Copies
from scapy_mpa.values.segment cimport Segment

cdef long long MOST_OF_ALL, MOST_RESETS, PATH_MTU, SEQ_MASK, SYN

@cython.final
cdef class FollowedConnection:
    cdef public bint is_holding, is_left_out, is_reported, is_stray
    cdef public list operations
    cdef public object path_mtu, strays, syns
    cdef public CapturedConnection mpa
    cdef public ConnectionReader reader

@cython.final
cdef class Analyzer:
    cdef dict __dict__
    cdef public dict _holding
    cdef public list _borrowing, _pending
    cdef public long long _frame, _held, _time
    cdef public Followed _followed
    cdef public object _hands_octets, _listener
    cdef public Flows _flows

    @cython.locals(
        connection=TCPConnection, d=cython.Py_ssize_t, flow=Flow, followed=FollowedConnection, seg=Segment, half=TCPHalf,
        before=Flow, last_d=cython.Py_ssize_t,
    )
    cpdef feed(self, object segments)
    @cython.locals(
        offset=cython.longlong, reader=ConnectionReader, mpa=CapturedConnection,
        connection=TCPConnection, operation=FullOperation, half=TCPHalf, other=FPDUReader, is_late=cython.bint,
    )
    cpdef bint _receive_in_turn(self, FollowedConnection followed, Py_ssize_t d, Segment seg) except -1
    @cython.locals(reader=ConnectionReader, operation=FullOperation, connection=TCPConnection, is_steady=cython.bint)
    cpdef _go_on(self, FollowedConnection followed, Py_ssize_t d, long long offset, Segment seg, bint is_late)
    @cython.locals(
        frame=cython.longlong, flags=cython.longlong, reader=ConnectionReader, half=TCPHalf, mpa=CapturedConnection,
        arrival=Arrival,
    )
    cpdef _receive(self, TCPConnection connection, FollowedConnection followed, Py_ssize_t d, Segment seg)
    cpdef _note_held(self, TCPConnection connection, FollowedConnection followed, long long octets)
    @cython.locals(other=FPDUReader, copies=Copies)
    cpdef bint _comes_before(
        self, TCPConnection connection, CapturedConnection mpa, Py_ssize_t d, long long flags
    ) except -1
