"""``ladder``: two hosts, time downwards, an arrow for what each sent: TCP's and MPA's beginning, messages, the end.

What one side sent again and again is one arrow. If there is more than people read, the beginning, the end, what
findings are about and what was slowest are drawn, and a line says how much lies between. The messages are those of
the captures, read twice in memory that does not follow them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from heapq import heappush, heappushpop
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.plot.look import PURPLE, VERMILION, Key, Look, MessageKind, NothingToDraw, Sheet, kind_named, time_text
from scapy_mpa.plot.view import Stretch, Subject
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scapy_mpa.report.connection import Connection

#: Runs of messages that are drawn if there are no more; else so many of the beginning, of the end, of the slowest
#: answers, and that findings are about.
_MOST_RUNS, _FIRST, _LAST, _SLOWEST, _ABOUT = 26, 4, 8, 4, 6
#: Segments sent again that have an arrow of their own.
_MOST_AGAIN = 4
#: Findings that are named beside their arrows.
_MOST_FINDINGS = 12
#: A pause is told that is such a part of the whole.
_PAUSE = 0.1
#: Inches of a row; of these a further line of a remark; where the two hosts stand, and the columns of times and frames
#: end; characters of a line of a remark, and its lines.
_ROW, _LINE, _HOSTS, _TIMES, _FRAMES = 0.235, 0.66, {"initiator": 0.19, "responder": 0.57}, 0.085, 0.175
_REMARK, _REMARK_LINES = 70, 3
_SECOND = 1_000_000_000
#: Octets of the DDP headers of messages that are tagged.
_HEADERS: dict[str | None, int] = {
    "RDMA Write": TAGGED_HEADER_LENGTH,
    "RDMA Read Response": TAGGED_HEADER_LENGTH,
}
#: The line of what was sent after a RST.
_AFTER_RESET = ":"
_WAYS: dict[Role, str] = {"initiator": "→", "responder": "←"}


class _Run(NamedTuple):
    """Messages of one kind that one side sent one after the other: the first, the last, and all together.

    Attributes:
        latency: nanoseconds to the slowest answer among them, -1 without one.
        remark: what is said about that one, or of the only one.
        ends: how many FINs, RSTs and Terminates came before it was whole.
        asked: nanoseconds to the reply to the only one, a slow call; else -1.
        is_even: True if all have the same length.
        acknowledged: octets that were acknowledged, if others were not; else None.
    """

    side: Role
    name: str | None
    time: int
    frame: int
    last_time: int
    last_frame: int
    messages: int
    octets: int
    is_whole: bool
    latency: int
    remark: str
    ends: int
    asked: int = -1
    is_even: bool = True
    acknowledged: int | None = None

    def joined(self, other: _Run) -> _Run | None:
        """Both as one run, None if they are not alike, one is a slow call, or a side ended the connection between."""
        mine, others = ((run.side, run.name, run.is_whole, run.ends) for run in (self, other))
        if mine != others or max(self.asked, other.asked) >= 0:
            return None
        slower = max(self, other, key=lambda run: run.latency)
        return self._replace(
            last_time=max(self.last_time, other.last_time),
            last_frame=max(self.last_frame, other.last_frame),
            messages=self.messages + other.messages,
            octets=self.octets + other.octets,
            latency=slower.latency,
            remark=slower.remark,
            is_even=self.is_even and other.is_even and self.octets * other.messages == other.octets * self.messages,
        )


class _Arrow(NamedTuple):
    """A row: who sent it (None for what lies between arrows), when, its words, how it is drawn, when it ended."""

    time: int
    frame: int
    side: Role | None
    words: str
    colour: str
    remark: str = ""
    style: str = "-"
    last_frame: int = 0
    last_time: int = 0
    kind: MessageKind | None = None
    latency: int = -1
    left_out: _LeftOut | None = None


def ladder(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the ladder; raises as :meth:`Connection.plot` does, CaptureError if a capture is gone."""
    unacknowledged = _unacknowledged(subject) if window.is_open else {}
    arrows = sorted(_arrows(subject, window, look, unacknowledged), key=lambda arrow: (arrow.time, arrow.frame))
    if not arrows:
        raise NothingToDraw("no part of the connection is within what is drawn")
    arrows = [*_joined(arrows, look)]
    rows = _rows(subject.connection, [*_with_pauses(arrows, look)], look)
    height = rows[-1].place + len(rows[-1].remark) * _LINE
    sheet = Sheet(1, (height + 2.6) * _ROW)
    (ax,) = sheet.axes(0)
    _draw(subject.connection, rows, height, ax, look)
    sheet.keys += _legend(arrows, look)
    sheet.said += [_unacknowledged_words(side, one) for side, one in unacknowledged.items()]
    sheet.said.append("horizontal arrows: the capture shows when a frame passed it, not when it was sent or received")
    return sheet.finish(subject.heading("Ladder: who sent what, in order of capture", window), look)


