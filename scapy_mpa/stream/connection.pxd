cimport cython
from scapy_mpa.stream.copies cimport Copies, Copy, copy_of
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.stream.recent cimport RecentBudget, RecentOctets
from scapy_mpa.stream.sequence_space cimport SequenceSpace
from scapy_mpa.values._octets cimport head, numbers_of, own_octets, sum_of
from scapy_mpa.values.options cimport timestamps_of

cdef long long ACK_FLAG, _STAMPED_HEADER, FIN, STATE_FLAGS, WRONG, RIGHT, UNKNOWN

cdef class Arrival:
    cdef public bint acknowledged, is_out_of_order
    cdef public long long captured, end, frame, new, start
    cdef public object ack, hop_limit, reason, time, tsval

cpdef Arrival arrival_of(
    long long frame, object time, long long start, long long end, long long new, bint is_out_of_order, bint acknowledged,
    object hop_limit, long long captured, object reason, object tsval, object ack
)

cdef class TCPHalf:
    cdef public bint has_right_checksums, has_syn_ack
    cdef public Copies copies
    cdef public list _dropped, fins, late, resets
    cdef public long long _expected, believed, first_frame, highest, keep_from, last_frame, needed, passed, reset_count
    cdef public long long syn_length
    cdef public object fin, last_time, retransmissions, shift_count, start
    cdef public PeerState peer
    cdef public RecentOctets _recent
    cdef public SequenceSpace space

    @cython.locals(space=SequenceSpace, ahead=cython.longlong, close=cython.longlong)
    cpdef bint is_close(self, long long seq) except -1
    @cython.locals(frame=cython.longlong, lowest=cython.longlong, read=cython.longlong)
    cpdef long long hold(self, long long start, long long end, Copy copy) except -1
    cpdef doubt_of(self, Copy copy)
    @cython.locals(peer=PeerState, copies=Copies)
    cpdef bint acknowledge(self, long long frame, long long ack, object window) except -1
    cpdef forget(self, long long below)

cdef class TCPConnection:
    cdef public bint advanced, has_end, has_syn
    cdef public list has_syns, late, paths
    cdef public set flow_paths
    cdef public long long first_frame, last_frame
    cdef public Arrival arrival
    cdef public object beside, first_time, flow, own_paths, strays, user
    cdef public tuple _shift_counts, halves

    @cython.locals(
        half=TCPHalf, other=TCPHalf, space=SequenceSpace, peer=PeerState, other_space=SequenceSpace,
        other_peer=PeerState, frame=cython.longlong, seq=cython.longlong, ack=cython.longlong, flags=cython.longlong,
        first=cython.longlong, last=cython.longlong, tcp=cython.longlong, length=cython.longlong, tsval=cython.longlong,
        tsecr=cython.longlong, offset=cython.longlong, end=cython.longlong, highest=cython.longlong, new=cython.longlong,
        distance=cython.longlong, close=cython.longlong, is_near=cython.bint, shift=cython.longlong,
    )
    cpdef receive(self, object seg, Py_ssize_t d, bint is_syn=*)
    @cython.locals(
        frame=cython.longlong, ack=cython.longlong, flags=cython.longlong, first=cython.longlong, last=cython.longlong,
        tcp=cython.longlong, length=cython.longlong, end=cython.longlong, highest=cython.longlong, new=cython.longlong,
        is_late=cython.bint, is_acknowledged=cython.bint, copy=Copy, arrival=Arrival,
    )
    cpdef _hold(self, TCPHalf half, object seg, long long offset, object reason, long long tsval)

cdef class Flow:
    cdef public bint has_paths
    cdef public object _flows, key
    cdef public list connections
    cdef public set paths

    @cython.locals(only=TCPConnection, half=TCPHalf, seq=cython.longlong, flags=cython.longlong)
    cpdef TCPConnection receive(self, object seg, Py_ssize_t d)

cdef class Flows:
    cdef public dict _directions
    cdef public object budget, end, make_user

    @cython.locals(found=tuple, flow=Flow)
    cpdef tuple receive(self, object seg)

@cython.locals(
    start=cython.longlong, end=cython.longlong, tcp=cython.longlong, length=cython.longlong,
    pseudo=cython.longlong,
)
cpdef long long checksum_of(object seg) except -1
cpdef hop_limit_of(object key, object buffer, Py_ssize_t tcp)
