cimport cython

@cython.locals(tcp=cython.longlong, at=cython.longlong)
cpdef timestamps_of(object seg)
