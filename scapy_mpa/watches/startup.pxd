cimport cython
from libc.stdint cimport int64_t
from scapy_mpa.framing.sequence cimport seq_diff
from scapy_mpa.receiver.startup cimport FoundFrame
from scapy_mpa.stream.connection cimport Arrival
from scapy_mpa.watches.lifecycle cimport DirectionEnd

cdef long long ERDMA_KEY_LENGTH, HEADER_OCTETS, MARKER_LENGTH, SEQ_MASK, SHORTEST_FPDU, STARTUP_HEADER_LENGTH

@cython.final
cdef class StartupSide:
    cdef public DirectionEnd end
    cdef public FoundFrame frame
    cdef public Arrival opening
    cdef public long long base, fpdus
    cdef public object after_rejection, first, first_octets, garbled, layout, part

    cpdef int64_t seq_of(self, long long offset) except -1

@cython.final
cdef class StartupPhase:
    cdef public bint has_begun, initiator_first, is_accepted, rejected
    cdef public FoundFrame reply, request
    cdef public StartupSide initiator, responder
    cdef public long long answered_octets, responder_port
    cdef public object unexpected

    cpdef StartupSide side(self, object role)

@cython.final
cdef class StartupFindings:
    cdef public list breaches, forgotten
    cdef public object judgement

cpdef FoundFrame _of_kind(StartupSide side, object kind)
@cython.locals(initiator=StartupSide, responder=StartupSide, side=StartupSide, peer=StartupSide, request=FoundFrame,
               reply=FoundFrame, frame=FoundFrame, found=StartupFindings, is_begun=cython.bint)
cpdef StartupFindings judge_startup(StartupPhase startup, object now)
@cython.locals(side=StartupSide, frame=FoundFrame, opening=Arrival, key=bytes, is_again=cython.bint)
cpdef list startup_events(StartupPhase startup)
cpdef bint is_before(long long one, long long other) except -1
@cython.locals(request=FoundFrame, reply=FoundFrame)
cpdef _judge_keys(StartupPhase startup, StartupFindings found)
cpdef _judge_order(StartupPhase startup, FoundFrame request, FoundFrame reply, StartupFindings found)
@cython.locals(initiator=StartupSide, responder=StartupSide, request=FoundFrame, opening=Arrival)
cpdef _judge_first_octets(StartupPhase startup, FoundFrame reply, StartupFindings found)
@cython.locals(own=FoundFrame, initiator=StartupSide, responder=StartupSide, side=StartupSide)
cpdef _judge_negotiation(StartupPhase startup, StartupFindings found)
