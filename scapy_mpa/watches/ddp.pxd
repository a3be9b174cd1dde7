cdef class DDPWatch:
    cdef public object _breaches, _end, _expected, _messages, _open, _response, _versions, _write, answers
    cdef public object first_part, longest_part, losses, requests, terminated
