"""A capture cut down to the fewest packets that still show one finding, or how a connection ended.

First other connections go, then frames that only acknowledge, then messages and FPDUs, then single frames. After each
step what is left is analysed: what still shows the same is kept. So the result needs no trust in how it was found.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

from scapy_mpa.capture.extract import conversation
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.index import rewind
from scapy_mpa.capture.named import Sources
from scapy_mpa.capture.packet import segment_in
from scapy_mpa.capture.reader import Reader
from scapy_mpa.errors import MPAError
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.query import Asked, Query, query_of
from scapy_mpa.reading.rewritten import CapturedFrame, write_frames
from scapy_mpa.reduce.closing import Closing
from scapy_mpa.reduce.fewest import fewest
from scapy_mpa.reduce.goal import Goal, goal_of
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.extent import extent
from scapy_mpa.report.model import Report
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import FIN, PATH_MTU, RST, SYN, Segment, reverse_key

#: Octets of frames that are held at most: some times as many are in memory while they are analysed.
MOST_OCTETS: Final = 1 << 26
#: Analyses that are made at most: one takes milliseconds to seconds.
DEFAULT_TESTS: Final = 1000

#: Is handed what is being left out, how many frames are left, and how many analyses were made.
Step = Callable[[str, int, int], None]


class Reduced(NamedTuple):
    """What was written.

    Attributes:
        frames: How many are left.
        before: How many there were.
        tests: Analyses that were made.
        is_least: False if there were no more tests to find out whether fewer would do.
        damage: A line for what could not be read.
    """

    frames: int
    before: int
    tests: int
    is_least: bool
    damage: list[str]


def reduce(
    capture: Query | Asked,
    file: BinaryIO,
    *,
    rule: str | None,
    connection: int | None = None,
    is_loose: bool = False,
    tests: int = DEFAULT_TESTS,
    step: Step = lambda *_: None,
) -> Reduced:
    """Write the fewest frames of a capture that still show a finding.

    Args:
        capture: One capture, which is read more than once.
        file: Where to.
        rule: The id of the rule; None for how a connection ended.
        connection: Its number; without it that of the first finding, or of the first connection that ended early.
        is_loose: Any finding of the rule will do, or any verdict with the same end.
        tests: Analyses that are made at most.
        step: Is called after each of them.

    Raises:
        MPAError: There is no such finding, or the frames of its connection are more than 64 MiB.
        CaptureError: The capture cannot be read, or not again.
        OSError: The file cannot be written.
    """
    query = query_of(capture)
    report = analyze(query)
    goal, one = goal_of(report, rule, connection=connection, is_loose=is_loose)
    frames = _frames_of(query, report, one)
    with Captures(_again(query), limits=query.limits) as captures:
        (reader,) = captures.readers
        reduction = _Reduction(query, reader, goal, tests, step)
        if not reduction.shows(frames) and one is not None:
            frames = _frames_of(query, report, None)  # others have to do with it
        if not reduction.shows(frames):
            raise MPAError("what is written anew does not show it: the capture cannot be reduced")
        frames = reduction.without_connections(frames)
        frames = reduction.without_acknowledgements(frames)
        if one is not None:
            frames = reduction.without_fpdus(frames, one)
        frames = reduction.without_frames(frames)
        count = write_frames(reader, frames.values(), file)
    return Reduced(count, report.packets, reduction.tests, reduction.is_least, report.damage)


def _again(query: Query) -> Sources:
    rewind(query.sources)
    return query.sources


class _Reduction:
    """Finds the fewest frames.

    Attributes:
        tests: analyses that were made.
        is_least: False if there were no more tests to find out whether fewer frames would do.
    """

    def __init__(self, query: Query, reader: Reader, goal: Goal, most: int, step: Step) -> None:
        self._query, self._reader, self._goal, self._most, self._step = query, reader, goal, most, step
        self._closing: Closing | None = None
        self._what, self._left = "", 0
        #: As many analyses may have been made when the step that goes on is over: each leaves half of them to others.
        self._share = most
        self.tests = 0
        self.is_least = True

    def _begin(self, what: str, frames: dict[int, CapturedFrame], *, is_last: bool = False) -> None:
        self._what, self._left = what, len(frames)
        self._share = self._most if is_last else self.tests + (self._most - self.tests + 1) // 2

    def shows(self, frames: dict[int, CapturedFrame]) -> bool:
        """Return True if frames show it; False, without a look, once there were as many tests as there may be."""
        if self.tests >= self._share:
            self.is_least = False
            return False
        self.tests += 1
        is_shown = self._is_shown_by(frames)
        if is_shown:
            self._left = len(frames)
        if self._what:
            self._step(self._what, self._left, self.tests)
        return is_shown

    def _is_shown_by(self, frames: dict[int, CapturedFrame]) -> bool:
        file = io.BytesIO()
        write_frames(self._reader, frames.values(), file)
        file.seek(0)
        try:
            report = analyze(
                file,
                fpdus=False,
                assumptions=self._query.assumptions,
                limits=self._query.limits,
                udp_ports=self._query.sources.udp_ports,
            )
        except MPAError:  # nothing is left that could be read
            return False
        return self._goal.is_shown_by(report, self._moved)

    def _moved(self, direction: str, seq: int) -> int:
        return seq if self._closing is None else self._closing.moved(direction, seq)

    def without_connections(self, frames: dict[int, CapturedFrame]) -> dict[int, CapturedFrame]:
        """Return frames without those of TCP connections, and others, that do not matter."""
        self._begin("connections", frames)
        groups: dict[bytes, list[int]] = {}
        for number, frame in frames.items():
            groups.setdefault(_flow_of(number, frame), []).append(number)

        def some(keys: Sequence[bytes]) -> dict[int, CapturedFrame]:
            kept = {number for key in keys for number in groups[key]}
            return {number: frame for number, frame in frames.items() if number in kept}

        return some(fewest([*groups], lambda keys: self.shows(some(keys))))

    def without_acknowledgements(self, frames: dict[int, CapturedFrame]) -> dict[int, CapturedFrame]:
        """Return frames without those that do nothing but acknowledge and do not matter."""
        self._begin("acknowledgements", frames)
        others = {number for number, frame in frames.items() if not _only_acknowledges(number, frame)}

        def some(numbers: Sequence[int]) -> dict[int, CapturedFrame]:
            kept = others.union(numbers)
            return {number: frame for number, frame in frames.items() if number in kept}

        return some(fewest([one for one in frames if one not in others], lambda kept: self.shows(some(kept))))

    def without_fpdus(self, frames: dict[int, CapturedFrame], connection: Connection) -> dict[int, CapturedFrame]:
        """Return frames without messages and runs of FPDUs that do not matter; what follows them moves up."""
        closing = self._closing = Closing(connection, frames)
        self._begin("messages", frames)
        messages = fewest(
            closing.messages(),
            lambda some: self.shows(closing.without([run for runs in some for run in runs], frames)),
        )
        runs = [run for message in messages for run in message]
        self._begin("FPDUs", closing.without(runs, frames))
        runs = fewest(runs, lambda some: self.shows(closing.without(some, frames)))
        return closing.without(runs, frames)

    def without_frames(self, frames: dict[int, CapturedFrame]) -> dict[int, CapturedFrame]:
        """Return frames without those that do not matter."""
        self._begin("frames", frames, is_last=True)
        numbers = fewest([*frames], lambda some: self.shows({number: frames[number] for number in some}))
        return {number: frames[number] for number in numbers}


def _segment_of(number: int, frame: CapturedFrame) -> Segment | None:
    size = len(frame.octets)
    octets = memoryview(frame.octets)
    return segment_in(number, frame.time, frame.link_type, octets, 0, size, max(size, frame.wire), Fragments())


def _flow_of(number: int, frame: CapturedFrame) -> bytes:
    """Return what the frames of a TCP connection have in common; those of none share nothing with them."""
    seg = _segment_of(number, frame)
    return b"" if seg is None else min(seg.key, reverse_key(seg.key))


def _only_acknowledges(number: int, frame: CapturedFrame) -> bool:
    seg = _segment_of(number, frame)
    return seg is not None and not seg.length and not seg.flags & (SYN | FIN | RST | PATH_MTU)


def _frames_of(query: Query, report: Report, connection: Connection | None) -> dict[int, CapturedFrame]:
    """Return the frames of a connection by number, or all; raises MPAError if they are too many."""
    wanted: set[int] | None = None
    if connection is not None:
        key, without = connection.initiator.key, connection.foreign_paths
        found = conversation(query.sources, key, without=without, limits=query.limits)
        wanted = {*found.between(*extent(report, connection, found))}
    kept: dict[int, CapturedFrame] = {}
    octets = 0
    for number, frame in _numbered(query):
        if wanted is None or number in wanted:
            kept[number] = frame
            octets += len(frame.octets)
            if octets > MOST_OCTETS:
                raise MPAError(
                    f"more than {MOST_OCTETS >> 20} MiB of frames: extract a connection first, or a part of it"
                )
    return kept


def _numbered(query: Query) -> Iterator[tuple[int, CapturedFrame]]:
    with Captures(_again(query), limits=query.limits) as captures:
        (reader,) = captures.readers
        for number, record in enumerate(reader.records(), 1):
            yield number, CapturedFrame(*record)
