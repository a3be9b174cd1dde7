"""What the hot loops call for every segment, small enough to be put where it is called: see ``octets.py``.

:func:`lying_in` is the only way to captured octets: it looks whether what is read lies in the buffer.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Check, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE
from cpython.object cimport Py_SIZE
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_GET_BUFFER
from libc.string cimport memcpy


cdef extern from *:
    """
    #define MPA_BE16(p) ((unsigned int)(p)[0] << 8 | (p)[1])
    #define MPA_BE32(p) ((unsigned int)(p)[0] << 24 | (unsigned int)(p)[1] << 16 | (unsigned int)(p)[2] << 8 | (p)[3])
    #define MPA_IS_RELEASED(view) (((PyMemoryViewObject *)(view))->flags & _Py_MEMORYVIEW_RELEASED)
    """
    unsigned int MPA_BE16(const unsigned char *p) nogil
    unsigned int MPA_BE32(const unsigned char *p) nogil
    bint MPA_IS_RELEASED(object view)


cdef inline const unsigned char *lying_in(object octets, Py_ssize_t at, Py_ssize_t count) except NULL:
    """Where so many octets lie from an index on; raises IndexError if not all of them lie in ``octets``."""
    cdef Py_buffer *view
    cdef Py_ssize_t size
    cdef const unsigned char *first
    if PyMemoryView_Check(octets):
        view = PyMemoryView_GET_BUFFER(octets)
        if MPA_IS_RELEASED(octets) or view.itemsize != 1 or view.ndim != 1 or view.suboffsets != NULL or (
            view.strides != NULL and view.strides[0] != 1
        ):
            raise ValueError("not octets one behind the other")
        first, size = <const unsigned char *>view.buf, view.len
    elif PyBytes_Check(octets):
        first, size = <const unsigned char *>PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets)
    elif PyByteArray_Check(octets):
        first, size = <const unsigned char *>PyByteArray_AS_STRING(octets), PyByteArray_GET_SIZE(octets)
    else:
        raise TypeError("not octets")
    if at < 0 or count < 0 or at > size or count > size - at:
        raise IndexError("octets that do not lie there")
    return first + at


cpdef inline (unsigned int, unsigned int) head(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 4)
    return MPA_BE16(p), MPA_BE16(p + 2)


cpdef inline (unsigned int, unsigned long long) place(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 12)
    return MPA_BE32(p), <unsigned long long>MPA_BE32(p + 4) << 32 | MPA_BE32(p + 8)


cpdef inline (unsigned int, unsigned int, unsigned int) queued(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 12)
    return MPA_BE32(p), MPA_BE32(p + 4), MPA_BE32(p + 8)


cpdef inline long long word(object octets, Py_ssize_t at) except -1:
    return MPA_BE32(lying_in(octets, at, 4))


cpdef inline bint is_zero(object octets, Py_ssize_t at, Py_ssize_t count) except -1:
    cdef const unsigned char *p = lying_in(octets, at, count)
    cdef Py_ssize_t index
    for index in range(count):
        if p[index]:
            return False
    return True


cpdef inline int append_octets(bytearray taken, object octets, Py_ssize_t at, Py_ssize_t count) except -1:
    cdef const unsigned char *p = lying_in(octets, at, count)
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(taken)
    # Resized first: it raises if something else looks into it.
    PyByteArray_Resize(taken, size + count)
    memcpy(PyByteArray_AS_STRING(taken) + size, p, count)
    return 0


cpdef inline int append_number(array.array numbers, long long number) except -1:
    cdef Py_ssize_t count = Py_SIZE(numbers)
    if numbers.ob_descr.typecode != b"q":
        raise TypeError("not an array of 64 bits each")
    array.resize_smart(numbers, count + 1)
    numbers.data.as_longlongs[count] = number
    return 0


cpdef inline long long number_at(array.array numbers, Py_ssize_t index) except? -1:
    if numbers.ob_descr.typecode != b"q":
        raise TypeError("not an array of 64 bits each")
    if index < 0 or index >= Py_SIZE(numbers):
        raise IndexError(index)
    return numbers.data.as_longlongs[index]


cpdef inline Py_ssize_t index_in(array.array ascending, long long number, Py_ssize_t low=0) except -1:
    cdef Py_ssize_t high = Py_SIZE(ascending), middle
    if ascending.ob_descr.typecode != b"q":
        raise TypeError("not an array of 64 bits each")
    if low < 0:
        raise IndexError(low)
    while low < high:
        middle = (low + high) // 2
        if ascending.data.as_longlongs[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low
