"""A field of an FPDU or a startup frame as ``scapy-mpa show`` labels it: where it lies, its name, what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

if TYPE_CHECKING:
    from scapy_mpa.rules.table import Severity

#: What octets of an FPDU or a startup frame are to the eye: each has a colour of its own.
Kind: TypeAlias = Literal["header", "marker", "pad", "crc", "payload"]
KINDS: tuple[Kind, ...] = ("header", "marker", "pad", "crc", "payload")
_KIND_OF: dict[str, Kind] = {"Marker": "marker", "PAD": "pad", "CRC": "crc"}

#: What stands before the names of fields out of the segment that a Terminate is about.
TERMINATED = "terminated "


class FieldValue(NamedTuple):
    """One value in a field, and what it means, "" if its name says it; ``digits`` if it is shown in hexadecimal."""

    name: str
    value: int | str
    meaning: str = ""
    digits: int = 0

    @property
    def shown(self) -> str:
        """The value as people read it."""
        return f"{self.value:#0{self.digits + 2}x}" if self.digits else printable(str(self.value))

    def __str__(self) -> str:
        return f"{self.name} {self.shown}" + (f" ({self.meaning})" if self.meaning else "")


class Field(NamedTuple):
    """A run of octets: its first octet counted from the first one of what holds it, and its length.

    ``layer`` is "MPA", "DDP", "RDMAP" or "payload"; ``parts`` are the values in it; ``severity`` is given where what
    it says is wrong. ``continued`` tells that it is the rest of a field that a Marker divides.
    """

    offset: int
    length: int
    layer: str
    name: str
    parts: tuple[FieldValue, ...] = ()
    note: str = ""
    severity: Severity | None = None
    continued: bool = False

    @property
    def kind(self) -> Kind:
        """Header (MPA's, DDP's or RDMAP's), Marker, PAD, CRC or payload."""
        if self.layer == "payload":
            return "payload"
        return _KIND_OF.get(self.name, "header") if self.layer == "MPA" else "header"

    @property
    def label(self) -> str:
        """The field in words."""
        if self.continued:
            return f"{self.name}, continued"
        if len(self.parts) == 1 and self.parts[0].name == self.name:
            said = str(self.parts[0])
        else:
            values = (str(part).removeprefix(TERMINATED) for part in self.parts)
            said = self.name + (": " if self.parts else "") + ", ".join(values)
        return f"{said}: {self.note}" if self.note else said

    @property
    def value(self) -> int | str | dict[str, int | str] | None:
        """Its value; where it has several, by name; None where it has none but its octets."""
        if len(self.parts) == 1:
            return self.parts[0].value
        return {part.name: part.value for part in self.parts} or None


def one(
    offset: int, length: int, layer: str, name: str, value: int | str, meaning: str = "", *, digits: int = 0
) -> Field:
    """A field with one value."""
    return Field(offset, length, layer, name, (FieldValue(name, value, meaning, digits),))
