cimport cython
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.receiver.values cimport LocatedFPDU
from cpython cimport array
from scapy_mpa.values._inline cimport head, number_at, place, queued, word
from scapy_mpa.values._octets cimport own_octets

cdef long long CONTROL_LENGTH, MAX_ULPDU_LENGTH
cdef long long _ATOMIC_ALIGNMENT, _ATOMIC_HEADER, _ATOMIC_STAG, _LAST_MSN, _RESERVED, _ULPDU_LENGTH

cdef unsigned long long _LAST_TO
cdef long long LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH, MIN_MULPDU, TAGGED_HEADER_LENGTH, TERMINATE_OPCODE
cdef long long UNTAGGED_HEADER_LENGTH, _ATOMIC_REQUEST, _ATOMIC_RESPONSE, _HIGHEST_OCTET, _LAST, _LONGEST_MESSAGE
cdef long long _READ_REQUEST, _READ_RESPONSE, _RSVDULP, _TAGGED, _TO_AT, _VERSIONS

@cython.locals(
    begin=cython.longlong, index=cython.longlong, length=cython.longlong, end=cython.longlong, marker=cython.longlong,
)
cpdef bytes ulpdu_of(LocatedFPDU fpdu, long long most=*)
@cython.locals(size=cython.longlong)
cpdef bytes _captured(object octets, long long at, long long end)

@cython.final
cdef class DDPWatch:
    cdef public dict _open
    cdef public list _breaches, _messages, related
    cdef public long long _expected, _placed, _versions, answers, end, longest_part, losses, requests, resumed, terminated
    cdef public long long untagged_frame
    cdef public object _answer, _response, _write, first_part

    cpdef passed_run(self, PlainRun run)
    @cython.locals(
        goes_on=cython.bint, placed=cython.longlong, number=cython.Py_ssize_t, index=cython.Py_ssize_t,
        frame=cython.longlong, is_last=cython.longlong, headers=bytearray, firsts=array.array, frames=array.array,
    )
    cpdef _place_run(self, PlainRun run)
    @cython.locals(length=cython.longlong, control=cython.longlong, opcode=cython.longlong)
    cpdef passed(self, LocatedFPDU fpdu, bytes ulpdu)
    cpdef _take_breaches(self)
    cpdef _expect(self)
    @cython.locals(
        stag=cython.ulonglong, to=cython.ulonglong, after=cython.ulonglong, octets=cython.longlong,
        frame=cython.longlong, goes_on=cython.bint,
    )
    cpdef _next_place(self, object name, object expected, long long control, LocatedFPDU fpdu, bytes ulpdu)
    cpdef _inspect_read_response(self, long long control, LocatedFPDU fpdu, bytes ulpdu)
    cpdef _relate(self, object message)
    @cython.locals(
        queue=cython.longlong, msn=cython.longlong, mo=cython.longlong, after=cython.longlong, is_too_long=cython.bint,
        length=cython.longlong,
    )
    cpdef _inspect_untagged(self, long long opcode, long long control, LocatedFPDU fpdu, bytes ulpdu)
    @cython.locals(length=cython.longlong, is_whole=cython.bint)
    cpdef _inspect_other(self, long long opcode, long long mo, bint is_last, LocatedFPDU fpdu, bytes ulpdu)
    cpdef _inspect_part(self, LocatedFPDU fpdu)
    cpdef _inspect_read_request(self, LocatedFPDU fpdu, bytes ulpdu)

@cython.locals(after=cython.ulonglong)
cpdef bint _wraps(unsigned long long to, long long ulpdu_length) except -1
cpdef _request(long long opcode, LocatedFPDU fpdu, bytes ulpdu, long long length)
cpdef bint _is_in_host_order(bytes ulpdu) except -1
cpdef bint _is_reversed(unsigned long long value, long long size) except -1
