cimport cython
from cpython cimport array
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.stream.connection cimport Arrival
from scapy_mpa.values._inline cimport append_four, append_number, cut_first, index_in, number_at

cdef array.array _NONE
cdef long long BAD, NEVER, NOWHERE, _FEW, _NEAR, _ROW, _SENT

@cython.final
cdef class UnalignedSegment:
    cdef public bint acknowledged, is_out_of_order, is_part
    cdef public long long aligned, end, frame, idle, longest, new, number, start, time
    cdef public object repeats

    @cython.locals(about=cython.longlong)
    cpdef take(self, array.array rows, Py_ssize_t at)
    cpdef bint is_before(self, long long end, long long start, long long number) except -1
    cpdef UnalignedSegment copy_of(self, UnalignedSegment other)

@cython.final
cdef class Counts:
    cdef public array.array _brought, _ends, _left_out_ends, _left_out_starts, _starts
    cdef public array.array _unjudged
    cdef public list _late
    cdef public Py_ssize_t _judged, _most_brought, _most_unjudged, _near
    cdef public long long _longest, _next, _time
    cdef public long long _located, _rest_end, _seen, crc_errors, cut_fpdus, delivered_late, fpdu_aligned_segments, fpdus
    cdef public long long header_aligned_segments, marker_count, missing_octets, out_of_order_segments
    cdef public long long retransmitted_segments, segments, stream_octets, ulpdu_octets, undelivered, unknown_segments
    cdef public long long unlocated_octets

    cpdef arrived(self, Arrival arrival)
    @cython.locals(
        number=cython.longlong, one=UnalignedSegment, unjudged=array.array, count=cython.Py_ssize_t, idle=cython.longlong, about=cython.longlong,
    )
    cpdef brought(
        self, long long start, long long end, long long frame, long long time, long long new, bint is_out_of_order,
        bint acknowledged
    )
    cpdef arrived_aligned(self, long long start, long long end, long long frame, long long time)
    cpdef bring(self, long long start, long long end, long long frame)
    @cython.locals(offset=cython.longlong, end=cython.longlong)
    cpdef passed(self, LocatedFPDU fpdu, long long delivered)
    @cython.locals(offset=cython.longlong, end=cython.longlong, count=cython.longlong)
    cpdef passed_run(self, PlainRun run)
    @cython.locals(after=cython.Py_ssize_t)
    cpdef bint _is_unknown(self, long long start, Py_ssize_t before) except -1
    cpdef bint _is_left_out(self, long long start, long long end) except -1
    @cython.locals(one=UnalignedSegment, limit=cython.longlong)
    cpdef list judged(self, object up_to=*)
    @cython.locals(
        unjudged=array.array, late=list, at=cython.Py_ssize_t, start=cython.longlong, end=cython.longlong,
        has_next=cython.bint, is_out_of_order=cython.bint, waiting=UnalignedSegment,
    )
    cpdef bint judge_next(self, long long limit, UnalignedSegment one) except -1
    @cython.locals(
        starts=array.array, count=cython.Py_ssize_t, index=cython.Py_ssize_t, stop=cython.Py_ssize_t,
        first=cython.longlong,
    )
    cpdef bint _is_unaligned(
        self, long long start, long long end, long long new, bint is_out_of_order, UnalignedSegment one
    ) except -1
    @cython.locals(low=cython.Py_ssize_t, high=cython.Py_ssize_t, middle=cython.Py_ssize_t)
    cpdef Py_ssize_t _brought_after(self, long long number, Py_ssize_t column) except -1
    cpdef bint _is_boundary(self, long long offset) except -1

@cython.locals(index=cython.Py_ssize_t)
cpdef bint _holds(array.array ascending, long long offset) except -1
