cimport cython

@cython.final
cdef class LocatedFPDU:
    cdef readonly bint is_damaged
    cdef readonly long long crc, end, header, located_by, markers, offset, opcode, ulpdu_length
    cdef readonly object octets
    cdef readonly tuple complete, frames, known

    cpdef LocatedFPDU found_by(self, long long located_by)

@cython.locals(one=LocatedFPDU)
cpdef LocatedFPDU located_fpdu(
    long long offset, long long header, long long ulpdu_length, long long end, long long markers, long long crc,
    long long located_by, tuple frames, tuple complete, tuple known, long long opcode, object octets, bint is_damaged=*
)
