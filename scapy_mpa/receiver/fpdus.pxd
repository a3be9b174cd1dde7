cimport cython
from libc.stdint cimport int64_t
from cpython cimport array
from scapy_mpa.framing.markers cimport marker_count
from scapy_mpa.receiver.plain cimport PlainRun, PlainWrites
from scapy_mpa.receiver.values cimport LocatedFPDU, located_fpdu
from scapy_mpa.stream.connection cimport TCPHalf
from scapy_mpa.stream.copies cimport Copies
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.values._inline cimport head, number_at, word
from scapy_mpa.values._octets cimport crc_of, own_octets
from scapy_mpa.values.segment cimport Segment

cdef long long BAD, CUT, GOOD, JURY, LENGTH, LONGEST_FPDU, LOOKED_AT, MARKER, MARKER_INTERVAL, MOST_BAD_IN_A_ROW
cdef long long NEAR, NEAR_STARTS, NO_OPCODE, SCAN, START, UNCHECKED, WRONG
cdef long long _COMPARED, _PHASE, CRC_RESIDUE, LENGTH_FIELD_LENGTH, MARKER_LENGTH, NEVER, NOWHERE

@cython.final
cdef class FPDUChain:
    cdef public bint by_length, is_located, is_proven, waits
    cdef public list pending
    cdef public long long at, edge, hint, known_frame, known_time, marker, need, resumed, tried
    cdef public object agreed, goal, named, unresolved

@cython.final
cdef class FPDUReader:
    cdef public bint _has_crc, _has_dialect, _has_markers, _has_passed, _is_gapless, _is_over, is_beginning, replaced
    cdef public dict _ahead, _chains
    cdef public FPDUChain main
    cdef public list _ahead_offsets, _starts, contradictions, damaged, final, left_out, passed, rivals
    cdef public long long _delivered, _due, _final_below, _highest, _judged_below, _startup_frame, _startup_time, _unread
    cdef public long long error_acked, hole_end
    cdef public PlainRun _run
    cdef public PlainWrites plain
    cdef public object _refused, anomaly, first_error, first_octets, layout, rest, startup
    cdef public TCPHalf half

    @cython.locals(main=FPDUChain, is_next=cython.bint)
    cpdef receive(self, long long start, long long end)
    cpdef int64_t _limit(self, long long end) except? -1
    @cython.locals(
        copies=Copies, main=FPDUChain, limit=cython.longlong, at=cython.longlong, edge=cython.longlong,
    )
    cpdef _read(self, FPDUChain chain)
    cpdef list take_passed(self)
    cpdef bint may_wait(self) except -1
    @cython.locals(marker=cython.longlong, header=cython.longlong, named=cython.longlong)
    cpdef bint _is_named(self, long long at, long long end, object octets, long long origin) except -1
    @cython.locals(half=TCPHalf, main=FPDUChain, peer=PeerState, after=cython.longlong)
    cpdef bint is_quiet(self) except -1
    @cython.locals(start=cython.longlong, end=cython.longlong, copies=Copies)
    cpdef _read_unread(self)
    @cython.locals(
        half=TCPHalf, copies=Copies, index=cython.Py_ssize_t, piece=cython.Py_ssize_t,
        markers_used=cython.bint, crc_used=cython.bint, at=cython.longlong, edge=cython.longlong, start=cython.longlong,
        end=cython.longlong, is_plain=cython.bint, needs_marker=cython.bint, is_usual=cython.bint,
        is_judged=cython.bint, is_passed=cython.bint, by_length=cython.bint,
        delivered_by=cython.longlong, code=cython.longlong, ahead=dict, begun=cython.longlong, begun_time=cython.longlong,
        known=cython.longlong, known_time=cython.longlong, delivered=cython.longlong, need=cython.longlong,
        judged_below=cython.longlong, window_edge=cython.longlong, believed=cython.longlong,
        window_known=cython.longlong, shows_from=cython.longlong, frame=cython.longlong, time=cython.longlong,
        after=cython.longlong, header=cython.longlong, ulpdu_length=cython.longlong, control=cython.longlong,
        plain_end=cython.longlong, markers=cython.longlong, first=cython.longlong, last=cython.longlong, origin=cython.longlong,
        complete=cython.longlong, complete_time=cython.longlong, placed=cython.longlong, placed_time=cython.longlong,
    )
    cpdef bint _read_run(self, FPDUChain chain) except -1
    @cython.locals(located_by=cython.longlong, code=cython.longlong, fpdu=LocatedFPDU)
    cpdef _pass_alone(
        self, long long at, long long header, long long ulpdu_length, long long after, long long markers,
        tuple frames, tuple complete, tuple placed, long long opcode, object octets, long long known, long long delivered
    )
    @cython.locals(plain=PlainWrites, run=PlainRun, phase=cython.longlong)
    cpdef bint _pass_plain(
        self, object octets, long long index, long long header, long long at, long long ulpdu_length,
        long long control, long long markers, long long placed, long long time, long long first, long long last,
        long long delivered, long long after
    ) except -1
    @cython.locals(run=PlainRun, passed=list)
    cpdef PlainRun _run_at(self, long long at)
    @cython.locals(
        markers_used=cython.bint, crc_used=cython.bint, plain=PlainWrites, run=PlainRun, first=cython.longlong,
        header=cython.longlong, ulpdu_length=cython.longlong, control=cython.longlong, after=cython.longlong,
        phase=cython.longlong, before=cython.Py_ssize_t, markers=cython.longlong, ahead=dict,
        markers_before=cython.longlong, octets_before=cython.longlong, ulpdu=cython.longlong,
        beginning=cython.longlong,
    )
    cpdef int64_t _read_plain(
        self, object data, long long start, long long at, long long end, long long known, long long frame,
        long long time, long long delivered, bint needs_all
    ) except -1
    @cython.locals(main=FPDUChain)
    cpdef bint is_steady(self) except -1
    @cython.locals(
        main=FPDUChain, at=cython.longlong, end=cython.longlong, frame=cython.longlong, time=cython.longlong,
    )
    cpdef bint read_next(self, Segment seg) except -1
    @cython.locals(at=cython.longlong)
    cpdef _opcode(self, long long header, long long ulpdu_length, object data, long long start)
    cpdef _accept(
        self, FPDUChain chain, object extent, object crc, object frames, object latest, object opcode, object octets
    )
    cpdef _finalize(self, FPDUChain chain, LocatedFPDU fpdu)
    cpdef _pass(self, LocatedFPDU fpdu)
    cpdef _note_rivals(self, long long start, long long end)
    cpdef _believe(self, long long offset, long long frame)
    @cython.locals(main=FPDUChain)
    cpdef _forget(self)
