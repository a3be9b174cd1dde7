/* The compiled twin of the loops over records: ordinary packets become segments, all others are left to Python.

   What is made is what scapy_mpa.capture.packet.FastPath makes, octet for octet; tests compare the two.  Both functions
   begin at a record and return where the first one begins that is not ordinary, is damaged or is cut, and the number
   of the last frame that they took.  Every octet is hostile: nothing is read that does not lie below the end of the
   buffer that was handed over, and no sum can overflow. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Octets of headers, and what they say: an IPv4 header without options, an IPv6 header without extensions, TCP. */
enum { PCAP_RECORD = 16, ENHANCED_HEADER = 28, ENHANCED_FRAME = 32, ENHANCED_PACKET = 6 };
enum { IPV4 = 20, IPV6 = 40, TCP_FIXED = 14, ETHERTYPE_IPV4 = 0x0800, ETHERTYPE_IPV6 = 0x86DD, PROTOCOL_TCP = 6 };
/* Python decides about packets that are larger. */
enum { LONGEST = 1 << 18 };
enum { NANOSECONDS = 1000000000 };

static uint32_t big16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t big32(const uint8_t *p) { return big16(p) << 16 | big16(p + 2); }
static uint32_t little32(const uint8_t *p) { return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]; }
static uint32_t field32(const uint8_t *p, int is_big) { return is_big ? big32(p) : little32(p); }

/* The keys met lately: segments of one half connection share the object, and with it the hash. */
enum { KEYS = 64 };
typedef struct { PyObject *keys[KEYS]; } Keys;

static PyObject *key_of(Keys *known, const uint8_t *at, Py_ssize_t length)
{
    uint32_t mixed = 0;
    for (const uint8_t *p = at; p < at + length; p += 4)
        mixed = (mixed ^ big32(p)) * 0x9E3779B1u;
    PyObject **slot = &known->keys[mixed >> 26];
    if (!*slot || PyBytes_GET_SIZE(*slot) != length || memcmp(PyBytes_AS_STRING(*slot), at, (size_t)length)) {
        PyObject *made = PyBytes_FromStringAndSize((const char *)at, length);
        if (!made)
            return NULL;
        Py_XSETREF(*slot, made);
    }
    return Py_NewRef(*slot);
}

static void forget(Keys *known)
{
    for (int i = 0; i < KEYS; i++)
        Py_CLEAR(known->keys[i]);
}

/* What all records of a call have in common. */
typedef struct {
    PyObject *octets, *batch;
    const uint8_t *first;
    Py_ssize_t header, ether_type_at;
    Keys keys;
} Batch;

/* Append the segment in the frame [start, start + captured): 1, 0 if it is not ordinary, -1 for an exception. */
static int take(Batch *batch, Py_ssize_t frame, uint64_t time, Py_ssize_t start, Py_ssize_t captured)
{
    const uint8_t *packet = batch->first + start, *ip = packet + batch->header;
    Py_ssize_t room = captured - batch->header, ip_length, packet_length, key_length;
    if (room < IPV4 + TCP_FIXED)
        return 0;
    uint32_t ether_type = big16(packet + batch->ether_type_at);
    if (ether_type == ETHERTYPE_IPV4) {
        if (ip[0] != 0x45 || ip[9] != PROTOCOL_TCP || big16(ip + 6) & 0x3FFF)
            return 0;
        ip_length = IPV4;
        packet_length = big16(ip + 2);
        key_length = 12;
    } else if (ether_type == ETHERTYPE_IPV6 && room >= IPV6 + TCP_FIXED) {
        if (ip[0] >> 4 != 6 || ip[6] != PROTOCOL_TCP)
            return 0;
        ip_length = IPV6;
        packet_length = IPV6 + (Py_ssize_t)big16(ip + 4);
        key_length = 36;
    } else {
        return 0;
    }
    const uint8_t *tcp = ip + ip_length;
    Py_ssize_t data_offset = (tcp[12] >> 4) * 4, length = packet_length - ip_length - data_offset;
    if (data_offset < 20 || length < 0 || packet_length > room)
        return 0;
    Py_ssize_t tcp_at = start + batch->header + ip_length;
    /* The ports follow the addresses, which end the IP header. */
    PyObject *items[] = {
        PyLong_FromSsize_t(frame),
        PyLong_FromUnsignedLongLong(time),
        key_of(&batch->keys, tcp + 4 - key_length, key_length),
        PyLong_FromUnsignedLong(big32(tcp + 4)),
        PyLong_FromUnsignedLong(big32(tcp + 8)),
        PyLong_FromLong(tcp[13]),
        Py_NewRef(batch->octets),
        PyLong_FromSsize_t(tcp_at + data_offset),
        PyLong_FromSsize_t(tcp_at + data_offset + length),
        PyLong_FromSsize_t(tcp_at),
        PyLong_FromSsize_t(length),
    };
    enum { FIELDS = sizeof items / sizeof *items };
    PyObject *segment = PyTuple_New(FIELDS);
    int failed = !segment;
    for (int i = 0; i < FIELDS; i++) {
        failed |= !items[i];
        if (segment)
            PyTuple_SET_ITEM(segment, i, items[i]);
        else
            Py_XDECREF(items[i]);
    }
    if (!failed)
        failed = PyList_Append(batch->batch, segment) < 0;
    Py_XDECREF(segment);
    return failed ? -1 : 1;
}

