from cpython cimport array


cpdef long long crc_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1
cpdef long long sum_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1
cpdef bint has_right_sum(bytes key, object octets, Py_ssize_t tcp, Py_ssize_t end) except -1

cpdef bytes own_octets(object octets, Py_ssize_t at, Py_ssize_t end)
cpdef int put_octets(bytearray taken, Py_ssize_t at, object octets, Py_ssize_t first, Py_ssize_t count) except -1
cpdef int put_piece(
    bytearray pieces, Py_ssize_t at, long long start, long long frame, long long time, long long check,
    long long before, object octets, Py_ssize_t first, Py_ssize_t last
) except -1
