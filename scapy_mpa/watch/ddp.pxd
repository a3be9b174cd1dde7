cimport cython
from scapy_mpa.values._octets cimport place, queued

cdef class DDPWatch:
    cdef public long long _at, _versions, answers, longest_part, losses, quiet, requests, terminated
    cdef public unsigned long long stag, to
    cdef public bint is_writing
    cdef public object _breaches, _messages, _open, _response, first_part

    cpdef go_on_at(self, long long offset)
    cpdef pass_to(self, long long offset)
    cpdef write_on(self, unsigned long long to)
    @cython.locals(difference=cython.longlong)
    cpdef bint follow_expected(
        self, object octets, Py_ssize_t at, long long control, long long ulpdu_length, unsigned long long to
    ) except -1
    @cython.locals(control=cython.longlong, opcode=cython.longlong)
    cpdef _look_at(
        self, object octets, Py_ssize_t at, long long ulpdu_length, long long offset, long long frame, long long time
    )
