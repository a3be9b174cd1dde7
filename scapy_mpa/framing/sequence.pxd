cdef long long _HALF

cpdef long long seq_add(long long seq, long long octets) except? -1
cpdef long long seq_diff(long long a, long long b) except? -1
cpdef long long unwrap(long long seq, long long near_offset, long long isn) except? -1
cpdef long long wrap(long long offset, long long isn) except? -1
