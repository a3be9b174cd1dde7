"""Startup frames as values: the keys of one in JSON; one that arrived only in part (RFC 5044 §7.1.1)."""

from __future__ import annotations

from typing import Any

from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    KEY_PREFIX,
    REPLY_KEY,
    STARTUP_HEADER_LENGTH,
    EnhancedData,
    Kind,
    StartupFrame,
)
from scapy_mpa.tuples import NamedTuple


class StartupEvent(NamedTuple):
    """What one side sent while MPA was started: frame, time in nanoseconds since the epoch, and what it is."""

    frame: int
    time: int
    side: Role
    what: str


def startup_fields(startup: StartupFrame) -> dict[str, Any]:
    """The fields of a startup frame with the keys of the JSON."""
    enhanced = startup.enhanced
    return {
        "m": startup.m,
        "c": startup.c,
        "r": startup.r,
        "s": startup.s,
        "res": startup.res,
        "rev": startup.rev,
        "pd_length": startup.pd_length,
        "private_data": startup.private_data.hex(),
        **({"extension": startup.extension.hex()} if startup.extension else {}),
        "enhanced": enhanced_fields(enhanced) if enhanced is not None else None,
    }


def enhanced_fields(data: EnhancedData) -> dict[str, int]:
    """RFC 6581's enhanced data with the keys of the JSON: its Control Flags by their letters, and by what they say."""
    return {
        **data._asdict(),
        "peer_to_peer": data.a,
        "rtr_send": data.b,
        "rtr_write": data.c,
        "rtr_read": data.d,
    }


class PartOfFrame(NamedTuple):
    """The octets that came of a startup frame, at the end of what a half connection sent.

    ``seq`` is the sequence number of the first; ``frame`` and ``time`` (nanoseconds) are of the segment with the last.
    ``is_damaged``: a segment that brought some has a wrong TCP checksum, for which its receiver drops it.
    """

    octets: bytes
    seq: int
    frame: int
    time: int
    is_damaged: bool = False

    @property
    def kind(self) -> Kind:
        """Its kind; the first octets of a Reply's Key, which both Keys share, are taken for a Request's."""
        is_reply = len(self.octets) > len(KEY_PREFIX) and REPLY_KEY.startswith(self.octets[:KEY_LENGTH])
        return "reply" if is_reply else "request"

    @property
    def has_header(self) -> bool:
        """True if PD_Length came, so that only Private Data are missing."""
        return len(self.octets) >= STARTUP_HEADER_LENGTH

    @property
    def wire_length(self) -> int | None:
        """Octets of the whole frame, None if PD_Length did not come."""
        pd_length = self.octets[STARTUP_HEADER_LENGTH - 2 : STARTUP_HEADER_LENGTH]
        return STARTUP_HEADER_LENGTH + int.from_bytes(pd_length, "big") if self.has_header else None

    def __str__(self) -> str:
        """Return how many octets arrived, and of how many."""
        whole = f"{STARTUP_HEADER_LENGTH} or more" if self.wire_length is None else str(self.wire_length)
        return f"{len(self.octets)} of {whole} octets of an MPA {self.kind.capitalize()}"

    def as_dict(self) -> dict[str, int | str | None]:
        """The keys of the report's JSON."""
        octets = len(self.octets)
        return {"startup": self.kind, "frame": self.frame, "seq": self.seq, "octets": octets, "of": self.wire_length}
