"""NVMe over Fabrics (NVMe-oF 1.1 §2): command capsules of 64 octets and more, response capsules of 16; little-endian.

The data pointer of a command may hold a keyed SGL data block descriptor: address, length, key. The key is an STag.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.ulp.header import NamedMemory, Naming, UpperHeader

_COMMAND_LENGTH, _RESPONSE_LENGTH = 64, 16
_COMMAND = Struct("<BBHI")
_RESPONSE = Struct("<QHHHH")
_POINTER_AT = 24
_POINTER = Struct("<Q3s4sB")
#: The SGL descriptor type in the high four bits: keyed data block.
_KEYED = 4
_FABRICS = 0x7F
_FABRICS_COMMANDS = {0x00: "Property Set", 0x01: "Connect", 0x04: "Property Get", 0x05: "Authentication Send"}
#: Bit 0 of an opcode: the controller reads the host's memory (the host writes); bit 1: it writes there.
_TO_CONTROLLER, _TO_HOST = 1, 2


def header(octets: bytes, length: int, is_from_initiator: bool) -> UpperHeader | None:
    """The capsule at the beginning of a Send of ``length`` octets, None if there is none.

    Of one that a snapshot length cut, opcode and command identifier are enough.
    """
    if is_from_initiator:
        return _command(octets) if _is_command(octets, length) else None
    if length != _RESPONSE_LENGTH or len(octets) < length:
        return None
    _, sqhd, sqid, cid, status = _RESPONSE.unpack_from(octets)
    text = f"Response to command {cid}" + (f", status {status >> 1:#x}" if status >> 1 else "")
    values = {"capsule": "response", "cid": cid, "sqid": sqid, "sqhd": sqhd, "status": status >> 1}
    return UpperHeader("NVMe-oF", values, text=text, call=cid, is_reply=True)


def naming(octets: bytes, length: int, is_from_initiator: bool) -> Naming | UpperHeader | None:
    """What such a capsule says of memory; as :func:`header`."""
    if is_from_initiator:
        return _naming(octets) if _is_command(octets, length) else None
    return header(octets, length, is_from_initiator)


def _is_command(octets: bytes, length: int) -> bool:
    """Whether a Send is a command, of which enough is at hand: bits 7:6 of its flags, PSDT, are 0 or 1."""
    return length >= _COMMAND_LENGTH and len(octets) >= _COMMAND.size and octets[1] >> 6 in (0, 1)


def _naming(octets: bytes) -> Naming:
    """What a command says of memory."""
    opcode, _, cid, third = _COMMAND.unpack_from(octets)
    if len(octets) < _POINTER_AT + _POINTER.size:
        return Naming("NVMe-oF", (), cid, False, True)
    named: tuple[NamedMemory, ...] = ()
    address, length, key, kind = _POINTER.unpack_from(octets, _POINTER_AT)
    size = int.from_bytes(length, "little")
    if kind >> 4 == _KEYED and size:
        way = third & 0xFF if opcode == _FABRICS else opcode
        use = "read" if way & _TO_CONTROLLER else "write"
        named = (NamedMemory(int.from_bytes(key, "little"), address, size, use),)
    return Naming("NVMe-oF", named, cid)


def _command(octets: bytes) -> UpperHeader:
    opcode, _, cid, third = _COMMAND.unpack_from(octets)
    _, named, _, _, is_cut = _naming(octets)
    fabrics = third & 0xFF if opcode == _FABRICS else None
    text = f"Command {cid}, opcode {opcode:#04x}"
    if fabrics is not None:
        text = f"Command {cid}, Fabrics {_FABRICS_COMMANDS.get(fabrics, f'type {fabrics:#04x}')}"
    values = {
        "capsule": "command",
        "opcode": opcode,
        "fctype": fabrics,
        "cid": cid,
        "named": [one.as_dict() for one in named],
    }
    return UpperHeader("NVMe-oF", values, named, text, cid, False, is_cut)
