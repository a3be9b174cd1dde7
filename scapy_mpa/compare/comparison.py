"""Two captures of the same connections, compared: what became of every segment and octet between two taps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack
from typing import Any

from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.joining import sources_of
from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.compare.changes import column
from scapy_mpa.compare.clock import ClockOffset, clock_of
from scapy_mpa.compare.half import ComparedHalf, HalfTaps, known_markers
from scapy_mpa.compare.matching import timed_delays
from scapy_mpa.compare.pairing import Mapping, Pair, have_same_octets, paired, paired_by_octets, shift_of
from scapy_mpa.compare.tap import Extent, Tap, TapHalf
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.query import EVERYTHING, Selection
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.model import Report
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import KeyedPath, reverse_key

#: The version of the JSON.
SCHEMA = 1
_SECOND = 1_000_000_000
#: Seconds above the median from which a segment is delayed.
LATE = 0.01
#: An extent without frames.
_NOTHING = (1, 0)


class ComparedConnection:
    """A connection at both taps.

    Attributes:
        pair: the connection as each of the captures shows it.
        halves: its half connections, by direction as the first capture has it.
    """

    def __init__(self, number: int, pair: Pair, halves: dict[Role, ComparedHalf]) -> None:
        self.number = number
        self.pair = pair
        self.halves = halves

    @property
    def name(self) -> tuple[str, str]:
        """Initiator and Responder, at each tap."""
        return self.pair.name(0), self.pair.name(1)

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {
            "connection": self.number,
            "names": [*self.name],
            "numbers": [one.number if one is not None else None for one in self.pair.connections],
            "halves": {direction: half.as_dict() for direction, half in self.halves.items()},
        }


class Comparison(NamedTuple):
    """What two captures show about the same connections."""

    captures: tuple[list[str], list[str]]
    clock: ClockOffset | None
    connections: list[ComparedConnection]
    #: MPA connections without a segment in one of the captures: "initiator > responder".
    only_first: list[str]
    only_second: list[str]
    #: What of the captures could not be read.
    damage: list[str]

    @property
    def is_same(self) -> bool:
        """True if nothing was found on the way."""
        halves = (half for one in self.connections for half in one.halves.values())
        return not any(
            half.counts or any(half.remarks()) or not half.is_compared or half.differs_in_acknowledgements
            for half in halves
        )

    @property
    def counts_changes(self) -> bool:
        """True if octets changed, and TCP's checksum did not show it."""
        return any(
            not change.checksum_shows
            for one in self.connections
            for half in one.halves.values()
            for change in half.changes
        )

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {
            "schema": SCHEMA,
            "captures": {"sender": self.captures[0], "receiver": self.captures[1]},
            "clock": self.clock.as_dict() if self.clock is not None else None,
            "connections": [one.as_dict() for one in self.connections],
            "only_sender": self.only_first,
            "only_receiver": self.only_second,
        }


def compare(
    sender: CaptureSource | Sequence[CaptureSource],
    receiver: CaptureSource | Sequence[CaptureSource],
    *,
    mapping: Iterable[str] = (),
    late: float = LATE,
    limits: Limits = DEFAULT_LIMITS,
    selection: Selection = EVERYTHING,
) -> Comparison:
    """Compare two captures of the same connections, made at two places.

    Each capture is read twice. Octets are kept in temporary files; memory follows the number of segments and FPDUs.

    Args:
        sender: The capture nearer to the Initiator, or to whoever sends most; times decide it where they can.
        receiver: The other one.
        mapping: What a NAT makes of addresses: ``A=B``, with ports or without, A as in ``sender``.
        late: Seconds above the median from which a segment counts as delayed.
        limits: How much is held back while the captures are analysed.
        selection: The ports and addresses of connections that are compared, as one of the captures shows them.

    Raises:
        CaptureError: Nothing of a capture can be read, or there is no room for its octets.
        MPAError: A mapping is invalid.
    """
    mapping = [*mapping]
    mapped = Mapping(mapping)
    sources = sources_of(sender, limits=limits), sources_of(receiver, limits=limits)
    # Behind a NAT others stand for these ports and addresses.
    early = EVERYTHING if mapping else selection
    reports = tuple(analyze(source, selection=early, limits=limits) for source in sources)
    first, second = (report.connections for report in reports)
    pairs = paired(first, second, mapped)
    pairs = [pair for pair in pairs if any(selection.takes(key) for key in pair.keys)]
    with ExitStack() as stack:
        taps = []
        for which, source in enumerate(sources):
            try:
                tap = Tap(_wanted(pairs, which))
                stack.callback(tap.close)
                tap.read(FrameIndex(source, limits=limits))
            except OSError as error:
                raise CaptureError(f"no room for the octets of a capture: {error.strerror or error}") from None
            taps.append(tap)
        return _compared((reports[0], reports[1]), pairs, (taps[0], taps[1]), mapped, late)


