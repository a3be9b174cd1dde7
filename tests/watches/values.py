"""FPDUs and segments as the receiver hands them out, without a receiver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from scapy_mpa.framing.crc import crc32c, crc_field
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.markers import header_offset, marker_count, plain_length
from scapy_mpa.receiver.values import Breach, LocatedFPDU, located_fpdu
from scapy_mpa.receiver.window import Layout
from scapy_mpa.stream.connection import Arrival, arrival_of
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.values.records import BAD, GOOD, LENGTH, NO_OPCODE, START
from scapy_mpa.watches.fpdus import FPDUWatch

SECOND = 1_000_000_000
_T = TypeVar("_T")
#: What makes values that are no named tuples.
_ARGUMENTS = {
    "DirectionEnd": "last fin resets reset_count retransmissions start sent acknowledged sacked messages terminated "
    "error_frame has_gap went_on went_on_at is_deviating is_in_operation",
    "FoundFrame": "startup start end frame time seq ack under_way key is_damaged",
    "StartupSide": "base end frame part garbled after_rejection opening first first_octets fpdus layout",
}


def changed(one: _T, **changes: Any) -> _T:
    """Return a value made of the same arguments but for some."""
    names = _ARGUMENTS[type(one).__name__].split()
    return type(one)(**{**{name: getattr(one, name) for name in names}, **changes})


def located(octets: bytes, offset: int, ulpdu: bytes, frame: int, markers: bool, crc: int = GOOD) -> LocatedFPDU:
    """Return the value of an FPDU with these octets, placed by the frame that brought all of them."""
    count = marker_count(offset, plain_length(len(ulpdu))) if markers else 0
    header = header_offset(offset) if markers else offset
    opcode = ulpdu[1] & 0x0F if len(ulpdu) > 1 else NO_OPCODE
    moment, by = (frame, frame * SECOND), LENGTH if offset else START
    return located_fpdu(
        offset, header, len(ulpdu), offset + len(octets), count, crc, by, (frame,), moment, moment, opcode,
        memoryview(octets),
    )  # fmt: skip


def fpdus(ulpdus: Iterable[bytes], markers: bool = False, frame: int = 1, offset: int = 0) -> list[LocatedFPDU]:
    """Return the FPDUs of ULPDUs, one after the other, each in a frame of its own."""
    found = []
    for number, ulpdu in enumerate(ulpdus, frame):
        octets = encode_fpdu(ulpdu, offset if markers else None, allow_oversize=True)
        found.append(located(octets, offset, ulpdu, number, markers))
        offset += len(octets)
    return found


def altered(fpdu: LocatedFPDU, at: int, value: bytes, *, is_bad: bool = False) -> LocatedFPDU:
    """Return an FPDU with other octets from index ``at`` on, and the right CRC unless that is to be bad."""
    octets = bytearray(fpdu.octets)
    octets[at : at + len(value)] = value
    if not is_bad:
        octets[-4:] = crc_field(crc32c(bytes(octets[:-4])))
    return fpdu.replace(octets=memoryview(bytes(octets)), crc=BAD if is_bad else GOOD)


def watched(found: Sequence[LocatedFPDU], watch: FPDUWatch | None = None, markers: bool = False) -> list[Breach]:
    """Return what FPDUs break."""
    if watch is None:
        watch = FPDUWatch(Layout(markers, True), True)
    return [breach for fpdu in found for breach in watch.passed(fpdu)]


def rules(breaches: Iterable[Breach]) -> set[str]:
    return {breach.rule for breach in breaches}


def arrival(
    frame: int,
    start: int,
    end: int,
    *,
    time: int | None = None,
    new: int = -1,
    late: bool = False,
    limit: int = 64,
    captured: int | None = None,
    reason: DropReason = DropReason.NONE,
    tsval: int | None = None,
    ack: int | None = None,
) -> Arrival:
    """Return a segment, a second after the one before; all of its octets are new unless told."""
    count = end - start
    when, is_new = frame * SECOND if time is None else time, count if new < 0 else new
    count = count if captured is None else captured
    return arrival_of(frame, when, start, end, is_new, late, True, limit, count, reason, tsval, ack)