def _legend(arrows: Sequence[_Arrow], look: Look) -> Iterator[Key]:
    """Yield what each line stands for; what ends a connection badly has one colour, and so one entry."""
    yield Key(look.plain, "TCP, startup frames", "line")
    # A Terminate is a message, a RST and a rejection are not.
    bad = dict.fromkeys(
        arrow.kind.words if arrow.kind is not None else arrow.words.partition(",")[0]
        for arrow in arrows
        if arrow.colour == VERMILION
    )
    for arrow in arrows:
        if arrow.kind is not None and arrow.colour != VERMILION:
            yield Key(arrow.kind.of(look), arrow.kind.words, "line")
    if bad:
        yield Key(VERMILION, ", ".join(bad), "line")
    if any(arrow.style == _AFTER_RESET for arrow in arrows):
        yield Key(look.ink, "sent after the RST", "dots")
    if any(arrow.colour == PURPLE for arrow in arrows):
        yield Key(PURPLE, "sent again", "dashes")


# --- what was sent ---


def _arrows(
    subject: Subject, window: Stretch, look: Look, unacknowledged: dict[Role, _Unacknowledged]
) -> Iterator[_Arrow]:
    connection = subject.connection
    for arrow in (*_tcp(subject, look), *_startup(connection, look), *_again(subject, window)):
        if arrow.side in subject.directions and window.has(arrow.frame, arrow.time):
            yield arrow
    yield from _messages(subject, window, look, unacknowledged)


def _tcp(subject: Subject, look: Look) -> Iterator[_Arrow]:
    signs = {side: subject.track(side).signs for side in ROLES}
    opened = sorted(signs[side]["SYN"].frame for side in ROLES if "SYN" in signs[side])
    for side, found in signs.items():
        for name, sign in found.items():
            words, colour = name, look.plain
            if name == "SYN" and sign.frame != opened[0]:
                words = "SYN, ACK"
            if name == "RST":
                colour = VERMILION
            if sign.segments > 1:
                words += f", {sign.segments:,} times"
            yield _Arrow(sign.time, sign.frame, side, words, colour, last_frame=sign.last_frame)


def _startup(connection: Connection, look: Look) -> Iterator[_Arrow]:
    frames = {connection.request_frame: connection.request, connection.reply_frame: connection.reply}
    for event in connection.startup_events:
        startup = frames.get(event.frame)
        if event.what in ("FIN", "RST", "first FPDU"):
            continue
        said = f"MPA {event.what}" if event.what in ("Request", "Reply", "Reply that rejects") else event.what
        colour = VERMILION if "rejects" in event.what else look.plain
        remark = _fields(startup) if startup is not None else ""
        yield _Arrow(event.time, event.frame, event.side, said, colour, remark)


def _fields(startup: StartupFrame) -> str:
    markers, crc = ("Markers" if startup.m else "no Markers"), ("CRC" if startup.c else "no CRC")
    said = [f"Rev {startup.rev}", f"{markers} wanted" if startup.m else markers, f"{crc} wanted" if startup.c else crc]
    if startup.enhanced is not None:
        said.append(f"IRD {startup.enhanced.ird}, ORD {startup.enhanced.ord}")
    if startup.private_data:
        said.append(f"{plural(len(startup.private_data), 'octet')} of Private Data")
    return ", ".join(said)


