"""The incoming half connection of an endpoint: octets in, validated ULPDUs out (RFC 5044 §3, §4, §6, §8).

TCP hands over octets in order, so each FPDU begins where the one before it ends.  What octets say about FPDUs is read
by the receiver's :class:`~scapy_mpa.receiver.window.FPDUWindow`, and judged by the functions of
:mod:`scapy_mpa.watches.fpdus`: what a receiver tolerates becomes an event, anything else is raised, once.

Never more is held than one FPDU that is not complete: 65,535 octets of ULPDU, its Markers, PAD and CRC.
"""

from __future__ import annotations

from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import (
    LENGTH_FIELD_LENGTH,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    SHORTEST_FPDU,
    Octets,
    decode_marker,
    remove_markers,
)
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.role import Role
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import Event, PeerDeviated, ULPDUReceived
from scapy_mpa.receiver.plain import has_usual_octets
from scapy_mpa.receiver.window import Extent, FPDUWindow, Layout
from scapy_mpa.rules.table import RULES
from scapy_mpa.watches.fpdus import disagreement, oddities, wrong_beginning


class IncomingHalf:
    """The octets that the peer sends in Full Operation.

    Args:
        layout: how its FPDUs lie, without a dialect.
        profile: the specification whose clauses count.
        by: which endpoint the peer is.

    Attributes:
        offset: of the first octet of the next FPDU.
        fpdus: how many were passed on.
    """

    def __init__(self, layout: Layout, profile: Profile, by: Role) -> None:
        self._layout = layout
        self._profile = profile
        self._by: Role = by
        self._held = bytearray()
        #: The offset at which the partly held FPDU ends; 0 if its length is not known yet.
        self._need = 0
        self.offset = 0
        self.fpdus = 0

    @property
    def held(self) -> int:
        """Octets of an FPDU that is not complete."""
        return len(self._held)

    def take(self, octets: Octets) -> list[Event]:
        """Take octets; returns the ULPDUs of the FPDUs that they complete, and what is odd about those.

        Raises RemoteProtocolError with the events before it for what a receiver must not pass: code 2, code 3, a
        ULPDU that is too long.  It must not be handed anything then.
        """
        held = self._held
        if held:
            before = self.offset + len(held)
            held += octets
            if before + len(octets) < self._need:
                with memoryview(held) as view:
                    # The last Marker may have been cut.
                    self._check_markers(FPDUWindow(view, self.offset, self._layout), before - MARKER_LENGTH + 1)
                return []
            octets = bytes(held)
            held.clear()
        events: list[Event] = []
        window = FPDUWindow(memoryview(octets), self.offset, self._layout)
        try:
            while (extent := window.extent(self.offset)) is not None and extent.end <= window.end:
                self._pass(window, extent, events)
                self.offset = extent.end
            self._need = 0
            if extent is not None and window.end - self.offset >= SHORTEST_FPDU:
                self._need = extent.end
                self._check_markers(window, self.offset)
        except RemoteProtocolError as error:
            raise error.carrying(events) from None
        held += window.data[self.offset - window.start :]
        return events

    def _check_markers(self, window: FPDUWindow, first: int) -> None:
        """Judge the Markers from ``first`` on of an FPDU that is not complete; with a CRC, that has to be awaited."""
        if self._layout.crc or not self._layout.markers:
            return
        for marker in self._layout.marker_positions(max(first, self.offset), window.end - MARKER_LENGTH + 1):
            if not window.names(marker, self.offset):
                _, fpduptr = decode_marker(window.data[marker - window.start :])
                detail = disagreement(self.offset, marker, fpduptr & ~3, self._profile.fpduptr_origin)
                raise self._error("marker-length", detail, window)

    def _pass(self, window: FPDUWindow, extent: Extent, events: list[Event]) -> None:
        """Pass on the ULPDU of a complete FPDU, and what is odd about it; in the order of §8, its CRC comes first."""
        offset, header, length, end, markers, _ = extent
        octets, origin = window.data[offset - window.start : end - window.start], self._profile.fpduptr_origin
        if self._layout.crc and not window.is_valid(extent):
            raise self._error("crc", f"FPDU with a ULPDU of {length} octets: CRC mismatch", window)
        first = header + LENGTH_FIELD_LENGTH
        is_usual = has_usual_octets(octets, 0, offset % MARKER_INTERVAL if markers else -1, length, origin)
        if not is_usual or not 0 < length <= MAX_ULPDU_LENGTH:
            odd = list(oddities(octets, offset, length, markers > 0, origin))
            if odd and odd[-1][0] == "marker-length":
                raise self._error(*odd[-1], window)
            if length > MAX_ULPDU_LENGTH:
                raise self._error("ulpdu-length-limit", f"ULPDU_Length {length}", window)
            if not length:
                odd.append(("ulpdu-length-zero", "ULPDU_Length 0"))
            events.extend(self._odd(rule, detail) for rule, detail in odd)
        if markers and -first % MARKER_INTERVAL < length:
            ulpdu = remove_markers(octets[first - offset :], first)[:length]
        else:
            ulpdu = bytes(octets[first - offset : first - offset + length])
        events.append(ULPDUReceived(ulpdu, offset, end - offset))
        self.fpdus += 1

    def _error(self, rule: str, detail: str, window: FPDUWindow) -> RemoteProtocolError:
        """Return an error of the next FPDU; for the first one, the rule that its first octets break.

        The code is that of ``rule``, whatever led to it.
        """
        name, wrong = self._profile.name, None
        if not self.offset and rule != "ulpdu-length-limit":
            wrong = wrong_beginning(window.data, self._layout)
        if wrong is not None:
            return RemoteProtocolError(f"{detail}; {wrong[1]}", wrong[0], profile=name, code=RULES[rule].code)
        return RemoteProtocolError(f"{detail}, at offset {self.offset}", rule, profile=name)

    def _odd(self, rule: str, detail: str) -> PeerDeviated:
        clause = RULES[rule].clause_in(self._profile.name) or ""
        return PeerDeviated(rule, clause, f"{detail}, at offset {self.offset}", self._by)
