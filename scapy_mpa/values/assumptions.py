"""What the user says about a connection because no startup frame does ("decode as")."""

from __future__ import annotations

from typing import Literal

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.profiles import PROFILES, Profile
from scapy_mpa.tuples import NamedTuple

MarkersIn = Literal["none", "initiator", "responder", "both"]
_MARKERS: dict[str, MarkersIn] = {
    "no": "none",
    "none": "none",
    "yes": "both",
    "both": "both",
    "initiator": "initiator",
    "responder": "responder",
}
_CRC = {"yes": True, "no": False}


class Assumptions(NamedTuple):
    """What the user says instead of the traffic; None, or nothing, where the user says nothing.

    ``profile`` names the specification that every connection follows. ``markers`` and ``crc`` apply to connections
    whose startup frames do not say it: the directions that carry Markers, and whether CRCs are in use.  ``start`` holds
    TCP sequence numbers of the first octet of Full Operation of half connections: of the first Marker, where there are
    Markers.
    """

    profile: str | None = None
    markers: MarkersIn | None = None
    crc: bool | None = None
    start: tuple[int, ...] = ()

    @property
    def begins_behind_syn(self) -> bool:
        """True if the given profile has no startup frames: Full Operation begins with the first octet of TCP."""
        return self.profile is not None and not PROFILES[self.profile].startup_frames

    @property
    def is_without_startup_frames(self) -> bool:
        """True if Full Operation begins, as the user says, without startup frames."""
        return bool(self.start) or self.begins_behind_syn

    @property
    def crc_told(self) -> bool | None:
        """True if CRCs are in use, None if that is not given: some profiles leave no choice."""
        if self.profile is not None and not PROFILES[self.profile].crc_negotiated:
            return True
        return self.crc

    def markers_of(self, direction: str) -> bool | None:
        """Return True if a direction ("initiator" or "responder") carries Markers, None if that is not given."""
        if self.profile is not None and not PROFILES[self.profile].markers_negotiated:
            return True
        if self.markers is None:
            return None
        return self.markers in (direction, "both")

    def profile_instead_of(self, found: Profile) -> Profile:
        """The given profile, else the one found."""
        return PROFILES[self.profile] if self.profile is not None else found


NOTHING = Assumptions()


def parse_assumptions(texts: tuple[str, ...], profile: str | None = None) -> Assumptions:
    """Assumptions from texts such as ``markers=both,crc=yes,start=4711``.

    Raises :class:`~scapy_mpa.errors.MPAError` for what cannot be understood.
    """
    markers: MarkersIn | None = None
    crc: bool | None = None
    start: list[int] = []
    for item in (part.strip() for text in texts for part in text.split(",")):
        name, _, value = (part.strip() for part in item.partition("="))
        if name == "markers" and value in _MARKERS:
            markers = _MARKERS[value]
        elif name == "crc" and value in _CRC:
            crc = _CRC[value]
        elif name == "start" and value.isascii() and value.isdigit() and int(value) < 1 << 32:
            start.append(int(value))
        else:
            raise MPAError(
                f"{item!r} cannot be assumed; possible are markers=yes|no|initiator|responder, crc=yes|no and "
                "start=SEQ (0 to 4294967295)"
            )
    if profile is not None and profile not in PROFILES:
        raise MPAError(f"{profile!r} is not a profile; the profiles are {', '.join(PROFILES)}")
    return Assumptions(profile, markers, crc, tuple(start))
