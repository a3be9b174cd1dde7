cimport cython
from libc.stdint cimport int64_t
from cpython cimport array
from scapy_mpa.values._inline cimport append_number, cut_first, index_in, number_at

cdef long long OLDER, PAWS_WINDOW, SEQ_MASK, SHORTEST_TICK, TICK_SLACK
cdef long long _FEW, _NOWHERE, _TWICE_ACKS

@cython.final
cdef class PeerState:
    cdef public long long _last_ack, _ts_time, acked, edge, last_frame, least_acked, ts_recent, wnd
    cdef public array.array _acks, _ends, _frames, _starts

    @cython.locals(index=cython.Py_ssize_t)
    cpdef acked_by(self, long long frame)
    @cython.locals(low=cython.longlong, total=cython.longlong, index=cython.Py_ssize_t, last=cython.longlong)
    cpdef int64_t sacked_octets(self, long long end) except -1
    @cython.locals(numbers=array.array, index=cython.Py_ssize_t)
    cpdef shift(self, long long origin)
    cpdef bint has_room_for(self, long long end) except -1
    @cython.locals(latest=cython.longlong, before=cython.longlong)
    cpdef bint acknowledge(self, long long frame, long long ack, long long window) except -1
    @cython.locals(starts=array.array, ends=array.array, frames=array.array, index=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef _insert(self, long long frame, long long start, long long end)
    cpdef int64_t _most_ticks(self, long long time) except -1
    @cython.locals(age=cython.longlong, edge=cython.longlong)
    cpdef drop_reason(self, long long start, long long end, long long tsval, long long time, long long believed)
    cpdef echo(self, long long tsecr, long long time)
    @cython.locals(count=cython.Py_ssize_t)
    cpdef forget(self, long long below)

cpdef int64_t _shifted(long long offset, long long origin) except? -1
