cimport cython
from libc.stdint cimport int64_t
from cpython cimport array
from scapy_mpa.receiver.deviation cimport DeviationSearch
from scapy_mpa.receiver.startup cimport FoundFrame, KeySearch
from scapy_mpa.receiver.fpdus cimport FPDUChain, FPDUReader
from scapy_mpa.stream.connection cimport Arrival, TCPConnection, TCPHalf
from scapy_mpa.stream.copies cimport Copies
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.values._inline cimport append_number, put_number

cdef long long _PATIENCE, FEWEST_HEADERS, HALF_BITS, KEY_LENGTH, LARGEST_PD_LENGTH, LARGEST_WINDOW
cdef long long LONGEST_FPDU, MARKER_LENGTH, NEVER, NOWHERE, PATIENCE_TIME, SHOWN_BY
cdef long long STARTUP_HEADER_LENGTH, WRONG

@cython.final
cdef class ConnectionReader:
    cdef object __weakref__
    cdef public bint _has_long_part, _is_other, has_doubt, inferred, is_accepted, rejected
    cdef public list _deviations, _searches, after_rejection, agreed, arrivals, diagnoses, frames, garbled, inferences
    cdef public list limits_met, octets_after, openings, parts, readers, rivals
    cdef public long long _adapting, _few, _next_look, _oldest, _profile_rev, answered_octets
    cdef public object _profile, _assumptions, _before, _budget, _diagnosis_budget, _limits, initiator, starts_found
    cdef public object short_parts, unexpected
    cdef public ConnectionReader _successor
    cdef public TCPConnection connection
    cdef public array.array _recent

    @cython.locals(one=ConnectionReader)
    cpdef receive(self, Py_ssize_t d, long long frame, long long time)
    @cython.locals(
        connection=TCPConnection, arrival=Arrival, opening=Arrival, reader=FPDUReader, other=FPDUReader,
        is_first=cython.bint,
    )
    cpdef _receive(self, Py_ssize_t d, long long frame, long long time)
    @cython.locals(reader=FPDUReader, main=FPDUChain, copies=Copies)
    cpdef bint read_on(self, Py_ssize_t d, long long start, long long end, long long frame, long long time) except -1
    @cython.locals(direction=cython.Py_ssize_t, search=DeviationSearch, one=FPDUReader)
    cpdef _look(self, Py_ssize_t d, long long frame, long long time)
    @cython.locals(half=TCPHalf, search=KeySearch, copies=Copies, found=FoundFrame, held=cython.longlong)
    cpdef _search(self, Py_ssize_t d, long long start, long long end)
    @cython.locals(other=FoundFrame, reply=FoundFrame)
    cpdef _take_frame(self, Py_ssize_t d, FoundFrame found)
    @cython.locals(half=TCPHalf, peer=PeerState, arrival=Arrival)
    cpdef FoundFrame _with_acks(self, Py_ssize_t d, FoundFrame found)
    @cython.locals(arrivals=list, low=cython.Py_ssize_t, high=cython.Py_ssize_t, middle=cython.Py_ssize_t, one=Arrival)
    cpdef Arrival _arrival(self, Py_ssize_t d, long long frame)
    @cython.locals(half=TCPHalf)
    cpdef int64_t _offset_of(self, Py_ssize_t d, long long seq) except? -1
    @cython.locals(
        d=cython.Py_ssize_t, request=FoundFrame, reply=FoundFrame, half=TCPHalf, first=Arrival, one=Arrival,
        search=KeySearch, copies=Copies, start=cython.longlong, end=cython.longlong, edge=cython.longlong,
    )
    cpdef _in_place_of_reply(self)
    cpdef _accept(self, bint is_over=*)
    @cython.locals(search=KeySearch, found=FoundFrame, half=TCPHalf)
    cpdef FoundFrame _faulty_frame(self, Py_ssize_t d)
    @cython.locals(known=FoundFrame, after=Arrival)
    cpdef _taken_end(self, Py_ssize_t d)
    @cython.locals(half=TCPHalf, copies=Copies)
    cpdef Arrival _first_after(self, Py_ssize_t d, long long offset)
    @cython.locals(first=FoundFrame, second=FoundFrame)
    cpdef list _layouts(self, object frames)
    @cython.locals(reply=FoundFrame)
    cpdef _agree(self, bint is_over)
    @cython.locals(half=TCPHalf, found=FoundFrame, other=FoundFrame)
    cpdef bint _may_come_again(self, Py_ssize_t d) except -1
    @cython.locals(
        half=TCPHalf, copies=Copies, first=FoundFrame, second=FoundFrame, found=FoundFrame, arrival=Arrival,
        edge=cython.longlong, shown=cython.longlong,
    )
    cpdef bint _has_clear_end(self, Py_ssize_t d) except -1
    @cython.locals(first=FoundFrame, second=FoundFrame, request=FoundFrame, reply=FoundFrame, found=FoundFrame,
                   reader=FPDUReader)
    cpdef _operate(self)
    @cython.locals(half=TCPHalf, other=TCPHalf, reader=FPDUReader, frame=FoundFrame, one=ConnectionReader)
    cpdef _begin(self, Py_ssize_t d, object beginning, object startup)
    @cython.locals(frame=FoundFrame)
    cpdef _shift(self, Py_ssize_t d, long long origin)
    @cython.locals(found=FoundFrame, half=TCPHalf, copies=Copies)
    cpdef _look_after_rejection(self, Py_ssize_t d)
    cpdef note_frame(self, long long frame)
    @cython.locals(reader=FPDUReader, d=cython.Py_ssize_t, search=DeviationSearch)
    cpdef bint is_steady(self) except -1
    @cython.locals(half=TCPHalf, copies=Copies, main=FPDUChain, peer=PeerState, held=cython.longlong, has_acks=cython.bint)
    cpdef _give_up(self, FPDUReader reader, long long frame, long long time, bint has_grown)

@cython.locals(
    one=Arrival, highest=cython.longlong, left=cython.longlong, start=cython.longlong, end=cython.longlong,
    new=cython.longlong, is_late=cython.bint,
)
cpdef list _counted_from(long long origin, list arrivals, TCPHalf half)
