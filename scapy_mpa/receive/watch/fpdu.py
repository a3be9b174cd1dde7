"""What an FPDU holds that receivers do not look at: PAD, and Markers as a whole (RFC 5044 §4.1 to §4.3)."""

from __future__ import annotations

from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, Octets, check_markers
from scapy_mpa.receive.reader import Extent, FPDUReader

_CRC_LENGTH = 4
_LOW_BITS = 3


def oddities(reader: FPDUReader, extent: Extent) -> list[tuple[str, str]]:
    """The rules, with details, that the octets of an FPDU break, all of which are held."""
    found = []
    pad = pad_of(reader, extent)
    if any(pad):
        found.append(("pad", pad_detail(extent.ulpdu_length, pad)))
    if extent.markers:
        found += _odd_markers(reader, extent)
    return found


def pad_detail(ulpdu_length: int, pad: Octets) -> str:
    """What a PAD is that is not zero."""
    return f"PAD of a ULPDU of {ulpdu_length} octets: {pad.hex(' ')}"


def pad_of(reader: FPDUReader, extent: Extent) -> bytes:
    """PAD: it ends where the CRC begins, or at a Marker before that."""
    length = -(extent.ulpdu_length + 2) % 4
    if not length:
        return b""
    end = extent.end - _CRC_LENGTH
    if reader.markers and (end - MARKER_LENGTH) % MARKER_INTERVAL == 0:
        end -= MARKER_LENGTH
    return reader.reassembly.read(end - length, end)


def _odd_markers(reader: FPDUReader, extent: Extent) -> list[tuple[str, str]]:
    found = []
    origins, starts = set(), set()
    checks = check_markers(reader.reassembly.read(extent.offset, extent.end), extent.offset, reader.origin)
    for check in checks:
        distance = check.marker_offset - extent.offset
        where = f"Marker {distance} octets into the FPDU"
        if check.reserved:
            found.append(("marker-reserved", f"{where}: RESERVED {check.reserved:#06x}"))
        if check.fpduptr & _LOW_BITS:
            found.append(("fpduptr-low-bits", f"{where}: FPDUPTR {check.fpduptr:#06x}"))
        if check.verdict == "bad":
            if not check.marker_offset:
                found.append(("marker-first", f"FPDUPTR of the first Marker is {check.fpduptr}"))
            starts.add(check.marker_offset - (check.fpduptr & ~_LOW_BITS) - extent.header)
        else:
            starts.add(0)
            if distance:
                origins.add(check.verdict)
    if len(starts) > 1 or len(origins) > 1:
        named = ", ".join(f"{start:+d}" for start in sorted(starts)) if len(starts) > 1 else "both origins"
        found.append(("marker-agree", f"{len(checks)} Markers name different starts: {named} from ULPDU_Length"))
    return found
