"""One row per STag: who named it and how often, its bounds, what was written and read, how it ended, what is wrong.

In: captures.  Out: rows in the order in which STags were first named or used, connection by connection.  What waits is
in temporary files, so memory does not follow the capture.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.store import MessageStore
from scapy_mpa.rdmap.assembly import ConnectionMessages, MessageHalf
from scapy_mpa.rdmap.links import AnswerValues
from scapy_mpa.rdmap.memory import MemoryFinding, STagMemory
from scapy_mpa.reading.query import Asked, Query
from scapy_mpa.reading.spill import Sorted
from scapy_mpa.rules.table import RULES, Severity
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

_SECOND = 1_000_000_000
#: Findings of each rule and STag that the text has.
_MOST_SHOWN = 3

#: (connection, frame, side, number, the values of the row but connection and owner).
_Kept: TypeAlias = "tuple[int, int, int, int, tuple[Any, ...]]"


class FoundInMemory(NamedTuple):
    """A finding, with the times of its frames (nanoseconds since the epoch; 0 where there is no such frame)."""

    rule: str
    frame: int
    time_ns: int
    other_frame: int
    since_frame: int
    until_frame: int
    stale_ns: int
    detail: str

    @property
    def severity(self) -> Severity:
        """``error`` or ``note``."""
        return RULES[self.rule].severity

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        rule = RULES[self.rule]
        return {
            "rule": self.rule,
            "clause": rule.clause,
            "requirement": rule.requirement,
            "severity": rule.severity,
            "frame": self.frame,
            "time": self.time_ns / _SECOND,
            "other_frame": self.other_frame,
            "stale": {"from_frame": self.since_frame, "to_frame": self.until_frame, "seconds": self.stale_ns / _SECOND}
            if self.since_frame
            else None,
            "detail": self.detail,
        }


class STagRow(NamedTuple):
    """What one side named by an STag, and what the peer did with it.

    Attributes:
        connection: its number in the report.
        owner: whose memory it is.
        stag: the STag.
        protocol: the upper layer that named it, None if none did.
        uses: what it was named for: "read", "write", "reply", "read or write", "sink" (of an RDMA Read).
        named: how often it was named.
        named_frame: the first frame that named it, 0 for none.
        last_named_frame: the last one.
        to: the first octet that was ever named, None if none was.
        length: octets from there to the end of what was ever named; None if that is not known.
        writes: RDMA Writes and Read Responses into it.
        written_octets: their octets.
        reads: RDMA Read Requests from it.
        read_octets: the octets that these ask for.
        first_used_frame: the first frame of the first of these, 0 for none.
        last_used_frame: the last frame of the last one.
        ended_frame: the frame that ended its life, 0 if none did.
        ended: "invalidated" by a Send of the peer, or "answered" by its reply or Read Response; "" if it did not end.
        counts: how often each rule was broken.
        findings: the first of these breaches.
    """

    connection: int
    owner: Role
    stag: int
    protocol: str | None
    uses: tuple[str, ...]
    named: int
    named_frame: int
    last_named_frame: int
    to: int | None
    length: int | None
    writes: int
    written_octets: int
    reads: int
    read_octets: int
    first_used_frame: int
    last_used_frame: int
    ended_frame: int
    ended: str
    counts: dict[str, int]
    findings: tuple[FoundInMemory, ...]

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON lines."""
        return {
            "connection": self.connection,
            "owner": self.owner,
            "stag": self.stag,
            "ulp": self.protocol,
            "uses": [*self.uses],
            "named": self.named,
            "named_frame": self.named_frame or None,
            "last_named_frame": self.last_named_frame or None,
            "to": self.to,
            "length": self.length,
            "writes": self.writes,
            "written_octets": self.written_octets,
            "reads": self.reads,
            "read_octets": self.read_octets,
            "first_used_frame": self.first_used_frame or None,
            "last_used_frame": self.last_used_frame or None,
            "overlaps": self.counts.get("placement-overlap", 0),
            "early": self.counts.get("placement-early", 0),
            "ended_frame": self.ended_frame or None,
            "ended": self.ended or None,
            "counts": self.counts,
            "findings": [one.as_dict() for one in self.findings],
        }

    @property
    def life(self) -> tuple[int, int]:
        """The first and the last frame that named or used it, or ended it."""
        begun = [frame for frame in (self.named_frame, self.first_used_frame) if frame]
        return min(begun, default=0), max(self.last_named_frame, self.last_used_frame, self.ended_frame)

    @property
    def is_alive(self) -> bool:
        """True if it was named, and has not ended."""
        return bool(self.named) and not self.ended_frame

    def only(self, rules: Collection[str]) -> STagRow:
        """The same with findings of some rules only."""
        counts = {rule: count for rule, count in self.counts.items() if rule in rules}
        return self._replace(counts=counts, findings=tuple(one for one in self.findings if one.rule in rules))

    @property
    def has_error(self) -> bool:
        """True if a rule was broken whose breach is an error."""
        return any(RULES[rule].severity == "error" for rule in self.counts)

    def lines(self) -> Iterator[str]:
        """Yield the line for people, and one for each finding."""
        said = [self._named_words()]
        if self.writes:
            said.append(f"{self.written_octets} octets written by {plural(self.writes, 'message')}")
        if self.reads:
            said.append(f"{self.read_octets} octets read by {plural(self.reads, 'Request')}")
        if not self.writes and not self.reads:
            said.append("not used")
        overlaps = self.counts.get("placement-overlap", 0)
        if overlaps:
            said.append(plural(overlaps, "overlap"))
        if self.ended_frame:
            said.append(f"{self.ended} at frame {self.ended_frame}")
        elif self.named:
            said.append("did not end")
        yield f"#{self.connection} {self.owner} STag {self.stag:#010x}: {', '.join(said)}\n"
        shown = dict.fromkeys(self.counts, 0)
        for one in self.findings:
            shown[one.rule] += 1
            if shown[one.rule] > _MOST_SHOWN:
                continue
            stale = f" ({one.stale_ns / 1e6:.3f} ms)" if one.since_frame else ""
            yield f"  {one.severity} {one.rule} ({RULES[one.rule].clause}) frame {one.frame}: {one.detail}{stale}\n"
        for rule, count in self.counts.items():
            if count > _MOST_SHOWN:
                yield f"  {RULES[rule].severity} {rule}: {count - _MOST_SHOWN} more\n"

    def _named_words(self) -> str:
        if not self.named:
            return "never named"
        by = f" by {self.protocol}" if self.protocol is not None else ""
        frames = f"frame {self.named_frame}"
        if self.named > 1:
            frames = f"frames {self.named_frame} to {self.last_named_frame}, {self.named} times"
        length = "octets" if self.length is None else plural(self.length, "octet")
        return f"named{by} for {', '.join(self.uses)} ({frames}), {length} from TO {self.to:#x}"


