"""Full Operation where a startup frame was not captured: Markers, CRC and where FPDUs lie, from the octets alone.

It only says where and how the one :class:`~scapy_mpa.receiver.fpdus.FPDUReader` begins.  The evidence of octets is
counted by :mod:`scapy_mpa.infer.inference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.startup import KEY_PREFIX
from scapy_mpa.infer.evidence import HEADER_OCTETS, may_begin_with_fpdu
from scapy_mpa.infer.inference import FEWEST_HEADERS, Budget, Head, Inferred, Run, infer, is_enough
from scapy_mpa.receiver.window import LOOKED_AT, FPDUWindow, Layout, is_unlike_ddp
from scapy_mpa.stream.connection import TCPHalf
from scapy_mpa.stream.copies import WRONG, Copies, Copy
from scapy_mpa.stream.drop_reason import LARGEST_WINDOW
from scapy_mpa.tuples import NamedTuple

#: Octets of one run that are examined: four of the longest FPDUs.
MOST_EXAMINED: Final = 1 << 18
#: ULPDU_Length and the header of a ULPDU (RFC 5041 §4), which show an FPDU where no CRC does.
SHOWN_BY: Final = 2 + HEADER_OCTETS


class Beginning(NamedTuple):
    """Where Full Operation of a direction begins: the offset that counts as 0, and from which FPDUs are read.

    ``is_beginning`` tells whether an FPDU, the first one, is known to begin there.
    """

    origin: int
    begins_at: int
    layout: Layout
    is_beginning: bool
    inferred: Inferred | None = None


def infer_half(
    half: TCPHalf, budget: Budget, markers: bool | None, crc: bool | None, fewest: int = FEWEST_HEADERS
) -> Inferred | None:
    """Return what the octets of a direction show, None if nothing.

    ``fewest`` is how many FPDUs without CRC and Markers must follow one another.
    """
    runs = [Run(start, bytes(half.copies.octets(start, end))) for start, end in _captured_runs(half)]
    return infer(runs, budget, markers, crc, fewest, _heads(half.copies) if half.copies.has_doubts else ())


def _heads(copies: Copies) -> list[Head]:
    """Return what is left of each segment, if a snapshot length cut one."""
    found: list[Head] = []
    is_cut = False
    for start, end, copy in _pieces(copies):
        if copy.data is not None:
            octets = bytes(copies.octets(start, min(end, start + SHOWN_BY))) if copy.checksum != WRONG else b""
            found.append(Head(start, octets, end))
        else:
            is_cut = True
            if found and found[-1].end == start:
                found[-1] = found[-1]._replace(end=end)
    return found if is_cut else []


def _captured_runs(half: TCPHalf) -> Iterator[tuple[int, int]]:
    """Yield the offsets [start, end) of contiguous octets of which a snapshot length cut none off.

    Octets of segments with a wrong TCP checksum are left out, unless most are wrong: their receiver dropped them.
    """
    says_nothing = sum(1 if copy.checksum == WRONG else -1 for _, _, copy in _pieces(half.copies)) > 0
    first, last = 0, 0
    for start, end, copy in _pieces(half.copies):
        if copy.data is None or (copy.checksum == WRONG and not says_nothing):
            continue
        if start != last:
            if first < last:
                yield first, min(last, first + MOST_EXAMINED)
            first = start
        last = end
    if first < last:
        yield first, min(last, first + MOST_EXAMINED)


def _pieces(copies: Copies) -> Iterator[tuple[int, int, Copy]]:
    """Yield where each piece begins and ends, and the copy chosen for it."""
    for start, end in copies.runs():
        for at, copy in copies.chosen_in(start, end):
            yield at, copies.piece(at)[1], copy


def infer_both(
    halves: Sequence[TCPHalf],
    budget: Budget,
    markers: Sequence[bool | None] = (None, None),
    crc: bool | None = None,
    is_sure: bool = False,
) -> tuple[list[Inferred | None], bool]:
    """Return what each direction shows without any startup frame, and whether CRCs are in use.

    Nothing is returned for a direction that contradicts the stronger one: CRCs are in use in both or in none (RFC 5044
    §7.1.1).  ``markers`` and ``crc`` are what the user says, ``is_sure`` that there are FPDUs.
    """
    found = [
        infer_half(half, budget, with_markers, crc) if len(half.copies) else None
        for half, with_markers in zip(halves, markers, strict=True)
    ]
    sure = [one for one in found if one is not None and one.confirmations]
    if not is_sure and not (sure and is_enough(sure)):
        return [None, None], False
    if crc is None:
        crc = bool(sure) and max(sure, key=lambda one: one.bits).crc
    return [one if one is not None and one.crc == crc else None for one in found], crc


def beginning_of(half: TCPHalf, inferred: Inferred) -> Beginning:
    """Return where the FPDUs of a direction begin that was inferred.

    Offsets count from a place before anything that can still come, at which a Marker may stand.
    """
    layout = Layout(inferred.markers, inferred.crc)
    is_first = half.start is not None and inferred.first == half.start and inferred.markers and inferred.crc
    if is_first and (inferred.first - inferred.grid) % MARKER_INTERVAL == 0:
        return Beginning(inferred.first, 0, layout, True, inferred)  # as culley-02 begins
    first = half.copies.start
    shift = LARGEST_WINDOW
    shift += (first - inferred.grid) % MARKER_INTERVAL if inferred.markers else (first - inferred.first) % 4
    return Beginning(first - shift, shift, layout, False, inferred)


def markers_at(half: TCPHalf, origin: int, budget: Budget, crc: bool | None) -> Layout:
    """Return how FPDUs lie behind a startup frame whose peer's was not captured: the first octets tell, else others.

    A Marker stands first, and its four octets are zero; ULPDU_Length is not.
    """
    edge = min(half.copies.edge(origin), origin + MOST_EXAMINED)
    if edge <= origin or not half.copies.is_captured(origin, edge):
        if edge >= origin + MARKER_LENGTH and half.copies.is_captured(origin, origin + MARKER_LENGTH):
            return Layout(bytes(half.copies.octets(origin, origin + MARKER_LENGTH)) == bytes(MARKER_LENGTH), bool(crc))
        inferred = infer_half(half, budget, None, crc) if len(half.copies) else None
        return Layout(False, bool(crc)) if inferred is None else Layout(inferred.markers, inferred.crc)
    data = half.copies.octets(origin, edge)
    for markers in (False, True):
        window = FPDUWindow(data, 0, Layout(markers, True))
        extent = window.extent(0)
        if extent is not None and extent.end <= window.end and window.is_valid(extent):
            return Layout(markers, True)
    return Layout(bytes(data[:4]) == bytes(4), bool(crc))


def begins_with_fpdu(half: TCPHalf, begin: int, layout: Layout) -> bool | None:
    """Return whether an FPDU, the first of Full Operation, begins at an offset, None while that is not known.

    Its CRC tells, without CRC the header of its ULPDU.
    """
    copies, header = half.copies, MARKER_LENGTH if layout.markers else 0
    shown = begin + header + SHOWN_BY
    edge = min(copies.edge(begin, shown), shown)
    if edge <= begin or not copies.is_captured(begin, edge):
        return None
    octets = copies.octets(begin, edge)
    if bytes(octets[: len(KEY_PREFIX)]) == KEY_PREFIX:
        return False
    extent = FPDUWindow(octets, 0, layout).extent(0)
    if not layout.crc or extent is None:
        is_marked = bytes(octets[:header]) == bytes(header)
        return None if edge < shown else is_marked and not is_unlike_ddp(octets, 0, layout)
    end = begin + extent.end
    if copies.edge(begin, end) < end or not copies.is_captured(begin, end):
        return None
    return FPDUWindow(copies.octets(begin, end), 0, layout).is_valid(extent)


def is_unlike_fpdu(half: TCPHalf, begin: int) -> bool:
    """Return True if the octets from an offset on show that none of DDP's FPDUs begins there, be there a Marker or not.

    A few octets may be enough; one with a good CRC is an FPDU whatever its ULPDU.
    """
    edge = min(half.copies.edge(begin, begin + LOOKED_AT), begin + LOOKED_AT)
    if edge <= begin or not half.copies.is_captured(begin, edge):
        return False
    octets = half.copies.octets(begin, edge)
    return all(
        is_unlike_ddp(octets, 0, Layout(markers, False)) and not begins_with_fpdu(half, begin, Layout(markers, True))
        for markers in (False, True)
    )


def lengths_lead(half: TCPHalf, begin: int, end: int, layout: Layout) -> bool:
    """Return True if lengths lead from an offset, taken for the first of Full Operation, exactly to another one."""
    if not begin < end <= half.copies.edge(begin, end) or not half.copies.is_captured(begin, end):
        return False
    return FPDUWindow(half.copies.octets(begin, end), 0, layout).lengths_lead(0, end - begin)


def leads_to_fpdu(half: TCPHalf, begin: int, layout: Layout) -> bool:
    """Return True if FPDUs that may be bad, the first of Full Operation, lead by their lengths to one that is not."""
    edge = min(half.copies.edge(begin, begin + LONGEST_FPDU), begin + LONGEST_FPDU)
    if edge <= begin or not half.copies.is_captured(begin, edge):
        return False
    return layout.crc and FPDUWindow(half.copies.octets(begin, edge), 0, layout).lengths_lead_to_valid(0)


def may_be_followed_by_fpdus(half: TCPHalf, begin: int, layout: Layout) -> bool:
    """Return False if the octets from an offset on, at which a startup frame may end, show that no FPDU begins there.

    A bad one whose length leads to another one is an FPDU, too.
    """
    begins = begins_with_fpdu(half, begin, layout)
    return bool(begins) or leads_to_fpdu(half, begin, layout) or (begins is None and not is_unlike_fpdu(half, begin))


def may_begin(half: TCPHalf, begin: int) -> bool:
    """Return False if the octets from an offset on show that no FPDU begins there, with a Marker or without."""
    edge = min(half.copies.edge(begin, begin + LONGEST_FPDU), begin + LONGEST_FPDU)
    if edge < begin + MARKER_LENGTH + SHOWN_BY or not half.copies.is_captured(begin, edge):
        return True
    return may_begin_with_fpdu(bytes(half.copies.octets(begin, edge)))
