cimport cython
from libc.stdint cimport int64_t
from cpython cimport array
from scapy_mpa.stream.copies cimport Copies, Copy, copy_of
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.stream.recent cimport RecentBudget, RecentOctets
from scapy_mpa.stream.sequence_space cimport SequenceSpace
from scapy_mpa.values._inline cimport head, number_at, queued, stamped, time_to_live, word
from scapy_mpa.values._octets cimport has_right_sum, own_octets
from scapy_mpa.values.options cimport timestamps_of
from scapy_mpa.values.segment cimport Segment

cdef long long CLOSE, LARGEST_SHIFT, LARGEST_WINDOW
cdef long long NEAR, NEVER, PATH_MTU, RST, SEQ_MASK, SYN
cdef long long ACK_FLAG, _PLAIN_HEADER, _STAMPED_HEADER, FIN, STATE_FLAGS, WRONG, RIGHT, UNKNOWN, NOWHERE, USUAL_KINDS

@cython.final
cdef class Arrival:
    cdef public bint acknowledged, is_out_of_order
    cdef public long long captured, end, frame, new, start, time
    cdef public object ack, reason, tsval
    cdef public long long hop_limit

@cython.locals(one=Arrival)
cpdef Arrival arrival_of(
    long long frame, long long time, long long start, long long end, long long new, bint is_out_of_order, bint acknowledged,
    long long hop_limit, long long captured, object reason, object tsval, object ack
)

@cython.final
cdef class TCPHalf:
    cdef public bint has_right_checksums, has_syn_ack
    cdef public Copies copies
    cdef public list _dropped, fins, late, resets
    cdef public long long _expected, believed, first_frame, highest, keep_from, last_frame, needed, passed, reset_count
    cdef public long long syn_length
    cdef public long long last_time
    cdef public object fin, retransmissions, shift_count, start
    cdef public PeerState peer
    cdef public RecentOctets _recent
    cdef public SequenceSpace space

    @cython.locals(space=SequenceSpace, ahead=cython.longlong, least=cython.longlong)
    cpdef bint is_close(self, long long seq) except -1
    @cython.locals(frame=cython.longlong, lowest=cython.longlong, read=cython.longlong)
    cpdef int64_t hold(self, long long start, long long end, Copy copy) except -1
    cpdef doubt_of(self, Copy copy)
    @cython.locals(peer=PeerState, copies=Copies, edge=cython.longlong, before=cython.longlong)
    cpdef bint acknowledge(self, long long frame, long long ack, long long window) except -1
    @cython.locals(
        copies=Copies, index=cython.Py_ssize_t, start=cython.longlong, first=cython.longlong, origins=array.array,
        kept=cython.Py_ssize_t, at=cython.Py_ssize_t, last=cython.longlong, frame=cython.longlong, time=cython.longlong,
        check=cython.longlong,
    )
    cpdef forget(self, long long below)
    @cython.locals(space=SequenceSpace, copies=Copies, peer=PeerState)
    cpdef count_from(self, long long origin)
    cpdef count_acks_from(self, long long origin)
    cpdef keep_nothing(self)
    cpdef bint is_read(self) except -1
    @cython.locals(start=cython.longlong)
    cpdef read(self, long long end, Segment seg)
    cpdef bint is_new(self, long long start, long long end) except -1
    cpdef hold_new(self, long long start, long long end, Segment seg)

cdef class Flow

@cython.final
cdef class TCPConnection:
    cdef public bint advanced, has_end, has_syn
    cdef public list has_syns, late, paths
    cdef public dict flow_paths
    cdef public long long _tsecr, _window, acked, first_frame, last_frame
    cdef public Arrival arrival
    cdef public TCPHalf _first, _second
    cdef public Flow flow
    cdef public long long first_time
    cdef public object beside, own_paths, strays, user
    cdef public tuple _shift_counts, halves

    @cython.locals(
        half=TCPHalf, other=TCPHalf, space=SequenceSpace, peer=PeerState, other_space=SequenceSpace,
        other_peer=PeerState, frame=cython.longlong, seq=cython.longlong, ack=cython.longlong, flags=cython.longlong,
        first=cython.longlong, last=cython.longlong, tcp=cython.longlong, length=cython.longlong, tsval=cython.longlong,
        tsecr=cython.longlong, kinds=cython.longlong, offset=cython.longlong, end=cython.longlong, highest=cython.longlong, new=cython.longlong,
        distance=cython.longlong, is_near=cython.bint, shift=cython.longlong, window=cython.longlong, wnd=cython.longlong, acked=cython.longlong,
    )
    cpdef receive(self, Segment seg, Py_ssize_t d, bint is_syn=*)
    @cython.locals(half=TCPHalf)
    cpdef own(self)
    @cython.locals(half=TCPHalf, other=TCPHalf)
    cpdef bint accept_syn(self, Segment seg, Py_ssize_t d) except -1
    @cython.locals(half=TCPHalf, d=cython.Py_ssize_t)
    cpdef bint is_steady(self) except -1
    @cython.locals(
        half=TCPHalf, other=TCPHalf, peer=PeerState, distance=cython.longlong, acked=cython.longlong, length=cython.longlong,
        offset=cython.longlong, header=cython.longlong, tsval=cython.longlong,
        is_close=cython.bint, kinds=cython.longlong,
    )
    cpdef int64_t offset_in_turn(self, Segment seg, Py_ssize_t d) except? -2
    @cython.locals(
        half=TCPHalf, other=TCPHalf, peer=PeerState, space=SequenceSpace, end=cython.longlong, shift=cython.longlong,
    )
    cpdef receive_in_turn(self, Segment seg, Py_ssize_t d, long long offset, bint is_read)
    @cython.locals(
        frame=cython.longlong, ack=cython.longlong, flags=cython.longlong, first=cython.longlong, last=cython.longlong,
        tcp=cython.longlong, length=cython.longlong, end=cython.longlong, highest=cython.longlong, new=cython.longlong,
        is_late=cython.bint, is_acknowledged=cython.bint, copy=Copy, arrival=Arrival, acked=cython.longlong,
    )
    cpdef _hold(self, TCPHalf half, Segment seg, long long offset, object reason, long long tsval)

@cython.final
cdef class Flow:
    cdef public bint has_paths
    cdef public object _flows, key, user
    cdef public list connections
    cdef public dict paths

    @cython.locals(only=TCPConnection, half=TCPHalf, seq=cython.longlong, flags=cython.longlong)
    cpdef TCPConnection receive(self, Segment seg, Py_ssize_t d)

@cython.final
cdef class Flows:
    cdef public dict _directions
    cdef public object budget, end, make_user

    @cython.locals(flow=Flow)
    cpdef tuple receive(self, Segment seg)
    cpdef tuple begin(self, Segment seg)
    cpdef tuple find(self, object key)

@cython.locals(start=cython.longlong, end=cython.longlong, tcp=cython.longlong, length=cython.longlong)
cpdef int64_t checksum_of(Segment seg) except -1
cpdef int64_t hop_limit_of(bytes key, object buffer, Py_ssize_t tcp) except -2
