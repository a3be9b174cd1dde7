cimport cython

cdef class PeerState:
    cdef public long long last_frame
    cdef public long long _ts_time, ts_recent
    cdef public object _acks, _last_ack, acked_lately, last_ack_sent, rcv_wnd, right_edge
    cdef public list _ends, _frames, _starts

    cpdef bint acknowledge(self, long long frame, long long ack, object window) except -1
    cpdef _insert(self, long long frame, long long start, long long end)
    cpdef long long _most_ticks(self, long long time) except -1
    @cython.locals(age=cython.longlong, mask=cython.longlong, older=cython.longlong, paws_window=cython.longlong)
    cpdef drop_reason(self, long long start, long long end, long long tsval, long long time, long long believed)
    @cython.locals(mask=cython.longlong)
    cpdef echo(self, long long tsecr, long long time)
    cpdef forget(self, long long below)
