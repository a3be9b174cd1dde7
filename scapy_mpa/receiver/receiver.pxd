cimport cython
from scapy_mpa.stream.connection cimport Flows, TCPConnection

@cython.final
cdef class Receiver:
    cdef object __weakref__
    cdef dict __dict__
    cdef public Flows _flows

    cpdef receive(self, object seg)
