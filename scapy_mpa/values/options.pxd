cimport cython
from scapy_mpa.values._octets cimport numbers_of, queued

@cython.locals(tcp=cython.longlong, at=cython.longlong, start=cython.longlong)
cpdef timestamps_of(object seg)
