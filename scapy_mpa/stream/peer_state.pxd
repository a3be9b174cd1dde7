cimport cython

cdef class PeerState:
    cdef public long long last_frame
    cdef public object _acks, _ts_time, last_ack_sent, rcv_wnd, right_edge, ts_recent
    cdef public list _ends, _frames, _starts

    cpdef bint acknowledge(self, long long frame, long long ack, object window) except -1
    cpdef _insert(self, long long frame, long long start, long long end)
    @cython.locals(age=cython.longlong)
    cpdef drop_reason(self, long long start, long long end, object tsval, object time, long long believed)
    cpdef echo(self, object tsecr, object time)
    cpdef forget(self, long long below)
