"""The RDMAP messages that have a header of their own, field by field: the Scapy layers know what stands where.

RFC 5040 §4.4 (RDMA Read Request) and §4.8 (Terminate), RFC 7306 §5.2 (Atomics) and §6 (Immediate Data); and of what
stands above RDMAP, in Sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH, decode_terminate
from scapy_mpa.report.fields import TERMINATED, Field, FieldValue

if TYPE_CHECKING:
    from scapy.fields import AnyField
    from scapy.packet import Packet

    from scapy_mpa.ulp.header import UpperHeader

#: Runs of bits, by the first of them.
_CONTROLS = {"Layer": "Terminate control", "M": "header control", "T": "DDP control", "RV": "RDMAP control"}
_ATOMIC_TO = "Remote TO"
#: Layers whose fields are shown: ours, and those of RPC.
_SHOWN = ("scapy_mpa.packet.", "scapy.contrib.oncrpc")
_UPPER = "xid cid sgl nsid mptr psdt sqhd sqid lun dnr crd sct fctype recfmt qid sqsize cattr kato ofst ahs"
_WORDS = {
    "stag": "STag",
    "ddp": "DDP",
    "msn": "MSN",
    "aopcode": "AOpCode",
    "etype": "EType",
    "rsvdulp": "RsvdULP",
    **{word: word.upper() for word in _UPPER.split()},
}


def message_fields(ulpdu: bytes) -> list[Field]:
    """The fields of the message in an untagged DDP segment, after DDP's header; none if it is too short for them."""
    from scapy.packet import Packet, Raw

    from scapy_mpa.packet import rdmap  # noqa: F401 - it binds the messages to the segments
    from scapy_mpa.packet.ddp import DDPUntagged

    message = DDPUntagged(ulpdu).payload
    if not isinstance(message, Packet) or isinstance(message, Raw) or not message.fields_desc:
        return []
    fields = list(_fields(message, UNTAGGED_HEADER_LENGTH, "", "RDMAP"))
    fields = [_noted(field) for field in fields]
    terminate = decode_terminate(ulpdu)
    if terminate is not None:
        fields[0] = fields[0]._replace(note=terminate.meaning)
        if terminate.layout == "siw":
            note = f"{terminate.meaning}; laid out from the least significant bit, as Linux siw does"
            fields[0] = fields[0]._replace(note=note, severity="warning")
    return fields


def upper_fields(octets: bytes, at: int, header: UpperHeader) -> list[Field]:
    """The fields of a Send that begins with these octets, ``at`` octets after the ULPDU's first: those of the layers
    that stand above RDMAP, as far as they are known; none if the octets end before.
    """
    from scapy_mpa.packet import rdmap  # noqa: F401 - it has the layers
    from scapy_mpa.packet.upper import layer_of

    cls = layer_of(header)
    message = cls(octets) if cls is not None else None
    fields: list[Field] = []
    while message is not None and type(message).__module__.startswith(_SHOWN):
        length = len(message) - len(message.payload)
        layer = header.protocol if not fields else str(message.name)
        found = list(_fields(message, at, "", layer))
        if not found or found[-1].offset + found[-1].length != at + length:
            break
        if not fields:
            found[0] = found[0]._replace(note=header.text)
        fields += found
        at += length
        message = message.payload
    return fields


def _noted(field: Field) -> Field:
    """Say that the TO of an Atomic Request is not 64-bit aligned (RFC 7306 §8.2)."""
    parts = field.parts
    if not parts or not parts[0].name.endswith(_ATOMIC_TO) or not int(parts[0].value) % 8:
        return field
    return field._replace(note="not 64-bit aligned (RFC 7306 §8.2)")


def _fields(packet: Packet, at: int, prefix: str, layer: str) -> Iterator[Field]:
    """The fields of a packet that begins at ``at``; bits are gathered to octets."""
    from scapy.fields import ConditionalField
    from scapy.packet import Packet

    from scapy_mpa.packet.fields import NotOnWireField

    bits = 0
    parts: list[FieldValue] = []
    for field in packet.fields_desc:
        value = packet.getfieldval(field.name)
        if isinstance(field, ConditionalField):
            if not field._evalcond(packet):
                continue
            field = field.fld
        if field.holds_packets and (field.islist or layer != "RDMAP"):
            length = len(field.addfield(packet, b"", value))
            name, packets = (
                _name(field.name),
                value if isinstance(value, list) else [value] if value is not None else [],
            )
            yield Field(at, length, layer, name, tuple(_elements(packets, name)) or (FieldValue(name, "none"),))
            at += length
            continue
        if isinstance(field, NotOnWireField) or value is None:
            continue
        if isinstance(value, Packet):
            yield from _fields(value, at, TERMINATED, layer)
            at += len(bytes(value))
            continue
        parts.append(_part(packet, field))
        # Only Scapy's fields of bits, which have no class in common, have a size of their own.
        size = getattr(field, "size", None)
        bits += 8 * len(field.addfield(packet, b"", value)) if size is None else int(size)
        if not bits:
            parts = []
        elif bits % 8 == 0:
            name = parts[0].name if len(parts) == 1 else _several(parts)
            named = tuple(part._replace(name=prefix + part.name) for part in parts)
            yield Field(at, bits // 8, layer, prefix + name, named)
            at += bits // 8
            bits, parts = 0, []


def _elements(packets: list[Packet], name: str) -> Iterator[FieldValue]:
    """The values of packets in a field, such as the elements of a list."""
    for number, packet in enumerate(packets):
        before = f"{name} {number}" if len(packets) > 1 else ""
        for field in packet.fields_desc:
            value = packet.getfieldval(field.name)
            if field.holds_packets:
                yield from _elements(value if isinstance(value, list) else [value], _name(field.name))
            else:
                part = _part(packet, field)
                yield part._replace(name=f"{before} {part.name}".strip())


def _several(parts: list[FieldValue]) -> str:
    """Return the name of a run of bits."""
    names = [part.name for part in parts]
    return _CONTROLS.get(names[0], "/".join(names))


def _part(packet: Packet, field: AnyField) -> FieldValue:
    from scapy.fields import XByteField, XIntField, XLongField

    value = packet.getfieldval(field.name)
    name = _name(field.name)
    if isinstance(value, bytes):
        return FieldValue(name, value.hex())
    if not isinstance(value, int):
        return FieldValue(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
    if isinstance(field, (XIntField, XLongField, XByteField)):
        return FieldValue(name, value, digits=2 * field.sz)
    said = field.i2repr(packet, value)
    return FieldValue(name, value, "" if said.lower().removeprefix("0x") in (str(value), f"{value:x}") else said)


def _name(name: str) -> str:
    """Return the name of a field."""
    return " ".join(_WORDS.get(word, word.upper() if len(word) < 3 else word.title()) for word in name.split("_"))
