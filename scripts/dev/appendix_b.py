#!/usr/bin/env python3
"""The benefit of alignment and Markers: the claims of RFC 5044 B.2, B.2.1 and B.2.2, measured.

python -m scripts.dev.appendix_b [--connections 100 1000] [--picture appendix-b.svg]

Connections are crafted with the segmentations of ``craft``, and read by the receiver of ``analyze --buffers``. All is
seeded: the same figures come of it everywhere. Each line ends in ``holds`` or ``does not hold``, by the tolerance that
it names; the exit status is 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.segmentation import segmentation
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.mulpdu import mulpdu
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.buffers import HalfBuffers, Way, half_buffers
from scapy_mpa.report.track import tracks

SEED = 5044
EMSS = 1460
#: The RFC's example: connections, and octets of memory at an EMSS of 1500 octets.
EXAMPLE, EXAMPLE_OCTETS, EXAMPLE_EMSS = 10_000, 15_000_000, 1500
MESSAGE = 20 * 1400
#: Segments that are on their way while one that was lost is sent again.
FLIGHTS = (10, 20, 40, 80)
#: ULPDUs of the sizes whose overhead is measured.
SIZES = (16, 64, 256, 512, 1024, mulpdu(EMSS, True), 8192, 64_000)


#: How streams are cut: cuts in the middle of FPDUs, four octets before their ends, and between them.
_CUTS: dict[str, object] = {
    "unaligned": "unaligned",
    "worst": {"kind": "unaligned", "longest": EMSS - 4},
    "aligned": "aligned",
}
#: Without Markers and losses, FPDUs are found by length.
_HELD: Way = "length"


class Claim(NamedTuple):
    """A claim, what was measured, and whether that is within the tolerance."""

    clause: str
    claim: str
    measured: str
    holds: bool

    @property
    def line(self) -> str:
        """As it is printed."""
        return f"{self.clause:<6} {self.claim}: {self.measured}: {'holds' if self.holds else 'does not hold'}"


class Memory(NamedTuple):
    """Octets that a receiver of many connections held at once, at most, and what each FPDU took."""

    peak: int
    segments_an_fpdu: float
    mean: float


def memory(connections: int, way: str, folder: Path) -> Memory:
    """Have this many connections send at the same time, cut in this way, and count what their receiver holds."""
    made = []
    for number in range(connections):
        one = Conversation(
            seed=SEED,
            initiator=f"10.1.{number >> 8}.{number & 255}",
            segmentation=_CUTS[way],
            mtu=EMSS + 40,
            timestamps=False,
            time=1.7e9 + number * 1e-6,
            gap=0.01,
        )
        one.start()
        made.append(one.send("initiator", bytes(MESSAGE)))
    path = folder / f"{way}-{connections}.pcap"
    with path.open("wb") as file:
        Traffic(made, seed=SEED).write(file)
    report = analyze(str(path))
    read = tracks(report.connections)
    changes = array("q", bytes(8 * (report.packets + 2)))
    parts = fpdus = 0
    for connection in report.connections:
        track = read[connection.number, "initiator"]
        found = half_buffers(connection, "initiator", track)
        last = 0
        for frame, held in zip(track.frames, found.series[_HELD], strict=True):
            changes[frame] += held - last
            last = held
        parts += found.parts
        fpdus += found.fpdus
    path.unlink()
    held, peak, total, busy = 0, 0, 0, 0
    for change in changes:
        held += change
        peak = max(peak, held)
        total, busy = total + held, busy + (held > 0)
    return Memory(peak, parts / fpdus, total / busy if busy else 0.0)


def flight(segments: int, folder: Path) -> HalfBuffers:
    """Lose segments of a half connection, each retransmitted after this many others."""
    one = Conversation(seed=SEED, m=(1, 1), mtu=EMSS + 40, timestamps=False)
    one.start()
    one.send("initiator", bytes(400_000))
    path = folder / "flight.pcap"
    impairment = {"kind": "lose", "probability": 0.01, "distance": segments, "direction": "initiator"}
    with path.open("wb") as file:
        Traffic([one], [impairment], seed=SEED).write(file)
    report = analyze(str(path))
    (connection,) = report.connections
    return half_buffers(connection, "initiator", tracks([connection])[0, "initiator"])


def segments_of(ulpdu: int, count: int, way: str) -> int:
    """The segments in which this many ULPDUs of a length are sent."""
    _, laid = HalfStream(Dialect(False, True)).lay([bytes(ulpdu)] * count)
    return len(segmentation(way).cuts(laid, EMSS, random.Random(SEED)))


def overhead(ulpdu: int) -> tuple[float, float]:
    """The octets that Markers, and that length, PAD and CRC, add to ULPDUs of a length, as shares of these."""
    count = max(64, 400_000 // ulpdu)
    sizes = []
    for markers in (True, False):
        stream = HalfStream(Dialect(markers, True))
        stream.lay([bytes(ulpdu)] * count)
        sizes.append(stream.offset)
    return (sizes[0] - sizes[1]) / (ulpdu * count), sizes[1] / (ulpdu * count) - 1


def memory_claims(counts: Sequence[int], folder: Path) -> tuple[list[Claim], dict[str, list[Memory]]]:
    """B.2 and B.2.1: memory as connections grow, copies and CRC passes."""
    found = {way: [memory(count, way, folder) for count in counts] for way in _CUTS}
    loose, aligned = found["unaligned"], found["aligned"]
    each = [one.peak / EMSS / count for one, count in zip(loose, counts, strict=True)]
    listed = ", ".join(f"{one.peak} octets at {count}" for one, count in zip(loose, counts, strict=True))
    worst = found["worst"][-1].peak / EMSS / counts[-1]
    grows = max(each) / min(each) - 1
    claims = [
        Claim("B.2", "BufferSizeNAF grows with the connections (10 %)", listed, grows <= 0.1),
        Claim(
            "B.2",
            f"15 MB for {EXAMPLE} connections at an EMSS of {EXAMPLE_EMSS}, at worst (K1 = 1, 5 %)",
            f"K1 is {worst:.3f}, {worst * EXAMPLE * EXAMPLE_EMSS / 1e6:.1f} MB; "
            f"{each[-1]:.3f}, {each[-1] * EXAMPLE * EXAMPLE_EMSS / 1e6:.1f} MB, where cuts lie in the middle",
            abs(worst - 1) <= 0.05,
        ),
        Claim(
            "B.2",
            "BufferSizeAF does not grow with them (at most one EMSS)",
            ", ".join(f"{one.peak} octets at {count}" for one, count in zip(aligned, counts, strict=True)),
            all(one.peak <= EMSS for one in aligned),
        ),
        Claim(
            "B.2.1",
            "an FPDU takes 2 segments, copies and CRC passes without alignment (5 %)",
            f"{loose[-1].segments_an_fpdu:.3f}",
            abs(loose[-1].segments_an_fpdu - 2) <= 0.1,
        ),
        Claim(
            "B.2.1",
            "an FPDU takes 1 with alignment (1 %)",
            f"{aligned[-1].segments_an_fpdu:.3f}",
            abs(aligned[-1].segments_an_fpdu - 1) <= 0.01,
        ),
    ]
    return claims, found


def flight_claims(folder: Path) -> tuple[list[Claim], list[HalfBuffers]]:
    """B.2: what waits for a lost segment, in order and placed at once."""
    found = [flight(one, folder) for one in FLIGHTS]
    peaks = [one.held["order"].peak for one in found]
    each = [peak / segments / EMSS for peak, segments in zip(peaks, FLIGHTS, strict=True)]
    listed = ", ".join(f"{peak} at {segments} segments" for peak, segments in zip(peaks, FLIGHTS, strict=True))
    return [
        Claim(
            "B.2",
            "BufferSizeTCP grows with bandwidth times delay (20 %)",
            listed,
            max(each) / min(each) - 1 <= 0.2,
        ),
        Claim(
            "B.2.1",
            "aligned FPDUs out of order are placed without buffering (nothing held)",
            f"at most {max(one.held['marker'].peak for one in found)} octets",
            all(not one.held["marker"].peak for one in found),
        ),
    ], found


def worst_fpdu() -> int:
    """The ULPDU whose FPDU is the shortest above half of EMSS: FPDUs are multiples of four octets."""
    return EMSS // 2 + 1 + (-(EMSS // 2 + 1) % 4) - 6


def segment_claims() -> list[Claim]:
    """B.2.2: segments of aligned FPDUs against those of a plain stream."""

    def ratio(ulpdu: int, count: int) -> float:
        return segments_of(ulpdu, count, "packed") / segments_of(ulpdu, count, "stream")

    worst = worst_fpdu()
    most = max(ratio(ulpdu, 500) for ulpdu in range(2, EMSS - 5, 4))
    large, small = ratio(mulpdu(EMSS, False), 2000), ratio(64, 20_000)
    mean = sum(ratio(ulpdu, 500) for ulpdu in range(2, EMSS - 5, 4)) / len(range(2, EMSS - 5, 4))
    return [
        Claim("B.2.2", "FPDUs of EMSS/2+1 take about 2 times the segments (1 %)", f"{ratio(worst, 5000):.3f}",
              abs(ratio(worst, 5000) - 2) <= 0.02),
        Claim("B.2.2", "no FPDU size takes more than 2 times (0)", f"{most:.3f} at most, {mean:.3f} on average",
              most <= 2),
        Claim("B.2.2", "large messages take full advantage of EMSS (1 %)", f"{large:.3f}", large <= 1.01),
        Claim("B.2.2", "small messages do so by packing (5 %)", f"{small:.3f}", small <= 1.05),
    ]  # fmt: skip


def overhead_lines() -> Iterator[str]:
    """Yield the overhead of Markers and of the FPDU's own fields, by ULPDU size."""
    yield "ULPDU octets   Markers   length, PAD, CRC"
    for ulpdu in SIZES:
        markers, rest = overhead(ulpdu)
        yield f"{ulpdu:>12}  {100 * markers:6.3f} %  {100 * rest:13.3f} %"