def _wanted(pairs: Sequence[Pair], which: int) -> Iterator[tuple[bytes, bytes, Extent, Set[KeyedPath]]]:
    shown = {pair.keys[which] for pair in pairs if pair.connections[which] is not None}
    for pair in pairs:
        one, key = pair.connections[which], pair.keys[which]
        extent = (one.lifecycle.first[0], one.lifecycle.last[0]) if one is not None else None
        if one is None and not shown.isdisjoint((key, reverse_key(key))):
            extent = _NOTHING  # These are frames of another connection.
        yield key, reverse_key(key), extent, one.foreign_paths if one is not None else frozenset()


def _compared(
    reports: tuple[Report, Report], pairs: Sequence[Pair], taps: tuple[Tap, Tap], mapping: Mapping, late: float
) -> Comparison:
    found: list[tuple[ComparedConnection, ClockOffset | None]] = []
    only: tuple[list[str], list[str]] = ([], [])
    by_octets = paired_by_octets(pairs, taps[0].pairs, taps[1].pairs, mapping)
    taken = {other for other, _ in by_octets.values()}
    for number, pair in enumerate(pairs):
        if number in taken:
            continue
        ends = taps[0].pairs[number], taps[1].pairs[number]
        if number in by_octets:
            other, turned = by_octets[number]
            there, key = taps[1].pairs[other], pairs[other].keys[1]
            ends = ends[0], there[::-1] if turned else there
            keys = pair.keys[0], reverse_key(key) if turned else key
            pair = Pair((pair.connections[0], pairs[other].connections[1]), keys)
        if pair.connections[0] is None and not any(map(len, ends[0])):
            only[1].append(pair.name(1))
            continue
        is_alone = pair.connections[1] is None and not any(map(len, ends[1]))
        if is_alone or not (pair.is_certain or have_same_octets(*ends)):
            only[0].append(pair.name(0))
            continue
        shifts = [shift_of(one, other) for one, other in zip(*ends, strict=True)]
        clock, nearer = _clock(ends, shifts)
        halves: dict[Role, ComparedHalf] = {}
        for place, direction in enumerate(ROLES):
            at = nearer if place == 0 else 1 - nearer
            mine = [_half(pair, which, place) for which in (0, 1)]
            markers = [known_markers(pair.connections[which], mine[which]) for which in (0, 1)]
            way = HalfTaps(
                ends[at][place],
                ends[1 - at][place],
                mine[at],
                mine[1 - at],
                (markers[at], markers[1 - at]),
                (taps[at].span, taps[1 - at].span),
            )
            shift = shifts[place]
            if shift is not None and at:
                shift = -shift
            halves[direction] = ComparedHalf(direction, at, way, shift)
        found.append((ComparedConnection(len(found), pair, halves), clock))
    known = [clock for _, clock in found if clock is not None]
    best = min(known, key=lambda one: (not one.is_known, one.drift is None, one.error), default=None)
    for one, _ in found:
        for half in one.halves.values():
            half.compare(best, late)
    damage = [*reports[0].damage, *reports[1].damage]
    names = [*map(str, reports[0].captures)], [*map(str, reports[1].captures)]
    return Comparison(names, best, [one for one, _ in found], *only, damage)


def _half(pair: Pair, which: int, place: int) -> HalfConnection | None:
    """The half connection that one capture shows, whatever it takes for the Initiator."""
    one = pair.connections[which]
    if one is None:
        return None
    key = pair.keys[which] if place == 0 else reverse_key(pair.keys[which])
    return one.initiator if one.initiator.key == key else one.responder


def _clock(
    ends: tuple[tuple[TapHalf, TapHalf], tuple[TapHalf, TapHalf]], shifts: Sequence[int | None]
) -> tuple[ClockOffset | None, int]:
    """Return the difference of the clocks according to one connection, and which tap is nearer to its Initiator."""
    ways: list[list[tuple[int, int]]] = []
    for place, shift in enumerate(shifts):
        one, other = ends[0][place], ends[1][place]
        if shift is None or one.base is None or other.base is None:
            ways.append([])
            continue
        moved = seq_diff(other.base, (one.base + shift) & 0xFFFFFFFF)
        ways.append(timed_delays(column(one), column(other, moved)))
    return clock_of((ways[0], ways[1]))
