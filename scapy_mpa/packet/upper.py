"""What all layers above RDMAP have in common, and which of them the octets of a Send are.

Nothing in a Send's octets says which protocol it is of: the connection does, by what it negotiated, by its port, by its
first messages.  :mod:`scapy_mpa.ulp` knows that and recognises headers; here a header becomes a class, and the class
says in ``summary()`` what :mod:`scapy_mpa.ulp` says about its octets.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.config import conf
from scapy.layers.inet import TCP
from scapy.packet import Packet, Raw

from scapy_mpa.packet.captured import _CapturedPacket
from scapy_mpa.packet.ddp import DDPUntagged, summarized_below
from scapy_mpa.ulp.header import Protocol, UpperHeader
from scapy_mpa.ulp.identify import PORTS, UNKNOWN_LENGTH, header_of


class _UpperPacket(Packet):
    """A message of an upper layer, or the header of one.

    A class says of which ``protocol`` it is, as reports call it, which ``kinds`` of its messages it dissects (as
    :func:`_kind` has them), and whether the Initiator sends them (where both sides do: True).
    """

    name = "upper layer"
    protocol: ClassVar[Protocol]
    kinds: ClassVar[tuple[str, ...]] = ()
    is_from_initiator: ClassVar[bool] = True

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for kind in cls.__dict__.get("kinds", ()):
            _CLASSES[cls.protocol, kind] = cls

    def header(self) -> UpperHeader | None:
        """Return the content of the header, as the messages of a report have it; None if there is none."""
        octets = bytes(self)
        for length in (len(octets), UNKNOWN_LENGTH):
            found = header_of(self.protocol, octets, length, self.is_from_initiator)
            if found is not None:
                return found
        return None

    def mysummary(self) -> Any:
        found = self.header()
        text = f"{self.protocol}: {found.text}{self._asked()}" if found is not None else str(self.name)
        return text, [*summarized_below(), *CarriesUpper.__subclasses__()]

    def _asked(self) -> str:
        """What the call asks for that this is known to reply to, as a session of messages knows it; or ""."""
        below = self.underlayer
        while below is not None and not isinstance(below, _CapturedPacket):
            below = below.underlayer
        request = getattr(below, "request", None)
        for layer in request.iterpayloads() if isinstance(request, Packet) else ():
            if isinstance(layer, _UpperPacket) and (found := layer.header()) is not None:
                asked = found.values.get("call") or found.values.get("command")
                return f", to {asked}" if asked is not None else ""
        return ""

    def hashret(self) -> bytes:
        return b""


class CarriesUpper(Packet):
    """An RDMAP message whose payload may be an upper layer's: by the TCP port below, or as :func:`put_upper` has it."""

    name = "carries an upper layer"

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        return _layer_by_port(self, bytes(payload)) or super().guess_payload_class(payload)


#: The layer of each kind of message; ``rdmap`` imports them all.
_CLASSES: dict[tuple[str, str], type[Packet]] = {}


def layer_of(header: UpperHeader | None) -> type[Packet] | None:
    """The layer that dissects a message with this header; None if there is none."""
    if header is None:
        return None
    kind = _kind(header)
    return _CLASSES.get((header.protocol, kind)) or _CLASSES.get((header.protocol, kind.partition(" ")[0]))


def _kind(header: UpperHeader) -> str:
    """Return the kind of message in its protocol."""
    values = header.values
    capsule = values.get("capsule")
    if capsule != "command":
        return capsule or values.get("message") or ""
    fabrics, queue = values["fctype"], values["queue"]
    if fabrics is not None:
        return f"fabrics {fabrics}"
    return "command" if queue is None else f"command {'io' if queue else 'admin'}"


def _layer_by_port(send: Packet, octets: bytes) -> type[Packet] | None:
    """The layer of the octets of a Send by the TCP ports below it; None if these say nothing, or nothing that fits."""
    below: Any = send.underlayer
    if not isinstance(below, DDPUntagged) or below.mo:
        return None
    length = len(octets) if below.l else UNKNOWN_LENGTH
    while below is not None and not isinstance(below, TCP):
        # FPDUs of one segment are in a list.
        below = below.underlayer or below.parent
    if below is None:
        return None
    for port, is_from_initiator in ((below.dport, True), (below.sport, False)):
        protocol = PORTS.get(port)
        if protocol is not None:
            return layer_of(header_of(protocol, octets, length, is_from_initiator))
    return None


def put_upper(packet: Packet, cls: type[Packet]) -> None:
    """Have the payload of the Send in a packet dissected as ``cls``, if it is octets yet."""
    for layer in packet.iterpayloads():
        if isinstance(layer, CarriesUpper):
            if type(layer.payload) is Raw:
                _dissect(layer, bytes(layer.payload), cls)
            return


def _dissect(send: Packet, octets: bytes, cls: type[Packet]) -> None:
    send.remove_payload()
    try:
        upper = cls(octets, _internal=1, _underlayer=send)
    except Exception:
        if conf.debug_dissector:
            raise
        upper = conf.raw_layer(octets, _internal=1, _underlayer=send)
    send.add_payload(upper)


def upper_of(packet: Packet) -> type[Packet] | None:
    """The upper layer in a packet, None if there is none."""
    for layer in packet.iterpayloads():
        if isinstance(layer, _UpperPacket):
            return type(layer)
    return None
