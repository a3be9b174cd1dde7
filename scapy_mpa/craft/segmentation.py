"""How a sender splits its stream of FPDUs into TCP segments (RFC 5044 §5.1, appendix A.1, A.2, A.4).

``Segmentation`` names a way and its sizes; ``cuts`` applies it to the FPDUs of one turn, that is to what is sent
without a pause. ``SEGMENTATIONS`` is the table of ways.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from scapy_mpa.craft.segments import Cut, aligned_cuts, emss_cuts, packed_cuts, random_cuts
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.craft.wanted import whole
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.markers import wire_length
from scapy_mpa.framing.mulpdu import MIN_MULPDU, mulpdu
from scapy_mpa.tuples import NamedTuple

_LARGEST_SEGMENT = 65535 - 60 - 40  # with the longest TCP header there is room for either IP header
_LARGEST_WINDOW = 0xFFFF  # without a scale
_FPDU_OVERHEAD = 6
_SIZE = whole(1, _LARGEST_SEGMENT).or_nothing()


class Segmentation(NamedTuple):
    """A way to cut, and the fewest and most octets of a segment where that way has a choice (None: its default).

    Where the CRC is alone, ``shortest`` is the length of the shortest FPDU whose CRC is; a window has ``longest``
    octets.
    """

    kind: str = "aligned"
    shortest: int | None = None
    longest: int | None = None

    def cuts(self, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
        """The segments of these FPDUs, which follow one another; ``emss`` is that of the path."""
        return _WAYS[self.kind](self, fpdus, emss, rng)

    def startup_cuts(self, length: int, emss: int, rng: random.Random) -> list[Cut]:
        """The segments of a startup frame, or of streaming data, of ``length`` octets."""
        if self.kind in ("random", "tiny"):
            return random_cuts(0, length, rng, *self._sizes(emss))
        return emss_cuts(0, length, emss)

    @property
    def is_dynamic(self) -> bool:
        """MULPDU follows the room that is left in the segment (RFC 5044 §4.5)."""
        return self.kind == "dynamic"

    @property
    def has_nagle(self) -> bool:
        """A segment that is not full waits until all before it is acknowledged (RFC 9293 §3.7.4)."""
        return self.kind == "stream"

    def window(self, emss: int) -> int | None:
        """The receive window that the peer offers, if it is one that matters."""
        if self.kind != "window":
            return None
        return self.longest or min(5 * emss + emss // 3, _LARGEST_WINDOW)

    def _sizes(self, emss: int) -> tuple[int, int]:
        """Fewest and most octets of a segment that is cut anywhere."""
        longest = self.longest or (8 if self.kind == "tiny" else emss)
        return min(self.shortest or 1, longest), longest


def largest_ulpdu(room: int, offset: int, markers: bool) -> int:
    """The longest ULPDU whose FPDU, beginning at stream ``offset``, takes at most ``room`` octets; 0 if none does."""
    length = room - _FPDU_OVERHEAD - room % 4
    if markers:
        while length > 0 and wire_length(length, offset) > room:
            length -= 1
    return max(length, 0)


def dynamic_mulpdu(used: int, emss: int, offset: int, markers: bool) -> int:
    """MULPDU where ``used`` octets of the segment are taken and the next FPDU begins at ``offset`` (RFC 5044 §4.5)."""
    rest = largest_ulpdu(emss - used, offset, markers)
    return rest if used and rest >= MIN_MULPDU else mulpdu(emss, markers)


def _aligned(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    return aligned_cuts(fpdus, emss)


def _packed(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    return packed_cuts(fpdus, emss)


def _stream(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    return emss_cuts(fpdus[0].offset, fpdus[-1].end, emss)


def _unaligned(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    start, end = fpdus[0].offset, fpdus[-1].end
    first = min(start + (way.longest or emss // 2 + 1), end)
    return [(start, first), *emss_cuts(first, end, emss)]


def _window(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    start, end = fpdus[0].offset, fpdus[-1].end
    window = way.window(emss)
    assert window is not None
    windows = range(start, end, window)
    return [cut for at in windows for cut in emss_cuts(at, min(at + window, end), emss)]


def _super(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    longest = way.longest or _LARGEST_SEGMENT // emss * emss
    return emss_cuts(fpdus[0].offset, fpdus[-1].end, min(longest, _LARGEST_SEGMENT))


def _crc_alone(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    cuts: list[Cut] = []
    for fpdu in fpdus:
        if fpdu.wire_length < (way.shortest or 0):
            cuts += emss_cuts(fpdu.offset, fpdu.end, emss)
            continue
        crc_at = fpdu.end - CRC_LENGTH
        cuts += [*emss_cuts(fpdu.offset, crc_at, emss), (crc_at, fpdu.end)]
    return cuts


def _anywhere(way: Segmentation, fpdus: Sequence[LaidFPDU], emss: int, rng: random.Random) -> list[Cut]:
    return random_cuts(fpdus[0].offset, fpdus[-1].end, rng, *way._sizes(emss))


_Way = Callable[[Segmentation, Sequence[LaidFPDU], int, random.Random], list[Cut]]

_TABLE: dict[str, tuple[_Way, str]] = {
    "aligned": (_aligned, "an optimized sender: each segment begins with an FPDU and holds one (A.1)"),
    "packed": (_packed, "whole FPDUs, as many as EMSS has room for (A.2)"),
    "dynamic": (_packed, "the same with a dynamic MULPDU, so that segments are full (§4.5, A.2)"),
    "stream": (_stream, "a layered sender over a plain stream with Nagle: full segments, split anywhere (§5.1)"),
    "unaligned": (_unaligned, "a plain stream that began in mid-segment: FPDUs straddle segments (A.4)"),
    "window": (_window, "a plain stream against a small window, which short segments fill exactly (§5.1)"),
    "super": (_super, "segments of up to 64 KiB, as a host with segmentation offload captures its own"),
    "crc-alone": (
        _crc_alone,
        "the CRC of each FPDU, from `shortest` octets on, in a separate segment, as Linux siw does",
    ),
    "random": (_anywhere, "what a re-segmenting middlebox leaves: 1 octet to EMSS (A.4)"),
    "tiny": (_anywhere, "segments of 1 to 8 octets"),
}
_WAYS = {kind: way for kind, (way, _) in _TABLE.items()}

#: What each kind does.
SEGMENTATIONS: dict[str, str] = {kind: meaning for kind, (_, meaning) in _TABLE.items()}


def segmentation(value: object) -> Segmentation:
    """A Segmentation from its name, or from a mapping of its fields. Raises MPAError for an invalid one."""
    if isinstance(value, Segmentation):
        made = value
    elif isinstance(value, str):
        made = Segmentation(value)
    elif isinstance(value, dict) and value.keys() <= set(Segmentation._fields):
        made = Segmentation(**value)
    else:
        raise MPAError(f"{value!r} is not a segmentation: give a name, or {', '.join(Segmentation._fields)}")
    if not isinstance(made.kind, str) or made.kind not in _WAYS:
        raise MPAError(f"there is no segmentation {made.kind!r}; the segmentations are {', '.join(_WAYS)}")
    for name, size in (("shortest", made.shortest), ("longest", made.longest)):
        if complaint := _SIZE.complaint(f"{made.kind}: {name}", size):
            raise MPAError(complaint)
    if made.shortest is not None and made.longest is not None and made.shortest > made.longest:
        raise MPAError(f"{made.kind}: shortest is {made.shortest}, above longest, {made.longest}")
    return made
