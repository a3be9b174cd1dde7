"""How an endpoint that errs on purpose changes its own Read Responses, for a case about the answer to a Read.

RDMAP below answers each RDMA Read of the peer rightly; what is sent differs from that as the Responses of the case
differ from the one that its Read Request asks for (RFC 5040 §5.2).
"""

from __future__ import annotations

from dataclasses import replace

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.named import ASKED
from scapy_mpa.craft.sent import SentFPDU
from scapy_mpa.craft.ulpdus import READ_REQUEST, READ_RESPONSE, tagged
from scapy_mpa.framing.ddp import TAGGED_HEADER, TaggedHeader, decode_ddp, opcode_of

_OTHER = 0x100


class WrongAnswers:
    """The Read Responses of one endpoint on one connection.

    Args:
        case: that is committed, one of those that ``are_of`` accepts.
    """

    def __init__(self, case: Case) -> None:
        steps = case.plan().steps
        self._reads = sum(isinstance(step, tuple) and opcode_of(step[1]) == READ_REQUEST for step in steps)
        self._said = [step for step in steps if isinstance(step, bytes) and opcode_of(step) == READ_RESPONSE]
        #: A Response that waits for the one after it, which goes first; None: that has been.
        self._waiting: bytes | None = b""

    @staticmethod
    def are_of(case: Case) -> bool:
        """Return True if a case is about the answer to a Read of the peer."""
        return any(isinstance(step, tuple) and opcode_of(step[1]) == READ_REQUEST for step in case.plan().steps)

    def octets(self, sent: SentFPDU) -> bytes | None:
        """The octets in place of an FPDU, None if it is to stay as it is."""
        header = decode_ddp(sent.ulpdu)
        if not isinstance(header, TaggedHeader) or header.opcode != READ_RESPONSE:
            return None
        if not self._said:
            return b""
        if len(self._said) > self._reads:
            return self._both(sent, sent.ulpdu, sent.ulpdu)
        if not header.payload_length or not header.last:
            return None
        if self._reads > 1:
            waiting = self._waiting
            self._waiting = sent.ulpdu if waiting == b"" else None
            return self._both(sent, sent.ulpdu, waiting) if waiting else None if waiting is None else b""
        return sent.laid(self._other(sent.ulpdu, header))

    def _both(self, sent: SentFPDU, first: bytes, second: bytes) -> bytes:
        """Two FPDUs in place of one."""
        octets = sent.laid(first)
        after = None if sent.offset is None else sent.offset + len(octets)
        return octets + replace(sent, offset=after).laid(second)

    def _other(self, ulpdu: bytes, header: TaggedHeader) -> bytes:
        """A Response that differs from the right one as the case's does."""
        said = decode_ddp(self._said[0])
        assert isinstance(said, TaggedHeader)
        stag = header.stag if said.stag == ASKED.sink_stag else header.stag ^ _OTHER
        size = header.payload_length + said.payload_length - ASKED.size
        payload = ulpdu[TAGGED_HEADER.size :][: max(size, 0)].ljust(size, b"\0")
        to = header.to + said.to - ASKED.sink_to
        return tagged(READ_RESPONSE, stag, to, payload) if said.payload_length else ulpdu
