from cpython cimport array

cdef const unsigned char *lying_in(object octets, Py_ssize_t at, Py_ssize_t count) except NULL

cpdef (unsigned int, unsigned int) head(object octets, Py_ssize_t at) except *
cpdef (unsigned int, unsigned long long) place(object octets, Py_ssize_t at) except *
cpdef (unsigned int, unsigned int, unsigned int) queued(object octets, Py_ssize_t at) except *
cpdef long long word(object octets, Py_ssize_t at) except -1
cpdef long long crc_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1
cpdef long long sum_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1

cpdef int append_octets(bytearray taken, object octets, Py_ssize_t at, Py_ssize_t count) except -1
cpdef bint is_zero(object octets, Py_ssize_t at, Py_ssize_t count) except -1
cpdef bytes own_octets(object octets, Py_ssize_t at, Py_ssize_t end)
cpdef int put_octets(bytearray taken, Py_ssize_t at, object octets, Py_ssize_t first, Py_ssize_t count) except -1
cpdef int put_piece(
    bytearray pieces, Py_ssize_t at, long long start, long long frame, long long time, long long check,
    long long before, object octets, Py_ssize_t first, Py_ssize_t last
) except -1
cpdef int append_number(array.array numbers, long long number) except -1
cpdef long long number_at(array.array numbers, Py_ssize_t index) except? -1
cpdef Py_ssize_t index_in(array.array ascending, long long number, Py_ssize_t low=*) except -1
