cimport cython
from scapy_mpa.receive.inorder cimport InOrder
from scapy_mpa.receive.reassembly cimport Reassembly
from scapy_mpa.receive.settlement cimport Settlement
from scapy_mpa.tcp.half cimport Half
from scapy_mpa.watch.fpdus cimport FPDUWatches

cdef class FullOperation:
    cdef public object _any_order, _observer, _reader, _refuses, _report_to, _segments, _sink, context, diagnosis
    cdef public object direction, first_send, floor, inquiry, layout, mpa, opening
    cdef public bint _touched, is_over, is_replaced
    cdef public Half half
    cdef public InOrder in_order
    cdef public Reassembly reassembly
    cdef public Settlement settlement
    cdef public FPDUWatches watches

    @cython.locals(in_order=InOrder)
    cpdef take(self, object seg)
    cpdef receive(self, object seg)
    cpdef _touch(self)
