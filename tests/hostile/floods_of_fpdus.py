"""Hostile captures of FPDUs and startup frames (see floods.py)."""

from __future__ import annotations

import random
import struct
from functools import partial

from scapy_mpa.craft.packets import ACK, RST, SYN
from scapy_mpa.framing.startup import REQUEST_KEY, startup_frame
from tests.hostile.floods import FPDUS_OF_EIGHT_OCTETS, LITTLE, MANY_CONNECTIONS, add, running
from tests.hostile.flow import Flow, cuts_of, file_of
from tests.laying import lay_stream
from tests.receive.cases import ulpdus

_REQUEST, _REPLY = startup_frame("request", c=1).encode(), startup_frame("reply", c=1).encode()
_TERMINATE = b"\x41\x47" + bytes(4) + b"\0\0\0\2\0\0\0\1\0\0\0\0" + bytes(8)


# --- FPDUs ---


def _laid(begins: str, markers: bool, crc: bool, octets: bytes, size: int) -> bytes:
    return file_of(running(begins, markers, crc).bring("a", octets, cuts_of(len(octets), size)).frames)


def _empty(begins: str, markers: bool, crc: bool, count: int) -> bytes:
    """FPDUs without a ULPDU."""
    return _laid(begins, markers, crc, lay_stream([b""] * count, markers=markers, crc=crc)[0], 1400)


def _terminates(begins: str, count: int) -> bytes:
    return _laid(begins, False, True, lay_stream([_TERMINATE] * count, markers=False)[0], 1400)


def _damaged(begins: str, markers: bool, how: str, count: int) -> bytes:
    """FPDUs of which none has a good CRC; Markers or lengths may say anything."""
    rng = random.Random(1)
    octets, laid = lay_stream(ulpdus(*[60] * count), markers=markers)
    damaged = bytearray(octets)
    for fpdu in laid:
        damaged[fpdu.end - 1] ^= 0x55
        if how == "lengths":
            struct.pack_into(">H", damaged, fpdu.header_offset, rng.getrandbits(16))
    if how == "Markers":
        for at in range(0, len(damaged) - 4, 512):
            struct.pack_into(">HH", damaged, at, 0, rng.getrandbits(16))
    return _laid(begins, markers, True, bytes(damaged), 1400)


def _noise(begins: str, markers: bool, crc: bool, kind: str, count: int) -> bytes:
    """Octets that are no FPDUs at all, in segments of 1000."""
    rng = random.Random(1)
    if kind == "noise":
        octets = rng.getrandbits(8000 * count).to_bytes(1000 * count, "big")
    else:
        octets = {"zeros": b"\0", "ones": b"\xff", "fours": b"\0\4"}[kind] * (1000 * count)
    return _laid(begins, markers, crc, octets[: 1000 * count], 1000)


