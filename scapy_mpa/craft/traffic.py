"""Several conversations at once, what happens to their packets, the capture file, and the truth about it.

``Traffic`` joins everything: conversations in, the packets of all of them merged by time and impaired out, one by
one. ``write`` makes a capture of them and, if asked, notes what is to be found in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, BinaryIO, Literal

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.impairments import Pipeline
from scapy_mpa.craft.pcapfile import SNAPLEN, Packet, PcapWriter
from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.craft.sealing import key_lines
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.craft.truth import Truth
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import ROLES

Format = Literal["pcap", "pcapng"]
#: Nanoseconds since the epoch that the seconds of a pcap file can no longer hold.
END_OF_TIME = (1 << 32) * 10**9
FORMATS: tuple[Format, ...] = ("pcap", "pcapng")


class Traffic:
    """Conversations, numbered as they are given, and the impairments of all their packets."""

    def __init__(
        self, conversations: Sequence[Conversation], impairments: Iterable[object] = (), *, seed: int = 0
    ) -> None:
        self.conversations = list(conversations)
        self.pipeline = Pipeline(impairments, seed)

    def packets(self) -> Iterator[TcpPacket]:
        """Yield what is captured, in order."""
        sendings = [conversation.sending(number) for number, conversation in enumerate(self.conversations)]
        streams = [sending.packets() for sending in sendings]
        return self.pipeline.apply(merge(*streams, key=_time) if len(streams) > 1 else streams[0] if streams else ())

    def write(self, file: BinaryIO, format: Format = "pcap", truth: Truth | None = None) -> int:
        """Write a capture to a binary file, and note in ``truth`` what is in it; return the number of packets."""
        snaplen = self.pipeline.snaplen
        if snaplen is not None and any(one.setup.esp for one in self.conversations):
            raise MPAError("packets cut by a snap length cannot be decrypted: esp and snaplen cannot be combined")
        writer = (PcapWriter if format == "pcap" else PcapngWriter)(file, snaplen=snaplen or SNAPLEN)

        def frames() -> Iterator[Packet]:
            for packet in self.packets():
                if packet.time >= END_OF_TIME:
                    raise MPAError("a packet is later than 2106, the latest time that a capture can represent")
                if truth is not None:
                    truth.note(packet, snaplen, writer.tick)
                yield packet.time, octets_of(packet)

        return writer.write(frames())

    def key_lines(self) -> str:
        """The keys of what travels under ESP, as Wireshark's esp_sa has them; empty if nothing does."""
        sealings = (
            conversation.setup.sealing(role, number)
            for number, conversation in enumerate(self.conversations)
            for role in ROLES
        )
        return key_lines(one for one in sealings if one is not None)


def truth_lines(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Records as JSON lines."""
    for record in records:
        yield json.dumps(record) + "\n"


def _time(packet: TcpPacket) -> int:
    return packet.time
