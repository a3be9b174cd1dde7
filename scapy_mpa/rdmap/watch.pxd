cimport cython
from cpython cimport array
from scapy_mpa.rdmap.assembly cimport Assembly, MessageHalf
from scapy_mpa.rdmap.memory cimport NamedMemories
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.receiver.values cimport LocatedFPDU
from scapy_mpa.stream.connection cimport Arrival
from scapy_mpa.values._inline cimport place
from scapy_mpa.watches.ddp cimport ulpdu_of

cdef long long BAD, LAST, TAGGED, TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH, _INSPECTED, _READ_RESPONSE, _ULPDU_LENGTH, _WRITE

@cython.final
cdef class _Sender:
    cdef public bint is_open
    cdef public list breaches
    cdef public long long first_frame, frame, judged, length, offset, placed, time
    cdef public MessageHalf half
    cdef public object acks, frames
    cdef public unsigned long long stag, to

@cython.final
cdef class MemoryWatch:
    cdef public Assembly _assembly
    cdef public bint _is_begun, _is_confirmed, is_over
    cdef public list _early
    cdef public object _offset_of, _room, _upper
    cdef public tuple _senders, _startup

    @cython.locals(sender=_Sender, one=Arrival)
    cpdef arrived(self, Py_ssize_t side, object arrivals)
    @cython.locals(sender=_Sender)
    cpdef acknowledged(self, Py_ssize_t side, long long frame, long long ack)
    cpdef bint _has_nothing(self, Py_ssize_t side, bytes first, long long length) except -1
    @cython.locals(
        sender=_Sender, length=cython.longlong, stag=cython.ulonglong, to=cython.ulonglong, first=cython.longlong,
        octets=cython.longlong, frames=tuple, moment=tuple,
    )
    cpdef passed(self, Py_ssize_t side, LocatedFPDU fpdu, bytes ulpdu=*)
    @cython.locals(
        sender=_Sender, headers=bytearray, number=cython.Py_ssize_t, index=cython.Py_ssize_t, at=cython.Py_ssize_t,
        frame=cython.longlong, time=cython.longlong, stag=cython.ulonglong, to=cython.ulonglong,
        length=cython.longlong, firsts=array.array, fpdus=array.array, starts=array.array,
    )
    cpdef passed_run(self, Py_ssize_t side, PlainRun run)
    cpdef _take(
        self, _Sender sender, unsigned long long stag, unsigned long long to, long long length,
        long long first_frame, long long frame, long long placed, long long time, long long offset
    )
    cpdef bint _is_unknown(self) except -1
    cpdef _advance(self, _Sender sender, object offset, object end)
    @cython.locals(first=_Sender, second=_Sender)
    cpdef bint has_news(self) except -1
    @cython.locals(first=cython.ulonglong, end=cython.ulonglong)
    cpdef _judge(self, _Sender sender)
