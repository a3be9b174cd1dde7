cdef class DDPWatch:
    cdef public object _answer, _breaches, _expected, _messages, _open, _placed, _response, _versions, _write, answers, end
    cdef public object first_part, longest_part, losses, related, requests, terminated, untagged_frame
