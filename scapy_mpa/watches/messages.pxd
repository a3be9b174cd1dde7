cimport cython
from scapy_mpa.receiver.plain cimport PlainRun

cdef long long TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH, _ATOMIC_ALIGNMENT
cdef long long _ATOMIC_REQUEST, _LAST, _LENGTH_MASK, _MSN_MASK, _READ_REQUEST

cdef class _Kept:
    cdef public bytes header
    cdef public long long end, first_frame, fpdu_length, last_frame, ulpdu_length
    cdef public object misaligned_to

cdef class MessageWatch:
    cdef public bint has_all
    cdef public list _fpdus
    cdef public long long _count
    cdef public object acknowledged
    cdef public Py_ssize_t _first

    @cython.locals(header=bytes, frames=tuple, end=cython.longlong)
    cpdef passed(self, object fpdu, object ulpdu)
    @cython.locals(
        last=_Kept, one=_Kept, kept=list, is_begun=cython.bint,
    )
    cpdef long long unacknowledged(self, long long end) except -1
    cpdef passed_run(self, PlainRun run)
    @cython.locals(fpdus=list, left=cython.longlong)
    cpdef _keep(self, object one, long long count)
