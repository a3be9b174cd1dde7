"""Hostile captures of which each packet would have the same octets looked at once more (see floods.py)."""

from __future__ import annotations

from functools import partial

from scapy_mpa.framing.crc import crc32c
from scapy_mpa.framing.markers import encode_marker
from scapy_mpa.framing.startup import startup_frame
from tests.hostile.floods import add, running
from tests.hostile.flow import Flow, cuts_of, file_of
from tests.laying import lay_stream

#: No Terminate, and no opcode that DDP knows.
_TINY = b"\x41\x47"


def _damage(flow: Flow) -> None:
    """The last frame has a wrong TCP checksum."""
    damaged = bytearray(flow.frames[-1])
    damaged[50] ^= 0x55
    flow.frames[-1] = bytes(damaged)


def _around_marker(good: bool) -> bytes:
    """An FPDU of which a Marker 8 octets behind its beginning tells where it begins."""
    octets = b"\0\6\x41\x47abcd" + encode_marker(8)
    return octets + (crc32c(octets).to_bytes(4, "little") if good else b"\1\2\3\4")


# --- startup frames ---


def _replaced(whole: bool, count: int) -> bytes:
    """A Request in octets whose TCP checksums are all wrong; each comes once more, with another octet."""
    flow = Flow().open()
    request = startup_frame("request", private_data=bytes(count // 2)).encode()
    for at in range(len(request) - (not whole)):
        flow.put("a", 1001 + at, request[at : at + 1])
        _damage(flow)
    for at in range(20, len(request)):
        flow.put("a", 1001 + at, b"\1")
    return file_of(flow.frames)


def _rejected(count: int) -> bytes:
    """Requests, all of which wait, and then Replies that reject them."""
    flow = Flow().open()
    for _ in range(count // 2):
        flow.say("a", startup_frame("request").encode())
    for _ in range(count // 2):
        flow.say("b", startup_frame("reply", r=True).encode())
    return file_of(flow.frames)


for _whole in (True, False):
    add(f"a Request in damaged octets{'' if _whole else ', one of which is missing'}", 1000, partial(_replaced, _whole))
add("Requests that wait, and rejections", 1000, _rejected)


# --- segments ---


def _interleaved(damaged: bool, consumed: bool, count: int) -> bytes:
    """One long segment, between whose octets others came before; then some that differ from it."""
    flow = running("SYN", False, not consumed)
    octets = bytearray(lay_stream([_TINY] * (count // 4), markers=False, crc=False)[0])
    size = len(octets)
    flow.bring("a", bytes(octets), [(at, at + 1) for at in range(1, size, 8 if consumed else 2)])
    flow.bring("a", bytes(octets), [(0 if consumed else 1, size)])
    if damaged:
        _damage(flow)
    for number in range(1, 5):
        octets[-2] = number
        flow.bring("a", bytes(octets), [(0 if consumed else 1, size)])
    return file_of(flow.frames)


def _noise_in_octets(count: int) -> bytes:
    """Behind FPDUs with a bad CRC, lengths that lead far, in segments of an octet."""
    flow = running("SYN", False, True)
    fpdu = bytearray(lay_stream([bytes(40)], markers=False)[0])
    fpdu[-1] ^= 1
    octets = bytes(fpdu + fpdu) + b"\xfd\xff\xfd\xfc" * (count // 4)
    return file_of(flow.bring("a", octets, [(0, 2 * len(fpdu)), *cuts_of(len(octets), 1)[2 * len(fpdu) :]]).frames)


add("a long segment among short ones", 6000, partial(_interleaved, False, False))
add("a long damaged segment among short ones", 6000, partial(_interleaved, True, False))
add("a long segment among short ones, consumed", 6000, partial(_interleaved, False, True))
add("lengths that lead far, an octet a segment", 4000, _noise_in_octets)


# --- FPDUs beyond a gap ---


def _suspects(count: int) -> bytes:
    """FPDUs with a bad CRC that Markers locate beyond a gap; then tiny ones in order."""
    flow = running("SYN", True, True)
    far = flow.at["a"] + (1 << 20) - 8
    for number in range(count):
        flow.put("a", far + 512 * number, _around_marker(False))
    octets = lay_stream([_TINY] * (2 * count), markers=True)[0]
    return file_of(flow.bring("a", octets, cuts_of(len(octets), 1400)).frames)


def _withdrawn(count: int) -> bytes:
    """FPDUs beyond a gap that are good, and such whose segments are damaged."""
    flow = running("SYN", True, True)
    far = flow.at["a"] + (1 << 20) - 8
    for number in range(count):
        flow.put("a", far + 512 * number, _around_marker(2 * number < count))
        if 2 * number >= count:
            _damage(flow)
    return file_of(flow.frames)


def _bad_again(count: int) -> bytes:
    """An FPDU of 64 KiB with a bad CRC, most of it in octets, beyond a gap, and octets on either side of it."""
    flow = running("SYN", True, True)
    octets = bytearray(lay_stream([_TINY + bytes(60000)], markers=True)[0])
    octets[-1] ^= 1
    size, short = len(octets), count * 3 // 4
    flow.at["a"] += 4096
    cuts = [*cuts_of(short, 1), *((at, min(at + 1400, size)) for at in range(short, size, 1400))]
    flow.bring("a", bytes(octets), cuts)
    for at in range(count // 8):
        flow.put("a", flow.at["a"] + size + at, b"\0")
        flow.put("a", flow.at["a"] - 1 - at, b"\0")
    return file_of(flow.frames)


add("suspects beyond a gap", 2000, _suspects)
add("FPDUs that are withdrawn beyond a gap", 2000, _withdrawn)
add("64 KiB with a bad CRC in octets", 4000, _bad_again)
