"""The lifecycle of a connection from its first frame to its last, and findings about its end (RFC 5044 §7.2, §8).

In: what is known of both directions when nothing more comes.  Out: the :class:`~scapy_mpa.values.lifecycle.Lifecycle`,
and breaches.  A RST counts if its receiver expected its number, or had acknowledged it; one elsewhere in the window
counts if its sender falls silent (RFC 9293 §3.10.7.4, RFC 5961 §3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.receiver.values import Breach, Moment
from scapy_mpa.stream.connection import Reset, Retransmissions
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.lifecycle import Ended, HalfEnd, Lifecycle, Side, Terminated
from scapy_mpa.watches.counts import Sent
from scapy_mpa.watches.gaps import Closed

#: So many segments with octets that a receiver sent after it had acknowledged an error were not all given to TCP
#: before: those are as many as TCP sends before it hears of its peer (RFC 6928 §2).
FEWEST_AFTER_ERROR: Final = 10
#: So many retransmissions of the same octets, none of them acknowledged, were in vain: RFC 9293 §3.8.3 has a sender
#: report that something is wrong after three.
FEWEST_IN_VAIN: Final = 3
#: Those of nearly all; nobody adds to it.
_NO_RESETS: Final[list[Reset]] = []
#: The end of a direction that is not over and was acknowledged completely.
_OPEN: Final = HalfEnd()


class DirectionEnd:
    """What is known about a direction at the end.

    Attributes:
        last: its last segment, RSTs left out.
        fin: the offset, frame and time of its FIN.
        resets: the RSTs of its sender.
        reset_count: how many there were; ``resets`` are the first ones and the last.
        retransmissions: of the first octets that were not acknowledged.
        start: the offset of the first octet after its SYN, None if that was not captured.
        sent: the offset after the last octet in order.
        acknowledged: the offset up to which the peer acknowledged octets, None before it acknowledged any.
        sacked: octets beyond that which the peer acknowledged selectively.
        messages: RDMAP messages with octets that were not acknowledged.
        terminated: its Terminate.
        error_frame: the frame of the first error of code 2 or 3 in it, None without one.
        has_gap: whether octets of it are missing.
        went_on: what its sender sent after it had acknowledged the first error of a peer, or after that of one that
            deviates; None if there is none.
        went_on_at: the moment of the first segment of that, None if it is not known.
        is_deviating: whether its sender is known to deviate, so that an error is what its peer may accept.
        is_in_operation: whether Full Operation began.
        accepted_resets: the RSTs for which its receiver closed the connection.
        last_moment: the moment of its last segment, even a RST.
        unacknowledged: octets that the peer never acknowledged; 0 if it never acknowledged any, for then that is not
            known.
        is_quiet: no RST, no error, no Terminate, and not sent again in vain.
    """

    __slots__ = (
        "accepted_resets", "acknowledged", "error_frame", "fin", "has_gap", "is_deviating", "is_in_operation",
        "is_quiet", "last", "last_moment", "messages", "reset_count", "resets", "retransmissions", "sacked", "sent",
        "start", "terminated", "unacknowledged", "went_on", "went_on_at",
    )  # fmt: skip

    def __init__(
        self,
        last: Moment,
        fin: tuple[int, int, int] | None,
        resets: Sequence[Reset],
        reset_count: int,
        retransmissions: Retransmissions,
        start: int | None,
        sent: int,
        acknowledged: int | None,
        sacked: int = 0,
        messages: int = 0,
        terminated: Terminated | None = None,
        error_frame: int | None = None,
        has_gap: bool = False,
        went_on: Sent | None = None,
        went_on_at: Moment | None = None,
        is_deviating: bool = False,
        is_in_operation: bool = True,
    ) -> None:
        self.last = self.last_moment = last
        self.fin = fin
        self.resets = resets
        self.accepted_resets = _NO_RESETS
        if resets:
            self.accepted_resets = [one for one in resets if closes(one)]
            self.last_moment = max(last, max([(one.frame, one.time) for one in resets]))
        self.reset_count = reset_count
        self.retransmissions = retransmissions
        self.start = start
        self.sent = sent
        self.acknowledged = acknowledged
        self.sacked = sacked
        self.unacknowledged = 0
        if acknowledged is not None:
            end = sent if fin is None else min(sent, fin[0])
            self.unacknowledged = max(0, end - acknowledged - sacked)
        self.messages = messages
        self.terminated = terminated
        self.error_frame = error_frame
        self.has_gap = has_gap
        self.went_on = went_on
        self.went_on_at = went_on_at
        self.is_deviating = is_deviating
        self.is_in_operation = is_in_operation
        is_whole = error_frame is None and terminated is None
        self.is_quiet = is_whole and not resets and retransmissions.count < FEWEST_IN_VAIN


#: In place of an end that is no longer asked for.
NO_END: Final = DirectionEnd((0, 0), None, (), 0, Retransmissions(), None, 0, None)


class Rejection(NamedTuple):
    """A Reply with R: the offset at which it begins, its moment, and its fields."""

    offset: int
    moment: Moment
    reply: StartupFrame


def closes(reset: Reset) -> bool:
    """Return True if the receiver of a RST closed the connection for it."""
    return reset.place in ("next", "acknowledged") or (reset.place == "window" and reset.follower is None)


def distance(ahead: int, after_start: int | None) -> str:
    """Return how far outside the window a segment lies, in words.

    ``ahead`` is the distance in octets from the one that came next in order, ``after_start`` from the first octet of
    the connection, None where its SYN was not captured.  Sequence numbers are compared modulo 2^32 (RFC 9293 §3.4).
    """
    wraps = (ahead + (1 << 31)) >> 32 << 32
    ahead -= wraps
    after_start = None if after_start is None else after_start - wraps
    if after_start is not None and after_start < -1:
        return f"{-after_start:,} octets before the first octet of the connection"
    if ahead < 0:
        return f"{-ahead:,} octets before the next octet in order"
    return f"{ahead:,} octets after the next octet in order, outside the window"


def after(offset: int, start: int | None) -> int | None:
    """Return how many octets an offset lies after the first octet of the connection, None if that is not known."""
    return None if start is None else offset - start


def closes_in_order(mine: DirectionEnd, peer: DirectionEnd) -> bool:
    """Return True if a direction ends by a FIN after all of its octets, and neither side had a reason to break off."""
    if mine.fin is None or mine.fin[0] != mine.sent or mine.has_gap:
        return False
    reasons = [one.terminated or one.error_frame is not None or one.accepted_resets for one in (mine, peer)]
    return not any(reasons) and not (mine.is_deviating or peer.is_deviating)


def is_known_up_to(one: DirectionEnd, end: int) -> bool:
    """Return True if a direction is known to hold nothing beyond an offset that its peer can have got."""
    acknowledged = one.acknowledged if one.acknowledged is not None else end
    return not one.has_gap and acknowledged <= end + 1 and (one.fin is None or one.fin[0] == end)


def closed_by(mine: DirectionEnd, peer: DirectionEnd) -> Closed | None:
    """Return how a direction was closed: by its FIN, else by the last RST of either side."""
    if mine.fin is not None:
        return Closed("FIN", mine.fin[1:], mine.fin[0])
    if not (mine.accepted_resets or peer.accepted_resets):
        return None
    # A FIN takes a number, too, and may not have been captured.
    resets = [((one.frame, one.time), one.offset - 1) for one in mine.accepted_resets]
    # That of the peer acknowledges what it has received.
    resets += [((one.frame, one.time), max(mine.sent, one.ack or 0)) for one in peer.accepted_resets]
    return Closed("RST", *max(resets))


def _sent_in_vain(mine: DirectionEnd, peer: DirectionEnd) -> int:
    """Return how often octets were retransmitted that the peer, which was silent from then on, never acknowledged."""
    again = mine.retransmissions
    if again.count < FEWEST_IN_VAIN:
        return 0
    is_in_vain = again.at == mine.acknowledged and mine.unacknowledged > 0
    return again.count if is_in_vain and peer.last_moment < again.first else 0


def half_end(mine: DirectionEnd, peer: DirectionEnd) -> HalfEnd:
    """Return the end of a direction."""
    fin, again, octets = mine.fin, mine.retransmissions, mine.unacknowledged
    if fin is None and mine.is_quiet and peer.is_quiet:
        if not octets and mine.last[0]:
            return _OPEN
        messages = mine.messages if octets and mine.is_in_operation else 0
        return HalfEnd(None, None, 0, octets, messages, 0, (0, 0), None, mine.last[0] > 0)
    in_vain = _sent_in_vain(mine, peer)
    resets = [one.frame for one in (*mine.accepted_resets, *peer.accepted_resets)]
    return HalfEnd(
        "fin" if fin is not None else "rst" if resets else None,
        fin[1] if fin is not None else min(resets, default=None),
        mine.reset_count - len(mine.resets) + len(mine.accepted_resets),
        octets,
        mine.messages if octets and mine.is_in_operation else 0,
        in_vain,
        (again.first[0], again.last[0]) if in_vain else (0, 0),
        mine.terminated,
        mine.last[0] > 0 or bool(mine.resets),
    )


def lifecycle(
    first: Moment, initiator: DirectionEnd, responder: DirectionEnd, rejection: Rejection | None
) -> Lifecycle:
    """Return how a connection went whose first frame was captured at a moment."""
    ends = half_end(initiator, responder), half_end(responder, initiator)
    last = max(initiator.last_moment, responder.last_moment)
    has_end = initiator.fin is not None or responder.fin is not None or rejection is not None
    if not has_end and initiator.is_quiet and responder.is_quiet:
        return Lifecycle(min(first, last), last, "open", None, None, None, None, *ends, 0)
    found: list[tuple[int, int, Moment, Ended, Side | None]] = []
    resets: list[tuple[int, int, Side]] = []
    if rejection is not None:
        found.append((rejection.moment[0], 0, rejection.moment, "rejected", "responder"))
    sides: tuple[tuple[Side, DirectionEnd, HalfEnd], ...] = (
        ("initiator", initiator, ends[0]), ("responder", responder, ends[1]),
    )  # fmt: skip
    for side, one, end in sides:
        if end.terminated is not None:
            moment = end.terminated.frame, end.terminated.time
            found.append((moment[0], 1, moment, "terminate", side))
        if one.fin is not None:
            found.append((one.fin[1], 2, one.fin[1:], "fin", side))
        for reset in one.accepted_resets[:1]:
            found.append((reset.frame, 3, (reset.frame, reset.time), "rst", side))
            resets.append((reset.frame, reset.time, side))
        if end.in_vain:
            found.append((end.in_vain_frames[0], 4, one.retransmissions.last, "lost", None))
    ended: Ended
    _, _, moment, ended, by = min(found) if found else (0, 0, (0, 0), "open", None)
    reset_frame, reset_time, reset_by = min(resets, default=(None, 0, None))
    return Lifecycle(
        min(first, last), last, ended, by, moment[0] or None, reset_by, reset_frame, *ends, moment[1], reset_time
    )


def breaches_at_end(mine: DirectionEnd, peer: DirectionEnd) -> Iterable[Breach]:
    """Return what the end of a direction shows: its sender did it."""
    return () if mine.is_quiet and peer.is_quiet else _breaches_at_end(mine, peer)


def _breaches_at_end(mine: DirectionEnd, peer: DirectionEnd) -> Iterator[Breach]:
    yield from _attack_resets(mine)
    octets, at = mine.unacknowledged, mine.acknowledged or 0
    in_vain = _sent_in_vain(mine, peer)
    if in_vain:
        what = f"{octets:,} octets in all"
        detail = f"{in_vain} retransmissions of octets that the peer never acknowledged, {what}"
        yield Breach("connection-lost", at, *mine.retransmissions.last, detail)
    if not mine.is_in_operation:
        return
    by = next((one for one in (peer, mine) if one.accepted_resets), None)
    if octets and by is not None:
        messages = f" of {mine.messages} message{'' if mine.messages == 1 else 's'}" if mine.messages else ""
        who, reset = "their receiver" if by is peer else "their sender", by.accepted_resets[0]
        # The frame may be the receiver's, but the sequence number is the sender's.
        what = f"{octets:,} octets{messages} were not acknowledged when {who} reset the connection"
        detail = f"{what} (RST, frame {reset.frame}); seq is that of the first of them"
        yield Breach("teardown-unacknowledged", at, reset.frame, reset.time, detail)
    is_over = any(one.terminated is not None or one.error_frame is not None for one in (mine, peer))
    if mine.accepted_resets and mine.fin is None and not is_over:
        last = mine.accepted_resets[-1]
        yield Breach("teardown-reset", last.offset, last.frame, last.time, "RST without a FIN before it")
    yield from _close_after_error(mine, peer)


def _close_after_error(mine: DirectionEnd, peer: DirectionEnd) -> Iterator[Breach]:
    """Yield that the receiver of a bad FPDU, which ``peer`` sent, went on, or closed without a Terminate."""
    error, reset, went_on = peer.error_frame, mine.accepted_resets[-1:], mine.went_on
    if error is not None and went_on is not None and went_on.segments >= FEWEST_AFTER_ERROR:
        if not peer.is_deviating:
            frames = f"{went_on.octets:,} octets in frames {went_on.first_frame} to {went_on.last_frame}"
            detail = f"{frames}, after the error of frame {error} was acknowledged"
            yield Breach("error-went-on", went_on.offset, *(mine.went_on_at or mine.last), detail)
        return
    end = mine.fin if mine.fin is not None else (reset[0].offset, reset[0].frame, reset[0].time) if reset else None
    if error is None or end is None or end[1] <= error or mine.terminated is not None or mine.has_gap:
        return
    how = "FIN" if mine.fin is not None else "RST"
    if peer.is_deviating and how == "FIN":
        return  # it may have taken the form for right: a FIN does not show that it broke off
    yield Breach("error-closed", *end, f"{how} after the error of frame {error}, without a Terminate")


def _attack_resets(mine: DirectionEnd) -> Iterator[Breach]:
    """Yield RSTs that somebody else sent: outside the window, or followed by segments of their sender."""
    for reset in mine.resets:
        next_one = reset.follower
        if reset.place == "outside":
            where = distance(reset.offset - reset.expected, after(reset.offset, mine.start))
            detail = f"a RST, {where}: the connection goes on"
            yield Breach("attack-reset", reset.offset, reset.frame, reset.time, detail)
        elif next_one is not None and reset.place == "window":
            detail = f"a segment follows the RST of frame {reset.frame}, whose sequence number was not the next"
            yield Breach("attack-reset", next_one.offset, next_one.frame, next_one.time, detail)
        elif next_one is not None and next_one.new:
            detail = f"{next_one.new:,} octets after the RST of frame {reset.frame}"
            yield Breach("attack-reset", next_one.offset, next_one.frame, next_one.time, detail)


def rejected(rejection: Rejection) -> Breach:
    """Report a Reply with R."""
    size = len(rejection.reply.ulp_data)
    detail = f"a Reply with R, {size:,} octets of Private Data of the ULP" if size else "a Reply with R"
    return Breach("startup-rejected", rejection.offset, *rejection.moment, detail)


def refused(client: DirectionEnd, server: DirectionEnd, names: str) -> tuple[Breach, int] | None:
    """Return that a SYN of ``client`` was answered by RSTs, with how many; None if it was not (RFC 9293 §3.10.7.1).

    ``names`` are the addresses and ports, "A > B".
    """
    answers = [one for one in server.resets if one.ack is not None and one.ack == client.start]
    if client.start is None or server.start is not None or not answers:
        return None
    detail = f"{names}: a SYN is answered with a RST"
    return Breach("tcp-refused", client.start - 1, answers[0].frame, answers[0].time, detail), server.reset_count
