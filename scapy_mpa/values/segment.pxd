cimport cython

@cython.locals(address=cython.Py_ssize_t)
cpdef bytes reverse_key(bytes key)

cdef class Segment:
    cdef readonly long long ack, end, flags, frame, length, seq, start, tcp, time
    cdef readonly bytes key
    cdef readonly object buffer
