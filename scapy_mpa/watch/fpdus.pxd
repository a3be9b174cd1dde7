cimport cython
from scapy_mpa.receive.scan cimport Unusual, is_usual
from scapy_mpa.values._octets cimport head
from scapy_mpa.watch.ddp cimport DDPWatch

cdef class SizeWatch:
    cdef public object _at, _intended
    cdef public bint _markers
    cdef public long long _emss, _limit, _longest_fpdu, longest

cdef class FPDUWatches:
    cdef public bint _awaits_send, _markers
    cdef public object _reads, _writes, first_send, messages, terminate, usual
    cdef public DDPWatch ddp
    cdef public SizeWatch sizes

    @cython.locals(ddp=DDPWatch)
    cpdef _learn(self)
    @cython.locals(
        begin=cython.Py_ssize_t, header=cython.Py_ssize_t, ulpdu_length=cython.longlong, end=cython.Py_ssize_t,
        fits=cython.bint, ddp=DDPWatch, uncut=cython.longlong, control=cython.longlong, offset=cython.longlong,
    )
    cpdef show(self, object octets, Unusual one, long long shift, object known)
    @cython.locals(ddp=DDPWatch, requests=cython.longlong, answers=cython.longlong)
    cpdef _follow(self, object octets, Py_ssize_t at, long long ulpdu_length, long long offset, object known)
