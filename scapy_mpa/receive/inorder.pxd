cimport cython
from scapy_mpa.receive.reassembly cimport Postponed, Reassembly
from scapy_mpa.receive.scan cimport Found, Scan
from scapy_mpa.receive.settlement cimport Settlement
from scapy_mpa.tcp.half cimport Half
from scapy_mpa.watch.ddp cimport DDPWatch
from scapy_mpa.watch.fpdus cimport FPDUWatches

cdef class InOrder:
    cdef public object _floor, _limits, _opening, _reader, _report, _segments, _tell
    cdef public Half _half
    cdef public bint _markers, _may_postpone, _wants_fpdus
    cdef public long long _need, _resumed, next_seq
    cdef public Postponed _postponed
    cdef public Reassembly _reassembly
    cdef public Scan _scan
    cdef public Settlement _settlement
    cdef public FPDUWatches _watches

    @cython.locals(
        reassembly=Reassembly, length=cython.longlong, begin=cython.longlong, end=cython.longlong, pieces=list,
        first=cython.longlong, last=cython.longlong, watches=FPDUWatches, shift=cython.longlong, found=Found,
    )
    cpdef bint take(self, object seg) except -1
    @cython.locals(
        reassembly=Reassembly, settlement=Settlement, pieces=list, consumed=cython.longlong, length=cython.longlong,
        is_whole=cython.bint,
    )
    cpdef _settle(
        self, object seg, object octets, long long begin, long long shift, Found found, list ends, list fpdus
    )
    @cython.locals(reassembly=Reassembly, settlement=Settlement)
    cpdef _hold(self, object seg, long long need)
    @cython.locals(reassembly=Reassembly)
    cpdef bint _take_part(self, object seg) except -1
    @cython.locals(header=cython.longlong)
    cpdef bint _is_header_cut(self, object piece) except -1
    @cython.locals(watches=FPDUWatches)
    cpdef _show(self, object octets, long long shift, Found found, list unusual, object known)
    cpdef _goes_on(self, object seg)
    @cython.locals(
        reassembly=Reassembly, postponed=Postponed, start=cython.longlong, length=cython.longlong,
        ahead=cython.longlong, count=cython.longlong, held=cython.longlong,
    )
    cpdef bint postpone_or_take(self, object seg) except -1
    @cython.locals(
        reassembly=Reassembly, settlement=Settlement, watches=FPDUWatches, late=cython.longlong, base=cython.longlong,
        found=Found,
    )
    cpdef bint _take_followers(self, object seg, long long end, Postponed postponed) except -1
