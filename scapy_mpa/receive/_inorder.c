/* The compiled twin of the loops over FPDUs in order: those as expected are taken, all others are left to Python.

   Both functions return where the first FPDU, or segment, begins that is not wholly there, is not as the watches expect
   it next (see scapy_mpa/receive/watched.py), or is wrong in any way; tests compare them with scapy_mpa.receive.inorder.
   Every octet is hostile: nothing is read that does not lie in the segment, and no sum can overflow. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { MARKER_INTERVAL = 512, MARKER_LENGTH = 4, LENGTH_AND_CONTROL = 4, HEAD = 16, TAGGED_HEADER = 14, CRC = 4 };
/* The largest ULPDU_Length that is no error. */
enum { LONGEST_ULPDU = 64768 };
/* The CRC32c of any octets followed by their own CRC. */
#define RESIDUE 0x48674BC7u

/* A segment as scapy_mpa/receive/segment.py has it, and TCP's flags that are not left to Python: all but FIN, SYN, RST. */
enum { FRAME, TIME, KEY, SEQ, ACK, FLAGS, BUFFER, START, END, TCP, LENGTH, FIELDS };
enum { STATE_FLAGS = 0x07, MAX_WINDOW = 1 << 30 };

static uint32_t big16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t big32(const uint8_t *p) { return big16(p) << 16 | big16(p + 2); }
static uint64_t big64(const uint8_t *p) { return (uint64_t)big32(p) << 32 | big32(p + 4); }

/* Without the instruction there are no functions in this module: Python goes on with the crc32c package. */
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_CRC32C __builtin_cpu_supports("sse4.2")

__attribute__((target("sse4.2"))) static uint32_t crc32c(const uint8_t *p, Py_ssize_t length)
{
    uint64_t crc = 0xFFFFFFFFu, eight;
    for (; length >= 8; p += 8, length -= 8) {
        memcpy(&eight, p, 8);
        crc = __builtin_ia32_crc32di(crc, eight);
    }
    for (; length; p++, length--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *p);
    return (uint32_t)crc ^ 0xFFFFFFFFu;
}
#else
#define HAS_CRC32C 0

static uint32_t crc32c(const uint8_t *p, Py_ssize_t length)
{
    (void)p, (void)length;
    return 0;
}
#endif

/* What FPDUs are like, which one is expected next, and what was found. */
enum { STARTS = 1 << 11 };
enum { PLAIN, COUNTED_FROM_HEADER, COUNTED_FROM_FIRST_OCTET };
typedef struct {
    int crc_used, layout, writing;
    long quiet, shortest, longest;
    unsigned long stag;
    unsigned long long to;
    Py_ssize_t fpdus, ulpdu_octets, markers;
    /* A list for ULPDU_Length and opcode of each, or NULL; where their first offsets are kept, and how many are. */
    PyObject *found;
    int64_t *starts;
    int count;
} Flow;

/* Whether an FPDU is as expected, by its ULPDU_Length field and the four octets before its CRC. */
static int is_quiet(const Flow *flow, const uint8_t *head, const uint8_t *tail)
{
    static const uint32_t pad_bits[] = {0xFFFF, 0xFF, 0, 0xFFFFFF};
    long ulpdu_length = (long)big16(head);
    if ((long)big16(head + 2) != flow->quiet || ulpdu_length < flow->shortest || ulpdu_length > flow->longest)
        return 0;
    if (big32(tail) & pad_bits[ulpdu_length & 3])
        return 0;
    /* TO grows by the payload; where it would pass 2^64, Python counts. */
    return !flow->writing
        || (ulpdu_length >= TAGGED_HEADER && big32(head + 4) == flow->stag && big64(head + 8) == flow->to
            && flow->to <= UINT64_MAX - (uint64_t)ulpdu_length);
}

/* The octets of the FPDU that begins at `first`, at this phase of the grid of Markers, with those of its Markers.
   0 if there are more than `room`, or if a Marker is not as it should be. */
static Py_ssize_t marked_size(int layout, const uint8_t *first, Py_ssize_t phase, Py_ssize_t room, Py_ssize_t *markers)
{
    Py_ssize_t header = phase ? 0 : MARKER_LENGTH, counted_from = layout == COUNTED_FROM_HEADER ? header : 0, size = 0;
    Py_ssize_t rest = (Py_ssize_t)((big16(first + header) + 9) & ~3u);
    *markers = 0;
    while (rest > 0) {
        Py_ssize_t at = (phase + size) & (MARKER_INTERVAL - 1);
        if (!at) {
            /* RESERVED is zero; FPDUPTR counts from the FPDU's start, that of a leading Marker is zero. */
            if (room - size < MARKER_LENGTH || big32(first + size) != (size ? (uint32_t)(size - counted_from) & 0xFFFF : 0))
                return 0;
            size += at = MARKER_LENGTH;
            ++*markers;
        }
        Py_ssize_t part = MARKER_INTERVAL - at < rest ? MARKER_INTERVAL - at : rest;
        size += part;
        rest -= part;
    }
    return size <= room ? size : 0;
}