def _again(subject: Subject, window: Stretch) -> Iterator[_Arrow]:
    """Segments that were sent again: the first ones one by one."""
    begun = subject.connection.lifecycle.first[1]
    for side in subject.directions:
        repeats = subject.parts(side, window).repeats
        octets = Counter[int]()
        for start, end, frame in zip(repeats.start, repeats.end, repeats.frame, strict=True):
            octets[int(frame)] += int(end - start)
        times = dict(zip(repeats.frame.tolist(), repeats.time.tolist(), strict=True))
        frames = sorted(octets)
        for frame in frames[:_MOST_AGAIN]:
            words = f"{plural(octets[frame], 'octet', thousands=True)} sent again"
            remark = ""
            if len(frames) > _MOST_AGAIN and frame == frames[_MOST_AGAIN - 1]:
                rest = frames[_MOST_AGAIN:]
                remark = f"{plural(len(rest), 'segment', thousands=True)} more until frame {rest[-1]}"
            time = begun + round(times[frame] * _SECOND)
            yield _Arrow(time, frame, side, words, PURPLE, remark, "--")


# --- messages ---


def _messages(
    subject: Subject, window: Stretch, look: Look, unacknowledged: dict[Role, _Unacknowledged]
) -> Iterator[_Arrow]:
    connection = subject.connection
    if not connection.fpdu_count:
        return
    signs = [subject.track(side).signs.get(name) for side in ROLES for name in ("FIN", "RST")]
    terminates = [connection.lifecycle.half(side).terminated for side in ROLES]
    ends = sorted(one.frame for one in (*signs, *terminates) if one is not None)
    marked = {found.frame for found in connection.findings[:_MOST_FINDINGS]}
    with subject.rows() as rows:

        def runs() -> Iterator[_Run]:
            return _runs(rows(), subject, window, marked, ends)

        kept = _chosen(runs, marked, ends_badly=connection.lifecycle.is_unfinished)
        yield from _drawn(runs, kept, connection.lifecycle.reset_frame, look, unacknowledged)


def _runs(
    rows: Iterable[MessageRow], subject: Subject, window: Stretch, marked: Set[int], ends: Sequence[int]
) -> Iterator[_Run]:
    """The messages that are drawn, those one after the other together; what a finding is about begins anew."""
    last: _Run | None = None
    slowest: list[int] = []
    calls: dict[tuple[Role, int], str] = {}
    for row in rows:
        if row.reply is not None and row.call is not None:
            calls[row.direction, row.first_frame] = row.call
        name = ""
        if row.ulp is not None and "latency" in row.ulp:
            name = calls.pop((peer_of(row.direction), row.ulp["call_frame"]), "")
        if row.direction not in subject.directions or not window.has(row.first_frame, row.first_time_ns):
            continue
        run = _run_of(row, bisect_left(ends, row.last_frame), name)
        # A call that is among the slowest so far stands alone: it may be one of those that are drawn.
        asked = row.reply.latency_ns if row.reply is not None else -1
        if asked > slowest[0] if len(slowest) == _SLOWEST else asked >= 0:
            (heappush if len(slowest) < _SLOWEST else heappushpop)(slowest, asked)
            run = run._replace(asked=asked)
        is_alone = row.last_frame in marked and (last is None or row.last_frame != last.last_frame)
        joined = last.joined(run) if last is not None and not is_alone else None
        if joined is None and last is not None:
            yield last
        last = joined or run
    if last is not None:
        yield last


