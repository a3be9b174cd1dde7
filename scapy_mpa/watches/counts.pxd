cimport cython

cdef class Counts:
    cdef public object _brought, _brought_by, _brought_end, _ends, _left_out_ends, _left_out_starts, _next, _starts, _time
    cdef public list _unjudged
    cdef public long long _located, _seen, crc_errors, cut_fpdus, delivered_late, fpdu_aligned_segments, fpdus
    cdef public long long header_aligned_segments, marker_count, missing_octets, out_of_order_segments
    cdef public long long retransmitted_segments, segments, stream_octets, ulpdu_octets, undelivered, unlocated_octets
