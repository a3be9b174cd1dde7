"""An MPA connection of the capture: startup frames, what was agreed on or inferred, Full Operation of both halves.

The Initiator is whoever sends the MPA Request, which need not be the side that sent the SYN (RFC 5044 §2).  Whoever
follows the TCP connection tells it what happens (:class:`CapturedConnection`'s methods); all others only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from scapy_mpa.framing.profiles import PROFILES, Profile, profile_of_revision
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import SIW_GSO, StartupFrame
from scapy_mpa.infer.inference import Inferred
from scapy_mpa.receive.located import NEVER
from scapy_mpa.receive.operation import FullOperation, PlacedObserver
from scapy_mpa.rules.findings import Findings
from scapy_mpa.tcp.half import Half
from scapy_mpa.values.assumptions import Assumptions
from scapy_mpa.values.lifecycle import Lifecycle, Terminated
from scapy_mpa.values.segment import endpoints
from scapy_mpa.values.startup import PartOfFrame
from scapy_mpa.watch.messages import AtHand, terminated

if TYPE_CHECKING:
    from scapy_mpa.framing.judgement import Judgement


class FoundFrame(NamedTuple):
    """A startup frame in what a half connection sent.

    Attributes:
        startup: what it says.
        start: the offset of its first octet.
        end: the offset after its last octet.
        seq: the sequence number of its first octet.
        frame: the frame that brought the last of its octets to come.
        time: the time of that frame, in nanoseconds since the epoch.
        ack: the acknowledgement number of that segment.
    """

    startup: StartupFrame
    start: int
    end: int
    seq: int
    frame: int
    time: int
    ack: int

    @property
    def end_seq(self) -> int:
        """The sequence number after its last octet."""
        return (self.seq + self.end - self.start) & SEQ_MASK


class Observer(PlacedObserver, Protocol):
    """Who wants startup frames, and the octets of FPDUs, as soon as they mean something."""

    def startup(self, mpa: CapturedConnection, direction: Direction, found: FoundFrame) -> None:
        """A startup frame is complete."""


class CapturedConnection:
    """An MPA connection of the capture: its startup frames, and the Full Operation of both half connections.

    Args:
        initiator: the direction of the TCP connection in which the Initiator sends.
        assumptions: what the user told.
        findings: where what is wrong with it goes.

    Attributes:
        number: of the connection; final when the capture is over.
        request: its MPA Request, None if none was captured.
        reply: its MPA Reply, None if none was captured.
        part: the startup frame of which only a part came, None if there is none.
        rejected: whether the Reply rejects the connection.
        answered_octets: how many octets, none of them of a Request, a Reply without one acknowledges; 0 if not known.
        inferred: whether something that a startup frame says had to be inferred.
        inferences: what each half connection was found to be where there was no startup frame at all.
        crc: whether CRCs are in use.
        judgement: what its startup frames came to, known when it is over or rejected; None if there are none.
        lifecycle: how it went from its first frame to its last, known when it is over.
        terminated: the first Terminate of each direction.
    """

    __slots__ = (
        "_assumptions", "_inferred_profile", "answered_octets", "crc", "findings", "halves", "inferences", "inferred",
        "initiator", "judgement", "lifecycle", "number", "operations", "part", "rejected", "reply", "request",
        "responder", "terminated",
    )  # fmt: skip

    def __init__(self, initiator: Half, assumptions: Assumptions, findings: Findings) -> None:
        self.number = -1
        self.initiator, self.responder = endpoints(initiator.key)
        self.halves = {"initiator": initiator, "responder": initiator.peer}
        self.request: FoundFrame | None = None
        self.reply: FoundFrame | None = None
        self.part: PartOfFrame | None = None
        self.rejected = False
        self.answered_octets = 0
        self.inferred = False
        self.inferences: dict[str, Inferred | None] = {}
        self.crc = False
        self.operations: dict[str, FullOperation] = {}
        self.judgement: Judgement | None = None
        self.lifecycle: Lifecycle | None = None
        self.terminated: dict[str, Terminated] = {}
        self.findings = findings
        self._assumptions = assumptions
        self._inferred_profile = PROFILES["rfc5044"]

    # --- what it is ---

    @property
    def profile(self) -> Profile:
        """The specification that was given, else that its Reply, else its Request, names."""
        found = self.reply or self.request
        named = profile_of_revision(found.startup.rev) if found is not None else self._inferred_profile
        return self._assumptions.profile_instead_of(named)

    @property
    def responder_port(self) -> int:
        """The TCP port of the Responder."""
        return int.from_bytes(self.halves["initiator"].key[-2:], "big")

    def role_of(self, half: Half) -> Direction:
        """Which of both a direction of the TCP connection is."""
        return "initiator" if self.halves["initiator"] is half else "responder"

    def markers(self, direction: str) -> bool | None:
        """Whether this direction carries Markers: its receiver asks by M (RFC 5044 §7.1.1); None if not known."""
        if direction in self.operations:
            return self.operations[direction].markers
        asking = self.reply if direction == "initiator" else self.request
        return bool(asking.startup.m) if asking is not None else None

    @property
    def gso_flag(self) -> str:
        """Whose startup frame has the flag with which siw allows FPDUs that are longer than a segment, "" if none."""
        found = (("Request", self.request), ("Reply", self.reply))
        return " and ".join(name for name, one in found if one is not None and one.startup.res & SIW_GSO)

    def frame_of(self, direction: str) -> FoundFrame | None:
        """The startup frame of a direction, None if it was not captured."""
        return self.request if direction == "initiator" else self.reply

    def startup_length(self, direction: str) -> int | None:
        """Octets of the startup frame of a direction, None if it was not captured."""
        found = self.frame_of(direction)
        return found.end - found.start if found is not None else None

    @property
    def order(self) -> int:
        """The frame that connections are numbered by: of the Request, else the Reply, a part of one, the first FPDU."""
        found = self.request or self.reply or self.part
        if found is not None:
            return found.frame
        return min((operation.settlement.first_frame for operation in self.operations.values()), default=NEVER)

    # --- what happens to it ---

    def take_number(self, number: int) -> None:
        """Be the connection of this number."""
        self.number = number

    def take_request(self, found: FoundFrame) -> None:
        """The Request is complete."""
        self.request = found
        self._agree()

    def take_reply(self, found: FoundFrame, answered_octets: int) -> None:
        """The Reply is complete; it acknowledges so many octets, none of them of a Request, as far as is known."""
        self.reply, self.answered_octets = found, answered_octets
        self._agree()

    def take_part(self, part: PartOfFrame) -> None:
        """Of one startup frame no more came than this."""
        self.part = self.part or part

    def _agree(self) -> None:
        """One startup frame more is known: either asks for CRCs in both directions (RFC 5044 §7.1.1)."""
        self.crc = any(found is not None and found.startup.c for found in (self.request, self.reply))
        self.findings.judge_by(self.profile.name)

    def forget_frame(self, direction: Direction) -> None:
        """The startup frame of this direction was damaged on its way."""
        if direction == "initiator":
            self.request = None
        else:
            self.reply = None

    def reject(self) -> None:
        """Its Reply rejects it (RFC 5044 §7.1.2)."""
        self.rejected = True

    def infer(self, crc: bool, profile: Profile | None = None) -> None:
        """Startup frames do not say all of it: whether CRCs are in use was inferred, or even the specification."""
        self.inferred, self.crc = True, crc
        if profile is not None:
            self._inferred_profile = profile
            self.findings.judge_by(self.profile.name)

    def begin(self, operation: FullOperation, inferred: Inferred | None) -> None:
        """Full Operation of a half connection begins, perhaps anew; it is what it was inferred to be, if it was."""
        self.operations[operation.direction] = operation
        if inferred is not None:
            self.inferences[operation.direction] = inferred

    def look_at_terminate(self, direction: Direction) -> None:
        """Look for the message that the Terminate of a direction quotes, before its octets go; once."""
        peer = self.operations.get("responder" if direction == "initiator" else "initiator")
        located = self.operations[direction].watches.terminate
        if located is not None and direction not in self.terminated:
            self.terminated[direction] = terminated(located, AtHand(peer) if peer is not None else None)

    def end(self, lifecycle: Lifecycle) -> None:
        """It is over."""
        self.lifecycle = lifecycle

    def judge(self) -> Judgement | None:
        """Judge its startup frames, and the first FPDUs as far as there are any; None without any frame."""
        # Imported only when a connection ends: it takes a while.
        from scapy_mpa.framing.deviations import Seen
        from scapy_mpa.framing.judgement import judge

        request = self.request.startup if self.request is not None else None
        reply = self.reply.startup if self.reply is not None else None
        if request is None and reply is None:
            return None
        first = {direction: operation.opening.ulpdu for direction, operation in self.operations.items()}
        seen = Seen(first.get("initiator"), first.get("responder"))
        self.judgement = judge(request, reply, seen, self.responder_port)
        return self.judgement
