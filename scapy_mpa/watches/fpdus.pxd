cimport cython
from scapy_mpa.receiver.plain cimport has_usual_octets
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.watches.ddp cimport DDPWatch, ulpdu_of
from scapy_mpa.watches.sizes cimport SizeWatch

cdef long long CRC_LENGTH, GOOD, HEADER_OCTETS, LENGTH_FIELD_LENGTH, LONGEST_FPDU, MARKER_LENGTH, TERMINATE_OCTETS
cdef long long LAST, TAGGED, UNTAGGED_HEADER_LENGTH, _LOW_BITS, _OPCODE
cdef long long BAD, CUT, MARKER_INTERVAL, MAX_ULPDU_LENGTH, TERMINATE_OPCODE

@cython.final
cdef class FPDUWatch:
    cdef public bint _awaits_send, _is_beginning
    cdef public DDPWatch ddp
    cdef public SizeWatch sizes
    cdef public long long requests_before_error
    cdef public object _layout, _origin, first, first_error, first_send, terminate

    @cython.locals(ulpdu_length=cython.longlong, crc=cython.longlong)
    cpdef passed(self, LocatedFPDU fpdu, bytes ulpdu=*)
    @cython.locals(ulpdu=bytes, octets=cython.longlong, control=cython.longlong, opcode=cython.longlong)
    cpdef _note_first(self, LocatedFPDU fpdu)
