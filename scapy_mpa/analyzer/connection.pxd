from scapy_mpa.receiver.fpdus cimport FPDUReader
from scapy_mpa.stream.connection cimport TCPHalf
from scapy_mpa.watches.counts cimport Counts

cdef class HalfFindings:
    cdef public object _mpa, _role, _stream, broken

cdef class FullOperation:
    cdef public object _observer, _sink, _told, copies, deviating, diagnosis, direction, first_frame, fpdus, gaps
    cdef public object is_replaced, key, log, messages, mpa, path_mtu, peer, reads, report_to, segments, seq_start
    cdef public object terminated
    cdef public Counts counts
    cdef public FPDUReader reader
    cdef public TCPHalf half
