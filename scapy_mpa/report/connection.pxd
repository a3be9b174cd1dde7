cimport cython
from scapy_mpa.report.half cimport HalfConnection

cdef class Connection:
    cdef public object _flow, _judgement, _reply, _request, _startup, _upper_layer, assumptions, crc, ended_with
    cdef public object findings, has_twin, index, inferred, lifecycle, number, own_paths, part, path, profile, rejected
    cdef public object rules, service_port
    cdef public HalfConnection initiator, responder
