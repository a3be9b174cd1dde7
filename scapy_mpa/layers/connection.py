"""``MPAConnection``: a whole MPA connection at the Scapy prompt, built step by step, packet by packet when iterated.

    c = MPAConnection(initiator="10.0.0.1", responder="10.0.0.2", m=(1, 1))
    c.send("initiator", b"hello").write("responder", 9000)
    wrpcap("c.pcap", c); sendp(c); c.summary(); c[4].show()

``craft`` lays it out and knows nothing of Scapy; here its octets become packets, with an ``FPDU`` layer for each FPDU
that a segment begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

from scapy.base_classes import Gen
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.plist import PacketList
from scapy.utils import EDecimal

from scapy_mpa.craft.conversation import C, Conversation, Layers
from scapy_mpa.craft.setup import ConversationError, Setup
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.truth import Truth
from scapy_mpa.errors import FramingError
from scapy_mpa.framing.markers import MARKER_INTERVAL
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import StartupFrame, decode_startup_frame
from scapy_mpa.layers.uppers import ConnectionUpper
from scapy_mpa.packet.fpdu import FPDU
from scapy_mpa.packet.mpa import fpdu_packet

if TYPE_CHECKING:
    from scapy_mpa.capture.named import CaptureSource

_NANOSECONDS = 1_000_000_000


class MPAConnection(Conversation, Gen[Packet]):
    """A connection to build; it yields its packets each time it is iterated, the same ones for the same seed.

    Its parameters are those of ``craft.setup.Setup``, as in ``m=(1, 0), segmentation="packed", vlan=7``; pairs are the
    Initiator's value and the Responder's. ``impair`` is what happens to the packets on their way, as in
    ``["reorder", "lose:probability=0.1"]`` (see ``craft.impairments``).

    Add steps in order: ``stream``, ``start``, ``send``, ``write``, ``read`` (``read_request``, ``read_response``),
    ``atomic``, ``immediate``, ``terminate``, ``ulpdu``, ``pause``, ``path_mtu``, ``close``. A step that breaks a rule
    of MPA raises ConversationError, unless ``allow`` names the rule.
    """

    def __init__(self, *, impair: str | Iterable[object] = (), **parameters: Any) -> None:
        super().__init__(**parameters)
        self._impair = (impair,) if isinstance(impair, str) else tuple(impair)
        self._traffic()  # says at once what is wrong with it

    @classmethod
    def from_capture(
        cls,
        capture: CaptureSource | Sequence[CaptureSource],
        connection: int = 0,
        *,
        as_messages: bool = False,
        pauses: float | None = None,
        impair: str | Iterable[object] = (),
        **parameters: Any,
    ) -> MPAConnection:
        """Return what both sides of a captured connection sent, as steps that can be changed and written.

        ``told()`` lists the steps, and ``change`` replaces one. Startup frames, addresses, ports, Markers, CRCs and the
        end are as captured; segments, losses and duplicates are not: TCP sends everything again.

        Args:
            capture: A path or an open binary file, or a list of them.
            connection: Its number, as ``scapy-mpa analyze`` has it.
            as_messages: Whether a step is an RDMAP message, cut again; else each FPDU is one, as long as it was.
            pauses: The shortest time in seconds between two FPDUs that is kept as a step; None: none is.
            impair: As for ``MPAConnection``.
            parameters: In place of what was captured, such as ``m=(1, 1)``.

        Raises:
            CaptureError: Nothing of the capture can be read.
            MPAError: There is no connection of that number.
        """
        from scapy_mpa.layers.fromcapture import chosen, said_again
        from scapy_mpa.reading.analysis import analyze

        found = chosen(analyze(capture).connections, connection)
        make = partial(cls, impair=impair)
        return said_again(found, make, as_messages=as_messages, pauses=pauses, parameters=parameters)

    def message(self: C, side: Role, layers: Layers, *, solicited: bool = False, invalidate: int | None = None) -> C:
        """Add a Send with a message of an upper layer; raises ConversationError for a complete FPDU."""
        if isinstance(layers, FPDU):
            raise ConversationError("an FPDU was given: give what its Send carries, as fpdu[RDMAPSend].payload does")
        return super().message(side, layers, solicited=solicited, invalidate=invalidate)

    def __iter__(self) -> Iterator[Packet]:
        """The packets, from the first SYN on, one by one."""
        traffic, uppers = self._traffic(), _Uppers(self.setup)
        return (self._packet(packet, traffic.pipeline.snaplen, uppers) for packet in traffic.packets())

    def __len__(self) -> int:
        """Return the number of packets."""
        return sum(1 for _ in self._traffic().packets())

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Any:
        """Return a packet by its number, from 0, or a slice of them."""
        return self.packets()[index]

    def __repr__(self) -> str:
        ends = " > ".join("{0.address}:{0.port}".format(self.setup.endpoint(role, 0)) for role in ROLES)
        return f"<MPAConnection {ends} {self.setup.profile}, {len(self.steps)} steps>"

    def packets(self) -> PacketList:
        """All packets as a list."""
        return PacketList(list(self), name=repr(self))

    def summary(self, *args: Any, **kwargs: Any) -> None:
        """Print one line per packet."""
        self.packets().summary(*args, **kwargs)

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Print one line per packet, with its number."""
        self.packets().show(*args, **kwargs)

    def truth(self) -> list[dict[str, Any]]:
        """Return what an analysis must find in a capture of it, with the keys of ``scapy-mpa fpdus``; see
        ``craft.truth``.
        """
        traffic, truth = self._traffic(), Truth()
        for packet in traffic.packets():
            truth.note(packet, traffic.pipeline.snaplen)
        return list(truth.records())

    def _traffic(self) -> Traffic:
        return Traffic([self], self._impair, seed=self.setup.seed)

    def _packet(self, packet: TcpPacket, snaplen: int | None, uppers: _Uppers) -> Packet:
        frame = octets_of(packet)
        is_cut = snaplen is not None and len(frame) > snaplen
        made = Ether(frame[:snaplen], stop_dissection_after=TCP if packet.in_operation and not packet.piece else None)
        if is_cut:
            made.wirelen = len(frame)
        upper = None if is_cut else self._upper(packet, uppers)
        if upper is not None:
            tcp = made[TCP]
            tcp.remove_payload()
            tcp.add_payload(upper)
        made.time = EDecimal(packet.time) / _NANOSECONDS
        return made

    def _upper(self, packet: TcpPacket, uppers: _Uppers) -> Packet | None:
        """The FPDUs of a segment that begins with one, and what is left; None if it does not."""
        half = packet.half
        if not packet.in_operation or packet.piece or packet.damage or half.origin is None:
            return None
        at, end = packet.start - half.origin, packet.end - half.origin
        upper: Packet | None = None
        for fpdu in half.fpdus_from(at):
            if fpdu.offset != at or fpdu.end > end:
                break
            first = fpdu.offset - (packet.start - half.origin)
            octets = packet.payload[first : first + fpdu.wire_length]
            layer = fpdu_packet(octets, -at % MARKER_INTERVAL if half.markers else None, half.crc, self.setup.origin)
            uppers.put(layer, half.role, fpdu)
            upper = layer if upper is None else upper / layer
            at = fpdu.end
        if upper is not None and at < end:
            upper = upper / Raw(packet.payload[at - end :])
        return upper


