"""The layer that the Sends of a connection carry: by its negotiation, its port and its first messages.

Nothing else says it: Sends of other connections stay octets.
"""

from __future__ import annotations

from scapy.packet import Packet

from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.packet.ddp import DDPUntagged
from scapy_mpa.packet.rdmap import RDMAPSend
from scapy_mpa.packet.upper import layer_of, put_upper
from scapy_mpa.ulp.identify import UNKNOWN_LENGTH, UpperLayer


class ConnectionUpper:
    """The upper layer of one connection.

    Args:
        request: its MPA Request, None if that is not known.
        reply: its MPA Reply.
        responder_port: the TCP port of the Responder.
    """

    def __init__(self, request: StartupFrame | None, reply: StartupFrame | None, responder_port: int) -> None:
        self._upper = UpperLayer(request, reply, responder_port)

    def put(
        self, fpdu: Packet, *, is_from_initiator: bool, ulpdu_length: int | None = None, in_order: bool = True
    ) -> None:
        """Have the Send that begins in an FPDU dissected by the upper layer.

        ``ulpdu_length`` are the octets of its ULPDU where the capture lacks some; ``in_order``: all that its sender
        said before was seen, for only then is it known which Send is the first.
        """
        segment = fpdu.payload
        if not isinstance(segment, DDPUntagged) or segment.mo or not isinstance(segment.payload, RDMAPSend):
            return
        octets = bytes(segment.payload.payload)
        length = len(octets) if ulpdu_length is None else ulpdu_length - UNTAGGED_HEADER_LENGTH
        if not segment.l:
            length = UNKNOWN_LENGTH
        read = self._upper.see_send if in_order else self._upper.header
        cls = layer_of(read(octets, length, is_from_initiator))
        if cls is not None:
            put_upper(fpdu, cls)
