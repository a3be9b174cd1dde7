cimport cython
from cpython cimport array
from scapy_mpa.framing.markers cimport marker_count
from scapy_mpa.receiver.plain cimport PlainRun, PlainWrites
from scapy_mpa.stream.connection cimport TCPHalf
from scapy_mpa.stream.copies cimport Copies, Copy
from scapy_mpa.values._octets cimport append_number, append_octets, crc_of, head
from scapy_mpa.values.segment cimport Segment

cdef long long CRC_RESIDUE, LENGTH_FIELD_LENGTH, MARKER_LENGTH, NEVER, TAGGED_HEADER_LENGTH

cdef class FPDUChain:
    cdef public bint by_length, is_located, is_proven, waits
    cdef public list pending
    cdef public long long at, edge, hint, marker, need, resumed, tried
    cdef public object agreed, goal, known, named, unresolved

cdef class FPDUReader:
    cdef public bint _has_crc, _has_markers, _has_passed, _is_gapless, _is_over, is_beginning, replaced
    cdef public dict _ahead, _chains
    cdef public FPDUChain main
    cdef public list _ahead_offsets, _starts, contradictions, damaged, final, left_out, passed, rivals
    cdef public long long _delivered, _due, _final_below, _highest, _judged_below, error_acked
    cdef public PlainRun _run
    cdef public PlainWrites plain
    cdef public object _refused, anomaly, first_error, first_octets, layout, rest, startup
    cdef public TCPHalf half

    @cython.locals(main=FPDUChain)
    cpdef receive(self, long long start, long long end)
    cpdef long long _limit(self, long long end) except? -1
    @cython.locals(
        copies=Copies, main=FPDUChain, limit=cython.longlong, at=cython.longlong, edge=cython.longlong,
    )
    cpdef _read(self, FPDUChain chain)
    @cython.locals(
        half=TCPHalf, copies=Copies, begun=cython.longlong, markers_used=cython.bint, crc_used=cython.bint, at=cython.longlong,
        edge=cython.longlong, start=cython.longlong, end=cython.longlong, is_plain=cython.bint,
        needs_marker=cython.bint, is_usual=cython.bint, shows_from=cython.longlong, believed=cython.longlong, window_known=cython.longlong,
        is_passed=cython.bint, is_gapless=cython.bint, delivered=cython.longlong,
        by_length=cython.bint, judged_below=cython.longlong, need=cython.longlong,
        header=cython.longlong, ulpdu_length=cython.longlong, control=cython.longlong, after=cython.longlong,
        markers=cython.longlong, copy=Copy,
    )
    cpdef bint _read_run(self, FPDUChain chain) except -1
    @cython.locals(
        markers_used=cython.bint, crc_used=cython.bint, plain=PlainWrites, run=PlainRun, passed=list, frame=cython.longlong, first=cython.longlong, header=cython.longlong, ulpdu_length=cython.longlong, control=cython.longlong,
        after=cython.longlong, count=cython.longlong, phase=cython.longlong, before=cython.Py_ssize_t,
        starts=array.array, fpdus=array.array, markers=cython.longlong, ulpdu_octets=cython.longlong,
        ahead=dict, is_new=cython.bint,
    )
    cpdef long long _read_plain(
        self, object data, long long start, long long at, long long end, object known, object moment, long long delivered,
        bint needs_all
    ) except -1
    @cython.locals(main=FPDUChain)
    cpdef bint is_steady(self) except -1
    @cython.locals(main=FPDUChain, at=cython.longlong, end=cython.longlong)
    cpdef bint read_next(self, Segment seg) except -1
    @cython.locals(at=cython.longlong)
    cpdef _opcode(self, long long header, long long ulpdu_length, object data, long long start)
    cpdef _accept(
        self, FPDUChain chain, object extent, object crc, object frames, object latest, object opcode, object octets
    )
    cpdef _finalize(self, FPDUChain chain, object fpdu)
    cpdef _pass(self, object fpdu)
    cpdef _note_rivals(self, long long start, long long end)
    cpdef _believe(self, long long offset, long long frame)
    @cython.locals(main=FPDUChain)
    cpdef _forget(self)
