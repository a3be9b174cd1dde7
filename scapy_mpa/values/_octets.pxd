from cpython cimport array


cpdef long long crc_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1
cpdef long long sum_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1
cpdef bint has_right_sum(bytes key, object octets, Py_ssize_t tcp, Py_ssize_t end) except -1

cpdef bytes own_octets(object octets, Py_ssize_t at, Py_ssize_t end)
