from scapy_mpa.stream.connection cimport Arrival

cdef class CopyWatch:
    cdef public dict _differing, _doubtful, _dropped, _keep_alives
    cdef public list _fpdus, _starts
    cdef public long long _count, _highest
    cdef public object _layout, _startup_frame

    cpdef arrived(self, Arrival arrival)
    cpdef arrived_aligned(self, long long end)
