cimport cython
from cpython cimport array
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.stream.connection cimport Arrival
from scapy_mpa.values._inline cimport append_number, index_in, number_at

cdef array.array _NONE
cdef long long BAD, NEVER, NOWHERE, _NEAR_END

@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class UnalignedSegment:
    cdef public bint acknowledged, is_out_of_order, is_part
    cdef public long long aligned, end, frame, idle, new, number, start, time
    cdef public object repeats

@cython.final
cdef class Counts:
    cdef public array.array _brought, _brought_by, _brought_end, _ends, _left_out_ends, _left_out_starts, _starts
    cdef public list _late, _unjudged
    cdef public long long _next, _time
    cdef public long long _located, _rest_end, _seen, crc_errors, cut_fpdus, delivered_late, fpdu_aligned_segments, fpdus
    cdef public long long header_aligned_segments, marker_count, missing_octets, out_of_order_segments
    cdef public long long retransmitted_segments, segments, stream_octets, ulpdu_octets, undelivered, unknown_segments
    cdef public long long unlocated_octets

    cpdef arrived(self, Arrival arrival)
    @cython.locals(
        number=cython.longlong, one=UnalignedSegment, last=UnalignedSegment, unjudged=list, most=cython.Py_ssize_t,
    )
    cpdef brought(
        self, long long start, long long end, long long frame, long long time, long long new, bint is_out_of_order,
        bint acknowledged
    )
    cpdef arrived_aligned(self, long long start, long long end, long long frame, long long time)
    @cython.locals(remembered=cython.Py_ssize_t)
    cpdef _bring(self, long long start, long long end, long long frame)
    @cython.locals(offset=cython.longlong, end=cython.longlong)
    cpdef passed(self, object fpdu, long long delivered)
    @cython.locals(offset=cython.longlong, end=cython.longlong, count=cython.longlong)
    cpdef passed_run(self, PlainRun run)
    @cython.locals(after=cython.Py_ssize_t)
    cpdef bint _is_unknown(self, long long start, Py_ssize_t before) except -1
    cpdef bint _is_left_out(self, long long start, long long end) except -1
    @cython.locals(
        found=list, unjudged=list, at=cython.Py_ssize_t, count=cython.Py_ssize_t, limit=cython.longlong,
        one=UnalignedSegment, late=list,
    )
    cpdef list judged(self, object up_to=*)
    @cython.locals(
        starts=array.array, count=cython.Py_ssize_t, low=cython.Py_ssize_t, start=cython.longlong, end=cython.longlong, index=cython.Py_ssize_t,
        first=cython.longlong, is_part=cython.bint,
    )
    cpdef _judge(self, UnalignedSegment one, list found)
    cpdef bint _is_boundary(self, long long offset) except -1

@cython.locals(index=cython.Py_ssize_t)
cpdef bint _holds(array.array ascending, long long offset) except -1
