"""A copy of a capture without payload, Private Data and addresses.

Frames, their order, times and lengths stay, and so does what :mod:`~scapy_mpa.scrub.stream` and
:mod:`~scapy_mpa.scrub.frame` keep of them. Comments, names, secrets and descriptions of interfaces that a pcapng file
has do not (:mod:`~scapy_mpa.reading.rewritten`). Frames are read and written one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, Final

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import rewind
from scapy_mpa.capture.reader import Reader
from scapy_mpa.reading.query import Asked, Query, query_of
from scapy_mpa.reading.rewritten import CapturedFrame, write_frames
from scapy_mpa.scrub.frame import FrameScrubber
from scapy_mpa.scrub.noise import Noise
from scapy_mpa.scrub.places import Places
from scapy_mpa.scrub.stream import StreamMasks
from scapy_mpa.tuples import NamedTuple


class Scrubbed(NamedTuple):
    """What was written.

    Attributes:
        frames: How many.
        connections: MPA connections, whose headers are kept.
        payload: Octets of TCP payload in which all but headers was replaced.
        replaced: What was replaced whole, as nothing of it is kept, and in how many frames.
        damage: A line for what could not be read.
        buffers: Buffers that rping and perftest name are left readable, since a finding rests on them.
    """

    frames: int
    connections: int
    payload: int
    replaced: Counter[str]
    damage: list[str]
    buffers: bool


#: What is left readable, for people.
READABLE: Final = (
    "times, lengths and order of frames; VLAN tags, MPLS labels, numbers of tunnels; the kind of addresses",
    "TCP ports, sequence numbers, windows, usual options; the first 8 octets of ICMP; UDP ports; SPIs of ESP",
    "MPA: startup frames but for the upper layer's Private Data; ULPDU_Length, Markers, PAD",
    "DDP and RDMAP: headers, with STags, TOs, MSNs; Read Requests and Terminates whole",
)
READABLE_HEADERS: Final = "upper layers: Private Data, and headers of Sends, with block addresses, names of procedures"
READABLE_BUFFERS: Final = "the buffers that rping and perftest name, on connections with a finding about memory"


def scrub(capture: Query | Asked, file: BinaryIO, *, seed: str | None = None, keeps_headers: bool = False) -> Scrubbed:
    """Write a capture without payload, Private Data and addresses.

    Args:
        capture: One capture, which is read twice.
        file: Where to.
        seed: The same for captures in which the same is to become the same. Whoever knows it can undo what was done.
        keeps_headers: Leave the headers of upper layers, and their Private Data, readable.

    Raises:
        CaptureError: The capture cannot be read, or not twice.
        OSError: The file, or a temporary one, cannot be written.
    """
    query = query_of(capture)
    noise = Noise(seed)
    with Places(query, keeps_headers=keeps_headers) as places:
        streams = StreamMasks(places, noise, keeps_headers=keeps_headers)
        scrubber = FrameScrubber(noise, streams, query.sources.udp_ports)
        rewind(query.sources)
        with Captures(query.sources, limits=query.limits) as captures:
            (reader,) = captures.readers
            frames = write_frames(reader, _frames(reader, scrubber), file)
        report = places.report
        return Scrubbed(
            frames, len(report.connections), scrubber.payload, scrubber.replaced, report.damage, places.buffers
        )


def _frames(reader: Reader, scrubber: FrameScrubber) -> Iterator[CapturedFrame]:
    for number, (time, link_type, octets, wire) in enumerate(reader.records(), 1):
        yield CapturedFrame(time, link_type, scrubber.frame(number, link_type, octets, wire), wire)
