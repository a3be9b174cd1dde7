"""What the hot loops call for every segment, small enough to be put where it is called: see ``octets.py``.

:func:`lying_in` is the only way to captured octets: it looks whether what is read lies in the buffer.  All arrays are of
64 bits each, which ``_octets.pyx`` examines where Python calls.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.object cimport Py_SIZE
from libc.string cimport memcpy, memmove, memset


cdef extern from "values/inline.h":
    unsigned int MPA_BE16(const unsigned char *p) nogil
    unsigned int MPA_BE32(const unsigned char *p) nogil
    unsigned int MPA_LE32(const unsigned char *p) nogil
    bint MPA_IS_FREE "mpa_is_free"(array.array numbers, Py_ssize_t count)
    void Py_SET_SIZE(array.array numbers, Py_ssize_t count)
    const unsigned char *lying_in "mpa_lying_in"(object octets, Py_ssize_t at, Py_ssize_t count) except NULL
    int mpa_append_octets(bytearray taken, const unsigned char *octets, Py_ssize_t count) except -1
    long long mpa_number_at(array.array numbers, Py_ssize_t index) except? -1
    int mpa_put_number(array.array numbers, Py_ssize_t index, long long number) except -1
    Py_ssize_t mpa_index_in(array.array ascending, long long number, Py_ssize_t low) except -1


cpdef inline (unsigned int, unsigned int) head(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 4)
    return MPA_BE16(p), MPA_BE16(p + 2)


cpdef inline (unsigned int, unsigned long long) place(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 12)
    return MPA_BE32(p), <unsigned long long>MPA_BE32(p + 4) << 32 | MPA_BE32(p + 8)


cpdef inline (unsigned int, unsigned int, unsigned int) queued(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 12)
    return MPA_BE32(p), MPA_BE32(p + 4), MPA_BE32(p + 8)


cpdef inline (unsigned int, unsigned int, unsigned int, unsigned int) stamped(object octets, Py_ssize_t at) except *:
    cdef const unsigned char *p = lying_in(octets, at, 32)
    return MPA_BE16(p + 14), MPA_BE32(p + 20), MPA_BE32(p + 24), MPA_BE32(p + 28)


cpdef inline long long word(object octets, Py_ssize_t at) except -1:
    return MPA_BE32(lying_in(octets, at, 4))


cpdef inline int time_to_live(object octets, Py_ssize_t at) except -2:
    cdef const unsigned char *p = lying_in(octets, at, 20)
    return p[8] if p[0] == 0x45 else -1


cpdef inline bint is_zero(object octets, Py_ssize_t at, Py_ssize_t count) except -1:
    cdef const unsigned char *p = lying_in(octets, at, count)
    cdef Py_ssize_t index
    for index in range(count):
        if p[index]:
            return False
    return True


cpdef inline int append_octets(bytearray taken, object octets, Py_ssize_t at, Py_ssize_t count) except -1:
    return mpa_append_octets(taken, lying_in(octets, at, count), count)


cpdef inline int put_octets(
    bytearray taken, Py_ssize_t at, object octets, Py_ssize_t first, Py_ssize_t count
) except -1:
    cdef const unsigned char *p = lying_in(octets, first, count)
    if at < 0 or at > PyByteArray_GET_SIZE(taken):
        raise IndexError(at)
    if at + count > PyByteArray_GET_SIZE(taken):
        PyByteArray_Resize(taken, at + count)
    memcpy(PyByteArray_AS_STRING(taken) + at, p, count)
    return 0


cpdef inline int put_piece(
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


cdef inline int add_room(array.array numbers, Py_ssize_t count) except -1:
    """Make room for so many numbers behind the last one."""
    cdef Py_ssize_t size = Py_SIZE(numbers)
    if MPA_IS_FREE(numbers, count):
        Py_SET_SIZE(numbers, size + count)
    else:
        array.resize_smart(numbers, size + count)
    return 0


cpdef inline array.array with_room(array.array empty, Py_ssize_t count):
    cdef array.array numbers = array.clone(empty, count, False)
    Py_SET_SIZE(numbers, 0)
    return numbers


cpdef inline int fit(array.array numbers) except -1:
    return array.resize(numbers, Py_SIZE(numbers))


cpdef inline int fit_octets(bytearray octets) except -1:
    # Python gives room back only where the size changes.
    PyByteArray_Resize(octets, PyByteArray_GET_SIZE(octets) + 1)
    return PyByteArray_Resize(octets, PyByteArray_GET_SIZE(octets) - 1)


cpdef inline int append_number(array.array numbers, long long number) except -1:
    cdef Py_ssize_t count = Py_SIZE(numbers)
    add_room(numbers, 1)
    numbers.data.as_longlongs[count] = number
    return 0


cpdef inline int append_four(
    array.array numbers, long long first, long long second, long long third, long long fourth
) except -1:
    add_room(numbers, 4)
    return put_four(numbers, Py_SIZE(numbers) - 4, first, second, third, fourth)


cpdef inline int put_four(
    array.array numbers, Py_ssize_t index, long long first, long long second, long long third, long long fourth
) except -1:
    cdef long long *there = numbers.data.as_longlongs + index
    if index < 0 or index > Py_SIZE(numbers) - 4:
        raise IndexError(index)
    there[0], there[1], there[2], there[3] = first, second, third, fourth
    return 0


cpdef inline int make_room(array.array numbers, Py_ssize_t index, Py_ssize_t count) except -1:
    cdef Py_ssize_t size = Py_SIZE(numbers)
    if index < 0 or index > size or count < 0:
        raise IndexError(index)
    add_room(numbers, count)
    memmove(
        numbers.data.as_longlongs + index + count, numbers.data.as_longlongs + index, (size - index) * sizeof(long long)
    )
    memset(numbers.data.as_longlongs + index, 0, count * sizeof(long long))
    return 0


cpdef inline int cut_first(array.array numbers, Py_ssize_t count) except -1:
    cdef Py_ssize_t left = Py_SIZE(numbers) - count
    if count < 0 or left < 0:
        raise IndexError(count)
    if left:
        memmove(numbers.data.as_longlongs, numbers.data.as_longlongs + count, left * sizeof(long long))
    Py_SET_SIZE(numbers, left)
    return 0


cpdef inline long long number_at(array.array numbers, Py_ssize_t index) except? -1:
    return mpa_number_at(numbers, index)


cpdef inline int put_number(array.array numbers, Py_ssize_t index, long long number) except -1:
    return mpa_put_number(numbers, index, number)


cpdef inline Py_ssize_t index_in(array.array ascending, long long number, Py_ssize_t low=0) except -1:
    return mpa_index_in(ascending, number, low)
