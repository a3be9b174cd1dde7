cimport cython
from libc.stdint cimport int64_t
from scapy_mpa.receiver.plain cimport PlainRun
from scapy_mpa.receiver.values cimport LocatedFPDU

cdef long long TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH, _ATOMIC_ALIGNMENT
cdef long long _ATOMIC_REQUEST, _LAST, _LENGTH_MASK, _MSN_MASK, _READ_REQUEST

@cython.final
cdef class _Kept:
    cdef public bytes header
    cdef public long long end, first_frame, fpdu_length, last_frame, ulpdu_length
    cdef public object misaligned_to

@cython.final
cdef class MessageWatch:
    cdef public bint has_all
    cdef public list _fpdus
    cdef public long long _count
    cdef public object acknowledged
    cdef public Py_ssize_t _first

    @cython.locals(header=bytes, frames=tuple, end=cython.longlong)
    cpdef passed(self, LocatedFPDU fpdu, bytes ulpdu)
    @cython.locals(last=_Kept, one=_Kept, kept=list, count=cython.longlong, is_begun=cython.bint)
    cpdef int64_t unacknowledged(self, long long end) except -1
    @cython.locals(found=list, first=cython.longlong, last=cython.longlong, end=cython.longlong)
    cpdef list _kept(self)
    cpdef passed_run(self, PlainRun run)
    @cython.locals(
        fpdus=list, left=cython.longlong, end=cython.longlong, most=cython.longlong, run=PlainRun, kept=_Kept,
    )
    cpdef _keep(self, object one, long long count)

cpdef _Kept _kept_of(
    long long end, long long first_frame, long long last_frame, long long fpdu_length, long long ulpdu_length,
    bytes header, object misaligned_to,
)
cpdef bint is_last(_Kept fpdu) except -1
