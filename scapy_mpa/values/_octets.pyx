"""What is read off captured octets in the hot loops, compiled: the functions of ``octets.py``."""

from cpython cimport array
from cpython.bytes cimport PyBytes_FromStringAndSize
from scapy_mpa.values cimport _inline
from scapy_mpa.values._inline cimport lying_in


cdef extern from "values/crc32c.h" nogil:
    void mpa_crc32c_begin()
    unsigned int mpa_crc32c(const unsigned char *octets, size_t count)


cdef extern from "values/sum.h" nogil:
    unsigned long long mpa_add(const unsigned char *octets, size_t count)
    unsigned long long mpa_add_many(const unsigned char *octets, size_t count)
    unsigned int mpa_modulo(unsigned long long sum)
    bint mpa_is_zero_with(unsigned long long sum, unsigned int number)


mpa_crc32c_begin()


cpdef long long crc_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1:
    return mpa_crc32c(lying_in(octets, at, end - at), end - at)


cpdef long long sum_of(object octets, Py_ssize_t at, Py_ssize_t end) except -1:
    return mpa_modulo(mpa_add_many(lying_in(octets, at, end - at), end - at))


cpdef bint has_right_sum(bytes key, object octets, Py_ssize_t tcp, Py_ssize_t end) except -1:
    cdef const unsigned char *p = lying_in(octets, tcp, end - tcp)
    cdef unsigned long long total = mpa_add_many(p, end - tcp) + mpa_add(lying_in(key, 0, len(key) - 4), len(key) - 4)
    return mpa_is_zero_with(total, 6 + <unsigned int>(end - tcp))


cpdef bytes own_octets(object octets, Py_ssize_t at, Py_ssize_t end):
    cdef const unsigned char *p = lying_in(octets, at, end - at)
    return PyBytes_FromStringAndSize(<const char *>p, end - at)


# The same for Python.


def head(object octets, Py_ssize_t at):
    return _inline.head(octets, at)


def place(object octets, Py_ssize_t at):
    return _inline.place(octets, at)


def queued(object octets, Py_ssize_t at):
    return _inline.queued(octets, at)


def stamped(object octets, Py_ssize_t at):
    return _inline.stamped(octets, at)


def word(object octets, Py_ssize_t at):
    return _inline.word(octets, at)


def time_to_live(object octets, Py_ssize_t at):
    return _inline.time_to_live(octets, at)


def is_zero(object octets, Py_ssize_t at, Py_ssize_t count):
    return _inline.is_zero(octets, at, count)


def append_octets(bytearray taken, object octets, Py_ssize_t at, Py_ssize_t count):
    _inline.append_octets(taken, octets, at, count)


def put_octets(bytearray taken, Py_ssize_t at, object octets, Py_ssize_t first, Py_ssize_t count):
    _inline.put_octets(taken, at, octets, first, count)


def put_piece(
    bytearray pieces, Py_ssize_t at, long long start, long long frame, long long time, long long check,
    long long before, object octets, Py_ssize_t first, Py_ssize_t last
):
    _inline.put_piece(pieces, at, start, frame, time, check, before, octets, first, last)


def with_room(array.array empty, Py_ssize_t count):
    return _inline.with_room(of_64_bits(empty), count)


def fit(array.array numbers):
    _inline.fit(of_64_bits(numbers))


def fit_octets(bytearray octets):
    _inline.fit_octets(octets)


def append_number(array.array numbers, long long number):
    _inline.append_number(of_64_bits(numbers), number)


def append_four(array.array numbers, long long first, long long second, long long third, long long fourth):
    _inline.append_four(of_64_bits(numbers), first, second, third, fourth)


def put_four(
    array.array numbers, Py_ssize_t index, long long first, long long second, long long third, long long fourth
):
    _inline.put_four(of_64_bits(numbers), index, first, second, third, fourth)


def put_number(array.array numbers, Py_ssize_t index, long long number):
    _inline.put_number(of_64_bits(numbers), index, number)


def make_room(array.array numbers, Py_ssize_t index, Py_ssize_t count):
    _inline.make_room(of_64_bits(numbers), index, count)


def cut_first(array.array numbers, Py_ssize_t count):
    _inline.cut_first(of_64_bits(numbers), count)


def number_at(array.array numbers, Py_ssize_t index):
    return _inline.number_at(of_64_bits(numbers), index)


def index_in(array.array ascending, long long number, Py_ssize_t low=0):
    return _inline.index_in(of_64_bits(ascending), number, low)


cdef array.array of_64_bits(array.array numbers):
    if numbers.ob_descr.typecode != b"q":
        raise TypeError("not an array of 64 bits each")
    return numbers