def _run_of(row: MessageRow, ends: int, call: str) -> _Run:
    """The message as a run; ``call`` is the name of the call that it answers, or ""."""
    latency, remark = -1, row.text
    if row.answer is not None:
        latency = row.answer.latency_ns
        remark = f"answered after {time_text(latency / _SECOND)}"
    elif row.ulp is not None and "latency" in row.ulp:
        latency = round(row.ulp["latency"] * _SECOND)
        words = row.text.partition(" to the call")[0]
        named = f", {call}" if call else ""
        remark = f"{time_text(row.ulp['latency'])} after its call of frame {row.ulp['call_frame']}: {words}{named}"
    elif row.note:
        remark = row.note
    return _Run(
        row.direction, row.message, row.first_time_ns, row.first_frame, row.time_ns, row.last_frame, 1, row.octets,
        row.complete, latency, remark, ends,
    )  # fmt: skip


def _chosen(runs: Callable[[], Iterator[_Run]], marked: Set[int], *, ends_badly: bool) -> set[int] | None:
    """The numbers of the runs that are drawn, None for all."""
    first, last = (_FIRST, _LAST) if ends_badly else (_LAST, _FIRST)
    kept: set[int] = set()
    about = 0
    slowest: list[tuple[int, int]] = []
    asked: list[tuple[int, int]] = []
    tail: deque[int] = deque(maxlen=last)
    count = 0
    for index, run in enumerate(runs()):
        count = index + 1
        tail.append(index)
        if index < first:
            kept.add(index)
        if run.latency >= 0:
            (heappush if len(slowest) < _SLOWEST else heappushpop)(slowest, (run.latency, index))
        if run.asked >= 0:
            (heappush if len(asked) < _SLOWEST else heappushpop)(asked, (run.asked, index))
        if about < _ABOUT and any(run.frame <= frame <= run.last_frame for frame in marked):
            about += 1
            kept.add(index)
    if count <= _MOST_RUNS:
        return None
    least = min(slowest, default=(0, 0))[0]
    return kept | {*tail} | {index for _, index in slowest} | {index for time, index in asked if time >= least}


def _drawn(
    runs: Callable[[], Iterator[_Run]],
    kept: set[int] | None,
    reset: int | None,
    look: Look,
    unacknowledged: dict[Role, _Unacknowledged],
) -> Iterator[_Arrow]:
    # What is left of the octets of messages that were acknowledged, by side.
    left = Counter({side: -one.payload for side, one in unacknowledged.items()})
    if left:
        for run in runs():
            left[run.side] += run.octets
    left_out = _LeftOut()
    for index, run in enumerate(runs()):
        last = unacknowledged.get(run.side)
        if last is not None and 0 < left[run.side] < run.octets and run.frame <= last.frame <= run.last_frame:
            run = run._replace(acknowledged=left[run.side])
        left[run.side] -= run.octets
        if kept is not None and index not in kept:
            left_out.add(run)
            continue
        yield from left_out.arrows(reset, look)
        left_out = _LeftOut()
        yield _arrow_of(run, reset, look)
    yield from left_out.arrows(reset, look)


class _Unacknowledged(NamedTuple):
    """The octets at the end of a stream that were never acknowledged.

    Attributes:
        octets: how many.
        payload: those of them, and of an FPDU that was acknowledged in part, which are payload of messages.
        frame: the first frame that carried some of them.
    """

    octets: int
    payload: int
    frame: int


def _unacknowledged(subject: Subject) -> dict[Role, _Unacknowledged]:
    """Return what of each side was never acknowledged, as far as it is known which octets these are."""
    found: dict[Role, _Unacknowledged] = {}
    for side in subject.directions:
        half, octets = subject.connection.half(side), subject.connection.lifecycle.half(side).unacknowledged_octets
        track = subject.track(side, acks=True)
        if not octets or half.counts.missing_octets or not len(track.starts):
            continue
        end = max(map(sum, zip(track.starts, track.lengths, strict=True)))
        if end - max(track.acks, default=0) != octets:
            continue  # some of what comes after the last ACK was acknowledged selectively
        fpdus = subject.whole(side).fpdus
        is_after = fpdus.end > end - octets
        count = int(fpdus.count.sum())
        records = half.fpdus.some(range(count - int(fpdus.count[is_after].sum()), count))
        at, payload, frame = int(fpdus.end[-1]) if count else 0, 0, 0
        for number in sorted(records, reverse=True):
            record = records[number]
            if at <= end - octets:
                break
            at -= record.wire_length
            payload += max(0, record.ulpdu_length - _HEADERS.get(record.opcode, UNTAGGED_HEADER_LENGTH))
            frame = record.frames[0]
        if payload:
            found[side] = _Unacknowledged(octets, payload, frame)
    return found


