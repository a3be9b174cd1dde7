"""How MPA is found in TCP payloads (RFC 5044 §7.1.1), without getting in anybody's way.

Startup frames are recognised by their 16-octet Key on any port. A ``bind_layers(TCP, ...)`` without conditions would
shadow whatever is bound later, and one by port would miss most connections, so TCP's ``guess_payload_class`` is
overloaded: nine octets are compared, and if they differ Scapy continues as before, on every port.

Nothing marks an FPDU. ``MPASession`` follows connections from their startup frames; for a quick look
at streams without Markers ``bind_mpa(port)`` has the payload of each segment of a port dissected on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scapy.config import conf
from scapy.fields import PacketListField
from scapy.layers.inet import TCP
from scapy.packet import Packet

from scapy_mpa.errors import MPAError
from scapy_mpa.framing import (
    KEY_LENGTH,
    KEY_PREFIX,
    REPLY_KEY,
    REQUEST_KEY,
    STARTUP_HEADER_LENGTH,
    TAGGED_HEADER_LENGTH,
    decode_fpdu,
)
from scapy_mpa.framing.ddp import TAGGED_OPCODES, is_tagged, opcode_name, opcode_of
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH
from scapy_mpa.packet.fpdu import FPDU
from scapy_mpa.packet.startup import MPAReply, MPARequest

_KEYS: dict[bytes, type[Packet]] = {REQUEST_KEY: MPARequest, REPLY_KEY: MPAReply}
_MAX_PORT = 0xFFFF
# Rsvd and DV 2 or 3 in DDP's first octet, RV 2 and Rsv in the second: in no segment that conforms.
_NEVER_IN_DDP, _NEVER_IN_RDMAP = 0x3E, 0xB0


def _install() -> None:
    """Put the look for Keys before TCP's own guess."""
    previous: Callable[[Packet, bytes], type[Packet]] = TCP.guess_payload_class
    if hasattr(previous, "before_mpa"):  # this module was loaded before
        previous = previous.before_mpa

    def guess_payload_class(self: Packet, payload: bytes) -> type[Packet]:
        if payload[: len(KEY_PREFIX)] == KEY_PREFIX and len(payload) >= STARTUP_HEADER_LENGTH:
            cls = _KEYS.get(bytes(payload[:KEY_LENGTH]))
            if cls is not None:
                return cls
        return previous(self, payload)

    guess_payload_class.before_mpa = previous  # type: ignore[attr-defined]
    TCP.guess_payload_class = guess_payload_class  # type: ignore[method-assign]


_install()


class FPDUs(Packet):
    """The content of a segment on a bound port with more than one FPDU: one after the other, without Markers.

    The last one may be cut by the end of the segment.
    """

    name = "FPDUs"
    fields_desc = [PacketListField("fpdus", [], FPDU, max_count=_MAX_PORT)]

    @classmethod
    def dispatch_hook(cls, _pkt: Any = None, *args: Any, **fields: Any) -> type[Packet]:
        """Return ``FPDU`` for exactly one FPDU; octets that do not begin with one are Raw."""
        octets = bytes(_pkt or b"")
        if not octets:
            return cls
        fpdu = decode_fpdu(octets, check_crc=False)
        if fpdu is None:
            return FPDU if _begins_fpdu(octets) else conf.raw_layer
        return FPDU if fpdu.wire_length == len(octets) else cls

    @classmethod
    def tcp_reassemble(cls, data: bytes, metadata: dict[str, Any], session: dict[str, Any]) -> Packet | None:
        """For Scapy's TCPSession: one startup frame or FPDU, the rest is Padding."""
        if data.startswith(KEY_PREFIX):
            return MPARequest.tcp_reassemble(data, metadata, session)
        return FPDU.tcp_reassemble(data, metadata, session)

    def mysummary(self) -> Any:
        return f"{len(self.getfieldval('fpdus'))} FPDUs", [TCP]


def _begins_fpdu(octets: bytes) -> bool:
    """Can these be the first octets of an FPDU? The header of a DDP segment has to be after ULPDU_Length."""
    ulpdu_length = int.from_bytes(octets[:LENGTH_FIELD_LENGTH], "big")
    control = octets[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + 2]
    if ulpdu_length < TAGGED_HEADER_LENGTH or len(control) < 2:
        return False
    if control[0] & _NEVER_IN_DDP or control[1] & _NEVER_IN_RDMAP:
        return False
    return opcode_name(control) is not None and is_tagged(control) == (opcode_of(control) in TAGGED_OPCODES)


def bind_mpa(*ports: int) -> None:
    """Dissect TCP payloads from and to these ports as FPDUs without Markers, segment by segment.

    This takes precedence over other bindings of these ports. Raises MPAError for an invalid port.
    """
    unbind_mpa(*ports)
    bound = [({side: port}, FPDUs) for port in ports for side in ("dport", "sport")]
    TCP.payload_guess = [*bound, *TCP.payload_guess]


def unbind_mpa(*ports: int) -> None:
    """Undo ``bind_mpa`` for these ports. Raises MPAError for an invalid port."""
    for port in ports:
        if not isinstance(port, int) or not 0 <= port <= _MAX_PORT:
            raise MPAError(f"{port!r} is not a TCP port")
    TCP.payload_guess = [
        (conditions, cls)
        for conditions, cls in TCP.payload_guess
        if cls is not FPDUs or not set(conditions.values()) & set(ports)
    ]
