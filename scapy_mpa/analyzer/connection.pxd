cimport cython
from scapy_mpa.rdmap.watch cimport MemoryWatch
from scapy_mpa.receiver.connection cimport ConnectionReader
from scapy_mpa.receiver.fpdus cimport FPDUChain, FPDUReader
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.receiver.startup cimport FoundFrame
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.stream.connection cimport Arrival, TCPHalf, hop_limit_of
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.values.segment cimport Segment
from scapy_mpa.watches.copies cimport CopyWatch
from scapy_mpa.watches.counts cimport Counts, UnalignedSegment
from scapy_mpa.watches.ddp cimport DDPWatch, ulpdu_of
from scapy_mpa.watches.fpdus cimport FPDUWatch
from scapy_mpa.watches.gaps cimport GapWatch
from scapy_mpa.watches.invalidated cimport InvalidationWatch
from scapy_mpa.watches.lifecycle cimport DirectionEnd, breaches_at_end, closed_by, closes_in_order, half_end, lifecycle
from scapy_mpa.watches.messages cimport MessageWatch
from scapy_mpa.watches.outstanding cimport Outstanding
from scapy_mpa.watches.reads cimport ReadWatch
from scapy_mpa.watches.segments cimport SegmentWatch
from scapy_mpa.watches.sizes cimport SizeWatch
from scapy_mpa.watches.startup cimport StartupFindings, StartupPhase, StartupSide, judge_startup

cdef class CapturedConnection

cdef long long BAD, CONTROL_LENGTH, LENGTH, NEVER, NOWHERE, SEQ_MASK, TAGGED_HEADER_LENGTH, TERMINATE_OPCODE, _ULPDU_LENGTH

@cython.final
cdef class HalfFindings:
    cdef public CapturedConnection _mpa
    cdef public TCPHalf _stream
    cdef public object _role, broken

    cpdef report(self, object breaches, object count=*)

@cython.final
cdef class FullOperation:
    cdef public object _listener, _told, deviating, diagnosis, direction
    cdef public long long first_frame
    cdef public object is_replaced, key, log, path_mtu, reads, seq_start
    cdef public CapturedConnection mpa
    cdef public HalfFindings report_to
    cdef public object terminated, went_on_at
    cdef public Py_ssize_t _role
    cdef public bint _takes_plain
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
    cpdef report(self, object breaches)
    @cython.locals(limit=cython.longlong, segment=UnalignedSegment)
    cpdef _judge_segments(self)
    @cython.locals(peer=FullOperation, main=FPDUChain, half=TCPHalf, sent=cython.longlong, acked=cython.longlong)
    cpdef DirectionEnd end(self)
    @cython.locals(reader=FPDUReader, half=TCPHalf, report=HalfFindings, edge=cython.longlong, end=cython.longlong,
                   sizes=SizeWatch, longest=cython.longlong)
    cpdef finish(self, DirectionEnd mine, DirectionEnd peer, object now)
    @cython.locals(outstanding=Outstanding)
    cpdef _report_unfinished(self, DirectionEnd mine, DirectionEnd peer)
    cpdef finish_memory(self)
    cpdef quote(self)
    cpdef bint get_ready(self) except -1
    cpdef bint take_next(self, long long offset, Segment seg) except -1
    @cython.locals(main=FPDUChain, reader=FPDUReader, peer=PeerState, is_beyond=cython.bint)
    cpdef bint may_go_on(self, long long offset, Segment seg) except -1
    @cython.locals(is_acknowledged=cython.bint, end=cython.longlong)
    cpdef gone_on(self, long long offset, Segment seg, bint is_late)
    cpdef _take_segment(self, long long offset, Segment seg)
    cpdef _pass_run(self, PlainRun run)
    @cython.locals(memory=MemoryWatch, ulpdu=bytes)
    cpdef _pass(self, LocatedFPDU fpdu, object delivered)
    @cython.locals(one=FullOperation, invalidated=InvalidationWatch)
    cpdef _report_memory(self, MemoryWatch memory)
    @cython.locals(peer=FullOperation, mine=ReadWatch, others=ReadWatch, operation=FullOperation)
    cpdef _relate(self, LocatedFPDU fpdu)
    @cython.locals(mine=ReadWatch, others=ReadWatch, related=list)
    cpdef take_related(self, long long offset)
    @cython.locals(mine=ReadWatch, others=ReadWatch)
    cpdef _judge_answers(self)

cpdef DirectionEnd direction_end(TCPHalf half)

@cython.final
cdef class CapturedConnection:
    cdef object __weakref__
    cdef public list _arrivals, _operations, syns
    cdef public object _deviations, _is_read_anew, _listener, _log, _path_mtu, _reported, _room, findings, judgement, key, keys
    cdef public object lifecycle, number, operations, startup
    cdef public ConnectionReader reader
    cdef public Py_ssize_t pending_side

    cpdef FoundFrame _frame(self, Py_ssize_t d, object kind)
    @cython.locals(d=cython.Py_ssize_t, reader=FPDUReader, operation=FullOperation)
    cpdef take(self, Py_ssize_t side)
    @cython.locals(d=cython.Py_ssize_t)
    cpdef _report_frames(self)
    @cython.locals(reader=FPDUReader, operation=FullOperation, first=FullOperation, second=FullOperation)
    cpdef FullOperation _begin(self, Py_ssize_t d, FullOperation before)
    @cython.locals(peer=FullOperation)
    cpdef MemoryWatch _memory(self, Py_ssize_t d)
    @cython.locals(
        side=cython.Py_ssize_t, d=cython.Py_ssize_t, begun=FullOperation, operation=FullOperation, half=TCPHalf,
        findings=HalfFindings, ends=list, first=tuple, initiator=cython.Py_ssize_t,
    )
    cpdef finish(self, object now, object strays)
    cpdef HalfFindings _findings_of(self, Py_ssize_t side)
    @cython.locals(
        reader=ConnectionReader, d=cython.Py_ssize_t, half=TCPHalf, operation=FullOperation, frame=FoundFrame,
        opening=Arrival, found=StartupFindings, startup=StartupPhase,
    )
    cpdef _judge_startup(self, list ends, object now)
    @cython.locals(operation=FullOperation, peer=FullOperation)
    cpdef FullOperation steady_operation(self, Py_ssize_t d)
