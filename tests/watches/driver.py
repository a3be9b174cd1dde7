"""Feeds segments to a receiver, and what it found to the watches: counts, findings and lifecycle of each connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from scapy_mpa.capture.files import Captures
from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import SIW_GSO
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.receiver.values import Breach, Gap, LocatedFPDU, Moment
from scapy_mpa.rules.findings import Finding, Findings
from scapy_mpa.stream.connection import Stray, TCPConnection, TCPHalf
from scapy_mpa.stream.copies import UNKNOWN
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.lifecycle import Lifecycle, Terminated
from scapy_mpa.values.options import Announced, announced, emss_of
from scapy_mpa.values.pathmtu import path_mtu_message
from scapy_mpa.values.segment import PATH_MTU, SYN, Segment, endpoints, reverse_key
from scapy_mpa.watches.copies import CopyWatch, dropped_segments, other_fins, stray
from scapy_mpa.watches.counts import Counts, UnalignedSegment
from scapy_mpa.watches.ddp import ulpdu_of
from scapy_mpa.watches.fpdus import FPDUWatch
from scapy_mpa.watches.gaps import GapWatch
from scapy_mpa.watches.lifecycle import (
    DirectionEnd,
    Rejection,
    breaches_at_end,
    closed_by,
    lifecycle,
    refused,
    rejected,
)
from scapy_mpa.watches.messages import MessageWatch, terminated
from scapy_mpa.watches.pathmtu import PathMTUWatch
from scapy_mpa.watches.reads import ReadWatch
from scapy_mpa.watches.segments import SegmentWatch
from scapy_mpa.watches.startup import Startup, StartupSide, copies_of_frame, garbled_key, judge_startup, start_not_found

#: How the rules begin that the watches find.
RULES: Final = (
    "alignment", "assumption", "attack-buffer", "attack-hijack", "attack-injection", "attack-path-mtu", "attack-reset",
    "attack-syn", "capture-cut", "capture-gap", "connection-lost", "crc", "ddp-", "enhanced-", "error-closed",
    "error-passed", "fpdu-above-emss", "fpdu-format", "fpduptr-", "gap", "ird-ord-", "late-duplicate", "marker-",
    "mulpdu", "old-timestamp", "outside-window", "overlap", "pad", "path-mtu", "rdmap-", "rnic-", "rtr", "startup-",
    "tcp-checksum", "tcp-refused", "teardown-", "terminate", "ulpdu-length-",
)  # fmt: skip
#: Of these, what other rooms find.
OTHERS: Final = ("startup-rejected-closed", "startup-timeout")


def is_watched(rule: str) -> bool:
    """Return True if the watches find breaches of a rule."""
    return rule.startswith(RULES) and not rule.startswith(OTHERS)


class Reporter:
    """Makes findings of what one direction breaks."""

    def __init__(self, findings: Findings, direction: str | None, stream: TCPHalf) -> None:
        self.findings = findings
        self.direction = direction
        self.stream = stream
        #: Rules that were broken in this direction.
        self.broken: set[str] = set()

    def __call__(self, breaches: Iterable[Breach], count: int = 1) -> None:
        base = self.stream.space.base
        for one in breaches:
            assert base is not None
            who = self.direction
            if one.is_of_peer:
                who = "responder" if who == "initiator" else "initiator"
            else:
                self.broken.add(one.rule)
            place = who, one.frame, one.time, (base + one.offset) & SEQ_MASK
            self.findings.add(one.rule, *place, one.detail, code=one.code, topic=one.topic, count=count)


class Half:
    """The watches of one direction in Full Operation."""

    def __init__(self, mpa: ConnectionReader, d: int, emss: int, report: Reporter, path_mtu: PathMTUWatch) -> None:
        reader = mpa.readers[d]
        assert reader is not None
        self.reader: FPDUReader = reader
        self.report = report
        self.name = report.direction
        is_beginning = reader.is_beginning
        frame = mpa.frames[d]
        self.counts = Counts(0 if is_beginning else None)
        self.fpdus = FPDUWatch(reader.layout, is_beginning, emss, mpa.profile.fpduptr_origin, gso_flag(mpa))
        self.path_mtu = path_mtu
        self.segments = SegmentWatch(path_mtu.messages)
        self.messages = MessageWatch()
        self.copies = CopyWatch(reader.layout, frame.frame if frame is not None else 0)
        self.gaps = GapWatch(is_beginning, reader.layout.crc)
        self.terminated: Terminated | None = None
        self.reads: tuple[ReadWatch, ReadWatch] | None = None
        self.peer: Half | None = None

    def take(self, mpa: ConnectionReader, d: int) -> None:
        """Take what the receiver found."""
        reader, half, report = self.reader, self.reader.half, self.report
        arrivals, mpa.arrivals[d] = mpa.arrivals[d], []
        for arrival in arrivals:
            if arrival.end > 0:
                self.counts.arrived(arrival)
                self.copies.arrived(arrival)
                report(self.segments.arrived(arrival))
                report(self.gaps.arrived(arrival))
        self.messages.acknowledged = half.peer.last_ack_sent
        for wrong in reader.contradictions:
            report((self.fpdus.contradicted(wrong),))
            if not wrong.offset:
                report(self.fpdus.wrong_beginning(reader.first_octets, wrong.moment))
        passed, reader.passed, reader.contradictions = reader.passed, [], []
        for one, delivered in passed:
            if isinstance(one, Gap):
                self.counts.lost(one)
                report(self.gaps.lost(one))
            else:
                self.passed(one, delivered)
        report(self.copies.competed([*reader.rivals, *half.late]))
        reader.rivals, half.late = [], []
        fin = half.fin_captured
        for octets in reader.left_out:
            self.counts.left_out(octets)
            report(self.copies.left_out(octets, fin[1] if fin is not None else 0, half.start))
        reader.left_out = []
        self.judge(self.counts.judged())

    def judge(self, segments: Iterable[UnalignedSegment]) -> None:
        for segment in segments:
            self.report(self.segments.unaligned(segment))

    def passed(self, fpdu: LocatedFPDU, delivered: int) -> None:
        self.counts.passed(fpdu, delivered)
        self.copies.passed(fpdu)
        self.report(self.gaps.passed(fpdu))
        if self.reader.layout.dialect is not None:
            return  # what is plain to the rules is not what a sender that deviates sends
        self.report(self.segments.explained(self.fpdus.passed(fpdu)))
        if not fpdu.offset and self.fpdus.first is not None and self.fpdus.first.is_doubtful:
            self.report(self.fpdus.wrong_beginning(self.reader.first_octets, fpdu.known))
        self.messages.passed(fpdu, ulpdu_of(fpdu))
        peer = self.peer
        if fpdu.opcode == TERMINATE_OPCODE:
            self.quote()
        if self.reads is not None and peer is not None:
            mine, others = self.reads
            self.report(mine.requested(fpdu, has_hole(peer)))
            peer.report(others.answered(fpdu))
            self.report(others.answer_after_error(fpdu))

    def quote(self) -> None:
        """Look for the message that the Terminate quotes: when it is placed, and again at the end."""
        if self.fpdus.terminate is not None:
            found = terminated(self.fpdus.terminate, self.peer.messages if self.peer is not None else None)
            if self.terminated is None or found.message is not None:
                self.terminated = found

    def finish(self, mine: DirectionEnd, peer: DirectionEnd, now: Moment) -> None:
        reader, half, report, rest = self.reader, self.reader.half, self.report, self.reader.rest
        edge = mine.sent
        end = half.highest if half.fin is None else half.fin
        is_located = rest is not None and rest.is_located
        self.judge(self.counts.finish((rest.start, rest.end) if rest and is_located else None, is_cut=end > edge))
        if not self.counts.fpdus and reader.first_octets:
            report(self.fpdus.wrong_beginning(reader.first_octets, now))
        report(self.gaps.finish(rest, edge, closed_by(mine, peer), mine.acknowledged, now))
        sizes, longest = self.fpdus.sizes, self.segments.longest
        report(self.segments.explained(sizes.finish(self.fpdus.ddp, longest)))
        report(self.segments.finish(self.counts, sizes.fits(longest), now))
        for one, detail, count in self.path_mtu.finish():
            report.findings.add("path-mtu", self.name, one.frame, one.time, one.seq, detail, count=count)
        if self.reads is not None:
            report(self.reads[0].finish())


def has_hole(half: Half) -> bool:
    """Whether octets of a direction are missing below others that were captured."""
    copies, main = half.reader.half.copies, half.reader.main
    return copies.end > copies.edge(main.at)


def gso_flag(mpa: ConnectionReader) -> str:
    frames = [one.startup for one in mpa.frames if one is not None and one.startup.res & SIW_GSO]
    return " and ".join(sorted((one.kind.capitalize() for one in frames), reverse=True))


def direction_of(half: TCPHalf, watched: Half | None) -> DirectionEnd:
    """Return what is known of a direction at the end."""
    acknowledged = half.peer.last_ack_sent
    sent = max(half.highest, 0)
    place = (half.last_frame, half.last_time), half.fin_captured, half.resets, half.reset_count, half.retransmissions
    if watched is None:
        return DirectionEnd(
            *place, half.start, sent, acknowledged, half.peer.sacked_octets(sent), is_in_operation=False
        )
    main, error = watched.reader.main, watched.fpdus.first_error or watched.reader.first_error
    sent = max(main.at, main.edge)
    watched.messages.acknowledged = acknowledged
    return DirectionEnd(
        *place, half.start, sent, acknowledged, half.peer.sacked_octets(sent), watched.messages.unacknowledged(sent),
        watched.terminated, error[0] if error is not None else None, watched.gaps.has_gap,
    )  # fmt: skip


class Watched:
    """A connection with its watches."""

    def __init__(self, mpa: ConnectionReader) -> None:
        self.mpa = mpa
        self.findings = Findings()
        self.halves: list[Half | None] = [None, None]
        self.syns: list[Announced | None] = [None, None]
        self.path_mtu = PathMTUWatch(), PathMTUWatch()
        self.lifecycle: Lifecycle | None = None
        self.port = 0

    def reporter(self, d: int) -> Reporter:
        name = "initiator" if d == self.mpa.initiator else "responder"
        return Reporter(self.findings, name, self.mpa.connection.halves[d])

    def take(self, d: int, port: int) -> None:
        """Take what a segment in direction ``d`` showed: first what it acknowledged."""
        mpa, self.port = self.mpa, port
        for side in (0, 1):
            before, reader = self.halves[side], mpa.readers[side]
            if reader is not None and (before is None or before.reader is not reader):
                if before is not None:
                    # Its sender deviates: it is read anew.
                    self.findings.forget(before.name, before.report.broken)
                emss = emss_of(*self.syns)
                self.halves[side] = Half(mpa, side, emss, self.reporter(side), self.path_mtu[side])
        first, second = self.halves
        if first is not None and second is not None and (first.peer is not second or second.peer is not first):
            first.peer, second.peer = second, first
            frames = {one.startup.kind: one.startup for one in mpa.frames if one is not None}
            depth: dict[str | None, int | None] = {}
            if len(frames) == 2 and (depths := agreed(frames["request"], frames["reply"], port).depths) is not None:
                depth = {"initiator": depths.initiator_ord, "responder": depths.responder_ord}
            ours = ReadWatch(first.fpdus, second.fpdus, depth.get(first.name))
            others = ReadWatch(second.fpdus, first.fpdus, depth.get(second.name))
            first.reads, second.reads = (ours, others), (others, ours)
        for side in (1 - d, d):
            half = self.halves[side]
            if half is not None:
                half.take(mpa, side)

    def finish(self, now: Moment) -> None:
        """Nothing more comes."""
        mpa = self.mpa
        for half in self.halves:
            if half is not None:
                half.quote()
        ends = [direction_of(stream, half) for stream, half in zip(mpa.connection.halves, self.halves, strict=True)]
        for d, half in enumerate(self.halves):
            report, stream = self.reporter(d), mpa.connection.halves[d]
            if half is not None:
                half.finish(ends[d], ends[1 - d], now)
            report(breaches_at_end(ends[d], ends[1 - d]))
            report(dropped_segments(stream.dropped, stream.start))
            report(other_fins(stream.other_fins, stream.fin_captured))
        self.report_strays(mpa.connection.late)
        rejection = self.rejection()
        if rejection is not None:
            self.reporter(1 - (mpa.initiator or 0))((rejected(rejection),))
        self.judge_startup(ends, now)
        first = mpa.connection.first_frame, mpa.connection.first_time
        initiator = mpa.initiator or 0
        self.lifecycle = lifecycle(first, ends[initiator], ends[1 - initiator], rejection)

    def judge_startup(self, ends: Sequence[DirectionEnd], now: Moment) -> None:
        """Report what startup frames, and what came instead of them, show."""
        mpa, initiator = self.mpa, self.mpa.initiator or 0
        sides = []
        for d in (initiator, 1 - initiator):
            half, reader, base = self.halves[d], mpa.readers[d], mpa.connection.halves[d].space.base or 0
            side = StartupSide(base, ends[d], mpa.frames[d], mpa.parts[d], mpa.garbled[d], mpa.after_rejection[d])
            side = side._replace(opening=mpa.openings[d], first_octets=mpa.octets_after[d])
            if half is not None and reader is not None:
                first, octets, fpdus = half.fpdus.first, reader.first_octets, half.counts.fpdus
                side = side._replace(first=first, first_octets=octets, fpdus=fpdus, layout=reader.layout)
            sides.append(side)
            frame = mpa.frames[d]
            if reader is None:
                late = mpa.connection.halves[d].late
                self.reporter(d)(copies_of_frame([*mpa.rivals[d], *late], frame) if frame is not None else ())
                for arrival in mpa.arrivals[d]:
                    self.reporter(d)(GapWatch(False, False).arrived(arrival))
        facts = mpa.unexpected, mpa.answered_octets, mpa.rejected, mpa.is_accepted, mpa.profile.initiator_first
        found = judge_startup(Startup(sides[0], sides[1], *facts, self.port), now)
        for role, rules in found.forgotten:
            self.findings.forget(role, set(rules))
        for role, breach in found.breaches:
            self.reporter(initiator if role == "initiator" else 1 - initiator)((breach,))

    def report_strays(self, segments: Iterable[Stray]) -> None:
        """Report segments that came in the midst of the connection and are none of its own."""
        for one in segments:
            half = self.mpa.connection.halves[one.direction]
            place = half.space.nearest(one.seq)[1], half.expected, half.peer.right_edge, half.start
            self.reporter(one.direction)((stray(one, *place, half.has_right_checksums),))

    def rejection(self) -> Rejection | None:
        reply = next((one for one in self.mpa.frames if one is not None and one.startup.kind == "reply"), None)
        if not self.mpa.rejected or reply is None:
            return None
        return Rejection(reply.start, (reply.frame, reply.time), reply.startup)


def watch(batches: Iterable[Iterable[Segment]], assumptions: Assumptions = NOTHING) -> tuple[list[Watched], Findings]:
    """Receive segments; return the MPA connections, watched to their end, and the findings of no connection."""
    receiver = Receiver(assumptions=assumptions)
    watched: dict[int, Watched] = {}
    now: Moment = (0, 0)
    port = 0
    directions = receiver._flows._directions
    for batch in batches:
        for seg in batch:
            now = max(now, (seg.frame, seg.time))
            if seg.flags & PATH_MTU:
                flow = directions.get(seg.key)
                if flow is not None and flow[0].connections:
                    found = watched.get(id(flow[0].connections[-1].user))
                    if found is not None:
                        receive_path_mtu(found, flow[1], seg)
                continue
            mpa = receiver.receive(seg)
            if mpa is None:
                continue
            d = directions[seg.key][1]
            found = followed(watched, mpa, now)
            if seg.flags & SYN:
                found.syns[d] = announced(seg)
            key = seg.key if d == mpa.initiator else reverse_key(seg.key)
            port = int.from_bytes(key[-2:], "big")
            found.take(d, port)
    connections = [mpa for _, mpa in receiver.finish()]
    for mpa in connections:
        one = followed(watched, mpa, now)
        if one.lifecycle is None:
            for d in (1, 0):
                one.take(d, port)
            one.finish(now)
    others = Findings()
    starts = {seq for mpa in connections for seq in mpa.starts_found}
    for seq in assumptions.start:
        if seq not in starts:
            others.add("assumption", None, *now, seq, start_not_found(seq))
    report_others(list(receiver._flows), {id(mpa.connection): watched[id(mpa)] for mpa in connections}, others)
    return [watched[id(mpa)] for mpa in connections], others


def followed(watched: dict[int, Watched], mpa: ConnectionReader, now: Moment) -> Watched:
    """Return a connection with its watches; those that were rejected before, on the same TCP connection, are over."""
    for one in mpa.chain:
        found = watched.setdefault(id(one), Watched(one))
        if one is not mpa and found.lifecycle is None:
            found.finish(now)
    return found


def report_others(
    connections: list[tuple[bytes, TCPConnection]], watched: dict[int, Watched], others: Findings
) -> None:
    """Report of TCP connections without MPA which segments disturbed another one, and SYNs that were refused."""
    for key, one in connections:
        disturbed = watched.get(id(one.beside))
        if id(one) in watched:
            continue
        if disturbed is not None and one.stray is not None:
            if is_stray(one, disturbed.mpa.connection):
                disturbed.report_strays(strays(one, one.stray))
            continue
        ends = [direction_of(half, None) for half in one.halves]
        for d, client in enumerate(one.halves):
            name = " > ".join(endpoints(key if d == 0 else reverse_key(key)))
            found = refused(ends[d], ends[1 - d], name)
            if found is not None:
                Reporter(others, None, client)((found[0],), found[1])
            garbled = one.user.garbled[d] if one.user is not None else None
            if garbled is not None:
                breach = garbled_key(garbled)
                Reporter(others, None, client)((breach._replace(detail=f"{name}: {breach.detail}"),))


def is_stray(one: TCPConnection, disturbed: TCPConnection) -> bool:
    """Whether segments in the midst of a connection are remarkable: not if they recover from a half-open one."""
    is_answered = one.has_syn and all(half.last_frame for half in one.halves)
    has_reset = any(half.reset_count for half in one.halves)
    return one.first_frame < disturbed.last_frame and not is_answered and not has_reset


def strays(one: TCPConnection, first: Stray) -> Iterator[Stray]:
    """Yield the segments of a connection that is none: the first one, and those with octets."""
    yield first
    for d, half in enumerate(one.halves):
        for seg in one.user.arrivals[d]:
            if seg.frame != first.frame:
                found = one.user.frames[d]
                key = found.startup.encode() if found is not None and found.start == seg.start else b""
                seq, length = half.space.seq_of(seg.start), seg.end - seg.start
                yield Stray(seg.frame, seg.time, d, seq, 0, length, key, UNKNOWN)


def receive_path_mtu(found: Watched, d: int, seg: Segment) -> None:
    """Take what a router reports of a packet of direction ``d``."""
    half = found.mpa.connection.halves[d]
    if half.space.base is not None:
        # Where octets are missing, others may lie beyond.
        watched = found.halves[d]
        sent = None if watched is not None and has_hole(watched) else half.highest
        offset = half.space.nearest(seg.seq)[1]
        found.path_mtu[d].received(path_mtu_message(seg), offset, half.peer.last_ack_sent, sent)


def watch_capture(source: Path | BinaryIO) -> tuple[list[Watched], Findings]:
    """Watch the connections of a capture file."""
    with Captures(str(source) if isinstance(source, Path) else source) as captures:
        return watch(captures.batches())


def findings_of(watched: tuple[Sequence[Watched], Findings]) -> Iterator[Finding]:
    """Yield the findings of all connections, and of none."""
    for one in watched[0]:
        yield from one.findings.sorted()
    yield from watched[1].sorted()
