cimport cython
from scapy_mpa.receiver.connection cimport ConnectionReader
from scapy_mpa.receiver.fpdus cimport FPDUReader
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.stream.connection cimport Arrival, TCPHalf
from scapy_mpa.watches.copies cimport CopyWatch
from scapy_mpa.watches.counts cimport Counts
from scapy_mpa.watches.gaps cimport GapWatch
from scapy_mpa.watches.segments cimport SegmentWatch

cdef class HalfFindings:
    cdef public object _mpa, _role, _stream, broken

cdef class FullOperation:
    cdef public object _listener, _told, deviating, diagnosis, direction, first_frame, fpdus, invalidated
    cdef public object is_replaced, key, log, memory, messages, mpa, path_mtu, peer, reads, report_to, seq_start
    cdef public object terminated, went_on_at
    cdef public CopyWatch copies
    cdef public Counts counts
    cdef public FPDUReader reader
    cdef public GapWatch gaps
    cdef public SegmentWatch segments
    cdef public TCPHalf half

    @cython.locals(
        reader=FPDUReader, half=TCPHalf, counts=Counts, copies=CopyWatch, segments=SegmentWatch, gaps=GapWatch,
        arrival=Arrival,
    )
    cpdef take(self, object arrivals)

cdef class CapturedConnection:
    cdef object __weakref__
    cdef public list _arrivals, _operations, syns
    cdef public object _deviations, _is_read_anew, _listener, _log, _path_mtu, _reported, _room, findings, judgement, key, keys
    cdef public object lifecycle, number, operations, startup
    cdef public ConnectionReader reader
    cdef public Py_ssize_t pending_side

    @cython.locals(d=cython.Py_ssize_t, reader=FPDUReader, operation=FullOperation)
    cpdef take(self, Py_ssize_t side)
