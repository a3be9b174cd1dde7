cimport cython
from cpython cimport array
from scapy_mpa.framing.markers cimport marker_count
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.values._inline cimport (
    append_number, append_octets, fit, fit_octets, head, is_zero, place, with_room, word,
)

cdef array.array _NONE
cdef long long CRC_LENGTH, MARKER_LENGTH, _MOST_TOGETHER
cdef long long BAD, LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MIN_MULPDU, TAGGED_HEADER_LENGTH, TERMINATE_OPCODE
cdef long long _CLOSED, _ROOM, _LAST, _OPEN, _PHASE, _UNKNOWN
cdef unsigned long long _TO

@cython.final
cdef class PlainRun:
    cdef public bint is_delivered, is_open, is_ordered
    cdef public bytearray headers
    cdef public array.array began, ended, firsts, fpdus, frames, starts, times
    cdef public long long _last, first_frame, crc, delivered_late, end, markers, offset, ulpdu_octets
    cdef public unsigned long long stag, to

    cpdef settle(self)
    cpdef bint may_go_on(self, long long at, bint is_delivered) except -1
    cpdef arrive(self, long long frame, long long time, long long first, long long last)
    @cython.locals(rest=cython.Py_ssize_t)
    cpdef add(
        self, long long at, long long ulpdu_length, long long markers, object octets, Py_ssize_t ulpdu,
        Py_ssize_t before_marker
    )
    cpdef take_back(self, Py_ssize_t count, long long markers, long long ulpdu_octets)

@cython.final
cdef class PlainWrites:
    cdef public bint takes_all
    cdef public Py_ssize_t before_marker
    cdef public object _origin
    cdef public long long _before, _control, _longest, _longest_part, _state, _end
    cdef public unsigned long long _stag, _stag_before, _to, _to_before

    @cython.locals(
        stag=cython.ulonglong, to=cython.ulonglong, after=cython.ulonglong, is_last=cython.longlong, marker=cython.longlong,
    )
    cpdef bint fits(
        self, object data, long long index, long long header, long long ulpdu_length, long long control, long long phase
    ) except -1
    @cython.locals(run=PlainRun)
    @cython.locals(
        offset=cython.longlong, header=cython.longlong, ulpdu_length=cython.longlong, end=cython.longlong,
        markers=cython.longlong, crc=cython.longlong, opcode=cython.longlong, index=cython.longlong,
        control=cython.longlong,
    )
    cpdef passed(self, LocatedFPDU fpdu)
    cpdef passed_run(self, PlainRun run, long long end)
    cpdef remember(self)
    cpdef go_back(self)

@cython.locals(
    unpadded=cython.longlong, end=cython.longlong, length=cython.longlong, pad=cython.longlong,
    counted_from=cython.longlong, marker=cython.longlong,
)
cpdef bint has_usual_octets(object octets, long long at, long long phase, long long ulpdu_length, object origin) except -1
