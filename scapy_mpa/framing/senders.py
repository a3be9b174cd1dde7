"""The deviations of senders: one row per deviation seen in implementations, and the dialects that follow from them.

A row says what a sender changes, where that can be seen, and how to say it.  :func:`candidates` puts one or two of
them together for a half connection whose agreement is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.tuples import NamedTuple


class SenderDeviation(NamedTuple):
    """One deviation from RFC 5044: its name, its words, its clause, and what it changes."""

    name: str
    text: str
    #: For ``profiles.clause``.
    topic: str
    #: Fields of ``Dialect``; a base of None is filled in for the half connection.
    changes: dict[str, Any]
    #: What must be in use for it to show: "markers", "no markers", "crc", "no crc", or "" for nothing.
    needs: str = ""


class Bases(NamedTuple):
    """Octets from places where Markers might be counted from to SeqStart; None where that is not known."""

    syn: int | None = None
    startup_frame: int | None = None


#: All that are tried. ``length-with-pad`` alone makes FPDUs that conform, with a longer ULPDU: nothing of it shows.
DEVIATIONS: tuple[SenderDeviation, ...] = (
    SenderDeviation(
        "fpduptr-little-endian",
        "FPDUPTR in little-endian order",
        "marker-format",
        {"fpduptr_order": "little"},
        "markers",
    ),
    SenderDeviation(
        "crc-not-in-spacing",
        "CRC octets not counted in the distance between Markers",
        "markers",
        {"crc_counts": False},
        "markers",
    ),
    SenderDeviation(
        "markers-not-in-spacing",
        "Markers not counted in the distance between Markers",
        "markers",
        {"markers_count": False},
        "markers",
    ),
    SenderDeviation(
        "markers-left-out", "no Markers though the peer asked for them", "markers", {"markers": False}, "markers"
    ),
    SenderDeviation(
        "markers-from-startup-frame",
        "Markers counted from the first octet of the startup frame",
        "markers",
        {"base": None},
        "markers",
    ),
    SenderDeviation("markers-from-syn", "Markers counted from the SYN", "markers", {"base": None}, "markers"),
    SenderDeviation(
        "markers-not-asked",
        "Markers though the peer did not ask for them",
        "startup-fields",
        {"markers": True},
        "no markers",
    ),
    SenderDeviation("crc-big-endian", "CRC in big-endian order", "crc", {"crc_order": "big"}, "crc"),
    SenderDeviation("crc-without-markers", "CRC that leaves out Markers", "crc", {"crc_covers_markers": False}, "crc"),
    SenderDeviation("crc-without-pad", "CRC that leaves out PAD", "crc", {"crc_covers_pad": False}, "crc"),
    SenderDeviation(
        "crc-without-length", "CRC that leaves out ULPDU_Length", "crc", {"crc_covers_length": False}, "crc"
    ),
    SenderDeviation("crc-zlib", "the CRC-32 of zlib in place of CRC32c", "crc", {"crc_function": "zlib"}, "crc"),
    SenderDeviation(
        "crc-not-complemented",
        "CRC32c without its final complement",
        "crc",
        {"crc_function": "not-complemented"},
        "crc",
    ),
    SenderDeviation("crc-from-zero", "CRC32c that begins with 0", "crc", {"crc_function": "from-zero"}, "crc"),
    SenderDeviation("crc-zero", "CRC zero though CRCs are in use", "crc", {"crc_is_zero": True}, "crc"),
    SenderDeviation("no-crc-field", "no CRC field", "fpdu-format", {"crc_field": False}, "no crc"),
    SenderDeviation("pad-plus-2", "PAD of (ULPDU_Length + 2) mod 4 octets", "fpdu-format", {"pad_rule": "plus-2"}),
    SenderDeviation("no-pad", "no PAD", "fpdu-format", {"pad_rule": "none"}),
    SenderDeviation(
        "length-with-itself",
        "ULPDU_Length that counts its own two octets",
        "fpdu-format",
        {"length_counts_itself": True},
    ),
    SenderDeviation("length-with-pad", "ULPDU_Length that counts PAD", "fpdu-format", {"length_counts_pad": True}),
    # Where nobody examines the CRC field it might as well be the end of a ULPDU, and no CRC field after it.
    SenderDeviation(
        "length-with-crc", "ULPDU_Length that counts the CRC field", "fpdu-format", {"length_counts_crc": True}, "crc"
    ),
    # A short first FPDU seems to be a long one then; only its CRC tells soon enough.
    SenderDeviation(
        "length-little-endian", "ULPDU_Length in little-endian order", "fpdu-format", {"length_order": "little"}, "crc"
    ),
)

BY_NAME: dict[str, SenderDeviation] = {deviation.name: deviation for deviation in DEVIATIONS}


class Candidate(NamedTuple):
    """A dialect, and the deviations that make it."""

    deviations: tuple[SenderDeviation, ...]
    dialect: Dialect

    @property
    def name(self) -> str:
        """The names of its deviations, joined by +."""
        return "+".join(deviation.name for deviation in self.deviations)

    @property
    def text(self) -> str:
        """What the sender does, in words."""
        return ", and ".join(deviation.text for deviation in self.deviations)


#: Changes that hide each other; nobody can tell how much PAD there is if ULPDU_Length counts it.
_NOT_TOGETHER = (
    {"crc_is_zero", "crc_order"},
    {"crc_is_zero", "crc_covers_markers"},
    {"crc_is_zero", "crc_covers_pad"},
    {"crc_is_zero", "crc_covers_length"},
    {"crc_is_zero", "crc_function"},
    {"crc_field", "crc_counts"},
    {"crc_covers_pad", "length_counts_pad"},
)
#: With these alone it shows that ULPDU_Length counts PAD: FPDUs that conform but for it conform with it.
_SHOWS_PAD = {"length_counts_itself", "pad_rule"}


def spoken(names: Sequence[str], agreed: Dialect, bases: Bases) -> Candidate | None:
    """The dialect of a sender with these deviations, None if they do not go together or cannot show."""
    changed: set[str] = set()
    dialect = agreed
    deviations = [BY_NAME[name] for name in names]
    # Whether there are Markers decides what else can be wrong with them.
    for deviation in sorted(deviations, key=lambda one: "markers" not in one.changes):
        changes = dict(deviation.changes)
        if "base" in changes:
            changes["base"] = bases.syn if deviation.name == "markers-from-syn" else bases.startup_frame
        if None in changes.values() or changed & changes.keys() or not _can_show(deviation.needs, dialect):
            return None
        changed |= changes.keys()
        dialect = dialect._replace(**changes)
    if any(changed >= pair for pair in _NOT_TOGETHER) or ("crc_covers_markers" in changed and not dialect.markers):
        return None
    if "length_counts_pad" in changed and dialect.pad_rule == "none":
        return None
    return Candidate(tuple(deviations), dialect)


def _can_show(needs: str, dialect: Dialect) -> bool:
    in_use = dialect.markers if needs.endswith("markers") else dialect.crc
    return not needs or in_use != needs.startswith("no ")


@lru_cache(maxsize=64)
def candidates(agreed: Dialect, bases: Bases, count: int) -> tuple[Candidate, ...]:
    """Every dialect that this many deviations, one or two, make of what was agreed on, if it can show."""
    found = (spoken(names, agreed, bases) for names in combinations(BY_NAME, count))
    return tuple(one for one in found if one is not None and _shows(one))


def _shows(candidate: Candidate) -> bool:
    changed = {name for deviation in candidate.deviations for name in deviation.changes}
    return "length_counts_pad" not in changed or bool(changed & _SHOWS_PAD)
