cimport cython

cdef long long _BETWEEN, _PHASE, _FPDUPTR_MOD, _IGNORED_BITS

@cython.locals(room=cython.longlong)
cpdef long long marker_count(long long offset, long long body) except -1