def _unacknowledged_words(side: Role, one: _Unacknowledged) -> str:
    return (
        f"of the {one.octets:,} octets of the {side.capitalize()} that were not acknowledged, {one.payload:,} are of "
        "messages, the rest is headers and CRCs"
    )


class _LeftOut:
    """Runs one after the other that are not drawn: the first, how many, the messages by side and name, the end."""

    def __init__(self) -> None:
        self._first: _Run | None = None
        self._runs = 0
        self._counts: Counter[tuple[Role, str | None]] = Counter()
        self._end = 0

    def add(self, run: _Run) -> None:
        """Add one more."""
        self._first = self._first or run
        self._runs += 1
        self._counts[run.side, run.name] += run.messages
        self._end = max(self._end, run.last_time)

    def arrows(self, reset: int | None, look: Look) -> Iterator[_Arrow]:
        """The row that says so; one run alone is drawn."""
        first = self._first
        if first is None:
            return
        if self._runs == 1:
            yield _arrow_of(first, reset, look)
            return
        yield self.arrow(first, look)

    def joined(self, other: _LeftOut, look: Look) -> _Arrow | None:
        """The row for both; None if this has no run."""
        first = self._first
        if first is None:
            return None
        self._runs += other._runs
        self._counts += other._counts
        self._end = max(self._end, other._end)
        return self.arrow(first, look)

    def arrow(self, first: _Run, look: Look) -> _Arrow:
        """The row, which begins at the first run."""
        counts = self._counts.most_common()
        said = ", ".join(f"{count:,} {name or 'no message'} {_WAYS[side]}" for (side, name), count in counts)
        took = time_text((self._end - first.time) / _SECOND)
        words = f"{plural(self._counts.total(), 'message', thousands=True)} in {took}"
        return _Arrow(first.time, first.frame, None, words, look.soft, said, last_time=self._end, left_out=self)


def _arrow_of(run: _Run, reset: int | None, look: Look) -> _Arrow:
    words = run.name or "no message"
    if run.messages == 1:
        words += f", {plural(run.octets, 'octet', thousands=True)}"
    elif run.is_even:
        words = f"{run.messages:,} × {words} of {plural(run.octets // run.messages, 'octet', thousands=True)}"
    else:
        words = f"{run.messages:,} × {words}, {plural(run.octets, 'octet', thousands=True)} together"
    if not run.is_whole:
        words += ", a part" if run.messages == 1 else ", parts"
    remark, style = run.remark, "-"
    if run.messages > 1:
        remark = f"the slowest {remark}" if run.latency >= 0 else ""
    if reset is not None and run.last_frame > reset:
        style = _AFTER_RESET
        remark = "sent after the RST: nobody placed it"
        if run.frame < reset:
            remark = f"continued after the RST of frame {reset}: nobody placed all of it"
    if run.acknowledged is not None:
        remark += f"{'; ' if remark else ''}{plural(run.acknowledged, 'octet', thousands=True)} of it acknowledged"
    kind = kind_named(run.name)
    return _Arrow(
        run.time, run.frame, run.side, words, kind.of(look), remark, style, run.last_frame, run.last_time, kind,
        run.latency,
    )  # fmt: skip


# --- how it is drawn ---


def _joined(arrows: Iterable[_Arrow], look: Look) -> Iterator[_Arrow]:
    """The same arrows, with one row for what is left out one after the other: a message lasts longer than others."""
    last: _Arrow | None = None
    for arrow in arrows:
        if last is not None and last.left_out is not None and arrow.left_out is not None:
            last = last.left_out.joined(arrow.left_out, look)
            continue
        if last is not None:
            yield last
        last = arrow
    if last is not None:
        yield last


