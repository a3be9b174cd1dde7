"""How much the clocks of two taps differ, and how fast that changes.

What goes one way seems to take longer by what the second clock is ahead, what goes the other way as much less. The
fastest segment of each way bounds it; half between both is the offset, if both ways are equally fast. The drift is the
slope of these halves over time: of windows of equal length, the median of the slopes from each to each other (Theil and
Sen), which some windows with long queues do not move. It counts if it moves the offset by more than the halves scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final, TypeAlias

from scapy_mpa.compare.matching import middle
from scapy_mpa.tuples import NamedTuple

_SECOND = 1_000_000_000
#: Windows that the time is divided into, fewer where segments are rare; how many must have segments of both ways.
_WINDOWS: Final = (32, 16, 8)
_FEWEST: Final = 6
#: Shorter times tell nothing of a drift (nanoseconds), nor do clocks drift further (a thousandth).
_SHORTEST: Final = _SECOND
_MOST_DRIFT: Final = 1e-3
#: A drift of this many times the scatter is significant.
_SIGNIFICANT: Final = 4.0

#: Segments of one way: the time at the first tap, and by how much the time at the second is later (nanoseconds).
Timed: TypeAlias = "Sequence[tuple[int, int]]"


class Drift(NamedTuple):
    """How fast the clock of the second capture gains.

    Attributes:
        rate: seconds a second.
        error: by how much that may be wrong.
        since: the time at the first tap when the offset is what it is said to be, nanoseconds since the epoch.
    """

    rate: float
    error: float
    since: int


class ClockOffset(NamedTuple):
    """The difference between the clocks of the taps, in nanoseconds.

    Attributes:
        offset: by how much that of the second capture is ahead; half the way there and back is taken for each way.
        error: by how much that may be wrong: half the fastest way there and back.
        is_known: whether segments of both directions say it; if not, the fastest segment counts as taking no time.
        drift: how fast that changes, None where it does not, or nothing shows it.
    """

    offset: int
    error: int
    is_known: bool
    drift: Drift | None = None

    def at(self, time: int) -> int:
        """The offset at a time, in nanoseconds since the epoch."""
        return self.offset + (round(self.drift.rate * (time - self.drift.since)) if self.drift is not None else 0)

    def by_first(self, time: int) -> int:
        """Return the time that the first tap's clock shows when the second's shows ``time`` (nanoseconds)."""
        time -= self.offset
        if self.drift is None:
            return time
        return time - round(self.drift.rate / (1 + self.drift.rate) * (time - self.drift.since))

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {
            "offset": self.offset / _SECOND,
            "error": self.error / _SECOND if self.is_known else None,
            "known": self.is_known,
            "drift": self.drift.rate if self.drift is not None else None,
            "drift_error": self.drift.error if self.drift is not None else None,
            "drift_since": self.drift.since / _SECOND if self.drift is not None else None,
        }


def clock_of(ways: tuple[Timed, Timed]) -> tuple[ClockOffset | None, int]:
    """Return the difference of the clocks by the segments of both sides, and which tap is nearer to the first side."""
    delays = [[delay for _, delay in way] for way in ways]
    if not any(delays):
        return None, 0
    if not all(delays):
        # What the first tap's side sends is fastest where the difference is least, what it receives where it is most.
        return ClockOffset(min(delays[0]) if delays[0] else max(delays[1]), 0, False), 0
    # By the clocks, what the nearer one sends seems to take longer, whatever these say.
    nearer = 0 if middle(delays[0]) >= middle(delays[1]) else 1
    there, back = min(delays[nearer]), max(delays[1 - nearer])
    found = ClockOffset((there + back) // 2, abs(there - back) // 2, True)
    return drifting(found, ways[nearer], ways[1 - nearer]), nearer


def drifting(clock: ClockOffset, there: Timed, back: Timed) -> ClockOffset:
    """The same clock, with its drift if one is significant: then the offset is that of the middle of the time."""
    times = [time for way in (there, back) for time, _ in way]
    first, span = min(times), max(times) - min(times)
    if span < _SHORTEST:
        return clock
    against = [(time, -delay) for time, delay in back]
    for windows in _WINDOWS:
        fastest, slowest = _by_window(there, first, span, windows), _by_window(against, first, span, windows)
        both = sorted(fastest.keys() & slowest.keys())
        if len(both) >= _FEWEST:
            break
    else:
        return clock
    places = [(fastest[one][0] + slowest[one][0]) / 2 for one in both]
    halves = [(fastest[one][1] - slowest[one][1]) / 2 for one in both]
    slopes = [
        (halves[later] - halves[one]) / (places[later] - places[one])
        for one in range(len(both))
        for later in range(one + 1, len(both))
        if places[later] > places[one]
    ]
    if not slopes:
        return clock
    rate = median(slopes)
    levels = [half - rate * place for half, place in zip(halves, places, strict=True)]
    level = median(levels)
    scatter = median(abs(one - level) for one in levels)
    length = places[-1] - places[0]
    # A nanosecond, or whatever the files resolve, is no drift.
    error = (2 * scatter + 1000) / length if length > 0 else _MOST_DRIFT
    if not _SIGNIFICANT * error < abs(rate) <= _MOST_DRIFT:
        return clock
    since = first + span // 2
    apart = min(fastest[one][1] + slowest[one][1] for one in both)
    offset = round(level + rate * (span // 2))
    return ClockOffset(offset, max(round(abs(apart) / 2), round(scatter)), True, Drift(rate, error, since))


def _by_window(way: Timed, first: int, span: int, windows: int) -> dict[int, tuple[int, int]]:
    """Return the fastest segment of each window: its time since the first one, and its delay."""
    found: dict[int, tuple[int, int]] = {}
    for time, delay in way:
        window = min(windows - 1, (time - first) * windows // span)
        if window not in found or delay < found[window][1]:
            found[window] = time - first, delay
    return found
