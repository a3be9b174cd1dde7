"""What is read off captured octets in the hot loops, compiled: the functions of ``octets.py``.

:func:`lying_in` is the only way to captured octets: it looks whether what is read lies in the buffer.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Check, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_GET_BUFFER
from libc.string cimport memcpy


cdef extern from "values/crc32c.h" nogil:
    void mpa_crc32c_begin()
    unsigned int mpa_crc32c(const unsigned char *octets, size_t count)


cdef extern from "values/sum.h" nogil:
    unsigned int mpa_sum(const unsigned char *octets, size_t count)


cdef extern from *:
    """
    #define MPA_BE16(p) ((unsigned int)(p)[0] << 8 | (p)[1])
    #define MPA_BE32(p) ((unsigned int)(p)[0] << 24 | (unsigned int)(p)[1] << 16 | (unsigned int)(p)[2] << 8 | (p)[3])
    #define MPA_IS_RELEASED(view) (((PyMemoryViewObject *)(view))->flags & _Py_MEMORYVIEW_RELEASED)
    """
    unsigned int MPA_BE16(const unsigned char *p) nogil
    unsigned int MPA_BE32(const unsigned char *p) nogil
    bint MPA_IS_RELEASED(object view)


mpa_crc32c_begin()


cdef const unsigned char *lying_in(object octets, Py_ssize_t at, Py_ssize_t count) except NULL:
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
        raise TypeError(f"not octets: {type(octets)}")
    if at < 0 or count < 0 or at > size or count > size - at:
        raise IndexError(f"octets {at} to {at + count} of {size}")
    return first + at


cpdef (unsigned int, unsigned int) head(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 4)
    return MPA_BE16(p), MPA_BE16(p + 2)


cpdef (unsigned int, unsigned long long) place(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 12)
    return MPA_BE32(p), <unsigned long long>MPA_BE32(p + 4) << 32 | MPA_BE32(p + 8)


cpdef (unsigned int, unsigned int, unsigned int) queued(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 12)
    return MPA_BE32(p), MPA_BE32(p + 4), MPA_BE32(p + 8)


cpdef long long word(object octets, Py_ssize_t at) except -1:
    return MPA_BE32(lying_in(octets, at, 4))


cpdef long long crc_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1:
    return mpa_crc32c(lying_in(octets, at, end - at), end - at)


cpdef long long sum_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1:
    return mpa_sum(lying_in(octets, at, end - at), end - at)


cpdef bint is_zero(object octets, Py_ssize_t at, Py_ssize_t count) except -1:
    cdef const unsigned char *p = lying_in(octets, at, count)
    cdef Py_ssize_t index
    for index in range(count):
        if p[index]:
            return False
    return True


cpdef bytes own_octets(object octets, Py_ssize_t at, Py_ssize_t end):
    cdef const unsigned char *p = lying_in(octets, at, end - at)
    return PyBytes_FromStringAndSize(<const char *>p, end - at)


cpdef int append_octets(bytearray taken, object octets, Py_ssize_t at, Py_ssize_t count) except -1:
    cdef const unsigned char *p = lying_in(octets, at, count)
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(taken)
    # Resized first: it raises if something else looks into it.
    PyByteArray_Resize(taken, size + count)
    memcpy(PyByteArray_AS_STRING(taken) + size, p, count)
    return 0


cpdef int put_octets(bytearray taken, Py_ssize_t at, object octets, Py_ssize_t first, Py_ssize_t count) except -1:
    cdef const unsigned char *p = lying_in(octets, first, count)
    if at < 0 or at > PyByteArray_GET_SIZE(taken):
        raise IndexError(at)
    if at + count > PyByteArray_GET_SIZE(taken):
        PyByteArray_Resize(taken, at + count)
    memcpy(PyByteArray_AS_STRING(taken) + at, p, count)
    return 0


cpdef int put_piece(
    bytearray pieces, Py_ssize_t at, long long start, long long frame, long long time, long long check,
    long long before, object octets, Py_ssize_t first, Py_ssize_t last
) except -1:
    cdef long long[6] numbers
    cdef const unsigned char *p = lying_in(octets, first, last - first)
    cdef Py_ssize_t end = at + sizeof(numbers) + last - first
    if at < 0 or at > PyByteArray_GET_SIZE(pieces):
        raise IndexError(at)
    if end > PyByteArray_GET_SIZE(pieces):
        PyByteArray_Resize(pieces, end)
    numbers = [start, frame, time, check, before, last - first]
    memcpy(PyByteArray_AS_STRING(pieces) + at, numbers, sizeof(numbers))
    memcpy(PyByteArray_AS_STRING(pieces) + at + sizeof(numbers), p, last - first)
    return 0


cpdef int append_number(array.array numbers, long long number) except -1:
    cdef Py_ssize_t count = len(numbers)
    if numbers.ob_descr.typecode != b"q":
        raise TypeError("not an array of 64 bits each")
    array.resize_smart(numbers, count + 1)
    numbers.data.as_longlongs[count] = number
    return 0


cpdef long long number_at(array.array numbers, Py_ssize_t index) except? -1:
    if numbers.ob_descr.typecode != b"q":
        raise TypeError("not an array of 64 bits each")
    if index < 0 or index >= len(numbers):
        raise IndexError(index)
    return numbers.data.as_longlongs[index]


cpdef Py_ssize_t index_in(array.array ascending, long long number, Py_ssize_t low=0) except -1:
    cdef Py_ssize_t high = len(ascending), middle
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
