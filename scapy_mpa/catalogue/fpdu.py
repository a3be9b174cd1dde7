"""Changes to FPDUs as they are laid in the stream: lengths, PAD, CRC, Markers, and what stands in their place.

The FPDUs of a side are numbered from 1; 0 stands for all that have no change of their own. The CRC is made right
again after a change, unless the case is asked to leave it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal

from scapy_mpa.catalogue.mutation import mutation
from scapy_mpa.catalogue.sent import FPDUChange, SentFPDU
from scapy_mpa.framing.crc import CRC_LENGTH, crc_field
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_LENGTH

if TYPE_CHECKING:
    from scapy_mpa.catalogue.plan import Plan


def _change(plan: Plan, number: int, change: FPDUChange) -> None:
    plan.fpdus.setdefault((plan.by, number), []).append(change)


@mutation
def pad(plan: Plan, number: int, octets: bytes) -> None:
    """PAD is these octets."""
    _change(plan, number, lambda sent: sent.laid(sent.ulpdu, pad=octets))


@mutation
def ulpdu(plan: Plan, number: int, octets: bytes) -> None:
    """The ULPDU is this one."""
    _change(plan, number, lambda sent: sent.laid(octets))


@mutation
def ulpdu_length(plan: Plan, number: int, *, is_: int | None = None, more: int = 0) -> None:
    """ULPDU_Length says this, or so many more, and nothing else is changed."""

    def change(sent: SentFPDU) -> bytes:
        field = (len(sent.ulpdu) + more if is_ is None else is_).to_bytes(LENGTH_FIELD_LENGTH, "big")
        at = sent.header
        return sent.sealed(sent.octets[:at] + field + sent.octets[at + LENGTH_FIELD_LENGTH :])

    _change(plan, number, change)


@mutation
def resized(plan: Plan, number: int, size: int) -> None:
    """The ULPDU is cut, or goes on, to this size; ULPDU_Length says so unless lengths are left."""

    def change(sent: SentFPDU) -> bytes:
        octets = sent.ulpdu[:size] + bytes(range(1, 256))[: max(size - len(sent.ulpdu), 0)].ljust(
            size - len(sent.ulpdu), b"\xa5"
        )
        return sent.laid(octets, ulpdu_length=len(sent.ulpdu) if sent.left == "lengths" else None)

    _change(plan, number, change)


@mutation
def damaged(plan: Plan, number: int, at: int, mask: int = 1) -> None:
    """The octet at this index is another, and the CRC is not made right again."""

    def change(sent: SentFPDU) -> bytes:
        octets = bytearray(sent.octets)
        octets[at] ^= mask
        return bytes(octets)

    _change(plan, number, change)


@mutation
def crc(plan: Plan, number: int, value: int | Literal["reversed", "inverted"]) -> None:
    """The CRC field holds this number, or what it should, its octets reversed or its bits inverted."""

    def change(sent: SentFPDU) -> bytes:
        right = sent.octets[-CRC_LENGTH:]
        if value == "reversed":
            field = right[::-1]
        elif value == "inverted":
            field = bytes(octet ^ 0xFF for octet in right)
        else:
            field = crc_field(value)
        return sent.octets[:-CRC_LENGTH] + field

    _change(plan, number, change)


@mutation
def marker(
    plan: Plan,
    number: int,
    which: int = 0,
    *,
    reserved: int | None = None,
    fpduptr: int | None = None,
    more: int = 0,
    moved: int = 0,
) -> None:
    """A Marker of the FPDU, from 0 on, has this RESERVED, this FPDUPTR or ``more``, or stands ``moved`` octets off."""

    def change(sent: SentFPDU) -> bytes:
        octets, at = bytearray(sent.octets), sent.markers[which]
        said = struct.unpack_from("!HH", octets, at)
        value = (said[1] + more if fpduptr is None else fpduptr) & 0xFFFF
        struct.pack_into("!HH", octets, at, said[0] if reserved is None else reserved, value)
        if moved:
            taken = octets[at : at + MARKER_LENGTH]
            del octets[at : at + MARKER_LENGTH]
            octets[at + moved : at + moved] = taken
        return sent.sealed(bytes(octets))

    _change(plan, number, change)


@mutation
def unmarked(plan: Plan, number: int) -> None:
    """The Markers of the FPDU are left out."""
    _change(plan, number, lambda sent: encode_fpdu(sent.ulpdu, crc=sent.crc))


@mutation
def cut(plan: Plan, number: int, keep: int) -> None:
    """Only so many octets of the FPDU are sent; negative: so many are not."""
    _change(plan, number, lambda sent: sent.octets[:keep])


@mutation
def cut_at_marker(plan: Plan, number: int, which: int, *, behind: bool = False) -> None:
    """The FPDU is cut where this Marker begins, or behind it."""
    _change(plan, number, lambda sent: sent.octets[: sent.markers[which] + (MARKER_LENGTH if behind else 0)])


@mutation
def followed(plan: Plan, number: int, octets: bytes) -> None:
    """Behind the FPDU stand octets that belong to none."""
    _change(plan, number, lambda sent: sent.octets + octets)


@mutation
def twice(plan: Plan, number: int) -> None:
    """The FPDU is sent a second time."""
    _change(plan, number, lambda sent: sent.octets + sent.octets)


@mutation
def left_out(plan: Plan, number: int) -> None:
    """The FPDU is not sent."""
    _change(plan, number, lambda sent: b"")
