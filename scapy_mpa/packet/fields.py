"""Kinds of Scapy fields that MPA needs and Scapy lacks.

MPA puts PAD and CRC after what it carries and Markers into it, where none of Scapy's own fields can stand.
So a ``FPDU`` lays its octets out itself, and these fields hold the values: they have names, are shown, copied,
pickled and compared like all others, but add nothing to the octets on their own account.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

from scapy.fields import (
    AnyField,
    ByteField,
    Field,
    IntField,
    LEIntField,
    LELongField,
    LEShortField,
    LongField,
    PacketListField,
    ShortField,
    StrFixedLenField,
)
from scapy.packet import Packet

from scapy_mpa.framing import crc_field


class KeyField(StrFixedLenField):
    """The Key of a startup frame, which ``fuzz()`` leaves as it is: without it there is no startup frame."""

    def randval(self) -> Any:
        return None


class NotOnWireField(Field[Any, Any]):
    """A value that puts no octets of its own on the wire, where the field stands."""

    def __init__(self, name: str, default: Any = None) -> None:
        super().__init__(name, default, "B")

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        return s

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        return s, self.default

    def randval(self) -> Any:
        return None


class TrailingOctets(NotOnWireField):
    """Octets that its layer puts after its payload; None if computed."""

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return x.encode("latin-1") if isinstance(x, str) else bytes(x) if isinstance(x, (bytearray, memoryview)) else x


class CRCField(TrailingOctets):
    """A CRC: None if computed, its value, or the octets of the field as they are, be they four or not."""

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return f"{x:#010x}" if isinstance(x, int) else repr(x)

    @staticmethod
    def octets(value: Any) -> bytes:
        """The octets of the field with this value. Raises FramingError if it does not fit 32 bits."""
        return crc_field(value) if isinstance(value, int) else bytes(value)


class NotOnWireListField(PacketListField):
    """A list of packets that its layer puts where they belong; None if computed."""

    def __init__(self, name: str, pkt_cls: type[Packet]) -> None:
        super().__init__(name, [], pkt_cls)
        self.default = None  # which PacketListField would not take

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return None if x is None else super().any2i(pkt, x)

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        return s

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return repr(x)


_NUMBERS: dict[str, dict[str, type[Field[Any, Any]]]] = {
    ">": {"B": ByteField, "H": ShortField, "I": IntField, "Q": LongField},
    "<": {"B": ByteField, "H": LEShortField, "I": LEIntField, "Q": LELongField},
}


def struct_fields(
    struct: Struct,
    names: Sequence[str],
    defaults: Mapping[str, Any],
    others: Mapping[str, Sequence[AnyField]] | None = None,
) -> list[AnyField]:
    """The fields of a header that a struct reads: one by one, by their names; numbers, and ``ns`` for this many octets.

    ``defaults`` are 0 where they are not given; ``others`` have fields in place of one, such as the bits of an octet.
    """
    order, codes = struct.format[0], re.findall(r"\d*[BHIQs]", struct.format)
    fields: list[AnyField] = []
    for name, code in zip(names, codes, strict=True):
        if others is not None and name in others:
            fields += others[name]
        elif code[-1] == "s":
            size = int(code[:-1])
            fields.append(StrFixedLenField(name, defaults.get(name, bytes(size)), size))
        else:
            fields.append(_NUMBERS[order][code](name, defaults.get(name, 0)))
    return fields