def _long_that_never_comes(begins: str, markers: bool, gap: bool, count: int) -> bytes:
    """An FPDU of 64 KiB of which the first octets come, and, after a gap, more of its kind, in short segments."""
    octets, _ = lay_stream([bytes(64700)] * (count // 1300 + 1), markers=markers)
    cuts = cuts_of(len(octets), 50)
    if gap:
        del cuts[1:-1:40]
    return file_of(running(begins, markers, True).bring("a", octets, cuts[:count]).frames)


def _long_of_many(count: int) -> bytes:
    """Connections of each of which an FPDU of 64 KiB begins."""
    frames: list[bytes] = []
    for number in range(count // 6):
        Flow(number, frames).open().start().say("a", b"\xff\xff\x41\x43" + bytes(36))
    return file_of(frames)


for _begins in ("SYN", "Reply", "middle"):
    for _markers in (False, True):
        _where = f"{' and Markers' * _markers} from the {_begins} on"
        add(f"empty FPDUs{_where}", 3000, partial(_empty, _begins, _markers, True))
        add(f"lengths that lie{_where}", 2000, partial(_damaged, _begins, _markers, "lengths"))
        add(f"64 KiB in short segments{_where}", 1500, partial(_long_that_never_comes, _begins, _markers, False))
        add(f"ones{_where}", 350, partial(_noise, _begins, _markers, True, "ones"))
        if _begins == "Reply":
            continue
        add(f"64 KiB with gaps{_where}", 1500, partial(_long_that_never_comes, _begins, _markers, True))
        add(f"bad CRCs{_where}", 1500, partial(_damaged, _begins, _markers, "CRCs"))
        for _kind in ("noise", "zeros", "fours"):
            memory = LITTLE if _kind == "noise" else FPDUS_OF_EIGHT_OCTETS
            add(f"{_kind}{_where}", 100, partial(_noise, _begins, _markers, True, _kind), memory=memory)
        add(f"noise, no CRC{_where}", 100, partial(_noise, _begins, _markers, False, "noise"))
    add(f"empty FPDUs, no CRC, from the {_begins} on", 3000, partial(_empty, _begins, False, False))
    add(f"Markers that point anywhere from the {_begins} on", 1500, partial(_damaged, _begins, True, "Markers"))
    add(f"Terminates from the {_begins} on", 1500, partial(_terminates, _begins))
add("64 KiB of each of many connections", 3000, _long_of_many, memory=MANY_CONNECTIONS)


# --- startup frames ---


def _requests(answered: bool, count: int) -> bytes:
    """MPA connections on new ports."""
    frames: list[bytes] = []
    for number in range(count):
        flow = Flow(number, frames)
        flow.say("a", _REQUEST)
        if answered:
            flow.say("b", _REPLY)
    return file_of(frames)


def _one_after_another(how: str, count: int) -> bytes:
    """MPA connections on the same addresses and ports."""
    flow = Flow()
    if how == "rejected":
        flow.open()
    for _ in range(count):
        if how == "SYN":
            flow.open()
        flow.say("a", _REQUEST)
        if how == "rejected":
            flow.say("b", startup_frame("reply", r=1).encode())
        elif how != "Requests":
            flow.say("b", _REPLY)
            flow.say("a", flags=RST | ACK)
    return file_of(flow.frames)


def _text(piece: bytes, size: int, order: str, opened: bool, count: int) -> bytes:
    """Streaming data that looks like the beginning of a startup frame, again and again."""
    flow = Flow()
    if opened:
        flow.open().start(request=False, reply=False)
    octets = (piece * (size * count // len(piece) + 1))[: size * count]
    cuts = cuts_of(len(octets), size)
    return file_of(flow.bring("a", octets, cuts[::-1] if order == "reversed" else cuts).frames)


def _syn_and_request(count: int) -> bytes:
    """Requests with forged SYNs between them."""
    flow = Flow().open()
    for number in range(count):
        flow.put("a", number * 1000, flags=SYN)
        flow.put("a", 1001 + number, _REQUEST, flags=ACK)
    return file_of(flow.frames)


add("Requests on new ports", 1000, partial(_requests, False), memory=MANY_CONNECTIONS)
add("Requests and Replies on new ports", 1000, partial(_requests, True), memory=MANY_CONNECTIONS)
for _how in ("SYN", "RST", "rejected", "Requests"):
    add(f"Requests on one port, {_how}", 500, partial(_one_after_another, _how), memory=MANY_CONNECTIONS)
add("SYNs and Requests", 3000, _syn_and_request)
for _opened in (True, False):
    for _order, _size in (("in order", 100), ("reversed", 3)):
        _where = f", {_size} octets a segment, {_order}{', without SYN' * (not _opened)}"
        add(f"Keys{_where}", 2000, partial(_text, REQUEST_KEY, _size, _order, _opened))
        add(f"parts of Keys{_where}", 2000, partial(_text, b"MPA ID Re", _size, _order, _opened))
        add(f"Requests with long Private Data{_where}", 2000,
                partial(_text, REQUEST_KEY + b"\0\1\xff\xff", _size, _order, _opened))  # fmt: skip
        add(f"text{_where}", 2000, partial(_text, b"GET / HTTP/1.1\r\n", _size, _order, _opened))


def _unanswered(seen: str, kind: str, crc: bool, size: int, count: int) -> bytes:
    """Octets behind a Request, or a Reply, whose counterpart was not captured; some of them are FPDUs."""
    flow = Flow().open().start(crc=crc, request=seen == "Request", reply=seen == "Reply")
    octets = random.Random(1).randbytes(size * count)
    if kind == "zeros":
        octets = bytes(size * count)
    elif kind == "headers":
        octets = (b"\0\x12\xc1\x40" * (size * count // 4 + 1))[: size * count]
    cuts = cuts_of(len(octets), size)
    return file_of(flow.bring("a", octets, cuts).bring("b", octets, cuts[: count // 10]).frames)


for _seen in ("Request", "Reply"):
    for _kind in ("noise", "zeros", "headers"):
        memory = FPDUS_OF_EIGHT_OCTETS if _kind == "zeros" else LITTLE
        add(f"{_kind} behind a {_seen} alone", 200, partial(_unanswered, _seen, _kind, False, 1000), memory=memory)
    add(f"noise behind a {_seen} alone, CRC", 200, partial(_unanswered, _seen, "noise", True, 1000))
    add(f"short segments of noise behind a {_seen} alone", 1500, partial(_unanswered, _seen, "noise", False, 20))
