cimport cython
from libc.stdint cimport int64_t
cdef long long FEWEST_AFTER_ERROR, FEWEST_IN_VAIN

@cython.final
cdef class DirectionEnd:
    cdef public bint has_gap, is_deviating, is_in_operation, is_quiet
    cdef public list accepted_resets
    cdef public long long messages, reset_count, sacked, sent, unacknowledged
    cdef public object acknowledged, error_frame, fin, last, last_moment, resets, retransmissions, start, terminated
    cdef public object went_on, went_on_at

cpdef bint closes_in_order(DirectionEnd mine, DirectionEnd peer) except -1
cpdef bint is_known_up_to(DirectionEnd one, long long end) except -1
cpdef closed_by(DirectionEnd mine, DirectionEnd peer)
cpdef int64_t _sent_in_vain(DirectionEnd mine, DirectionEnd peer) except -1
cpdef half_end(DirectionEnd mine, DirectionEnd peer)
cpdef lifecycle(object first, DirectionEnd initiator, DirectionEnd responder, object rejection)
cpdef breaches_at_end(DirectionEnd mine, DirectionEnd peer)
