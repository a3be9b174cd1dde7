"""The packets of a capture with comments that Wireshark shows: what each frame means to MPA.

The capture is read twice: once to learn what there is to say, sorted by frame, and once to say it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.named import Sources
from scapy_mpa.capture.packet import FRAGMENT, segment_of_fragment
from scapy_mpa.capture.passthrough import blocks, with_comment, without_comments
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment
from scapy_mpa.wireshark.comments import comment, is_ours
from scapy_mpa.wireshark.notes import CaptureNotes, FrameNotes

if TYPE_CHECKING:
    from scapy_mpa.ipsec.associations import Associations


class Annotated(NamedTuple):
    """How many packets were written, how many with a comment, and how many had no room for theirs."""

    packets: int
    comments: int
    no_room: int


def annotate(
    path: str | os.PathLike[str],
    notes: CaptureNotes,
    file: BinaryIO,
    limits: Limits = DEFAULT_LIMITS,
    esp: Associations | None = None,
    udp_ports: Mapping[int, str] | None = None,
) -> Annotated:
    """Write a capture as pcapng with comments on the frames that have notes.

    A pcapng file is passed through octet for octet but for the comments: new ones are added, and those that this
    wrote before give way. A simple packet block has no room for any.
    Damage ends it where it is. Raises :class:`~scapy_mpa.errors.CaptureError` if the capture cannot be read again, and
    OSError if the file cannot be written.
    """
    packets = comments = no_room = 0
    there: Iterator[FrameNotes] = iter(notes)
    waiting = next(there, None)
    with Captures(Sources([path], esp=esp, udp_ports=udp_ports), limits=limits) as captures:
        records = captures.records()
        for block in blocks(path, limits):
            octets = block.octets
            if block.is_packet:
                record = next(records, None)
                if record is None:
                    break  # what is after damage is not known to be what it seems
                packets += 1
                bare = without_comments(block, is_ours)
                octets = bare.octets
                segment = _segment(record, captures)
                while waiting is not None and waiting.frame < packets:
                    waiting = next(there, None)
                if waiting is not None and waiting.frame == packets:
                    commented = with_comment(bare, comment(waiting, segment))
                    if commented is None:
                        no_room += 1
                    else:
                        comments += 1
                        octets = commented
            file.write(octets)
    return Annotated(packets, comments, no_room)


def _segment(record: Segment, captures: Captures) -> Segment | None:
    """The TCP segment of a record, that which it completes if it is a fragment."""
    found: Segment | None = record
    if record.tcp == FRAGMENT:
        found = segment_of_fragment(record, captures.fragments)
    return found if found is not None and found.key else None
