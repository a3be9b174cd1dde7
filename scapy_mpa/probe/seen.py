"""What a peer sent, without a socket and without a clock: octets in, its startup frame, its FPDUs and its end out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.ddp import TaggedHeader, Terminate, decode_ddp, decode_terminate
from scapy_mpa.framing.markers import Octets
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import ULPDUReceived
from scapy_mpa.live.frames import FrameReader
from scapy_mpa.live.incoming import IncomingHalf
from scapy_mpa.live.settings import unnegotiated
from scapy_mpa.receiver.window import Layout
from scapy_mpa.tuples import NamedTuple

#: The sink of the zero-length RDMA Read whose answer shows that a peer is still in step.
ECHO_STAG: Final = 0x5EED0000
#: Octets of a peer that are kept, to be shown.
_KEPT = 1 << 16
#: FPDUs that are kept, and octets above which nothing more is read: no answer is so long.
_MOST_FPDUS, _MOST_OCTETS = 1 << 12, 1 << 23
#: FPDUs of a peer, and octets of each, that are kept when a case is over.
_SHOWN_FPDUS, _SHOWN_OCTETS = 16, 512
_READ_RESPONSE, _ATOMIC_RESPONSE = 2, 11


class SeenFPDU(NamedTuple):
    """An FPDU of the peer: its ULPDU, and how many seconds after the connection stood it was complete.

    ``cut`` octets of the ULPDU are not kept.
    """

    ulpdu: bytes
    seconds: float
    cut: int = 0

    @property
    def ulpdu_length(self) -> int:
        """Its length."""
        return len(self.ulpdu) + self.cut

    def shortened(self) -> SeenFPDU:
        """The same with the octets that somebody examines."""
        return self._replace(ulpdu=self.ulpdu[:_SHOWN_OCTETS], cut=self.ulpdu_length - len(self.ulpdu[:_SHOWN_OCTETS]))


class _Known(NamedTuple):
    """What the first ``read`` FPDUs of a peer say."""

    read: int = 0
    terminate: Terminate | None = None
    terminate_octets: bytes = b""
    responses: int = 0
    has_answered: bool = False
    has_echoed: bool = False

    def with_next(self, ulpdu: bytes) -> _Known:
        """Return the same with one more."""
        header, said = decode_ddp(ulpdu), decode_terminate(ulpdu)
        known = self._replace(read=self.read + 1)
        if said is not None and known.terminate is None:
            known = known._replace(terminate=said, terminate_octets=ulpdu[18:22])
        if header is None or header.opcode not in (_READ_RESPONSE, _ATOMIC_RESPONSE):
            return known
        is_response = isinstance(header, TaggedHeader) and header.opcode == _READ_RESPONSE
        return known._replace(
            responses=known.responses + (is_response and header.last),
            has_answered=True,
            has_echoed=known.has_echoed
            or (isinstance(header, TaggedHeader) and is_response and header.stag == ECHO_STAG),
        )


@dataclass
class SeenPeer:
    """What a peer did on a connection.

    Attributes:
        octets: the first that the peer sent.
        total: how many it sent.
        frame: its startup frame; None if none was complete and readable.
        fpdus: those that are valid.
        error: why nothing is read on, None if all could be.
        end: how the peer ended it, None if it did not.
        end_after: seconds.
        seconds: how long it was examined.
        unacknowledged: octets of ours that the peer's TCP had not acknowledged by then; None if nobody knows.
        beyond_hole: the most octets of ours that the peer's TCP said it had beyond a hole (RFC 2018); None if nobody
            knows.
        untaken: octets of ours that the peer's TCP did not take in time, because the peer has stopped reading.
        unsupported: what the case needs and the peer does not offer.
        is_cut: not all of the case could be sent: the peer had ended it, or an answer was missing.
        waits_for: what had not come when the rest was left out.
        has_stalled: the peer fell silent within an FPDU.
        frames: numbers of the frames of the capture in which the peer sent octets.
        count: how many FPDUs there were, if not all are kept.
    """

    octets: bytearray = field(default_factory=bytearray)
    total: int = 0
    frame: StartupFrame | None = None
    fpdus: list[SeenFPDU] = field(default_factory=list)
    error: RemoteProtocolError | None = None
    end: Literal["fin", "rst"] | None = None
    end_after: float = 0.0
    seconds: float = 0.0
    unacknowledged: int | None = None
    beyond_hole: int | None = None
    untaken: int = 0
    unsupported: str = ""
    is_cut: bool = False
    waits_for: str = ""
    has_stalled: bool = False
    frames: list[int] = field(default_factory=list)
    count: int = 0
    _read: _Known = field(default=_Known(), init=False, repr=False, compare=False)

    def shortened(self) -> SeenPeer:
        """The same with no more FPDUs than somebody examines, and its Terminate: what is kept of many cases."""
        last = [one for one in self.fpdus[_SHOWN_FPDUS:] if decode_terminate(one.ulpdu) is not None][:1]
        shown = [one.shortened() for one in (*self.fpdus[:_SHOWN_FPDUS], *last)]
        error = self.error
        if error is not None:
            # Where it was raised, everything is known that came.
            error = error.with_traceback(None)
            error.events = ()
            error.__context__ = error.__cause__ = None
        return replace(self, fpdus=shown, count=self.count or len(self.fpdus), error=error)

    @property
    def terminate(self) -> Terminate | None:
        """What its Terminate says."""
        return self._known().terminate

    @property
    def terminate_octets(self) -> bytes:
        """The control word of its Terminate."""
        return self._known().terminate_octets

    @property
    def responses(self) -> int:
        """The number of RDMA Reads that it has answered completely."""
        return self._known().responses

    @property
    def has_answered(self) -> bool:
        """Return True if it answered an RDMA Read or an Atomic Request, or began to."""
        return self._known().has_answered

    @property
    def has_echoed(self) -> bool:
        """True if it answered the RDMA Read that shows that it is in step."""
        return self._known().has_echoed

    def _known(self) -> _Known:
        """Return what the FPDUs say; each is read once, however often this is asked while more arrive."""
        known = self._read
        while known.read < len(self.fpdus):
            known = self._read = known.with_next(self.fpdus[known.read].ulpdu)
        return known


class Watcher:
    """Reads what the peer sends on one connection.

    Args:
        by: our role.
        has_startup_frames: whether the connection begins with some.

    Attributes:
        seen: what came so far.
        own: our startup frame, as far as it is one; set it before the peer's FPDUs come.
    """

    def __init__(self, by: Role, *, has_startup_frames: bool = True) -> None:
        self._by: Role = by
        self.seen = SeenPeer()
        self.own: StartupFrame | None = None
        self._reader: FrameReader | None = None
        self._incoming: IncomingHalf | None = None
        self._early = bytearray()
        if has_startup_frames:
            self._reader = FrameReader("reply" if by == "initiator" else "request")
        else:
            self._incoming = IncomingHalf(Layout(True, True), unnegotiated().profile, peer_of(by))

    def take(self, octets: bytes, seconds: float) -> None:
        """Add octets that arrived this many seconds after the connection was established."""
        seen = self.seen
        seen.total += len(octets)
        seen.octets += octets[: max(0, _KEPT - len(seen.octets))]
        if seen.error is None and seen.total > _MOST_OCTETS:
            seen.error = RemoteProtocolError(f"more than {_MOST_OCTETS} octets, without an end")
        if seen.error is not None:
            return
        rest: Octets | None = octets
        try:
            if seen.frame is None and self._reader is not None:
                rest = self._reader.take(octets)
                seen.frame = self._reader.frame
            if rest and (seen.frame is None or not seen.frame.r):
                self._read(rest, seconds)
        except RemoteProtocolError as error:
            self._note(error.events, seconds)
            seen.error = error

    def begin(self, own: StartupFrame | None, seconds: float) -> None:
        """Our startup frame was sent: what the two agree on is known."""
        self.own = own
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            self.seen.total -= len(early)
            kept = bytes(self.seen.octets)
            self.take(early, seconds)
            self.seen.octets[:] = kept

    def end(self, how: str) -> None:
        """The peer has ended the connection: within an FPDU it must not (RFC 5044 §8, code 1)."""
        if self._incoming is not None and self._incoming.held and self.seen.error is None:
            detail = f"{how} {self._incoming.held} octets into an FPDU"
            self.seen.error = RemoteProtocolError(detail, "connection-lost")

    def stall(self) -> None:
        """Note that nothing more arrives, although something should: octets that have begun no complete FPDU are no
        answer.
        """
        if self._incoming is not None and self._incoming.held and self.seen.error is None:
            detail = f"{self._incoming.held} octets that never become an FPDU"
            self.seen.error = RemoteProtocolError(detail, "fpdu-format")
            self.seen.has_stalled = True

    def _read(self, octets: Octets, seconds: float) -> None:
        if self._incoming is None:
            if self.own is None and self._by == "responder":
                # An Initiator that speaks before the Reply: what it says is read when it is known how it lies.
                self._early += octets[: _KEPT - len(self._early)]
                return
            self._incoming = self._half()
        self._note(self._incoming.take(octets), seconds)

    def _note(self, events: object, seconds: float) -> None:
        assert isinstance(events, (list, tuple))
        found = [SeenFPDU(one.ulpdu, seconds) for one in events if isinstance(one, ULPDUReceived)]
        self.seen.fpdus += found[: max(0, _MOST_FPDUS - len(self.seen.fpdus))]

    def _half(self) -> IncomingHalf:
        frame = self.seen.frame
        assert frame is not None
        request, reply = (self.own, frame) if self._by == "initiator" else (frame, self.own)
        operation = agreed(request, reply)
        markers = operation.markers_from_responder if self._by == "initiator" else operation.markers_from_initiator
        return IncomingHalf(Layout(bool(markers), bool(operation.crc)), operation.profile, peer_of(self._by))