/* Take FPDUs from `at`; where the first one begins that is not taken, -1 for an exception. */
static Py_ssize_t follow(Flow *flow, const uint8_t *octets, Py_ssize_t at, Py_ssize_t end, int64_t shift)
{
    while (flow->count < STARTS) {
        const uint8_t *first = octets + at;
        Py_ssize_t room = end - at, phase = (Py_ssize_t)((at + shift) & (MARKER_INTERVAL - 1)), header = 0, markers = 0, size, tail;
        if (flow->layout == PLAIN) {
            if (room < LENGTH_AND_CONTROL)
                break;
            size = (Py_ssize_t)((big16(first) + 9) & ~3u);
            if (size > room)
                break;
            tail = size - 2 * CRC;
        } else {
            header = phase ? 0 : MARKER_LENGTH;
            /* Where a Marker cuts the head, or the start is inside one, Python puts together what belongs together. */
            if (room < header + LENGTH_AND_CONTROL || (phase && phase < MARKER_LENGTH)
                || ((-(phase + header)) & (MARKER_INTERVAL - 1)) < HEAD
                || big16(first + header) < 2 || big16(first + header) > LONGEST_ULPDU)
                break;
            size = marked_size(flow->layout, first, phase, room, &markers);
            if (!size)
                break;
            tail = size - 2 * CRC;
            if (!((phase + tail) & (MARKER_INTERVAL - 1)))
                tail -= MARKER_LENGTH;
        }
        const uint8_t *head = first + header;
        if (!is_quiet(flow, head, first + tail) || (flow->crc_used && crc32c(first, size) != RESIDUE))
            break;
        Py_ssize_t ulpdu_length = big16(head);
        if (flow->found) {
            PyObject *number = PyLong_FromSsize_t(ulpdu_length | (Py_ssize_t)(head[3] & 0x0F) << 16);
            int failed = !number || PyList_Append(flow->found, number) < 0;
            Py_XDECREF(number);
            if (failed)
                return -1;
        }
        if (flow->writing)
            flow->to += (uint64_t)(ulpdu_length - TAGGED_HEADER);
        flow->starts[flow->count++] = at + shift;
        flow->fpdus++;
        flow->ulpdu_octets += ulpdu_length;
        flow->markers += markers;
        at += size;
    }
    return at;
}

/* Append the first offsets to an array of 64-bit numbers; 0 for an exception. */
static int keep_starts(const Flow *flow, PyObject *starts)
{
    if (!flow->count)
        return 1;
    PyObject *done = PyObject_CallMethod(starts, "frombytes", "y#", (const char *)flow->starts,
                                         (Py_ssize_t)(flow->count * sizeof *flow->starts));
    Py_XDECREF(done);
    return done != NULL;
}

PyDoc_STRVAR(fpdus_doc, "fpdus(octets, at, end, shift, starts, found, crc_used, layout, expects, to)"
" -> (at, fpdus, ulpdu_octets, markers, to)\n\nTake FPDUs of a segment.");

