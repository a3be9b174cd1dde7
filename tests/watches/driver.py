"""Feeds segments to a receiver, and what it found to the watches: counts and findings of each connection.

What a receiver does not hand out as a value yet is taken from the segments here: EMSS, what routers report, the first
octets of Full Operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Any

from scapy_mpa.capture.files import Captures
from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.framing.profiles import PROFILES, Profile, profile_of_revision
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import SIW_GSO
from scapy_mpa.receiver.connection import MPAConnection
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.receiver.values import Breach, Gap, LocatedFPDU, Moment
from scapy_mpa.rules.findings import Finding, Findings
from scapy_mpa.values.lifecycle import Terminated
from scapy_mpa.values.options import Announced, announced, emss_of
from scapy_mpa.values.pathmtu import path_mtu_message
from scapy_mpa.values.segment import PATH_MTU, SYN, Segment, reverse_key
from scapy_mpa.watches.counts import Counts, UnalignedSegment
from scapy_mpa.watches.ddp import ulpdu_of
from scapy_mpa.watches.fpdus import FPDUWatch
from scapy_mpa.watches.messages import MessageWatch, terminated
from scapy_mpa.watches.pathmtu import PathMTUWatch
from scapy_mpa.watches.reads import ReadWatch
from scapy_mpa.watches.segments import SegmentWatch


class Half:
    """The watches of one direction."""

    def __init__(self, mpa: MPAConnection, d: int, emss: int, findings: Findings, path_mtu: PathMTUWatch) -> None:
        reader = mpa.readers[d]
        assert reader is not None
        self.reader: FPDUReader = reader
        self.findings = findings
        self.name = "initiator" if d == mpa.initiator else "responder"
        is_beginning = reader._is_beginning
        self.counts = Counts(0 if is_beginning else None)
        profile = profile_of(mpa)
        self.fpdus = FPDUWatch(reader.layout, is_beginning, emss, profile.fpduptr_origin, gso_flag(mpa))
        self.path_mtu = path_mtu
        self.segments = SegmentWatch(path_mtu.messages)
        self.messages = MessageWatch()
        self.terminated: Terminated | None = None
        self.reads: tuple[ReadWatch, ReadWatch] | None = None
        self.peer: Half | None = None
        self.is_beginning = is_beginning
        #: Captured octets and their offsets.
        self.octets: list[tuple[int, bytes]] = []

    def report(self, breaches: Iterable[Breach]) -> None:
        base = self.reader.half.space.base
        assert base is not None
        for one in breaches:
            who = self.name
            if one.is_of_peer:
                who = "responder" if who == "initiator" else "initiator"
            place = who, one.frame, one.time, (base + one.offset) & SEQ_MASK
            self.findings.add(one.rule, *place, one.detail, code=one.code, topic=one.topic)

    def keep(self, seg: Segment) -> None:
        offset = self.reader.half.space.nearest(seg.seq)[1]
        self.octets.append((offset, bytes(seg.buffer[seg.start : seg.end])))

    def captured(self, start: int, length: int) -> bytes:
        """Return the octets from an offset on, as the first segments in order brought them."""
        found = bytearray()
        for offset, octets in sorted(self.octets, key=itemgetter(0)):
            at = start + len(found)
            if offset <= at < offset + len(octets) and len(found) < length:
                found += octets[at - offset :]
        return bytes(found[:length])

    def take(self, mpa: MPAConnection, d: int) -> None:
        """Take what the receiver found."""
        reader = self.reader
        arrivals, mpa.arrivals[d] = mpa.arrivals[d], []
        for arrival in arrivals:
            if arrival.end > 0:
                self.counts.arrived(arrival)
                self.report(self.segments.arrived(arrival))
        self.messages.acknowledged = reader.half.peer.last_ack_sent
        passed, reader.passed = reader.passed, []
        gaps, reader.gaps = reader.gaps, []
        for wrong in reader.contradictions:
            fpduptr = int.from_bytes(self.captured(wrong.marker + 2, 2), "big")
            self.report((self.fpdus.contradicted(wrong, fpduptr),))
            if not wrong.offset and self.is_beginning:
                self.report(self.fpdus.wrong_beginning(self.captured(0, LONGEST_FPDU), wrong.moment))
        reader.contradictions = []
        for found in reader.left_out:
            self.counts.left_out(found)
        reader.left_out = []
        by_offset: list[tuple[int, Any]] = [(one[0].offset, one) for one in passed]
        for _, one in merge([(gap.start, gap) for gap in gaps], by_offset, key=itemgetter(0)):
            if isinstance(one, Gap):
                self.counts.lost(one)
            else:
                self.passed(*one)
        self.judge(self.counts.judged())

    def judge(self, segments: Iterable[UnalignedSegment]) -> None:
        for segment in segments:
            self.report(self.segments.unaligned(segment))

    def passed(self, fpdu: LocatedFPDU, delivered: int) -> None:
        self.counts.passed(fpdu, delivered)
        self.report(self.segments.explained(self.fpdus.passed(fpdu)))
        if not fpdu.offset and self.fpdus.first is not None and self.fpdus.first.is_doubtful:
            self.report(self.fpdus.wrong_beginning(self.captured(0, LONGEST_FPDU), fpdu.known))
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

    def finish(self, now: Moment) -> None:
        self.quote()
        reader, half = self.reader, self.reader.half
        main = reader.main
        edge = half.copies.edge(main.at)
        rest = (main.at, edge) if main.is_located and edge > main.at else None
        end = half.highest if half.fin is None else half.fin
        self.judge(self.counts.finish(rest, is_cut=end > edge))
        if not self.counts.fpdus and self.is_beginning and (first := self.captured(0, LONGEST_FPDU)):
            self.report(self.fpdus.wrong_beginning(first, now))
        sizes, longest = self.fpdus.sizes, self.segments.longest
        self.report(self.segments.explained(sizes.finish(self.fpdus.ddp, longest)))
        self.report(self.segments.finish(self.counts, sizes.fits(longest), now))
        for one, detail, count in self.path_mtu.finish():
            self.findings.add("path-mtu", self.name, one.frame, one.time, one.seq, detail, count=count)
        if self.reads is not None:
            self.report(self.reads[0].finish())


def has_hole(half: Half) -> bool:
    """Whether octets of a direction are missing below others that were captured."""
    copies, main = half.reader.half.copies, half.reader.main
    return copies.end > copies.edge(main.at)


def profile_of(mpa: MPAConnection) -> Profile:
    frames = [one for one in mpa.frames if one is not None]
    frames.sort(key=lambda one: one.startup.kind)  # the Reply first
    if frames:
        return profile_of_revision(frames[0].startup.rev)
    # Without startup frames only culley-02's begin with the first octet after the SYN.
    is_culley = any(reader is not None and not reader.half.start for reader in mpa.readers)
    return PROFILES["culley-02" if is_culley else "rfc5044"]


def gso_flag(mpa: MPAConnection) -> str:
    frames = [one.startup for one in mpa.frames if one is not None and one.startup.res & SIW_GSO]
    return " and ".join(sorted((one.kind.capitalize() for one in frames), reverse=True))


class Watched:
    """A connection with its watches."""

    def __init__(self, mpa: MPAConnection) -> None:
        self.mpa = mpa
        self.findings = Findings()
        self.halves: list[Half | None] = [None, None]
        self.syns: list[Announced | None] = [None, None]
        self.path_mtu = PathMTUWatch(), PathMTUWatch()
        #: Segments whose octets the watches may want beside the receiver's values.
        self.segments: tuple[list[Segment], list[Segment]] = [], []

    def take(self, d: int, port: int) -> None:
        """Take what a segment in direction ``d`` showed: first what it acknowledged."""
        mpa = self.mpa
        for side in (0, 1):
            if self.halves[side] is None and mpa.readers[side] is not None:
                emss = emss_of(*self.syns)
                self.halves[side] = Half(mpa, side, emss, self.findings, self.path_mtu[side])
        first, second = self.halves
        if first is not None and second is not None and first.peer is None:
            first.peer, second.peer = second, first
            frames = {one.startup.kind: one.startup for one in mpa.frames if one is not None}
            depth: dict[str, int | None] = {}
            if len(frames) == 2 and (depths := agreed(frames["request"], frames["reply"], port).depths) is not None:
                depth = {"initiator": depths.initiator_ord, "responder": depths.responder_ord}
            ours = ReadWatch(first.fpdus, second.fpdus, depth.get(first.name))
            others = ReadWatch(second.fpdus, first.fpdus, depth.get(second.name))
            first.reads, second.reads = (ours, others), (others, ours)
        for side in (1 - d, d):
            half = self.halves[side]
            if half is not None:
                for seg in self.segments[side]:
                    half.keep(seg)
                self.segments[side].clear()
                half.take(mpa, side)


def watch(batches: Iterable[Iterable[Segment]]) -> list[Watched]:
    """Receive segments; return the MPA connections, watched to their end."""
    receiver = Receiver()
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
            found = watched.setdefault(id(mpa), Watched(mpa))
            if seg.flags & SYN:
                found.syns[d] = announced(seg)
            found.segments[d].append(seg)
            key = seg.key if d == mpa.initiator else reverse_key(seg.key)
            port = int.from_bytes(key[-2:], "big")
            found.take(d, port)
    connections = [mpa for _, mpa in receiver.finish()]
    for mpa in connections:
        one = watched[id(mpa)]
        for d in (1, 0):
            one.take(d, port)
        for half in one.halves:
            if half is not None:
                half.finish(now)
    return [watched[id(mpa)] for mpa in connections]


def receive_path_mtu(found: Watched, d: int, seg: Segment) -> None:
    """Take what a router reports of a packet of direction ``d``."""
    half = found.mpa.connection.halves[d]
    if half.space.base is not None:
        # Where octets are missing, others may lie beyond.
        watched = found.halves[d]
        sent = None if watched is not None and has_hole(watched) else half.highest
        offset = half.space.nearest(seg.seq)[1]
        found.path_mtu[d].received(path_mtu_message(seg), offset, half.peer.last_ack_sent, sent)


def watch_capture(path: Path) -> list[Watched]:
    """Watch the connections of a capture file."""
    with Captures(str(path)) as captures:
        return watch(captures.batches())


def findings_of(connections: Sequence[Watched]) -> list[Finding]:
    """Return the findings of all connections."""
    return [found for one in connections for found in one.findings.sorted()]
