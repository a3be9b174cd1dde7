"""Where in a capture the packets of a session come from: the frame, how it was located, the record."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from scapy.packet import Packet

from scapy_mpa.values.records import FPDURecord


class FoundPacket(NamedTuple):
    """What is known of a packet that a session found: the attributes of the packet, whatever layer is asked.

    Attributes:
        frame: the number of the frame that placed the FPDU (found it bad), or that completed the startup frame.
        located_by: "start", "length", "marker" or "scan"; None of a startup frame.
        record: of the FPDU, with the keys of ``scapy-mpa fpdus``; None of a startup frame.
    """

    frame: int
    located_by: str | None
    record: FPDURecord | None


class _CapturedPacket(Packet):
    """A packet that may know where it comes from."""

    name = "captured"
    __slots__ = ["_found"]

    def be_found(self, found: FoundPacket) -> None:
        """Know where it comes from."""
        self._found = found

    def getfield_and_val(self, attr: str) -> Any:
        if attr in FoundPacket._fields:
            with suppress(AttributeError):  # a session need not have found it
                return None, getattr(object.__getattribute__(self, "_found"), attr)
        return super().getfield_and_val(attr)

    def copy(self) -> Any:
        clone: Any = super().copy()
        with suppress(AttributeError):
            clone.be_found(object.__getattribute__(self, "_found"))
        return clone
