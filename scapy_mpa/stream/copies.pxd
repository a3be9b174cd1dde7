cimport cython
from scapy_mpa.stream.peer_state cimport PeerState

cdef class Copy:
    cdef public long long checksum, frame
    cdef public object data, reason, time

cpdef Copy copy_of(long long frame, object time, object reason, long long checksum, object data)

cdef class Copies:
    cdef public Py_ssize_t _head
    cdef public bint has_doubts
    cdef public dict _rivals, _valid
    cdef public list _chosen, _ends, _starts
    cdef public long long _changes, dropped, held, window_known
    cdef public object _failed
    cdef public PeerState _peer

    cpdef Py_ssize_t _index(self, long long at) except -1
    @cython.locals(index=cython.Py_ssize_t, count=cython.Py_ssize_t, ends=list, starts=list)
    cpdef long long edge(self, long long at, long long enough=*) except? -1
    @cython.locals(index=cython.Py_ssize_t)
    cpdef long long next_start(self, long long at) except? -1
    @cython.locals(index=cython.Py_ssize_t, first=cython.longlong, stop=cython.longlong, parts=list)
    cpdef octets(self, long long start, long long end)
    @cython.locals(index=cython.Py_ssize_t)
    cpdef tuple piece(self, long long at)
    @cython.locals(index=cython.Py_ssize_t, starts=list, chosen=list, frame=cython.longlong, copy=Copy, latest=Copy)
    cpdef tuple frames(self, long long start, long long end)
    cpdef bint is_settled(self, Copy copy) except -1
    @cython.locals(
        captured=cython.longlong, new=cython.longlong, at=cython.longlong, stop=cython.longlong, index=cython.Py_ssize_t,
        starts=list, ends=list,
    )
    cpdef long long add(self, long long start, long long end, Copy copy) except -1
    @cython.locals(starts=list, ends=list, chosen=list, room=cython.Py_ssize_t)
    cpdef Py_ssize_t _insert(self, Py_ssize_t index, long long start, long long end, Copy copy) except -1
    @cython.locals(
        ends=list, starts=list, chosen=list, dropped=list, head=cython.Py_ssize_t, index=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
    )
    cpdef list drop(self, long long below)
