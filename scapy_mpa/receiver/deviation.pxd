cimport cython
from scapy_mpa.receiver.fpdus cimport FPDUChain, FPDUReader

cdef long long BEGINNING, COMPARED_HEADERS, CRC_BITS
cdef long long HEADER_OCTETS, LONGEST_FPDU, MARKER_BITS, MARKER_LENGTH, MAX_ULPDU_LENGTH

cdef class DeviationSearch:
    cdef object __weakref__
    cdef public bint _has_tried_pairs, is_open
    cdef public long long _edge, _most, _next_look, _seen_at, _seen_edge, _seen_held
    cdef public object _bases, _budget, _explained, _hypotheses, last_frame
    cdef public FPDUReader _reader

    @cython.locals(reader=FPDUReader, main=FPDUChain, held=cython.longlong)
    cpdef update(self, long long frame)
