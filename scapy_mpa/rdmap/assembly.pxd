cimport cython
from scapy_mpa.rdmap.memory cimport NamedMemories, STagMemory

cdef long long LOOKED_AT, MOST_CALLS, TERMINATE_OPCODE, _ATOMIC_REQUEST, _MOST_SUSPECTS
cdef long long LAST, TAGGED, TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH, _OPCODE, _READ_REQUEST, _READ_RESPONSE, _TAGGED_QUEUE, _WRITE

@cython.final
cdef class MessageHalf:
    cdef public bint is_initiator
    cdef public dict open
    cdef public list suspects
    cdef public long long half
    cdef public object connection, requests, taken
    cdef public MessageHalf peer
    cdef public NamedMemories memories

@cython.final
cdef class _Open:
    cdef public bint after_error, is_cut
    cdef public bytearray octets
    cdef public bytes head
    cdef public list notes, requests
    cdef public long long early, last_frame, last_time, length, offset, opcode, placed, segments, used
    cdef public object first, header, segment

    cpdef add(self, object segment, bytes payload, long long length, bint keeps)

cdef class Assembly:
    cdef public dict _open
    cdef public long long _held, _most
    cdef public object _acknowledged, _octets, _store

    @cython.locals(control=cython.longlong, opcode=cython.longlong, length=cython.longlong, ulpdu=bytes)
    cpdef take(self, MessageHalf half, object segment)
    cpdef advance(self, MessageHalf half, object offset, object end)
    @cython.locals(there=_Open, length=cython.longlong, header_length=cython.longlong, is_tagged=cython.bint)
    cpdef _follow(
        self, MessageHalf half, object queue, long long opcode, tuple header, object segment, bint last
    )
    @cython.locals(memories=NamedMemories, named=STagMemory, memory=STagMemory)
    cpdef use(self, MessageHalf half, object access)
    cpdef _judge(self, MessageHalf half, object access)
    cpdef _link(self, MessageHalf half, long long opcode, _Open there, object number)
