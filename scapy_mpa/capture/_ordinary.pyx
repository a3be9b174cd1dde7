"""The ordinary records of a pcap or pcapng file, compiled: IPv4 without options or IPv6 that carries TCP, below a plain
link.

The loops of ``pcap.py`` and ``pcapng.py`` do the same for every record; they take up where these stop.
"""

from libc.string cimport memcmp

from scapy_mpa.values._inline cimport MPA_BE16, MPA_BE32, MPA_LE32, lying_in

from scapy_mpa.capture.link import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from scapy_mpa.values.segment cimport Segment


cdef int _IPV4 = ETHERTYPE_IPV4, _IPV6 = ETHERTYPE_IPV6
cdef unsigned int _ENHANCED_PACKET = 6
#: Octets of an enhanced packet block before the packet, and of all of it without one.
cdef Py_ssize_t _BLOCK_HEADER = 28, _SHORTEST_BLOCK = 32
#: Keys met before: most segments have one of few, and hold the same object then.
cdef list _keys = [b""] * 4096


#: The one that was met last, and the one before: mostly those of both directions of a connection.
cdef bytes _last = b"", _before = b""


cdef inline bint is_same(bytes known, const unsigned char *p, Py_ssize_t size) noexcept:
    return len(known) == size and not memcmp(<const unsigned char *>known, p, size)


cdef bytes key_at(const unsigned char *p, Py_ssize_t size):
    global _last, _before
    if not is_same(_last, p, size):
        _last, _before = _before if is_same(_before, p, size) else other_key_at(p, size), _last
    return _last


cdef bytes other_key_at(const unsigned char *p, Py_ssize_t size):
    cdef unsigned int mixed = 0
    cdef Py_ssize_t at
    cdef bytes known
    for at in range(0, size, 4):
        mixed = (mixed ^ MPA_BE32(p + at)) * 0x9E3779B1u
    known = <bytes>_keys[mixed >> 20]
    if not is_same(known, p, size):
        known = p[:size]
        _keys[mixed >> 20] = known
    return known


cdef Segment segment_of(
    long long frame, long long time, object octets, const unsigned char *p, Py_ssize_t start, Py_ssize_t ip, Py_ssize_t size,
    bint is_ipv6
):
    """The segment in the frame of ``size`` octets at ``p``, whose index is ``start``; None if it is not ordinary.

    The IP header begins at ``ip``, counted from ``p``.
    """
    cdef Py_ssize_t tcp, end, payload
    cdef bytes key
    cdef Segment seg
    if is_ipv6:
        tcp = ip + 40
        if size < tcp + 14 or p[ip] >> 4 != 6 or p[ip + 6] != 6:
            return None
        end = tcp + MPA_BE16(p + ip + 4)
    else:
        tcp = ip + 20
        if size < tcp + 14 or p[ip] != 0x45 or p[ip + 9] != 6 or MPA_BE16(p + ip + 6) & 0x3FFF:
            return None
        end = ip + MPA_BE16(p + ip + 2)
    payload = tcp + (p[tcp + 12] >> 4) * 4
    if payload < tcp + 20 or end < payload or end > size:
        return None
    key = key_at(p + tcp - 32, 36) if is_ipv6 else key_at(p + tcp - 8, 12)
    seg = Segment.__new__(Segment)
    seg.frame, seg.time, seg.key, seg.flags = frame, time, key, p[tcp + 13]
    seg.seq, seg.ack = MPA_BE32(p + tcp + 4), MPA_BE32(p + tcp + 8)
    seg.buffer, seg.start, seg.end, seg.tcp, seg.length = octets, start + payload, start + end, start + tcp, end - payload
    return seg


