"""One RDMAP message as a Scapy packet: all of its DDP Segments reassembled (RFC 5041 §5, RFC 5040 §5).

    Ether / IP / TCP / RDMAPMessage / DDPUntagged / RDMAPSend / RPCRDMA

A message is no octets of the stream: its FPDUs are.  So ``RDMAPMessage`` has no field on the wire, above it stands the
DDP header of the first segment, as if that held all of the message, and ``bytes()`` are of use to read, not to send.
"""

from __future__ import annotations

from typing import Any

from scapy_mpa.packet.captured import _CapturedPacket
from scapy_mpa.packet.ddp import SUMMARIZED_BELOW
from scapy_mpa.packet.fields import NotOnWireField
from scapy_mpa.tuples import NamedTuple


class FoundMessage(NamedTuple):
    """What is known about a message that a session found: the attributes of the packet, whichever layer is asked.

    Attributes:
        frame: the number of the frame that brought the last octet that was missing.
        message: a :class:`~scapy_mpa.messages.row.MessageRow`, with the keys of ``scapy-mpa messages``; its ``answer``
            and its ``payload`` are None, since the packet has them.
    """

    frame: int
    message: Any


class RDMAPMessage(_CapturedPacket):
    """A message: the frames that carried it, its DDP Segments, its octets of payload, and whether it is complete."""

    name = "RDMAP message"
    fields_desc = [
        NotOnWireField("frames", ()),
        NotOnWireField("segments", 1),
        NotOnWireField("octets", 0),
        NotOnWireField("complete", True),
    ]

    def mysummary(self) -> Any:
        frames = self.getfieldval("frames")
        said = f"frame {frames[0]}" if len(frames) == 1 else f"{len(frames)} frames"
        part = "" if self.getfieldval("complete") else "part of a "
        return f"{part}message of {self.getfieldval('octets')} octets in {said}", SUMMARIZED_BELOW


SUMMARIZED_BELOW.append(RDMAPMessage)
