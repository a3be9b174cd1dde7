cimport cython
from libc.stdint cimport int64_t
from cpython cimport array
from scapy_mpa.stream.peer_state cimport PeerState
from scapy_mpa.values._inline cimport (
    append_four, append_number, cut_first, index_in, make_room, number_at, put_four, put_number, put_octets,
)
from scapy_mpa.values._octets cimport own_octets

cdef long long NEVER, _FEW, _WRONG

@cython.final
cdef class Copy:
    cdef public long long checksum, frame, time
    cdef public object data, reason

@cython.locals(one=Copy)
cpdef Copy copy_of(long long frame, long long time, object reason, long long checksum, object data)

@cython.final
cdef class Copies:
    cdef public Py_ssize_t head
    cdef public bint has_doubts, is_borrowing
    cdef public bytearray _joined
    cdef public dict _rivals, _valid
    cdef public list sources
    cdef public array.array ends, origins, starts
    cdef public long long _changes, _first_borrowed, _last_borrowed, dropped, held, window_known
    cdef public object _failed
    cdef public PeerState _peer

    cpdef bint reaches_beyond(self, long long at) except -1
    @cython.locals(count=cython.Py_ssize_t, head=cython.Py_ssize_t, ends=array.array)
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
        index=cython.Py_ssize_t, at=cython.longlong, first=cython.longlong, stop=cython.longlong, starts=array.array,
        ends=array.array, origins=array.array,
    )
    cpdef bytearray join(self, long long start, long long end, Py_ssize_t index)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef tuple piece(self, long long at)
    @cython.locals(
        at=cython.Py_ssize_t, check=cython.longlong, first=cython.longlong, length=cython.longlong, frame=cython.longlong,
        time=cython.longlong,
    )
    cpdef Copy copy_at(self, Py_ssize_t index)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef (long long, long long) moment_at(self, long long at) except *
    @cython.locals(index=cython.Py_ssize_t, first=cython.longlong, last=cython.longlong)
    cpdef own(self)
    cpdef borrow(
        self, long long start, long long end, long long frame, long long time, long long checksum, object source,
        long long first
    )
    cpdef bint has_room(self, long long start, long long end) except -1
    @cython.locals(count=cython.Py_ssize_t, index=cython.Py_ssize_t)
    cpdef add_new(
        self, long long start, long long end, long long frame, long long time, long long checksum, object source,
        long long first
    )
    @cython.locals(index=cython.Py_ssize_t, frame=cython.longlong, time=cython.longlong)
    cpdef tuple frames(self, long long start, long long end)
    @cython.locals(
        index=cython.Py_ssize_t, first=cython.longlong, last=cython.longlong, time=cython.longlong, frame=cython.longlong,
        count=cython.Py_ssize_t, starts=array.array, origins=array.array,
    )
    cpdef (long long, long long, long long) span(self, Py_ssize_t index, long long end) except *
    @cython.locals(frame=cython.longlong, check=cython.longlong)
    cpdef bint is_settled(self, Py_ssize_t index) except -1
    @cython.locals(
        captured=cython.longlong, new=cython.longlong, at=cython.longlong, stop=cython.longlong, index=cython.Py_ssize_t,
        starts=array.array, ends=array.array,
    )
    cpdef int64_t add(self, long long start, long long end, Copy copy) except -1
    @cython.locals(starts=array.array, ends=array.array, origins=array.array, sources=list, room=cython.Py_ssize_t)
    cpdef Py_ssize_t _insert(self, Py_ssize_t index, long long start, long long end) except -1
    @cython.locals(check=cython.longlong)
    cpdef _choose_for(self, Py_ssize_t index, Copy copy)
    @cython.locals(
        ends=array.array, starts=array.array, sources=list, head=cython.Py_ssize_t, at=cython.Py_ssize_t,
        count=cython.Py_ssize_t,
    )
    cpdef drop(self, Py_ssize_t index)
    cpdef bint has_alone(self, long long start, long long end, object reason) except -1
