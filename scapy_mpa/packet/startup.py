"""The startup frames as Scapy packets: ``MPARequest`` and ``MPAReply`` (RFC 5044 §7.1.1, RFC 6581 §6 and §9).

PD_Length left None is computed, and Rev: 2 if S is set, otherwise 1. In a frame with S, a Rev that knows it
and a PD_Length that leaves room, the fields of RFC 6581's enhanced data stand before the Private Data,
which is then the ULP's own. Its Control Flags A to D are ``peer_to_peer``, ``rtr_send``, ``rtr_write`` and
``rtr_read``; ``enhanced_a`` to ``enhanced_d`` are other names of theirs (``c`` is MPA's CRC flag).
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.config import conf
from scapy.error import warning
from scapy.fields import AnyField, BitField, ByteField, ConditionalField, ShortField, StrLenField
from scapy.layers.inet import TCP
from scapy.packet import Packet, Padding

from scapy_mpa.errors import FramingError
from scapy_mpa.framing import ENHANCED_DATA_LENGTH, KEY_LENGTH, REPLY_KEY, REQUEST_KEY, STARTUP_HEADER_LENGTH, S
from scapy_mpa.framing.profiles import profile_of_revision
from scapy_mpa.framing.startup import decode_startup_frame
from scapy_mpa.packet.captured import _CapturedPacket
from scapy_mpa.packet.fields import KeyField
from scapy_mpa.packet.privatedata import private_data_packet

_FLAGS, _REV, _PD_LENGTH = KEY_LENGTH, KEY_LENGTH + 1, KEY_LENGTH + 2
_MAX_PD_LENGTH = 0xFFFF


def _revision(s: Any, rev: Any) -> Any:
    return (2 if s else 1) if rev is None else rev


def _is_enhanced(s: Any, rev: Any, pd_length: Any) -> bool:
    """Do these values of S, Rev and PD_Length (None: computed) mean that enhanced data is there?"""
    if not (s and profile_of_revision(_revision(s, rev)).enhanced):
        return False
    return pd_length is None or bool(pd_length >= ENHANCED_DATA_LENGTH)


def _has_enhanced(pkt: Packet) -> bool:
    return _is_enhanced(pkt.getfieldval("s"), pkt.getfieldval("rev"), pkt.getfieldval("pd_length"))


def _private_data_length(pkt: Packet) -> int:
    length = pkt.getfieldval("pd_length")
    return int(length) - (ENHANCED_DATA_LENGTH if _has_enhanced(pkt) else 0)


def _fields(key: bytes) -> list[AnyField]:
    return [
        KeyField("key", key, KEY_LENGTH),
        BitField("m", 0, 1),
        BitField("c", 1, 1),
        BitField("r", 0, 1),
        BitField("s", 0, 1),
        BitField("res", 0, 4),
        ByteField("rev", None),
        ShortField("pd_length", None),
        ConditionalField(BitField("peer_to_peer", 0, 1), _has_enhanced),
        ConditionalField(BitField("rtr_send", 0, 1), _has_enhanced),
        ConditionalField(BitField("ird", 0, 14), _has_enhanced),
        ConditionalField(BitField("rtr_write", 0, 1), _has_enhanced),
        ConditionalField(BitField("rtr_read", 0, 1), _has_enhanced),
        ConditionalField(BitField("ord", 0, 14), _has_enhanced),
        StrLenField("private_data", b"", length_from=_private_data_length),
    ]


#: RFC 6581's Control Flags (§9.2), by the letters that it gives them.
_FLAG_OF = {
    "enhanced_a": "peer_to_peer",
    "enhanced_b": "rtr_send",
    "enhanced_c": "rtr_write",
    "enhanced_d": "rtr_read",
}


class _Startup(_CapturedPacket):
    """What Request and Reply have in common."""

    key_of_frame: ClassVar[bytes]

    def __init__(self, _pkt: bytes = b"", *args: Any, **fields: Any) -> None:
        super().__init__(_pkt, *args, **{_FLAG_OF.get(name, name): value for name, value in fields.items()})

    def dissect(self, s: bytes) -> None:
        _warn_without_key(type(self), s)
        super().dissect(s)

    def getfield_and_val(self, attr: str) -> Any:
        return super().getfield_and_val(_FLAG_OF.get(attr, attr))

    def setfieldval(self, attr: str, val: Any) -> None:
        super().setfieldval(_FLAG_OF.get(attr, attr), val)

    def delfieldval(self, attr: str) -> None:
        super().delfieldval(_FLAG_OF.get(attr, attr))

    def getfieldval(self, attr: str) -> Any:
        return super().getfieldval(_FLAG_OF.get(attr, attr))

    def get_field(self, fld: str) -> Any:
        return super().get_field(_FLAG_OF.get(fld, fld))

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.getfieldval("rev") is None:
            pkt = pkt[:_REV] + bytes([_revision(self.getfieldval("s"), None)]) + pkt[_REV + 1 :]
        if self.getfieldval("pd_length") is None:
            length = len(pkt) - STARTUP_HEADER_LENGTH
            if length > _MAX_PD_LENGTH:
                raise FramingError(f"Private Data of {length} octets does not fit PD_Length")
            pkt = pkt[:_PD_LENGTH] + length.to_bytes(2, "big") + pkt[STARTUP_HEADER_LENGTH:]
        return pkt + pay

    def mysummary(self) -> Any:
        flags = "".join(f" {name.upper()}" for name in ("m", "c", "r", "s") if self.getfieldval(name))
        text = f"{self.name}{flags} Rev {_revision(self.getfieldval('s'), self.getfieldval('rev'))}"
        if _has_enhanced(self):
            text += f" IRD {self.getfieldval('ird')} ORD {self.getfieldval('ord')}"
        return text, [TCP]

    def private_data_packet(self, responder_port: int | None = None) -> Packet | None:
        """The upper layer's Private Data as a packet, None if they are unknown.

        ``responder_port`` is that of TCP; None: as the TCP layer below has it.
        """
        if responder_port is None:
            tcp = self.underlayer if isinstance(self.underlayer, TCP) else None
            is_reply = self.getfieldval("key") == REPLY_KEY
            responder_port = 0 if tcp is None else tcp.sport if is_reply else tcp.dport
        alone: Packet = self.copy()
        alone.remove_payload()
        frame = decode_startup_frame(bytes(alone))
        return None if frame is None else private_data_packet(frame, responder_port)

    def hashret(self) -> bytes:
        return b"MPA startup"

    @classmethod
    def tcp_reassemble(cls, data: bytes, metadata: dict[str, Any], session: dict[str, Any]) -> Packet | None:
        """Return the frame as soon as it is complete, and what follows as Padding, for Scapy's StreamSocket and
        TCPSession.
        """
        if len(data) < STARTUP_HEADER_LENGTH:
            return None
        end = STARTUP_HEADER_LENGTH + int.from_bytes(data[_PD_LENGTH:STARTUP_HEADER_LENGTH], "big")
        if len(data) < end:
            return None
        pkt = (MPAReply if data.startswith(REPLY_KEY) else MPARequest)(data[:end])
        return pkt / Padding(data[end:]) if len(data) > end else pkt


def _warn_without_key(cls: type[_Startup], octets: bytes) -> None:
    """Warn, as Scapy does, of octets that are no frame of ``cls``, nor the beginning of one."""
    if bytes(octets[:KEY_LENGTH]) != cls.key_of_frame[: len(octets)]:
        warning("%s: octets that do not begin with its Key (%s)", cls._name, cls.key_of_frame.decode())


def _is_cut(octets: bytes) -> bool:
    """Return True if the octets of a frame end inside its header, or inside its enhanced data."""
    if len(octets) < STARTUP_HEADER_LENGTH:
        return True
    pd_length = int.from_bytes(octets[_PD_LENGTH:STARTUP_HEADER_LENGTH], "big")
    is_enhanced = _is_enhanced(octets[_FLAGS] & S, octets[_REV], pd_length)
    return is_enhanced and len(octets) < STARTUP_HEADER_LENGTH + ENHANCED_DATA_LENGTH


def _hook(cls: type[_Startup], _pkt: Any = None, *args: Any, **fields: Any) -> type[Packet]:
    """Return Raw for a frame that is cut in its header or its enhanced data."""
    octets = bytes(_pkt or b"")
    if octets and _is_cut(octets):
        _warn_without_key(cls, octets)
        return conf.raw_layer
    return cls


class MPARequest(_Startup):
    """MPA Request Frame."""

    name = "MPA Request"
    key_of_frame = REQUEST_KEY
    fields_desc = _fields(REQUEST_KEY)
    dispatch_hook = classmethod(_hook)


class MPAReply(_Startup):
    """MPA Reply Frame."""

    name = "MPA Reply"
    key_of_frame = REPLY_KEY
    fields_desc = _fields(REPLY_KEY)
    dispatch_hook = classmethod(_hook)

    def answers(self, other: Packet) -> int:
        return int(isinstance(other, MPARequest))


def startup_packet(octets: bytes) -> MPARequest | MPAReply:
    """The startup frame at the beginning of ``octets``; ``bytes()`` of it are the octets.

    Raises FramingError if they begin with neither Key, or end inside the header or the enhanced data.
    """
    for key, cls in (REQUEST_KEY, MPARequest), (REPLY_KEY, MPAReply):
        if octets.startswith(key):
            packet = cls(octets)
            if isinstance(packet, cls):
                return packet
            raise FramingError(f"{len(octets)} octets are not a whole startup frame")
    raise FramingError(f"neither an MPA Request nor an MPA Reply: the Key is {octets[:KEY_LENGTH]!r}")
