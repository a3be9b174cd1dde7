"""iSER (RFC 7145 §9): the header of an iSCSI PDU, with the STags of the Initiator's buffers; Hello messages.

How long the buffer of a SCSI command is, the iSCSI PDU says: its Expected Data Transfer Length (RFC 7143 §11.3.4).
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.ulp.header import NamedMemory, Naming, UpperHeader

_CONTROL = Struct(">B3xIQIQ")
#: Opcode in the high four bits; W and R say which STag is there.
_CONTROL_TYPE, _HELLO, _HELLO_REPLY = 1, 2, 3
_W, _R = 0x08, 0x04
_HELLO_LENGTH = 28
#: An iSCSI PDU begins with a Basic Header Segment of so many octets (RFC 7143 §11.2).
_BASIC_HEADER_LENGTH = 48
_SCSI_COMMAND, _OPCODE = 0x01, 0x3F
_EXPECTED = Struct(">I")
_EXPECTED_AT = 20


def header(octets: bytes, length: int) -> UpperHeader | None:
    """The iSER header at the beginning of a Send of ``length`` octets, None if there is none."""
    found = naming(octets, length)
    if found is None:
        return None
    opcode = octets[0] >> 4
    if opcode != _CONTROL_TYPE:
        name = "Hello" if opcode == _HELLO else "HelloReply"
        return UpperHeader("iSER", {"message": name}, text=name)
    values = {"message": "iSCSI control-type PDU", "named": [one.as_dict() for one in found.named]}
    return UpperHeader("iSER", values, found.named, "iSCSI PDU")


def naming(octets: bytes, length: int) -> Naming | None:
    """What such a header says of memory; as :func:`header`."""
    if len(octets) < _CONTROL.size:
        return None
    flags, write_stag, write_to, read_stag, read_to = _CONTROL.unpack_from(octets)
    opcode = flags >> 4
    if opcode in (_HELLO, _HELLO_REPLY) and length == _HELLO_LENGTH:
        return Naming("iSER")
    if opcode != _CONTROL_TYPE or length < _CONTROL.size + _BASIC_HEADER_LENGTH or any(octets[1:4]):
        return None
    expected = _expected(octets)
    named = []
    if flags & _W and write_stag:
        named.append(NamedMemory(write_stag, write_to, expected, "read"))
    if flags & _R and read_stag:
        # Of a command that does both it is the length of what is read from the Initiator.
        named.append(NamedMemory(read_stag, read_to, 0 if flags & _W else expected, "write"))
    return Naming("iSER", tuple(named))


def _expected(octets: bytes) -> int:
    """The Expected Data Transfer Length of a SCSI Command, 0 if it is none or not at hand."""
    at = _CONTROL.size + _EXPECTED_AT
    if len(octets) < at + _EXPECTED.size or octets[_CONTROL.size] & _OPCODE != _SCSI_COMMAND:
        return 0
    return int(_EXPECTED.unpack_from(octets, at)[0])
