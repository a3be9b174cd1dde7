cimport cython

@cython.locals(room=cython.longlong)
cpdef long long marker_count(long long offset, long long body) except -1
