cimport cython

cdef dict _NUMBERS
cdef double _LONGEST, _SECOND, _SHORTEST
cdef long long _MICROSECONDS

@cython.final
cdef class _Level:
    cdef public _Level _inner
    cdef public dict first_keys, next_keys
    cdef public str _inside, end_list, end_object, first, next

    cpdef _Level inner(self)

cpdef object _write(object value, _Level level, list texts)
@cython.locals(before=str, inner=_Level)
cpdef object _write_list(object values, _Level level, list texts)
@cython.locals(before=str, inner=_Level, keys=dict)
cpdef object _write_object(dict values, _Level level, list texts)
@cython.locals(microseconds=cython.longlong, rest=cython.longlong)
cpdef object _number(double value)
