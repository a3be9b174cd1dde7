cimport cython

@cython.locals(inside=str, before=str)
cpdef object _write(object value, str line, list texts)
@cython.locals(inside=str, before=str, before_values=dict, is_first=cython.bint)
cpdef object _write_object(dict values, str line, list texts)