def ordinary_records(
    object octets, Py_ssize_t at, Py_ssize_t size, long long frame, long long time, list batch, Py_ssize_t link_header,
    Py_ssize_t ether_type_at, bint is_big_endian, long long resolution
):
    """Append the segments of ordinary records; where the first other one begins, the last frame and its time.

    Args:
        octets: a block of the file.
        at: where a record begins.
        size: octets of the block.
        frame: the number of the frame before.
        time: its time.
        batch: takes the segments.
        link_header: octets of the link layer's header.
        ether_type_at: where in it the EtherType stands.
        is_big_endian: the byte order of the file.
        resolution: nanoseconds in a unit of the fraction.
    """
    cdef const unsigned char *p = lying_in(octets, 0, size)
    cdef const unsigned char *record
    cdef unsigned int captured, seconds, fraction, ether_type
    cdef Segment seg
    if at < 0 or link_header < ether_type_at + 2 or ether_type_at < 0 or link_header > 64:
        raise IndexError(at)
    while size - at >= 16:
        record = p + at
        if is_big_endian:
            seconds, fraction, captured = MPA_BE32(record), MPA_BE32(record + 4), MPA_BE32(record + 8)
        else:
            seconds, fraction, captured = MPA_LE32(record), MPA_LE32(record + 4), MPA_LE32(record + 8)
        if <Py_ssize_t>captured > size - at - 16 or <Py_ssize_t>captured < link_header:
            break
        ether_type = MPA_BE16(record + 16 + ether_type_at)
        if ether_type != _IPV4 and ether_type != _IPV6:
            break
        seg = segment_of(
            frame + 1, seconds * 1_000_000_000LL + fraction * resolution, octets, record + 16, at + 16, link_header,
            captured, ether_type == _IPV6
        )
        if seg is None:
            break
        time = seconds * 1_000_000_000LL + fraction * resolution
        batch.append(seg)
        frame += 1
        at += 16 + captured
    return at, frame, time


cdef inline unsigned int number_at(const unsigned char *p, bint is_big_endian) noexcept:
    return MPA_BE32(p) if is_big_endian else MPA_LE32(p)


def ordinary_blocks(
    object octets, Py_ssize_t at, Py_ssize_t size, long long frame, long long time, list batch, Py_ssize_t link_header,
    Py_ssize_t ether_type_at, bint is_big_endian, unsigned int interface, long long factor, unsigned int simple_high
):
    """Append the segments of ordinary enhanced packet blocks, as :func:`ordinary_records` does of records.

    Args:
        octets: a block of the file.
        at: where a block begins.
        size: octets of the block of the file.
        frame: the number of the frame before.
        time: its time.
        batch: takes the segments.
        link_header: octets of the link layer's header.
        ether_type_at: where in it the EtherType stands.
        is_big_endian: the byte order of the section.
        interface: the number of the interface whose packets are read.
        factor: nanoseconds in a unit of its time.
        simple_high: its times are that multiple if their upper half is below this.
    """
    cdef const unsigned char *p = lying_in(octets, 0, size)
    cdef const unsigned char *block
    cdef unsigned int length, high, captured, ether_type
    cdef long long now
    cdef Segment seg
    if at < 0 or link_header < ether_type_at + 2 or ether_type_at < 0 or link_header > 64:
        raise IndexError(at)
    while size - at >= _SHORTEST_BLOCK:
        block = p + at
        length = number_at(block + 4, is_big_endian)
        high = number_at(block + 12, is_big_endian)
        captured = number_at(block + 20, is_big_endian)
        if (
            number_at(block, is_big_endian) != _ENHANCED_PACKET
            or number_at(block + 8, is_big_endian) != interface
            or high >= simple_high
            or <Py_ssize_t>captured < link_header
            or <Py_ssize_t>captured + _SHORTEST_BLOCK > <Py_ssize_t>length
            or <Py_ssize_t>length > size - at
            or length & 3
            or number_at(block + length - 4, is_big_endian) != length
        ):
            break
        ether_type = MPA_BE16(block + _BLOCK_HEADER + ether_type_at)
        if ether_type != _IPV4 and ether_type != _IPV6:
            break
        now = (<long long>high << 32 | number_at(block + 16, is_big_endian)) * factor
        seg = segment_of(
            frame + 1, now, octets, block + _BLOCK_HEADER, at + _BLOCK_HEADER, link_header, captured, ether_type == _IPV6
        )
        if seg is None:
            break
        time = now
        batch.append(seg)
        frame += 1
        at += length
    return at, frame, time