class _Uppers:
    """The upper layer in the Sends of a connection, as its packets pass."""

    def __init__(self, setup: Setup) -> None:
        request, reply = (_startup(setup, role) for role in ROLES)
        self._upper = ConnectionUpper(request, reply, setup.endpoint("responder", 0).port)
        #: Where the next FPDU of each side begins, if all came in their order.
        self._next = dict.fromkeys(ROLES, 0)

    def put(self, layer: FPDU, role: Role, place: LaidFPDU) -> None:
        """Have the Send that begins in an FPDU dissected, whichever packet it is in."""
        in_order = place.offset == self._next[role]
        if in_order:
            self._next[role] = place.end
        self._upper.put(layer, is_from_initiator=role == "initiator", in_order=in_order)


def _startup(setup: Setup, role: Role) -> StartupFrame | None:
    """The startup frame of a side, None if it has none that can be read."""
    if not setup.specification.startup_frames:
        return None
    try:
        return decode_startup_frame(setup.startup_octets(role))
    except FramingError:
        return None


#: ``help`` and completion tell the parameters by name.
MPAConnection.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        one.replace(kind=Parameter.KEYWORD_ONLY)
        for made in (MPAConnection.__init__, Setup)
        for one in signature(made).parameters.values()
        if one.name not in ("self", "parameters")
    ]
)
