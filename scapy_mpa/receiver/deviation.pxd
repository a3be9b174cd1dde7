cimport cython
from libc.stdint cimport int64_t
from scapy_mpa.receiver.fpdus cimport FPDUChain, FPDUReader
from scapy_mpa.stream.connection cimport TCPHalf

cdef long long BEGINNING, COMPARED_HEADERS, CRC_BITS
cdef long long HEADER_OCTETS, LONGEST_FPDU, MARKER_BITS, MARKER_LENGTH, MAX_ULPDU_LENGTH

cdef class DeviationSearch

@cython.final
cdef class DiagnosisBudget:
    cdef public long long _frame, _readings, _room
    cdef public object _taken

    cpdef bint pay(self) except -1
    cpdef advance(self, long long frame)
    cpdef bint reserve(self, object search, long long weight) except -1
    cpdef release(self, object search)

@cython.final
cdef class DeviationSearch:
    cdef object __weakref__
    cdef public bint _has_tried_pairs, is_open
    cdef public long long _edge, _most, _next_look, _seen_at, _seen_edge, _seen_held
    cdef public DiagnosisBudget _budget
    cdef public long long last_frame
    cdef public object _bases, _explained, _hypotheses
    cdef public FPDUReader _reader

    @cython.locals(reader=FPDUReader, main=FPDUChain, held=cython.longlong)
    cpdef update(self, long long frame)
    @cython.locals(reader=FPDUReader, main=FPDUChain)
    cpdef bint has_seen(self) except -1
    cpdef close(self)
    @cython.locals(half=TCPHalf, octets=cython.longlong)
    cpdef int64_t _weight(self) except -1
