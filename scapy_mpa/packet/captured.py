"""The origin of the packets of a session in a capture: the frame, how it was located, the record."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from scapy.packet import Packet

from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord

#: Attributes of a packet that a session found: the packet that it answers, and the one that answers it; None if there
#: is none, or it has not arrived yet.
LINKS = ("request", "answer")


class FoundPacket(NamedTuple):
    """What is known about a packet that a session found: the attributes of the packet, whichever layer is asked.

    Attributes:
        frame: the number of the frame that placed the FPDU (found it bad), or that completed the startup frame.
        located_by: "start", "length", "marker" or "scan"; None of a startup frame.
        record: of the FPDU, with the keys of ``scapy-mpa fpdus``; None of a startup frame.
    """

    frame: int
    located_by: str | None
    record: FPDURecord | None


class _CapturedPacket(Packet):
    """A packet that may know where it comes from, and which packets it asks or answers."""

    name = "captured"
    __slots__ = ["_found", "_links"]

    def be_found(self, found: NamedTuple) -> None:
        """Know where it comes from: the fields of ``found`` are attributes from now on, and so are :data:`LINKS`."""
        self._found: Any = found
        self._links: dict[str, Packet] = {}

    def getfield_and_val(self, attr: str) -> Any:
        with suppress(AttributeError):  # a session need not have found it
            found = object.__getattribute__(self, "_found")
            if attr in found._fields:
                return None, getattr(found, attr)
            if attr in LINKS:
                return None, object.__getattribute__(self, "_links").get(attr)
        return super().getfield_and_val(attr)

    def copy(self) -> Any:
        clone: Any = super().copy()
        with suppress(AttributeError):
            clone._found = object.__getattribute__(self, "_found")
            clone._links = object.__getattribute__(self, "_links")
        return clone


def link(request: Packet, answer: Packet) -> None:
    """Hang a packet and the one that answers it on each other: ``request.answer``, ``answer.request``."""
    for packet, name, other in ((request, "answer", answer), (answer, "request", request)):
        for layer in packet.iterpayloads():
            if isinstance(layer, _CapturedPacket):
                object.__getattribute__(layer, "_links")[name] = other
                break
