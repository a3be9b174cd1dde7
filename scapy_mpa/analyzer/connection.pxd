cimport cython
from scapy_mpa.rdmap.watch cimport MemoryWatch
from scapy_mpa.receiver.connection cimport ConnectionReader
from scapy_mpa.receiver.fpdus cimport FPDUReader
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.stream.connection cimport Arrival, TCPHalf, hop_limit_of
from scapy_mpa.values.segment cimport Segment
from scapy_mpa.watches.copies cimport CopyWatch
from scapy_mpa.watches.counts cimport Counts, UnalignedSegment
from scapy_mpa.watches.ddp cimport DDPWatch, ulpdu_of
from scapy_mpa.watches.fpdus cimport FPDUWatch
from scapy_mpa.watches.gaps cimport GapWatch
from scapy_mpa.watches.invalidated cimport InvalidationWatch
from scapy_mpa.watches.messages cimport MessageWatch
from scapy_mpa.watches.outstanding cimport Outstanding
from scapy_mpa.watches.reads cimport ReadWatch
from scapy_mpa.watches.segments cimport SegmentWatch

cdef long long BAD, CONTROL_LENGTH, LENGTH, NEVER, SEQ_MASK, TAGGED_HEADER_LENGTH, TERMINATE_OPCODE, _ULPDU_LENGTH

cdef class HalfFindings:
    cdef public object _mpa, _role, _stream, broken

cdef class FullOperation:
    cdef public object _listener, _told, deviating, diagnosis, direction
    cdef public long long first_frame
    cdef public object is_replaced, key, log, mpa, path_mtu, reads, report_to, seq_start
    cdef public object terminated, went_on_at
    cdef public Py_ssize_t _role
    cdef public CopyWatch copies
    cdef public Counts counts
    cdef public FPDUReader reader
    cdef public FPDUWatch fpdus
    cdef public FullOperation peer
    cdef public GapWatch gaps
    cdef public InvalidationWatch invalidated
    cdef public MemoryWatch memory
    cdef public MessageWatch messages
    cdef public SegmentWatch segments
    cdef public TCPHalf half

    @cython.locals(
        reader=FPDUReader, half=TCPHalf, counts=Counts, copies=CopyWatch, segments=SegmentWatch, gaps=GapWatch,
        arrival=Arrival,
    )
    cpdef take(self, object arrivals)
    cpdef bint is_steady(self) except -1
    @cython.locals(end=cython.longlong)
    cpdef bint take_next(self, long long offset, Segment seg) except -1
    @cython.locals(segment=UnalignedSegment)
    cpdef _judge(self, list segments)
    cpdef _pass_run(self, PlainRun run)
    @cython.locals(memory=MemoryWatch, ulpdu=bytes)
    cpdef _pass(self, object fpdu, object delivered)
    @cython.locals(one=FullOperation, invalidated=InvalidationWatch)
    cpdef _report_memory(self, MemoryWatch memory)
    @cython.locals(peer=FullOperation, mine=ReadWatch, others=ReadWatch, operation=FullOperation)
    cpdef _relate(self, object fpdu)
    @cython.locals(mine=ReadWatch, others=ReadWatch, related=list)
    cpdef take_related(self, long long offset)
    @cython.locals(mine=ReadWatch, others=ReadWatch)
    cpdef _judge_answers(self)

cdef class CapturedConnection:
    cdef object __weakref__
    cdef public list _arrivals, _operations, syns
    cdef public object _deviations, _is_read_anew, _listener, _log, _path_mtu, _reported, _room, findings, judgement, key, keys
    cdef public object lifecycle, number, operations, startup
    cdef public ConnectionReader reader
    cdef public Py_ssize_t pending_side

    @cython.locals(d=cython.Py_ssize_t, reader=FPDUReader, operation=FullOperation)
    cpdef take(self, Py_ssize_t side)
    @cython.locals(operation=FullOperation, peer=FullOperation)
    cpdef FullOperation steady_operation(self, Py_ssize_t d)