def _with_pauses(arrows: list[_Arrow], look: Look) -> Iterator[_Arrow]:
    """A row for each long pause."""
    least = (arrows[-1].time - arrows[0].time) * _PAUSE
    end = arrows[0].time
    for arrow in arrows:
        if arrow.time - end > least > 0:
            yield _Arrow(end, 0, None, f"{time_text((arrow.time - end) / _SECOND)} pass", look.soft)
        yield arrow
        end = max(end, arrow.time, arrow.last_time)


class _Row(NamedTuple):
    """An arrow, how many rows down it lies, the lines beside it, whether these tell of something wrong or slowest."""

    arrow: _Arrow
    place: float
    remark: list[str]
    is_bad: bool
    is_slowest: bool


def _rows(connection: Connection, arrows: list[_Arrow], look: Look) -> list[_Row]:
    """Return where arrows lie, with what findings say about them."""
    findings = [*connection.findings[:_MOST_FINDINGS]]
    slowest = max((arrow.latency for arrow in arrows), default=-1)
    rows, place = [], 0.0
    for arrow in arrows:
        last = max(arrow.frame, arrow.last_frame)
        mine = [
            one
            for one in findings
            if arrow.side is not None and arrow.frame <= one.frame <= last and one.direction in (arrow.side, None)
        ]
        findings = [one for one in findings if one not in mine]
        said = [f"{one.severity} {one.rule.id}" for one in mine]
        words = "; ".join([*([arrow.remark] if arrow.remark else []), *said])
        lines = wrap(words, _REMARK, max_lines=_REMARK_LINES, placeholder=" …") or [""]
        is_bad = any(one.severity != "note" for one in mine)
        rows.append(_Row(arrow, place, lines, is_bad, 0 <= slowest == arrow.latency))
        place += 1 + (len(lines) - 1) * _LINE
    return rows


def _draw(connection: Connection, rows: list[_Row], height: float, ax: Axes, look: Look) -> None:
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(height + 0.2, -2.2)
    begun = connection.lifecycle.first[1]

    def write(x: float, y: float, words: str, **more: object) -> None:
        style: dict[str, Any] = {"va": "center", "fontsize": 8, "color": look.soft, "in_layout": False, **more}
        ax.text(x, y, words, **style)

    for role in ROLES:
        ax.plot([_HOSTS[role]] * 2, [-0.7, height], color=look.faint, linewidth=1.6, zorder=1)
        words = f"{role.capitalize()}\n{connection.half(role).endpoint}"
        write(_HOSTS[role] - 0.002, -0.95, words, ha="left", va="bottom", fontsize=9, color=look.ink)
    write(_TIMES, -1.1, "seconds", ha="right", va="bottom")
    write(_FRAMES, -1.1, "frame", ha="right", va="bottom")
    box = {"facecolor": look.back, "edgecolor": "none", "pad": 1.2}
    middle = sum(_HOSTS.values()) / 2
    for arrow, place, remark, is_bad, is_slowest in rows:
        colour = look.alarm if is_bad else look.ink if is_slowest else look.soft
        weight = "bold" if is_slowest else "normal"
        for number, line in enumerate(remark):
            write(_HOSTS["responder"] + 0.012, place + number * _LINE, line, color=colour, weight=weight)
        if arrow.side is None:
            write(middle, place, arrow.words, ha="center", style="italic", bbox=box, zorder=3)
            continue
        write(_TIMES, place, f"{(arrow.time - begun) / _SECOND:,.6f}", ha="right")
        frames = f"{arrow.frame}-{arrow.last_frame}" if arrow.last_frame > arrow.frame else str(arrow.frame)
        write(_FRAMES, place, frames, ha="right")
        ax.annotate(
            "", (_HOSTS[peer_of(arrow.side)], place), xytext=(_HOSTS[arrow.side], place),
            arrowprops={"arrowstyle": "-|>", "color": arrow.colour, "linestyle": arrow.style, "linewidth": 1.3,
                        "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9},
        )  # fmt: skip
        write(middle, place, arrow.words, ha="center", fontsize=8.5, color=look.ink, bbox=box, zorder=3)
