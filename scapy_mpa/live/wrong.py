"""Where an endpoint can be made to err on purpose: hooks that change the octets it is about to send.

The endpoint itself continues as if it had sent what it meant to.  A test of a probe makes one of these
(:mod:`scapy_mpa.probe.breaking`); without one nothing here is in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.framing.markers import Origin
from scapy_mpa.framing.startup import StartupFrame


class LaysFPDUs(Protocol):
    """Lays FPDUs in the stream of a half connection, as ``craft.stream.HalfStream`` does."""

    @property
    def offset(self) -> int:
        """Octets laid so far, Markers included."""

    def lay(self, ulpdus: Iterable[bytes]) -> tuple[bytes, list[LaidFPDU]]:
        """Append one FPDU for each ULPDU; return their octets and their places."""


class Wrong(Protocol):
    """The errors of one endpoint on one connection.

    Attributes:
        ends: how this side ends the connection after what it queued last, "" if it does not.
        readies: the endpoint sends a ready-to-receive message of its own, where one is agreed on (RFC 6581 §9.2).
    """

    ends: str
    readies: bool

    def startup(self, octets: bytes, peer: StartupFrame | None) -> bytes:
        """Return what is sent in place of a startup frame; ``peer`` is the peer's, if it has arrived."""

    def stream(self, *, markers: bool, crc: bool, origin: Origin) -> LaysFPDUs:
        """Return what lays FPDUs, where this was agreed on."""

    def pieces(self, octets: bytes) -> list[bytes]:
        """A startup frame or an FPDU as the segments in which it is sent."""
