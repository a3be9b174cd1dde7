cimport cython
from scapy_mpa.values._octets cimport Fields as CompiledFields
from scapy_mpa.values._octets cimport crc_of, head, place, word

cdef class Unusual:
    cdef public Py_ssize_t begin, end, header
    cdef public long long ulpdu_length
    cdef public bint fits

cdef class Found:
    cdef public Py_ssize_t end
    cdef public long long markers, need, ulpdu_octets
    cdef public unsigned long long to

cpdef bint is_usual(object octets, Py_ssize_t header, long long control, long long ulpdu_length, object usual, unsigned long long to) except -1

cdef class Scan:
    cdef bint _crc, _markers
    cdef object _shapes
    cdef long long _grid, _lead, _more

    @cython.locals(
        shapes=object, grid=cython.longlong, lead=cython.longlong, crc_used=cython.bint, control_usual=cython.longlong,
        writing=cython.bint, stag=cython.uint, shortest=cython.longlong, longest=cython.longlong, last_whole=cython.longlong,
        ulpdu_octets=cython.longlong, markers_found=cython.longlong, need=cython.longlong, residue=cython.longlong,
        terminate=cython.longlong, tagged=cython.longlong, last_to=cython.ulonglong, phase=cython.longlong,
        header=cython.Py_ssize_t, ulpdu_length=cython.longlong, control=cython.longlong, size=cython.longlong,
        markers=cython.longlong, fields=CompiledFields, after=cython.Py_ssize_t, fits=cython.bint,
    )
    cpdef Found read(
        self, object octets, Py_ssize_t at, Py_ssize_t end, long long shift, object usual, unsigned long long to,
        list ends, list fpdus, list unusual,
    )

    @cython.locals(counted_from=cython.longlong)
    cpdef bint _agree(
        self, object octets, Py_ssize_t at, Py_ssize_t header, Py_ssize_t end, long long shift
    ) except -1

    @cython.locals(counted_from=cython.longlong)
    cpdef bint part_agrees(
        self, object octets, Py_ssize_t start, Py_ssize_t end, long long shift, long long offset
    ) except -1

@cython.locals(first=cython.longlong, marker=cython.longlong)
cpdef bint _markers_agree(
    object octets, Py_ssize_t start, Py_ssize_t end, long long shift, long long counted_from
) except -1
