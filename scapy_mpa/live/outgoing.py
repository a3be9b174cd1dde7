"""The outgoing half connection of an endpoint: ULPDUs in, FPDUs out (RFC 5044 §3, §4, §4.5)."""

from __future__ import annotations

from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.framing.agreement import RtrType
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.markers import Origin
from scapy_mpa.framing.mulpdu import mulpdu
from scapy_mpa.live.errors import LocalProtocolError
from scapy_mpa.live.wrong import LaysFPDUs


class OutgoingHalf:
    """The octets that this endpoint sends in Full Operation.

    Args:
        markers: its receiver requires Markers.
        crc: CRCs are in use.
        origin: what FPDUPTR counts from.
        profile: the name of the specification whose clauses count.
        version: of DDP and RDMAP, in what is made here.
        stream: what lays FPDUs in place of a conforming sender, None if nothing does.

    Attributes:
        has_ended: a Terminate was the last FPDU.
    """

    def __init__(
        self,
        markers: bool,
        crc: bool,
        origin: Origin,
        profile: str,
        version: int,
        stream: LaysFPDUs | None = None,
    ) -> None:
        self._stream = stream or HalfStream(Dialect(markers, crc, origin))
        self._is_wrong = stream is not None
        self._markers = markers
        self._profile = profile
        self._version = version
        self.has_ended = False

    @property
    def offset(self) -> int:
        """Octets laid so far, Markers included."""
        return self._stream.offset

    def mulpdu(self, emss: int) -> int:
        """The largest ULPDU for segments of ``emss`` octets (§4.5)."""
        return mulpdu(emss, self._markers)

    def lay(self, ulpdu: bytes, emss: int) -> bytes:
        """The next FPDU.  Raises LocalProtocolError for a ULPDU that is empty or above MULPDU, and after the end."""
        if self._is_wrong:
            return self._stream.lay((ulpdu,))[0]
        limit = mulpdu(emss, self._markers)
        if not ulpdu:
            raise LocalProtocolError("a ULPDU must hold at least one octet", "ulpdu-length-zero", profile=self._profile)
        if len(ulpdu) > limit:
            detail = f"a ULPDU of {len(ulpdu)} octets, but MULPDU is {limit} for an EMSS of {emss}"
            raise LocalProtocolError(detail, "mulpdu", profile=self._profile)
        if self.has_ended:
            raise LocalProtocolError("a Terminate was sent, and must be the last FPDU", "terminate-last")
        return self._stream.lay((ulpdu,))[0]

    def terminate(self, layer: int, etype: int, code: int) -> bytes:
        """The FPDU of a Terminate that names no DDP Segment (RFC 5040 §4.8); nothing can be sent after it."""
        body = ulpdus.terminate_body(layer, etype, code)
        message = ulpdus.untagged(ulpdus.TERMINATE, ulpdus.TERMINATE_QUEUE, 1, body, version=self._version)
        octets = self._stream.lay((message,))[0]
        self.has_ended = True
        return octets

    def ready(self, rtr: RtrType) -> bytes:
        """The FPDU of a ready-to-receive message: no payload, no octet asked for (RFC 6581 §9.2)."""
        version = self._version
        if rtr == "write":
            message = ulpdus.tagged(ulpdus.RDMA_WRITE, 0, 0, b"", version=version)
        elif rtr == "read":
            body = ulpdus.read_request_body(0, 0, 0, 0, 0)
            message = ulpdus.untagged(ulpdus.READ_REQUEST, ulpdus.REQUEST_QUEUE, 1, body, version=version)
        else:
            message = ulpdus.untagged(ulpdus.SEND, ulpdus.SEND_QUEUE, 1, b"", version=version)
        return self._stream.lay((message,))[0]
