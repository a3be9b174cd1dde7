"""What must be said of a capture from which packets were taken away, read off the truth of the whole one.

The truth tells where each FPDU lies in its half connection; the packets that are left tell which frames first
bring its octets. The rest is the design's formulas ("The receiver", "A capture that begins in the middle"). No
stream is followed and nothing is searched for: all that is taken from the receiver's answer is which FPDUs it
found, because an FPDU is placed by length only if the one before it was found. Nothing here comes from
`scapy_mpa`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cached_property, lru_cache
from ipaddress import IPv6Address
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.conftest import truth
from tests.receive.reference import NEVER, Captured, first_frames

Row = dict[str, Any]
#: How FPDUs of a half connection can be recognised without startup frames.
Kind = Literal["markers", "crc", "neither"]

_SYN = 2
#: The header of a record, and where TCP begins in a frame of Ethernet and IPv4 without options.
_RECORD, _TCP_AT = 16, 34
_KEYS = (b"MPA ID Req Frame", b"MPA ID Rep Frame")


class Packet(NamedTuple):
    """A TCP segment of the whole capture; `flow`: who sent it to whom, `address:port` as the truth writes them."""

    frame: int
    time: int
    flow: tuple[str, str]
    seq: int
    flags: int
    payload: bytes


class Whole:
    """A classic pcap file of Ethernet frames: its records as they are, and the TCP segments in them."""

    def __init__(self, octets: bytes) -> None:
        assert octets[:4] == b"\xd4\xc3\xb2\xa1", "little-endian, microseconds"
        assert octets[20:24] == b"\1\0\0\0", "Ethernet"
        self.header = octets[:24]
        self.records: list[bytes] = []
        self.packets: list[Packet] = []
        self.times: list[int] = []
        at = 24
        while at < len(octets):
            seconds, micro, captured, wire = struct.unpack_from("<IIII", octets, at)
            assert captured == wire, "nothing is cut off"
            end = at + 16 + captured
            self.records.append(octets[at:end])
            self.times.append(seconds * 1_000_000_000 + micro * 1000)
            if (found := _tcp(octets[at + 16 : end])) is not None:
                self.packets.append(Packet(len(self.records), self.times[-1], *found))
            at = end

    def without(self, dropped: Callable[[int], bool]) -> Part:
        """The capture without the frames that `dropped` names."""
        return Part(self, [frame for frame in range(1, len(self.records) + 1) if not dropped(frame)])

    def renumbered(self, flow: tuple[str, str], delta: int) -> Whole:
        """The capture as if `flow` had begun at a sequence number higher by `delta`; no TCP checksums (zero)."""
        made = copy(self)
        made.records, made.packets = list(self.records), []
        for packet in self.packets:
            record = bytearray(self.records[packet.frame - 1])
            at = _RECORD + _TCP_AT
            if packet.flow == flow:
                packet = packet._replace(seq=(packet.seq + delta) % 2**32)
                record[at + 4 : at + 8] = packet.seq.to_bytes(4, "big")
            elif packet.flow == flow[::-1]:
                acked = int.from_bytes(record[at + 8 : at + 12], "big") + delta
                record[at + 8 : at + 12] = (acked % 2**32).to_bytes(4, "big")
            record[at + 16 : at + 18] = b"\0\0"
            made.records[packet.frame - 1] = bytes(record)
            made.packets.append(packet)
        return made

    def after(self, cut: int) -> Part:
        """The capture without its first `cut` frames."""
        return self.without(lambda frame: frame <= cut)

    def startup(self) -> dict[frozenset[str], list[int]]:
        """The frames that bring startup frames, by the two ends of their connection."""
        found: dict[frozenset[str], list[int]] = {}
        for packet in self.packets:
            if packet.payload.startswith(_KEYS):
                found.setdefault(frozenset(packet.flow), []).append(packet.frame)
        return found


class Part:
    """Some frames of a capture, numbered anew from 1."""

    def __init__(self, whole: Whole, kept: list[int]) -> None:
        self.whole = whole
        self.octets = whole.header + b"".join(whole.records[frame - 1] for frame in kept)
        self.times = [whole.times[frame - 1] for frame in kept]
        number = {frame: n for n, frame in enumerate(kept, 1)}
        self.packets = [
            packet._replace(frame=number[packet.frame]) for packet in whole.packets if packet.frame in number
        ]

    def first_sender(self, ends: frozenset[str]) -> str | None:
        """Who sent the first data segment between the two."""
        return next((p.flow[0] for p in self.packets if p.payload and frozenset(p.flow) == ends), None)

    def time(self, frame: int) -> float:
        """Seconds since the epoch."""
        return self.times[frame - 1] / 1_000_000_000


def _tcp(frame: bytes) -> tuple[tuple[str, str], int, int, bytes] | None:
    """Flow, sequence number, flags and payload of an Ethernet frame with TCP over IPv4 or IPv6."""
    if frame[12:14] == b"\x08\x00" and frame[23] == 6:
        network = 14
        at = network + 4 * (frame[network] & 15)
        end = network + (int.from_bytes(frame[16:18], "big") or len(frame) - network)
        ends = [".".join(map(str, frame[i : i + 4])) for i in (26, 30)]
    elif frame[12:14] == b"\x86\xdd" and frame[20] == 6:
        at = 54
        end = at + int.from_bytes(frame[18:20], "big")
        ends = [str(IPv6Address(frame[i : i + 16])) for i in (22, 38)]
    else:
        return None
    source, destination, seq = struct.unpack_from("!HHI", frame, at)
    payload = frame[at + (frame[at + 12] >> 4) * 4 : end]
    return (f"{ends[0]}:{source}", f"{ends[1]}:{destination}"), seq, frame[at + 13], payload


class Half:
    """One half connection: its FPDUs in the whole capture, and what is left of their octets in a part of it.

    `floor`: the frame by which both startup frames were captured, None in a half that begins in the middle.
    """

    def __init__(self, rows: Sequence[Row], part: Part, floor: int | None) -> None:
        self.rows = rows
        self.part = part
        self.floor = floor
        self.flow = rows[0]["sender"], rows[0]["receiver"]
        self.origin: int = rows[0]["seq"]
        self.offsets = [(row["seq"] - self.origin) % 2**32 for row in rows]
        self.ends = [at + row["wire_length"] for at, row in zip(self.offsets, rows, strict=True)]
        assert all(end == start for end, (_, start) in zip(self.ends, pairwise(self.offsets), strict=False))

    @cached_property
    def segments(self) -> list[Captured]:
        """The octets of Full Operation that each frame brings."""
        found = []
        for packet in self.part.packets:
            if packet.flow == self.flow and packet.payload and not packet.flags & _SYN:
                start = (packet.seq - self.origin + 2**31) % 2**32 - 2**31
                if start + len(packet.payload) > 0:
                    found.append(Captured(packet.frame, max(start, 0), start + len(packet.payload)))
        return found

    @cached_property
    def first(self) -> list[int]:
        """The first frame of each octet."""
        highest = max((segment.end for segment in self.segments), default=0)
        return first_frames(self.segments, 0, max(highest, self.ends[-1]))

    @cached_property
    def complete(self) -> list[int]:
        """By which frame all octets of each FPDU, and the startup frames, have been captured."""
        first, floor = self.first, self.floor or 0
        return [max(floor, *set(first[at:end])) for at, end in zip(self.offsets, self.ends, strict=True)]

    @property
    def kind(self) -> Kind:
        if any(row["markers"] for row in self.rows):
            return "markers"
        return "crc" if self.rows[0]["crc"] == "good" else "neither"

    @property
    def whole(self) -> list[int]:
        """The FPDUs all octets of which were captured."""
        return [k for k, frame in enumerate(self.complete) if frame != NEVER]

    @property
    def highest(self) -> int:
        return max((segment.end for segment in self.segments), default=0)

    def required(self) -> set[int]:
        """The FPDUs that must be found.

        With Markers those that hold one, or follow such a one without a hole; of those with a CRC only, all but
        the first ten of a half that begins in the middle; of others none, after a hole.
        """
        whole = self.whole
        if self.floor is not None:
            first_hole = next((k for k, frame in enumerate(self.complete) if frame == NEVER), len(self.rows))
        else:
            first_hole = 0
        if self.kind == "crc":
            return set(whole if self.floor is not None else whole[10:])
        must = set(range(first_hole))
        if self.kind == "markers":
            for k in whole:
                if self.rows[k]["markers"] or k - 1 in must:
                    must.add(k)
        return must

    def expected(self, found: Iterable[int]) -> list[Row]:
        """The records of the FPDUs that were found, in the order of the stream; `connection`, `direction` left out."""
        rows: list[Row] = []
        placed: dict[int, int] = {}
        found = sorted(found)
        begins = self.floor is not None
        for k in found:
            row, complete = self.rows[k], self.complete[k]
            assert complete != NEVER, f"FPDU {k}, seq {row['seq']}: not all its octets were captured"
            located = begins and k == 0
            before = placed.get(k - 1)
            if located or row["markers"] or before is None:
                placed[k] = complete
            else:
                placed[k] = max(complete, before)
            if located:
                by = "start"
            elif before is not None and before <= placed[k]:
                by = "length"
            else:
                by = "marker" if row["markers"] else "scan"
            delivered = max(self.complete[0 if begins else found[0] : k + 1])
            rows.append(
                {key: row[key] for key in TOLD}
                | {
                    "located_by": by,
                    "frames": sorted(set(self.first[self.offsets[k] : self.ends[k]])),
                    "placed_frame": placed[k],
                    "delivered_frame": None if delivered == NEVER else delivered,
                    "time": self.part.time(placed[k]),
                    "after_error": False,
                }
            )
        return rows

    def counted(self) -> Row:
        """The counters that do not depend on what was found."""
        highest = self.highest
        captured = sum(frame != NEVER for frame in self.first[:highest])
        lowest = next((at for at, frame in enumerate(self.first[:highest]) if frame != NEVER), 0)
        bottom = 0 if self.floor is not None else lowest
        top, late, repeats = 0, 0, 0
        for frame, start, end, *_ in self.segments:
            new = [at for at in range(start, end) if self.first[at] == frame]
            repeats += not new
            late += bool(new) and new[0] < top
            top = max(top, end)
        return {
            "stream_octets": captured,
            "missing_octets": highest - bottom - captured,
            "segments": len(self.segments),
            "out_of_order_segments": late,
            "retransmitted_segments": repeats,
        }


#: What an FPDU is told by that no capture changes.
TOLD = ("seq", "header_seq", "ulpdu_length", "wire_length", "markers", "crc", "opcode")


class Connection(NamedTuple):
    """A connection of the truth in a part of the capture; `inferred`: its startup frames were not captured."""

    initiator: str
    responder: str
    inferred: bool
    halves: dict[str, Half]


@lru_cache(maxsize=2)
def halves_of(path: Path) -> list[list[Row]]:
    """The truth of each half connection, in order."""
    return [list(rows) for _, rows in groupby(truth(path), key=lambda row: (row["connection"], row["direction"]))]


def in_startup(whole: Whole, cut: int) -> bool:
    """Return True if the first `cut` frames hold some but not all of the startup frames of a connection."""
    return any(frames[0] <= cut < frames[-1] for frames in whole.startup().values())


def connections(part: Part, truths: Sequence[list[Row]]) -> list[Connection]:
    """What there is of each connection of the truth, by its ends and not by its number."""
    kept: dict[frozenset[str], dict[str, int]] = {}
    for packet in part.packets:
        if packet.payload.startswith(_KEYS):
            kept.setdefault(frozenset(packet.flow), {}).setdefault(packet.flow[0], packet.frame)
    made: dict[frozenset[str], Connection] = {}
    for rows in truths:
        flow = rows[0]["sender"], rows[0]["receiver"]
        ends = frozenset(flow)
        floor = max(kept[ends].values()) if ends in kept else None
        half = Half(rows, part, floor)
        if ends not in made:
            if floor is None:
                initiator = part.first_sender(ends) or flow[0]
            else:
                initiator = flow[0] if rows[0]["direction"] == "initiator" else flow[1]
            (responder,) = ends - {initiator}
            made[ends] = Connection(initiator, responder, floor is None, {})
        connection = made[ends]
        direction = "initiator" if flow[0] == connection.initiator else "responder"
        assert direction not in connection.halves, "one connection of these ends"
        connection.halves[direction] = half
    return list(made.values())