static PyObject *fpdus(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *octets, *starts;
    Py_ssize_t at, end;
    long long shift;
    Py_buffer view;
    int64_t kept[STARTS];
    Flow flow = {.starts = kept};
    if (!PyArg_ParseTuple(args, "OnnLOOpi(lpkll)K:fpdus", &octets, &at, &end, &shift, &starts, &flow.found, &flow.crc_used,
                          &flow.layout, &flow.quiet, &flow.writing, &flow.stag, &flow.shortest, &flow.longest, &flow.to))
        return NULL;
    if (!PyList_Check(flow.found))
        flow.found = NULL;
    if (PyObject_GetBuffer(octets, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (at >= 0 && end <= view.len)
        at = follow(&flow, view.buf, at, end, shift);
    PyBuffer_Release(&view);
    if (at < 0 || !keep_starts(&flow, starts))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "no place in the octets");
    return Py_BuildValue("nnnnK", at, flow.fpdus, flow.ulpdu_octets, flow.markers, flow.to);
}

/* Whether one of two keys is the other. */
static int is_key(PyObject *key, PyObject *other)
{
    return key == other
        || (PyBytes_Check(key) && PyBytes_Check(other) && PyBytes_GET_SIZE(key) == PyBytes_GET_SIZE(other)
            && !memcmp(PyBytes_AS_STRING(key), PyBytes_AS_STRING(other), (size_t)PyBytes_GET_SIZE(key)));
}

static long long field(PyObject *segment, int which) { return PyLong_AsLongLong(PyTuple_GET_ITEM(segment, which)); }

/* The highest acknowledgement number of a side, as scapy_mpa.receive.tcp.Half.acknowledge has it. */
static long long acknowledged(long long before, long long ack)
{
    if (!ack)
        return before;
    return before <= 0 || ((uint32_t)(before - ack)) > MAX_WINDOW ? ack : before;
}

PyDoc_STRVAR(segments_doc, "segments(list, index, key, peer_key, ack, peer_ack, next_seq, offset, consumed, starts, crc_used,"
" layout, expects, to) -> (taken, whole, fpdus, ulpdu_octets, markers, to, offset, longest, frame, ack, peer_ack)\n\n"
"Take segments of one connection from list[index] on: those of `key` that hold whole FPDUs, and acknowledgements.");

static PyObject *segments(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list, *key, *peer_key, *consumed, *starts, *held = NULL;
    Py_ssize_t index, first, whole = 0;
    long long ack, peer_ack, next_seq, offset, longest = 0, frame = 0;
    Py_buffer view;
    int64_t kept[STARTS];
    Flow flow = {.starts = kept};
    if (!PyArg_ParseTuple(args, "O!nOOLLLLO!Opi(lpkll)K:segments", &PyList_Type, &list, &index, &key, &peer_key, &ack,
                          &peer_ack, &next_seq, &offset, &PyList_Type, &consumed, &starts, &flow.crc_used, &flow.layout,
                          &flow.quiet, &flow.writing, &flow.stag, &flow.shortest, &flow.longest, &flow.to))
        return NULL;
    for (first = index; index >= 0 && index < PyList_GET_SIZE(list); index++) {
        PyObject *segment = PyList_GET_ITEM(list, index);
        if (!PyTuple_Check(segment) || PyTuple_GET_SIZE(segment) != FIELDS || field(segment, FLAGS) & STATE_FLAGS)
            break;
        long long length = field(segment, LENGTH), acks = field(segment, ACK);
        int is_own = is_key(PyTuple_GET_ITEM(segment, KEY), key);
        if (!length && (is_own || is_key(PyTuple_GET_ITEM(segment, KEY), peer_key))) {
            if (is_own)
                ack = acknowledged(ack, acks);
            else
                peer_ack = acknowledged(peer_ack, acks);
            continue;
        }
        long long start = field(segment, START), end = field(segment, END);
        if (!is_own || field(segment, SEQ) != next_seq || length != end - start)
            break;
        PyObject *octets = PyTuple_GET_ITEM(segment, BUFFER);
        if (octets != held) {
            if (held)
                PyBuffer_Release(&view);
            held = NULL;
            if (PyObject_GetBuffer(octets, &view, PyBUF_SIMPLE) < 0)
                return NULL;
            held = octets;
        }
        if (start < 0 || end > view.len)
            break;
        Flow before = flow;
        if (follow(&flow, view.buf, (Py_ssize_t)start, (Py_ssize_t)end, offset - start) != end) {
            flow = before;
            break;
        }
        if (PyList_Append(consumed, segment) < 0)
            break;
        ack = acknowledged(ack, acks);
        next_seq = (next_seq + length) & 0xFFFFFFFF;
        offset += length;
        longest = length > longest ? length : longest;
        frame = field(segment, FRAME);
        whole++;
    }
    if (held)
        PyBuffer_Release(&view);
    if (PyErr_Occurred() || !keep_starts(&flow, starts))
        return NULL;
    return Py_BuildValue("nnnnnKLLLLL", index - first, whole, flow.fpdus, flow.ulpdu_octets, flow.markers, flow.to, offset,
                         longest, frame, ack, peer_ack);
}

static PyMethodDef functions[] = {
    {"fpdus", fpdus, METH_VARARGS, fpdus_doc},
    {"segments", segments, METH_VARARGS, segments_doc},
    {NULL, NULL, 0, NULL},
};

static int add_functions(PyObject *module) { return HAS_CRC32C ? PyModule_AddFunctions(module, functions) : 0; }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_functions}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "scapy_mpa.receive._inorder",
    .m_doc = "The compiled twin of the loops over FPDUs in order.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__inorder(void) { return PyModuleDef_Init(&definition); }