class _Nothing(MessageStore):
    """Discards messages."""

    def add(self, row: tuple[Any, ...]) -> int:
        """A message."""
        return 0

    def answer(self, number: int, answer: AnswerValues) -> None:
        """A Request is answered."""


class CapturedMemory(CapturedMessages):
    """Reads captures; then :meth:`rows` yields the memory that their connections named or used, as often as one likes.

    Use as a context manager. Raises as :class:`~scapy_mpa.messages.reading.CapturedMessages` does.
    """

    def __init__(
        self, capture: Query | Asked, *, directions: Sequence[Role] = ROLES, protocols: Sequence[str] = ()
    ) -> None:
        super().__init__(capture, store=_Nothing, directions=directions, protocols=protocols)

    def begin(self) -> None:
        """Forget what was received."""
        super().begin()
        self._rows: Sorted[_Kept] = Sorted()
        self._count = 0

    def begun(self, connection: ConnectionMessages) -> None:
        """A connection has its first FPDU."""
        for half in connection.halves:
            half.memories.drop = _Keeping(self, half)

    def finish(self) -> None:
        """Finish: everything was received. Raises OSError if a temporary file cannot be read or written."""
        super().finish()
        for connection in self.heard.values():
            for half in connection.halves:
                half.memories.drop_all()

    def keep(self, half: MessageHalf, memory: STagMemory) -> None:
        """An STag is remembered no more."""
        if not memory.named and not memory.first_used:
            return
        values = (
            *(memory.stag, memory.protocol, tuple(memory.uses), memory.named, memory.first_named, memory.last_named),
            *((memory.low, memory.high - memory.low if memory.has_bounds else None) if memory.named else (None, None)),
            *(memory.writes, memory.written_octets, memory.reads, memory.read_octets),
            *(memory.first_used, memory.last_used, memory.ended_frame, memory.how),
            *(memory.counts, tuple(map(tuple, memory.findings))),
        )
        frames = [frame for frame in (memory.first_named, memory.first_used) if frame]
        self._count += 1
        where = half.connection.serial, min(frames), half.half & 1, self._count
        self._rows.add((*where, values), 1 + len(memory.findings))

    def close(self) -> None:
        """Drop what waits in files."""
        super().close()
        if hasattr(self, "_rows"):
            self._rows.close()

    def rows(self) -> Iterator[STagRow]:
        """Yield the rows of the connections and directions that are shown."""
        shown = self.shown_numbers()
        for serial, _, side, _, values in self._rows:
            number = self._numbers.get(serial)
            if number in shown and ROLES[side] in self.directions:
                *plain, findings = values
                yield STagRow._make((number, ROLES[side], *plain, tuple(map(self._found, findings))))

    def _found(self, values: tuple[Any, ...]) -> FoundInMemory:
        one = MemoryFinding._make(values)
        at = self.times.at
        stale = at(one.until) - at(one.since) if one.since else 0
        return FoundInMemory(
            one.rule, one.frame, at(one.frame), one.other_frame, one.since, one.until, max(stale, 0), one.detail
        )


class _Keeping:
    """Keeps the STags of a half connection that are remembered no more."""

    def __init__(self, reading: CapturedMemory, half: MessageHalf) -> None:
        self._reading = reading
        self._half = half

    def __call__(self, memory: STagMemory) -> None:
        self._reading.keep(self._half, memory)
