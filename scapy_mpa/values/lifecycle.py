"""The lifecycle of a connection from its first frame to its last: values from the watches for the report."""

from __future__ import annotations

from typing import Literal, TypeAlias

from scapy_mpa.framing.ddp import TaggedHeader, Terminate, UntaggedHeader
from scapy_mpa.tuples import NamedTuple

Side: TypeAlias = Literal["initiator", "responder"]
#: What ended a connection; ``lost``: retransmitted in vain (RFC 5044 §8, code 1); ``open``: the capture ends before.
Ended: TypeAlias = Literal["fin", "rst", "terminate", "rejected", "lost", "open"]
#: All of them, those first that ended before the work did.
ENDINGS: tuple[Ended, ...] = ("lost", "terminate", "rejected", "rst", "fin", "open")

#: A frame and its time in nanoseconds since the epoch.
_Moment: TypeAlias = tuple[int, int]


class Quoted(NamedTuple):
    """The message that a Terminate quotes, as far as it was captured and its octets were still available.

    Attributes:
        octets: of its payload, without headers.
        is_whole: whether these are all of it.
        first_frame: the frame that brought its first octet that was available.
        last_frame: the frame that brought the last one.
        segments: DDP Segments.
        misaligned_to: the TO of an Atomic Request that is not 64-bit aligned (RFC 7306 §8.2), None if it is.
    """

    octets: int
    is_whole: bool
    first_frame: int
    last_frame: int
    segments: int
    misaligned_to: int | None = None


class Terminated(NamedTuple):
    """A Terminate message (RFC 5040 §4.8).

    Attributes:
        frame: at which it was placed.
        said: its control word, None if it has none.
        header: the DDP header that it quotes, None without one.
        message: the message with that header, None if that was not found; where a Terminate for an error of its RDMAP
            Stream quotes none, the last Atomic Request before it whose TO is not 64-bit aligned.
        time: of that frame, in nanoseconds since the epoch.
    """

    frame: int
    said: Terminate | None
    header: TaggedHeader | UntaggedHeader | None
    message: Quoted | None
    time: int = 0


class HalfEnd(NamedTuple):
    """The end of one half connection.

    Attributes:
        closed: by its own FIN, or by a RST of either side; None if it was not closed.
        closed_frame: of that FIN or of the first RST.
        resets: RSTs that its sender sent.
        unacknowledged_octets: octets of payload that the peer never acknowledged; 0 if it never acknowledged anything,
            for then nobody knows.
        unacknowledged_messages: RDMAP messages with such octets, as far as that is known.
        in_vain: how often the first of these octets were sent again, if that was in vain; else 0.
        in_vain_frames: the first and the last frame that did.
        terminated: the Terminate that its sender sent.
        is_captured: whether any segment of its sender was captured.
    """

    closed: Literal["fin", "rst"] | None = None
    closed_frame: int | None = None
    resets: int = 0
    unacknowledged_octets: int = 0
    unacknowledged_messages: int = 0
    in_vain: int = 0
    in_vain_frames: tuple[int, int] = (0, 0)
    terminated: Terminated | None = None
    is_captured: bool = True


class Lifecycle(NamedTuple):
    """A connection from its first frame to its last.

    Attributes:
        first: the first frame of its TCP connection, or of its own, if there was another on that before.
        last: the last frame.
        ended: what ended it: what came first.
        ended_by: the side that did that, None if unknown.
        ended_frame: the frame that did; of ``lost`` the last retransmission.
        reset_by: who sent the first RST that counts, None without one.
        reset_frame: its frame.
        ended_time: of ``ended_frame``, in nanoseconds since the epoch, 0 without one.
        reset_time: of ``reset_frame``, likewise.
    """

    first: _Moment
    last: _Moment
    ended: Ended
    ended_by: Side | None
    ended_frame: int | None
    reset_by: Side | None
    reset_frame: int | None
    initiator: HalfEnd
    responder: HalfEnd
    ended_time: int = 0
    reset_time: int = 0

    def half(self, direction: str) -> HalfEnd:
        """The end of what ``direction`` sent."""
        return self.initiator if direction == "initiator" else self.responder

    def came_after_reset(self, frame: int) -> bool:
        """Return True if a RST had ended the connection before a frame, so that nobody places what it brings."""
        return self.reset_frame is not None and frame > self.reset_frame

    @property
    def is_unfinished(self) -> bool:
        """True if it ended before its work did.

        A Terminate, a rejection and retransmissions in vain say so, and a RST while octets were not acknowledged.
        """
        if self.ended in ("terminate", "rejected", "lost"):
            return True
        has_more = self.initiator.unacknowledged_octets or self.responder.unacknowledged_octets
        return self.reset_by is not None and bool(has_more)

    @property
    def is_aborted(self) -> bool:
        """True if a RST followed the FIN of one side before the other had closed, or all octets were acknowledged.

        A FIN closes one half connection only; the RST aborts the connection (RFC 9293 §3.6, §3.10.7.4).
        """
        is_closed = self.initiator.closed == self.responder.closed == "fin"
        return self.ended == "fin" and self.reset_by is not None and (self.is_unfinished or not is_closed)
