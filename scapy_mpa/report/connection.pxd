cimport cython
from scapy_mpa.report.half cimport HalfConnection

cdef class Connection:
    cdef public object _flow, _judgement, _reply, _request, _startup, _upper_layer, assumptions, crc, ended_after
    cdef public object ended_with, findings, has_twin, index, inferred, lifecycle, number, own_paths, part, path, profile
    cdef public object rejected, rules, service_port
    cdef public HalfConnection initiator, responder
