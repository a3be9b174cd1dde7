"""Where the specifications differ: one row of ``PROFILES`` for each, and the clause that says what.

Code asks the profile; nothing else compares revisions. The columns are facts of draft-culley-iwarp-mpa-02,
draft-ietf-rddp-mpa-01, RFC 5044 and RFC 6581.
"""

from __future__ import annotations

from typing import Literal

from scapy_mpa.tuples import NamedTuple


class Profile(NamedTuple):
    """What one specification says where another says something else."""

    name: str
    title: str
    #: What Rev says in its startup frames; None if it has none.
    revision: int | None
    #: Full Operation is entered by an MPA Request and an MPA Reply.
    startup_frames: bool
    #: Octets; None if there are no startup frames.
    private_data_limit: int | None
    #: Markers are used in a direction if its receiver asked by M; otherwise always.
    markers_negotiated: bool
    #: CRCs are used if either side asked by C; otherwise always.
    crc_negotiated: bool
    #: FPDUPTR counts from ULPDU_Length, or from the first octet, a leading Marker's included.
    fpduptr_origin: Literal["header", "first-octet"]
    #: What a receiver does with another Rev: there is none, close, close if it must, take Rev 1.
    foreign_revision: Literal["none", "close", "close-if-incompatible", "accept-1"]
    #: The Responder sends no FPDU before it has received one.
    initiator_first: bool
    #: S, IRD, ORD and the ready-to-receive message exist.
    enhanced: bool


_CULLEY_02 = Profile(
    name="culley-02",
    title="draft-culley-iwarp-mpa-02",
    revision=None,
    startup_frames=False,
    private_data_limit=None,
    markers_negotiated=False,
    crc_negotiated=False,
    fpduptr_origin="first-octet",
    foreign_revision="none",
    initiator_first=False,
    enhanced=False,
)

_RDDP_01 = _CULLEY_02._replace(
    name="rddp-01",
    title="draft-ietf-rddp-mpa-01",
    revision=0,
    startup_frames=True,
    private_data_limit=65535,
    markers_negotiated=True,
    crc_negotiated=True,
    foreign_revision="close",
    initiator_first=True,
)

_RFC5044 = _RDDP_01._replace(
    name="rfc5044",
    title="RFC 5044",
    revision=1,
    private_data_limit=512,
    fpduptr_origin="header",
    foreign_revision="close-if-incompatible",
)

_RFC6581 = _RFC5044._replace(
    name="rfc6581",
    title="RFC 6581",
    revision=2,
    foreign_revision="accept-1",
    enhanced=True,
)

#: The profiles by name, oldest first.
PROFILES: dict[str, Profile] = {p.name: p for p in (_CULLEY_02, _RDDP_01, _RFC5044, _RFC6581)}


def profile_of_revision(rev: int) -> Profile:
    """The profile that a startup frame with this Rev follows: 0 rddp-01, 1 rfc5044, 2 and above rfc6581."""
    return _RFC6581 if rev > 1 else _RFC5044 if rev == 1 else _RDDP_01


# Sections. "" marks what a specification does not have: the draft that has no startup frames says in §8.1 how
# MPA starts instead, only RFC 6581 knows enhanced frames, and only RFC 5044 tells RDMAC from IETF RNICs.
_CLAUSES: dict[str, tuple[str, str, str, str]] = {
    # topic:          culley-02, rddp-01, RFC 5044, RFC 6581
    "fpdu-format": ("6", "4", "4.1", ""),
    "ulpdu-length": ("5.2", "3.2", "3", ""),
    "marker-format": ("6.1", "4.1", "4.2", ""),
    "markers": ("7.1", "5.1", "4.3", ""),
    "crc": ("7.2", "5.2", "4.4", ""),
    "mulpdu": ("7.3.2", "5.3.2", "4.5", ""),
    "segmentation": ("7.3", "5.3", "5.1", ""),
    "receiver": ("7.4", "5.4", "6", ""),
    "startup-frame": ("8.1", "6.1.1", "7.1.1", "6"),
    "startup-fields": ("8.1", "6.1.1", "7.1.1", ""),
    "startup-rules": ("8.1", "6.1", "7.1.2", ""),
    "dual-stack": ("", "6.1.4", "7.1.5", ""),
    "teardown": ("8.2", "6.2", "7.2", ""),
    "errors": ("9", "7", "8", ""),
    "security": ("10.1", "8.1", "9.1", ""),
    "enhanced-frame": ("", "", "", "6"),
    "enhanced": ("", "", "", "9"),
    "enhanced-errors": ("", "", "", "8"),
    "ird-ord": ("", "", "", "9.1"),
    "peer-to-peer": ("", "", "", "9.2"),
    "interoperability": ("8.1", "6.1.1", "7.1.1", "10"),
    "rnic-kinds": ("", "", "C.1", ""),
    "rnic-negotiation": ("", "", "C.2", ""),
}

_COLUMN = {name: column for column, name in enumerate(PROFILES)}


def clause(profile_name: str, topic: str) -> str:
    """Return where the specification says it, as in "RFC 5044 §4.4".

    Where RFC 6581 changes nothing it is RFC 5044's clause; what only RFC 6581 has is RFC 6581's for every
    profile. Raises KeyError for an unknown profile or topic.
    """
    sections = _CLAUSES[topic]
    section = sections[_COLUMN[profile_name]]
    if not section:
        profile_name = "rfc5044" if sections[_COLUMN["rfc5044"]] else "rfc6581"
        section = sections[_COLUMN[profile_name]]
    return f"{PROFILES[profile_name].title} §{section}"
