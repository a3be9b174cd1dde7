cimport cython
from scapy_mpa.watches.counts cimport Counts

cdef class HalfConnection:
    cdef public object _context, _direction, _first, _fpdus, _log, _number, diagnosis, first_send, inferred, key, markers
    cdef public object seq_start
    cdef public Counts counts
