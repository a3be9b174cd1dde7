cimport cython
from scapy_mpa.watches.ddp cimport DDPWatch

cdef long long _MOST_LOOKED_AT, _READ_REQUEST, _READ_RESPONSE

@cython.final
cdef class _Queue:
    cdef public object answers, asked, last, passed_over

@cython.final
cdef class Outstanding:
    cdef public bint _is_known
    cdef public DDPWatch _requester, _responder
    cdef public list _unasked
    cdef public _Queue _atomics, _reads

    cpdef bint _knows(self) except -1
    @cython.locals(queue=_Queue)
    cpdef requested(self, object request)
    @cython.locals(queue=_Queue)
    cpdef answered(self, object response, object acknowledged)
    cpdef judge(self)
    @cython.locals(breaches=list)
    cpdef _judge(self, _Queue queue)