def draw(path: str, counts: Sequence[int], found: dict[str, list[Memory]], flights: Sequence[HalfBuffers]) -> None:
    """Draw memory by connections, memory by flight, and segments by FPDU size."""
    from scapy_mpa.plot.look import BLUE, LIGHT, ORANGE, VERMILION, figure_of, plain_numbers, settings, write_figure

    with settings(LIGHT):
        figure, (first, second, third) = figure_of(3, 2.6)
        for way, colour in (("worst", VERMILION), ("unaligned", ORANGE), ("aligned", BLUE)):
            first.plot(counts, [one.peak / 1000 for one in found[way]], marker="o", color=colour, label=way)
        first.set_xlabel("connections")
        first.set_ylabel("kB held at most")
        first.legend()
        for counted, colour in (("order", ORANGE), ("marker", BLUE)):
            peaks = [one.held[counted].peak / 1000 for one in flights]  # type: ignore[index]
            words = "waiting for full order" if counted == "order" else "placed by Marker and length"
            second.plot(FLIGHTS, peaks, marker="o", color=colour, label=words)
        second.set_xlabel("segments on their way behind one that was lost")
        second.set_ylabel("kB held at most")
        second.legend()
        sizes = range(2, EMSS - 5, 8)
        ratios = [segments_of(one, 500, "packed") / segments_of(one, 500, "stream") for one in sizes]
        third.plot([one + 6 for one in sizes], ratios, color=ORANGE)
        third.set_xlabel(f"octets of an FPDU (EMSS {EMSS})")
        third.set_ylabel("segments, packed\nagainst plain stream")
        for ax in (first, second, third):
            plain_numbers(ax.xaxis)
            plain_numbers(ax.yaxis)
        with open(path, "wb") as file:
            write_figure(figure, file, Path(path).suffix.lstrip("."))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and draw; returns the exit status."""
    parser = argparse.ArgumentParser(description="Measure the claims of RFC 5044 appendix B.")
    parser.add_argument("--connections", type=int, nargs="+", default=[100, 1000], metavar="COUNT")
    parser.add_argument("--picture", metavar="FILE", help="draw it too: svg, png or pdf")
    told = parser.parse_args(arguments)
    if any(not 1 <= one <= 20_000 for one in told.connections):
        parser.error("a COUNT is from 1 to 20000")
    if told.picture is not None and Path(told.picture).suffix not in (".svg", ".png", ".pdf"):
        parser.error(f"{told.picture}: a picture ends in .svg, .png or .pdf")
    with tempfile.TemporaryDirectory() as folder:
        claims, found = memory_claims(told.connections, Path(folder))
        more, flights = flight_claims(Path(folder))
    claims += [*more, *segment_claims()]
    for claim in claims:
        print(claim.line)
    for line in overhead_lines():
        print(line)
    if told.picture is not None:
        draw(told.picture, told.connections, found, flights)
    return 0 if all(claim.holds for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
