cimport cython

@cython.final
cdef class _Range:
    cdef public long long count, ended_frame, frame
    cdef public object call, end, first, how, position

@cython.final
cdef class _Ranges:
    cdef public bint is_open
    cdef public list _ended, _live
    cdef public object _position

    @cython.locals(one=_Range)
    cpdef add(self, object first, object end, long long frame, object position, object call)

@cython.final
cdef class STagMemory:
    cdef public bint has_bounds, is_current
    cdef public dict counts
    cdef public list _runs, findings, uses
    cdef public long long ended_frame, first_named, first_used, last_named, last_used, named, read_octets, reads, writes
    cdef public object _quota, _report, _unnamed, call, doubts, gaps, high, how, low, protocol, stag, written_octets
    cdef public object _epoch
    cdef public _Ranges _names, _sinks

    cpdef judge(self, object access)

@cython.final
cdef class NamedMemories:
    cdef public bint _has_dropped, _is_beside_room
    cdef public object _by_stag, _doubted, _doubts, _gaps, _quota, drop, epoch, most, report, room

    @cython.locals(memory=STagMemory)
    cpdef get(self, object stag)
    @cython.locals(memory=STagMemory, dropped=STagMemory, is_full=cython.bint)
    cpdef STagMemory at(self, object stag)
    @cython.locals(memory=STagMemory)
    cpdef judge(self, object access)
    @cython.locals(memory=STagMemory)
    cpdef bint goes_on(self, object stag, object first, object end, object placed) except -1
    cpdef bint _knows(self, STagMemory memory, object access) except -1
