cimport cython
from scapy_mpa.tcp.intake cimport Intake

cdef class Receiver:
    cdef object __weakref__
    cdef dict __dict__
    cdef public dict _directions

    @cython.locals(intake=Intake, ack=cython.longlong, flags=cython.longlong, length=cython.longlong)
    cpdef feed(self, object segments)
