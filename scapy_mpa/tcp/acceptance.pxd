cimport cython
from scapy_mpa.framing.sequence cimport unwrap
from scapy_mpa.tcp.half cimport Half

cdef class Timestamps:
    cdef public long long _newest, _recent, _time

    @cython.locals(at=cython.Py_ssize_t, stamp=cython.longlong)
    cpdef bint goes_on(self, object seg) except -1

cdef class Segments:
    cdef public bint _anchored, _is_order_doubted, _checksums_are_right, _knows_stamps, _lacks_acks
    cdef public Half _half
    cdef public long long _doubts_in_row, _echo, _highest, _in_row, _last, _next, _next_then, _origin, _unheard, _weight
    cdef public Timestamps _stamps
    cdef public object _syn_stamp, before, refuted_fin
    cdef public list doubtful, waiting
    cdef public dict _then

    cpdef see(self, object extent)
    cpdef long long _offset_of(self, long long seq) except? -1
    cpdef bint goes_on(self, object seg) except -1
