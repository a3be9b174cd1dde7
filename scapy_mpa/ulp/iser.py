"""iSER (RFC 7145 §9): the header of an iSCSI PDU, with the STags of the Initiator's buffers; Hello messages.

How long the buffer of a SCSI command is, the iSCSI PDU says: its Expected Data Transfer Length (RFC 7143 §11.3.4).
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.ulp.header import NamedMemory, Naming, UpperHeader

CONTROL = Struct(">B3sIQIQ")
#: Opcode in the high four bits; W and R say which STag is there.
CONTROL_TYPE, HELLO, HELLO_REPLY = 1, 2, 3
_W, _R = 0x08, 0x04
HELLO_LENGTH = 28
#: An iSCSI PDU begins with a Basic Header Segment of this many octets (RFC 7143 §11.2).
BASIC_HEADER_LENGTH = 48
_SCSI_COMMAND, _OPCODE = 0x01, 0x3F
#: RFC 7143 §11.2.1.2.
PDUS = {
    0x00: "NOP-Out",
    _SCSI_COMMAND: "SCSI Command",
    0x02: "Task Management Function Request",
    0x03: "Login Request",
    0x04: "Text Request",
    0x05: "SCSI Data-Out",
    0x06: "Logout Request",
    0x10: "SNACK Request",
    0x20: "NOP-In",
    0x21: "SCSI Response",
    0x22: "Task Management Function Response",
    0x23: "Login Response",
    0x24: "Text Response",
    0x25: "SCSI Data-In",
    0x26: "Logout Response",
    0x31: "Ready To Transfer",
    0x32: "Asynchronous Message",
    0x3F: "Reject",
}
_EXPECTED = Struct(">I")
_EXPECTED_AT = 20


def header(octets: bytes, length: int) -> UpperHeader | None:
    """The iSER header at the beginning of a Send of ``length`` octets, None if there is none."""
    found = naming(octets, length)
    if found is None:
        return None
    opcode = octets[0] >> 4
    if opcode != CONTROL_TYPE:
        name = "Hello" if opcode == HELLO else "HelloReply"
        return UpperHeader("iSER", {"message": name}, text=name)
    kind = octets[CONTROL.size] & _OPCODE if len(octets) > CONTROL.size else None
    pdu = "PDU" if kind is None else PDUS.get(kind, f"opcode {kind:#04x}")
    values = {"message": "iSCSI control-type PDU", "pdu": pdu, "named": [one.as_dict() for one in found.named]}
    return UpperHeader("iSER", values, found.named, f"iSCSI {pdu}")


def naming(octets: bytes, length: int) -> Naming | None:
    """Return what such a header says about memory, as :func:`header`."""
    if len(octets) < CONTROL.size:
        return None
    flags, reserved, write_stag, write_to, read_stag, read_to = CONTROL.unpack_from(octets)
    opcode = flags >> 4
    if opcode in (HELLO, HELLO_REPLY) and length == HELLO_LENGTH:
        return Naming("iSER")
    if opcode != CONTROL_TYPE or length < CONTROL.size + BASIC_HEADER_LENGTH or any(reserved):
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
    """The Expected Data Transfer Length of a SCSI Command, 0 if it is not one, or not available."""
    at = CONTROL.size + _EXPECTED_AT
    if len(octets) < at + _EXPECTED.size or octets[CONTROL.size] & _OPCODE != _SCSI_COMMAND:
        return 0
    return int(_EXPECTED.unpack_from(octets, at)[0])
