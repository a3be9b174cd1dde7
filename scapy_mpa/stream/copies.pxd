cimport cython
from libc.stdint cimport int64_t
from cpython cimport array
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.values._inline cimport append_number, index_in, number_at
from scapy_mpa.values._octets cimport put_octets

cdef long long NEVER, _FEW

@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Copy:
    cdef public long long checksum, frame, time
    cdef public object data, reason

@cython.locals(one=Copy)
cpdef Copy copy_of(long long frame, long long time, object reason, long long checksum, object data)

@cython.final
cdef class Copies:
    cdef public Py_ssize_t head
    cdef public bint has_doubts
    cdef public bytearray _joined
    cdef public dict _rivals, _valid
    cdef public list chosen
    cdef public array.array ends, starts
    cdef public long long _changes, dropped, held, window_known
    cdef public object _failed
    cdef public PeerState _peer

    cpdef bint reaches_beyond(self, long long at) except -1
    @cython.locals(count=cython.Py_ssize_t)
    cpdef Py_ssize_t index_of(self, long long at) except -1
    @cython.locals(index=cython.Py_ssize_t, count=cython.Py_ssize_t, ends=array.array, starts=array.array)
    cpdef int64_t edge(self, long long at, long long enough=*) except? -1
    @cython.locals(index=cython.Py_ssize_t, start=cython.longlong)
    cpdef int64_t next_start(self, long long at) except? -1
    @cython.locals(index=cython.Py_ssize_t, starts=array.array)
    cpdef int64_t run_start(self, long long at, long long enough=*) except? -1
    cpdef bint is_captured(self, long long start, long long end) except -1
    cpdef int64_t captured_end(self, long long start, long long end) except? -1
    cpdef strongest_reason(self, long long start, long long end)
    cpdef bint has_rivals(self, long long start, long long end) except -1
    cpdef settle(self, long long start, long long end)
    @cython.locals(numbers=array.array, index=cython.Py_ssize_t)
    cpdef shift(self, long long origin)
    @cython.locals(index=cython.Py_ssize_t, first=cython.Py_ssize_t, last=cython.Py_ssize_t)
    cpdef bytes copied(self, long long start, long long end)
    @cython.locals(index=cython.Py_ssize_t, first=cython.longlong)
    cpdef octets(self, long long start, long long end)
    @cython.locals(
        index=cython.Py_ssize_t, at=cython.longlong, first=cython.longlong, stop=cython.longlong, copy=Copy,
    )
    cpdef bytearray join(self, long long start, long long end)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef tuple piece(self, long long at)
    @cython.locals(index=cython.Py_ssize_t, frame=cython.longlong, time=cython.longlong, copy=Copy, latest=Copy)
    cpdef tuple frames(self, long long start, long long end)
    @cython.locals(
        index=cython.Py_ssize_t, first=cython.longlong, last=cython.longlong, time=cython.longlong, copy=Copy,
    )
    cpdef (long long, long long, long long) span(self, long long start, long long end) except *
    cpdef bint is_settled(self, Copy copy) except -1
    @cython.locals(
        captured=cython.longlong, new=cython.longlong, at=cython.longlong, stop=cython.longlong, index=cython.Py_ssize_t,
        starts=array.array, ends=array.array,
    )
    cpdef int64_t add(self, long long start, long long end, Copy copy) except -1
    @cython.locals(starts=array.array, ends=array.array, chosen=list, room=cython.Py_ssize_t)
    cpdef Py_ssize_t _insert(self, Py_ssize_t index, long long start, long long end, Copy copy) except -1
    @cython.locals(
        ends=array.array, starts=array.array, chosen=list, head=cython.Py_ssize_t, index=cython.Py_ssize_t,
        at=cython.Py_ssize_t, count=cython.Py_ssize_t,
    )
    cpdef drop(self, long long below)
    cpdef bint has_alone(self, long long start, long long end, object reason) except -1