/* The arguments that both functions begin with; 0 for an exception. */
static int begin(PyObject *args, const char *format, Batch *batch, Py_buffer *view, Py_ssize_t *at, Py_ssize_t *frame,
                 int *is_big, unsigned long long *first, unsigned long long *second, unsigned long long *third)
{
    memset(batch, 0, sizeof *batch);
    if (!PyArg_ParseTuple(args, format, &batch->octets, at, frame, &PyList_Type, &batch->batch, &batch->header,
                          &batch->ether_type_at, is_big, first, second, third))
        return 0;
    if (PyObject_GetBuffer(batch->octets, view, PyBUF_SIMPLE) < 0)
        return 0;
    batch->first = view->buf;
    if (*at < 0 || batch->ether_type_at < 0 || batch->ether_type_at + 2 > batch->header) {
        PyBuffer_Release(view);
        PyErr_SetString(PyExc_ValueError, "no place in the octets, or no header with an EtherType");
        return 0;
    }
    return 1;
}

PyDoc_STRVAR(pcap_doc, "pcap(octets, at, frame, batch, header, ether_type_at, is_big, resolution) -> (at, frame)\n\n"
"Append the segments of ordinary packets in records of a pcap file.");

static PyObject *pcap(PyObject *Py_UNUSED(module), PyObject *args)
{
    Batch batch;
    Py_buffer view;
    Py_ssize_t at, frame;
    int is_big, taken = 1;
    unsigned long long resolution;
    if (!begin(args, "OnnO!nnpK:pcap", &batch, &view, &at, &frame, &is_big, &resolution, NULL, NULL))
        return NULL;
    while (view.len - at >= PCAP_RECORD) {
        const uint8_t *record = batch.first + at;
        uint32_t captured = field32(record + 8, is_big);
        if (captured > LONGEST || captured > view.len - at - PCAP_RECORD)
            break;
        uint64_t time = field32(record, is_big) * (uint64_t)NANOSECONDS + field32(record + 4, is_big) * (uint64_t)resolution;
        taken = take(&batch, frame + 1, time, at + PCAP_RECORD, captured);
        if (taken <= 0)
            break;
        frame++;
        at += PCAP_RECORD + captured;
    }
    forget(&batch.keys);
    PyBuffer_Release(&view);
    return taken < 0 ? NULL : Py_BuildValue("nn", at, frame);
}

PyDoc_STRVAR(enhanced_doc, "enhanced(octets, at, frame, batch, header, ether_type_at, is_big, interface, simple_high, factor)"
" -> (at, frame)\n\nAppend the segments of ordinary packets in Enhanced Packet Blocks of one interface.");

static PyObject *enhanced(PyObject *Py_UNUSED(module), PyObject *args)
{
    Batch batch;
    Py_buffer view;
    Py_ssize_t at, frame;
    int is_big, taken = 1;
    unsigned long long interface, simple_high, factor;
    if (!begin(args, "OnnO!nnpKKK:enhanced", &batch, &view, &at, &frame, &is_big, &interface, &simple_high, &factor))
        return NULL;
    while (view.len - at >= ENHANCED_HEADER) {
        const uint8_t *block = batch.first + at;
        uint32_t length = field32(block + 4, is_big), captured = field32(block + 20, is_big);
        uint32_t high = field32(block + 12, is_big);
        if (field32(block, is_big) != ENHANCED_PACKET || captured > LONGEST || length & 3 || length > view.len - at
            || captured + ENHANCED_FRAME > length || field32(block + 8, is_big) != interface || high >= simple_high)
            break;
        uint64_t time = ((uint64_t)high << 32 | field32(block + 16, is_big)) * factor;
        taken = take(&batch, frame + 1, time, at + ENHANCED_HEADER, captured);
        if (taken <= 0)
            break;
        frame++;
        at += length;
    }
    forget(&batch.keys);
    PyBuffer_Release(&view);
    return taken < 0 ? NULL : Py_BuildValue("nn", at, frame);
}

static PyMethodDef functions[] = {
    {"pcap", pcap, METH_VARARGS, pcap_doc},
    {"enhanced", enhanced, METH_VARARGS, enhanced_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "scapy_mpa.capture._records",
    .m_doc = "The compiled twin of the loops over records.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__records(void) { return PyModuleDef_Init(&module); }
