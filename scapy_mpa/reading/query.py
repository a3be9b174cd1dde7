"""What is asked of captures: which ones, which part of them, what is already known, and how much may be held."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from scapy_mpa.capture.joining import Joining, sources_of
from scapy_mpa.capture.named import CaptureSource, Sources
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment, addresses_of

if TYPE_CHECKING:
    from scapy.packet import Packet

    from scapy_mpa.ipsec.associations import Associations


#: What can be read: a capture, several as one, or Scapy packets (``rdpcap``'s list, a packet, what yields packets).
Asked: TypeAlias = "CaptureSource | Sequence[CaptureSource] | Iterable[Packet]"


class Selection(NamedTuple):
    """Which segments are examined: frames (first, last), TCP ports, IP addresses (as octets); None means all."""

    frames: tuple[int, int | None] | None = None
    ports: tuple[int, ...] | None = None
    hosts: tuple[bytes, ...] | None = None

    def of(self, segments: list[Segment]) -> list[Segment]:
        """The selected segments."""
        if self.frames is not None:
            first, last = self.frames
            segments = [seg for seg in segments if seg.frame >= first and (last is None or seg.frame <= last)]
        if self.ports is not None:
            ports = {port.to_bytes(2, "big") for port in self.ports}
            segments = [seg for seg in segments if seg.key[-2:] in ports or seg.key[-4:-2] in ports]
        if self.hosts is not None:
            hosts = set(self.hosts)
            segments = [seg for seg in segments if not hosts.isdisjoint(addresses_of(seg.key))]
        return segments

    def takes(self, key: bytes) -> bool:
        """Return True if the ports and addresses of a key are selected."""
        ports = {int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")}
        return (self.ports is None or not ports.isdisjoint(self.ports)) and (
            self.hosts is None or not {*addresses_of(key)}.isdisjoint(self.hosts)
        )


EVERYTHING = Selection()


class Query(NamedTuple):
    """What is asked: the captures with how they become one and the keys of ESP, what is examined of them, what they
    cannot show (the profile is part of that), and how much is held back."""

    sources: Sources
    selection: Selection = EVERYTHING
    assumptions: Assumptions = NOTHING
    limits: Limits = DEFAULT_LIMITS


def query_of(
    capture: Query | Asked,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
    joining: Joining = "auto",
    esp: Associations | str | os.PathLike[str] | None = None,
    udp_ports: Mapping[int, str] | None = None,
) -> Query:
    """Return what is asked of captures, as :func:`scapy_mpa.analyze` takes them; of a query, that query.

    Raises:
        CaptureError: A folder or pattern has no capture, or none that can be read.
        MPAError: The file of keys cannot be used.
    """
    if isinstance(capture, Query):
        return capture
    if "scapy.packet" in sys.modules:
        from scapy_mpa.reading.scapypackets import capture_of, packets_in

        packets = packets_in(capture)
        capture = capture if packets is None else capture_of(packets)
    associations = None
    if esp is not None:
        from scapy_mpa.ipsec.associations import as_associations

        associations = as_associations(esp)
    sources = sources_of(cast("CaptureSource | Sequence[CaptureSource]", capture), joining, limits, associations)
    sources.udp_ports |= {} if udp_ports is None else udp_ports
    return Query(sources, selection, assumptions, limits)
