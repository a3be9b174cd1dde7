"""The incoming half connection of an endpoint: octets in, validated ULPDUs out (RFC 5044 §3, §4, §6, §8).

TCP hands over octets in order, so each FPDU begins where the one before it ends.  :class:`~scapy_mpa.receive.scan.Scan`
reads them, as it does for a capture.  Where something does not fit, the one FPDU at which it stopped is *judged*, by
the receiver's :class:`~scapy_mpa.receive.scan.FPDUReader` and with the receiver's words: what a receiver tolerates
becomes an event, anything else is raised, once.

Never more is held than one FPDU that is not complete: 65,535 octets of ULPDU, its Markers, PAD and CRC.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH, MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import LONGEST_FPDU, Octets, plain_length, remove_markers
from scapy_mpa.framing.role import Role
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import Event, PeerDeviated, ULPDUReceived
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.scan import Extent, FPDUReader, Layout, Scan, Unusual, Usual
from scapy_mpa.rules.table import RULES
from scapy_mpa.values.segment import segment
from scapy_mpa.watch.fpdus import LOOKED_AT, odd_pad, oddities, wrong_beginning

#: Nothing is usual: scan hands over every FPDU, and says that it ``fits`` only if its PAD is zero.
_NOTHING_USUAL: Final = Usual(longest=MAX_ULPDU_LENGTH)
#: So many first octets of an FPDU tell how long it is: a Marker, ULPDU_Length, and the control octets that scan reads.
_HEAD: Final = 8


class IncomingHalf:
    """What the peer sends in Full Operation.

    Args:
        layout: how its FPDUs lie.
        profile: the name of the specification whose clauses count.
        by: which endpoint the peer is.

    Attributes:
        offset: of the first octet of the next FPDU.
        fpdus: how many were passed on.
    """

    def __init__(self, layout: Layout, profile: str, by: Role) -> None:
        self._layout = layout
        self._profile = profile
        self._by: Role = by
        self._scan = Scan(layout)
        self._held = bytearray()
        #: The offset at which the FPDU ends of which a part is held; 0 if its length is not known yet.
        self._need = 0
        self.offset = 0
        self.fpdus = 0

    @property
    def held(self) -> int:
        """Octets of an FPDU that is not complete."""
        return len(self._held)

    def take(self, octets: Octets) -> list[Event]:
        """Take octets; returns the ULPDUs of the FPDUs that they complete, and what is odd about those.

        Raises RemoteProtocolError with the events in front of it for what a receiver must not pass: code 2, code 3, a
        ULPDU that is too long.  It must not be handed anything then.
        """
        held = self._held
        if held:
            end = self.offset + len(held) + len(octets)
            if end < self._need:
                return self._hold_more(octets)
            held += octets
            if len(held) < _HEAD:
                return []
            octets = bytes(held)
            held.clear()
        events: list[Event] = []
        view = memoryview(octets)
        try:
            at = self._read(view, events)
        except RemoteProtocolError as error:
            raise error.carrying(events) from None
        held += view[at:]
        return events

    def _hold_more(self, octets: Octets) -> list[Event]:
        """More of an FPDU came, and not its end; without a CRC, its Markers alone tell that its length is wrong."""
        held = self._held
        start = len(held)
        held += octets
        first = max(start - 3, 0)  # of a Marker that was cut
        with memoryview(held) as view:
            if self._layout.crc or self._scan.part_agrees(view, first, len(view), self.offset, self.offset):
                return []
        self._judge_part(bytes(held))
        return []

    def _read(self, octets: memoryview, events: list[Event]) -> int:
        """Read all FPDUs that are complete; the index of the first octet that belongs to none of them."""
        at, size = 0, len(octets)
        while True:
            ends: list[int] = []
            fpdus: list[Unusual] = []
            begin = self.offset
            shift = begin - at
            found = self._scan.read(octets, at, size, shift, _NOTHING_USUAL, 0, ends, None, fpdus)
            if fpdus:
                self._pass(octets, fpdus, shift, events)
                at = ends[-1] - shift
                self.offset = ends[-1]
            if found is not None:
                self._need = found.need
                return at
            length = self._judge(octets[at : at + LONGEST_FPDU], events)
            if not length:
                return at
            at += length
            self.offset += length

    def _pass(self, octets: memoryview, fpdus: list[Unusual], shift: int, events: list[Event]) -> None:
        """Pass on the ULPDUs of FPDUs that scan found good; of those that do not ``fit``, PAD may be odd."""
        self.fpdus += len(fpdus)
        markers = self._layout.markers
        for one in fpdus:
            begin, header, length, end = one.begin, one.header, one.ulpdu_length, one.end
            first = header + LENGTH_FIELD_LENGTH
            if not one.fits and (detail := odd_pad(octets, end, length, shift, markers)):
                events.append(self._odd("pad", detail, begin + shift))
            if end - header == plain_length(length):
                ulpdu = bytes(octets[first : first + length])
            else:
                ulpdu = remove_markers(octets[first:end], first + shift)[:length]
            events.append(ULPDUReceived(ulpdu, begin + shift, end - begin))

    def _judge(self, octets: Octets, events: list[Event]) -> int:
        """Judge the FPDU at which scan stopped; its octets if it is passed on, 0 if it is not complete."""
        reader, extent = self._reader(octets)
        assert extent is not None
        self._need = extent.end
        if extent.end > reader.reassembly.next:
            self._judge_part(octets)
            return 0
        if self._layout.crc and not reader.crc_is_good(extent):
            detail = f"FPDU with a ULPDU of {extent.ulpdu_length} octets: CRC mismatch"
            raise self._error("crc", detail, octets)
        disagreement = reader.disagreement(extent, extent.end)
        if disagreement is not None and RULES[disagreement.rule].severity == "error":
            raise self._error(disagreement.rule, disagreement.detail(extent.offset), octets)
        if extent.ulpdu_length > MAX_ULPDU_LENGTH:
            raise self._error("ulpdu-length-limit", f"ULPDU_Length {extent.ulpdu_length}", octets)
        odd = oddities(reader, extent)
        if disagreement is not None:
            odd.append((disagreement.rule, disagreement.detail(extent.offset)))
        if not extent.ulpdu_length:
            odd.append(("ulpdu-length-zero", "ULPDU_Length 0"))
        events.extend(self._odd(rule, detail, self.offset) for rule, detail in odd)
        ulpdu = reader.ulpdu(extent, extent.ulpdu_length)
        events.append(ULPDUReceived(ulpdu, extent.offset, extent.end - extent.offset))
        self.fpdus += 1
        return extent.end - extent.offset

    def _judge_part(self, octets: Octets) -> None:
        """Judge an FPDU that is not complete: without a CRC its Markers decide, with one it has to be awaited."""
        if self._layout.crc:
            return
        reader, extent = self._reader(octets)
        found = reader.disagreement(extent, reader.reassembly.next) if extent is not None else None
        if found is not None and found.rule == "marker-length":
            raise self._error(found.rule, found.detail(self.offset), octets)

    def _reader(self, octets: Octets) -> tuple[FPDUReader, Extent | None]:
        """What reads the next FPDU, with which ``octets`` begin, and its extent, None if they lack ULPDU_Length."""
        reassembly = Reassembly(0, True, self.offset)
        reader = FPDUReader(reassembly, self._layout)
        first = segment(0, b"", reassembly.seq_of(self.offset), octets)
        reassembly.commit(first, self.offset, self.offset + len(octets))
        return reader, reader.extent(self.offset, reassembly.next)

    def _error(self, rule: str, detail: str, octets: Octets) -> RemoteProtocolError:
        """An error of the FPDU with which ``octets`` begin; of the first one, the rule that its first octets break.

        The code is what the receiver found, whatever led to it.
        """
        wrong = None
        if not self.offset and rule != "ulpdu-length-limit":
            wrong = wrong_beginning(bytes(octets[:LOOKED_AT]), self._layout.markers, self._layout.crc)
        if wrong is not None:
            return RemoteProtocolError(f"{detail}; {wrong[1]}", wrong[0], profile=self._profile, code=RULES[rule].code)
        return RemoteProtocolError(f"{detail}, at offset {self.offset}", rule, profile=self._profile)

    def _odd(self, rule: str, detail: str, offset: int) -> PeerDeviated:
        clause = RULES[rule].clause_in(self._profile) or ""
        return PeerDeviated(rule, clause, f"{detail}, at offset {offset}", self._by)
