"""NVMe over Fabrics (NVMe-oF 1.1 §2): command capsules of 64 octets and more, response capsules of 16; little-endian.

The data pointer of a command may hold a keyed SGL data block descriptor: address, length, key. The key is an STag.
What an opcode is called depends on the queue: an Admin Queue has number 0, every other one takes I/O commands.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.ulp.header import NamedMemory, Naming, UpperHeader

COMMAND_LENGTH, RESPONSE_LENGTH = 64, 16
_COMMAND = Struct("<BBHI")
_RESPONSE = Struct("<QHHHH")
_POINTER_AT = 24
_POINTER = Struct("<Q3s4sB")
#: The SGL descriptor type in the high four bits: keyed data block.
KEYED = 4
FABRICS = 0x7F
PROPERTY_SET, CONNECT, PROPERTY_GET, DISCONNECT = 0x00, 0x01, 0x04, 0x08
#: Fabrics command types (NVMe-oF 1.1 §3).
FABRICS_COMMANDS = {
    PROPERTY_SET: "Property Set",
    CONNECT: "Connect",
    PROPERTY_GET: "Property Get",
    0x05: "Authentication Send",
    0x06: "Authentication Receive",
    DISCONNECT: "Disconnect",
}
_ASYNCHRONOUS_EVENT = 0x0C
#: NVMe 1.4 §5.
ADMIN_COMMANDS = {
    0x00: "Delete I/O Submission Queue",
    0x01: "Create I/O Submission Queue",
    0x02: "Get Log Page",
    0x04: "Delete I/O Completion Queue",
    0x05: "Create I/O Completion Queue",
    0x06: "Identify",
    0x08: "Abort",
    0x09: "Set Features",
    0x0A: "Get Features",
    _ASYNCHRONOUS_EVENT: "Asynchronous Event Request",
    0x0D: "Namespace Management",
    0x10: "Firmware Commit",
    0x11: "Firmware Image Download",
    0x14: "Device Self-test",
    0x15: "Namespace Attachment",
    0x18: "Keep Alive",
    0x19: "Directive Send",
    0x1A: "Directive Receive",
    0x1C: "Virtualization Management",
    0x1D: "NVMe-MI Send",
    0x1E: "NVMe-MI Receive",
    0x7C: "Doorbell Buffer Config",
    FABRICS: "Fabrics",
    0x80: "Format NVM",
    0x81: "Security Send",
    0x82: "Security Receive",
    0x84: "Sanitize",
    0x86: "Get LBA Status",
}
#: NVMe 1.4 §6.
IO_COMMANDS = {
    0x00: "Flush",
    0x01: "Write",
    0x02: "Read",
    0x04: "Write Uncorrectable",
    0x05: "Compare",
    0x08: "Write Zeroes",
    0x09: "Dataset Management",
    0x0C: "Verify",
    0x0D: "Reservation Register",
    0x0E: "Reservation Report",
    0x11: "Reservation Acquire",
    0x15: "Reservation Release",
    0x19: "Copy",
    FABRICS: "Fabrics",
}
#: Bit 0 of an opcode: the controller reads the host's memory (the host writes); bit 1: it writes there.
_TO_CONTROLLER, _TO_HOST = 1, 2
_CONNECT_QUEUE = Struct("<42xH")


def header(octets: bytes, length: int, is_from_initiator: bool, queue: int | None = None) -> UpperHeader | None:
    """The capsule at the beginning of a Send of ``length`` octets, None if there is none.

    Of one that a snapshot length cut, opcode and command identifier are enough. ``queue`` is the number of the queue,
    None if it is not known.
    """
    if is_from_initiator:
        return _command(octets, queue) if _is_command(octets, length) else None
    if length != RESPONSE_LENGTH or len(octets) < length:
        return None
    _, sqhd, sqid, cid, status = _RESPONSE.unpack_from(octets)
    text = f"Response to command {cid}" + (f", status {status >> 1:#x}" if status >> 1 else "")
    values = {"capsule": "response", "cid": cid, "sqid": sqid, "sqhd": sqhd, "status": status >> 1}
    return UpperHeader("NVMe-oF", values, text=text, call=cid, is_reply=True)


def naming(
    octets: bytes, length: int, is_from_initiator: bool, queue: int | None = None
) -> Naming | UpperHeader | None:
    """Return what such a capsule says about memory, as :func:`header`."""
    if is_from_initiator:
        return _naming(octets) if _is_command(octets, length) else None
    return header(octets, length, is_from_initiator, queue)


def connect_queue(octets: bytes) -> int | None:
    """The number of the queue that a Connect command is for, None for other octets."""
    if len(octets) < COMMAND_LENGTH or octets[0] != FABRICS or octets[4] != CONNECT:
        return None
    return int(_CONNECT_QUEUE.unpack_from(octets)[0])


def _is_command(octets: bytes, length: int) -> bool:
    """Return True if a Send is a command, with enough octets available: bits 7:6 of its flags, PSDT, are 0 or 1."""
    return length >= COMMAND_LENGTH and len(octets) >= _COMMAND.size and octets[1] >> 6 in (0, 1)


def _naming(octets: bytes) -> Naming:
    """Return what a command says about memory."""
    opcode, _, cid, third = _COMMAND.unpack_from(octets)
    if len(octets) < _POINTER_AT + _POINTER.size:
        return Naming("NVMe-oF", (), cid, False, True)
    named: tuple[NamedMemory, ...] = ()
    address, length, key, kind = _POINTER.unpack_from(octets, _POINTER_AT)
    size = int.from_bytes(length, "little")
    if kind >> 4 == KEYED and size:
        way = third & 0xFF if opcode == FABRICS else opcode
        use = "read" if way & _TO_CONTROLLER else "write"
        named = (NamedMemory(int.from_bytes(key, "little"), address, size, use),)
    return Naming("NVMe-oF", named, cid)


def _command(octets: bytes, queue: int | None) -> UpperHeader:
    opcode, _, cid, third = _COMMAND.unpack_from(octets)
    _, named, _, _, is_cut = _naming(octets)
    fabrics = third & 0xFF if opcode == FABRICS else None
    name = command_name(opcode, fabrics, queue)
    waits = opcode == _ASYNCHRONOUS_EVENT and queue == 0
    text = f"Command {cid}, {name}" + (", which is answered when something happens" if waits else "")
    values = {
        "capsule": "command",
        "opcode": opcode,
        "fctype": fabrics,
        "command": name,
        "queue": queue,
        "cid": cid,
        "named": [one.as_dict() for one in named],
    }
    return UpperHeader("NVMe-oF", values, named, text, cid, False, is_cut, waits)


def command_name(opcode: int, fabrics: int | None, queue: int | None) -> str:
    """Return the name of a command on a queue; its opcode if the queue is unknown, or the opcode has no name."""
    if fabrics is not None:
        return f"Fabrics {FABRICS_COMMANDS.get(fabrics, f'type {fabrics:#04x}')}"
    names = {} if queue is None else IO_COMMANDS if queue else ADMIN_COMMANDS
    return names.get(opcode, f"opcode {opcode:#04x}")
