cimport cython
from cpython cimport array
from scapy_mpa.receiver.deviation cimport DeviationSearch
from scapy_mpa.receiver.fpdus cimport FPDUChain, FPDUReader
from scapy_mpa.stream.connection cimport Arrival, TCPConnection, TCPHalf
from scapy_mpa.stream.copies cimport Copies
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.values._octets cimport append_number

cdef long long _PATIENCE, FEWEST_HEADERS, HALF_BITS, KEY_LENGTH, LARGEST_PD_LENGTH, LARGEST_WINDOW
cdef long long LONGEST_FPDU, MARKER_LENGTH, NEVER, NOWHERE, PATIENCE_TIME, SHOWN_BY
cdef long long STARTUP_HEADER_LENGTH, WRONG

cdef class ConnectionReader:
    cdef object __weakref__
    cdef public bint _has_long_part, _is_other, has_doubt, inferred, is_accepted, rejected
    cdef public list _deviations, _searches, after_rejection, agreed, arrivals, diagnoses, frames, garbled, inferences
    cdef public list limits_met, octets_after, openings, parts, readers, rivals
    cdef public long long _adapting, _few, _next_look, answered_octets
    cdef public object _assumptions, _before, _budget, _diagnosis_budget, _limits, initiator, starts_found
    cdef public object short_parts, unexpected
    cdef public ConnectionReader _successor
    cdef public TCPConnection connection
    cdef public array.array _recent

    @cython.locals(one=ConnectionReader)
    cpdef receive(self, Py_ssize_t d, long long frame, long long time)
    @cython.locals(
        connection=TCPConnection, arrival=Arrival, opening=Arrival, reader=FPDUReader, other=FPDUReader, one=FPDUReader,
        direction=cython.Py_ssize_t, is_first=cython.bint, search=DeviationSearch,
    )
    cpdef _receive(self, Py_ssize_t d, long long frame, long long time)
    cpdef note_frame(self, long long frame)
    @cython.locals(reader=FPDUReader, d=cython.Py_ssize_t)
    cpdef bint is_steady(self) except -1
    @cython.locals(half=TCPHalf, copies=Copies, main=FPDUChain, peer=PeerState, held=cython.longlong, has_acks=cython.bint)
    cpdef _give_up(self, FPDUReader reader, long long frame, long long time)
