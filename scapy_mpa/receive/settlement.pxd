cimport cython
from scapy_mpa.receive.reassembly cimport Reassembly

cdef class Counts:
    cdef public long long crc_errors, cut_fpdus, delivered_late, fpdu_aligned_segments, fpdus, header_aligned_segments
    cdef public long long marker_count, missing_octets, out_of_order_segments, retransmitted_segments, segments
    cdef public long long stream_octets, ulpdu_octets, undelivered, unlocated_octets, whole_segments

    cpdef pass_in_order(self, long long fpdus, long long ulpdu_octets, long long markers, long long undelivered)
    cpdef pass_whole_segment(self, long long fpdus, long long ulpdu_octets, long long markers, long long undelivered)
    cpdef pass_located(
        self, long long ulpdu_octets, long long markers, bint is_bad, bint is_late, bint is_undelivered
    )
    cpdef take_segment(self, bint is_repeat=*, bint is_late=*)
    cpdef take_segments_in_order(self, long long segments, long long late)
    cpdef align(self, bint holds_whole_fpdus)

cdef class Settlement:
    cdef public bint delivers_from_first_located, gapped
    cdef public Reassembly _reassembly
    cdef public long long _crc, complete, complete_time, first_frame, located_end, located_octets
    cdef public bint _markers
    cdef public object _ends, _starts, first_error, log
    cdef public Counts counts
    cdef public list unjudged

    @cython.locals(fpdus=cython.longlong)
    cpdef pass_in_order(self, object seg, long long begin, list ends, long long ulpdu_octets, long long markers)
    @cython.locals(fpdus=cython.longlong)
    cpdef pass_part(self, object seg, long long begin, list ends, long long ulpdu_octets, long long markers)
    cpdef _begin_at(self, long long begin, list ends)
    cpdef judge_later(self, long long start, long long end)
    cpdef judge(self, long long offset, object at=*)
    cpdef bint is_boundary(self, long long offset, object at) except -1

cpdef bint _holds(object ascending, long long offset) except -1
