#!/usr/bin/env python3
"""Measure how fast captures are made, against the same packets built with Scapy one by one.

``benchmark.py --craft`` prints this table. ``craft`` makes a whole capture, the file written; Scapy builds some hundred
of its packets, each from the values of its fields as one does at the prompt, and they must be the same octets.
"""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="operator, unused-ignore"

from __future__ import annotations

import itertools
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scapy_mpa.craft.conversation import Conversation  # noqa: E402
from scapy_mpa.craft.setup import Setup  # noqa: E402
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of  # noqa: E402
from scapy_mpa.craft.traffic import Traffic  # noqa: E402
from scapy_mpa.framing import (  # noqa: E402
    TaggedHeader,
    decode_ddp,
    decode_fpdu,
)
from scapy_mpa.framing.role import peer_of  # noqa: E402

if TYPE_CHECKING:
    from scapy.packet import Packet

COLUMNS = ("capture", "MB", "packets", "s", "µs/packet", "Scapy µs/packet", "times as fast")
_SAMPLE = 400
_HANDSHAKE_AND_STARTUP = 5
_ROUND = 1 << 16


def row(markers: bool, size: int) -> tuple[str, ...]:
    """One row: a capture of about ``size`` octets."""
    conversation = Conversation(m=(int(markers), int(markers)))
    for number in range(max(1, size // (_ROUND + 5000))):
        conversation.write("initiator", _ROUND, to=number * _ROUND).send("initiator", 16).send("responder", 16)
    with tempfile.TemporaryFile() as file:
        start = time.perf_counter()
        packets = Traffic([conversation]).write(file)
        seconds = time.perf_counter() - start
        octets = file.tell()
    stream = conversation.sending().packets()
    sample = list(itertools.islice(stream, _HANDSHAKE_AND_STARTUP, _HANDSHAKE_AND_STARTUP + _SAMPLE))
    recipes = [recipe(packet, conversation.setup) for packet in sample]
    bytes(recipes[0]())  # what is imported or compiled at the first packet does not count
    start = time.perf_counter()
    built = [bytes(build()) for build in recipes]
    each = (time.perf_counter() - start) / len(built)
    if built != [octets_of(packet) for packet in sample]:
        raise SystemExit("Scapy built other packets")
    return (
        f"{'with' if markers else 'without'} Markers",
        f"{octets / 1e6:.0f}",
        f"{packets:,}",
        f"{seconds:.2f}",
        f"{1e6 * seconds / packets:.1f}",
        f"{1e6 * each:.0f}",
        f"{each * packets / seconds:.0f}",
    )


def recipe(packet: TcpPacket, setup: Setup) -> Callable[[], Packet]:
    """Return what builds a packet of an aligned stream from the values of its fields."""
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether

    from scapy_mpa.layers import FPDU, DDPTagged, DDPUntagged, RDMAPSend, RDMAPWrite

    half = packet.half
    source, destination = setup.endpoint(half.role, 0), setup.endpoint(peer_of(half.role), 0)
    macs = [":".join(f"{octet:02x}" for octet in end.mac) for end in (source, destination)]
    stamps = struct.unpack("!II", packet.options[4:])
    offset = packet.start - (half.origin or 0)
    marker_offset = -offset % 512 if half.markers else None
    fpdu = decode_fpdu(packet.payload, offset if half.markers else None) if packet.payload else None
    header = decode_ddp(fpdu.ulpdu) if fpdu is not None else None

    def build() -> Packet:
        made: Packet = Ether(src=macs[0], dst=macs[1])
        made /= IP(src=source.address, dst=destination.address, id=packet.identification & 0xFFFF, flags="DF")
        made /= TCP(
            sport=source.port,
            dport=destination.port,
            seq=half.seq(packet.start),
            ack=half.peer.seq(packet.ack or 0),
            flags=packet.flags,
            window=packet.window,
            options=[("NOP", None), ("NOP", None), ("Timestamp", stamps)],
        )
        if fpdu is None or header is None:
            return made
        payload = fpdu.ulpdu[len(fpdu.ulpdu) - header.payload_length :]
        made /= FPDU(marker_offset=marker_offset)
        if isinstance(header, TaggedHeader):
            made /= DDPTagged(l=int(header.last), stag=header.stag, to=header.to) / RDMAPWrite() / payload
        else:
            made /= DDPUntagged(l=int(header.last), msn=header.msn, mo=header.mo) / RDMAPSend() / payload
        return made

    return build


def print_table(size: int) -> None:
    """The table in Markdown."""
    print("| " + " | ".join(COLUMNS) + " |")
    print("| --- |" + " ---: |" * (len(COLUMNS) - 1))
    for markers in (False, True):
        print("| " + " | ".join(row(markers, size)) + " |")


if __name__ == "__main__":
    print_table(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000_000)
