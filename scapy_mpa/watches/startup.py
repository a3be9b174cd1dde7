"""Faults of the Startup Phase: its frames, their order, and how Full Operation begins (RFC 5044 §7.1).

In: what both directions show of it when nothing more comes.  Out: breaches, each with the role of who broke the rule,
and rules that this explains otherwise.  Frames of a capture come in the order in which they passed the tap, which is
not always that of the endpoints; the acknowledgement number of a segment says what its sender had received (§7.1.2,
§7.1.5).

What :mod:`scapy_mpa.framing.judgement` states of two startup frames is placed and dated: a breach of a frame shows at
that frame, one of their pair at the Reply, and one of the beginning of Full Operation at the first FPDU of whoever did
it (RFC 5044 §7.1, §7.1.2 and appendix C; RFC 6581 §6, §9 and §10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from scapy_mpa.framing.deviations import Seen
from scapy_mpa.framing.judgement import Judgement, judge
from scapy_mpa.framing.markers import MARKER_LENGTH, SHORTEST_FPDU
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.framing.startup import (
    ERDMA_KEY_LENGTH,
    REPLY_KEY,
    REQUEST_KEY,
    STARTUP_HEADER_LENGTH,
    Kind,
    startup_frame_problems,
)
from scapy_mpa.infer.evidence import HEADER_OCTETS
from scapy_mpa.receiver.startup import FoundFrame, OtherOctets
from scapy_mpa.receiver.values import Breach, Moment
from scapy_mpa.receiver.window import Layout
from scapy_mpa.stream.connection import Arrival
from scapy_mpa.stream.copies import Rival
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.startup import PartOfFrame, StartupEvent
from scapy_mpa.watches.copies import CopyWatch
from scapy_mpa.watches.ddp import is_plain_header
from scapy_mpa.watches.fpdus import FirstFPDU
from scapy_mpa.watches.gaps import DROPPED
from scapy_mpa.watches.lifecycle import DirectionEnd

#: How long the answer to a startup frame, or a close, is waited for, nanoseconds: RFC 5044 §7.1.2, rule 10, has an
#: endpoint wait for a "reasonable" time; no stack that was captured waits so long.
PATIENCE: Final = 10_000_000_000
#: Connections of an address, each with a part of a Request alone, that show a habit: fewer are accidents.
FEWEST_OF_AN_ADDRESS: Final = 16
#: What is reported where something came in place of a Reply, and of an Initiator that did not wait for one.
_NO_SILENCE: Final = {
    "responder": ("startup-key", "startup-role", "startup-frame", "startup-pd-length"),
    "initiator": ("startup-pd-length", "startup-fpdu-before-reply"),
}
#: What is judged by the first FPDU, not by the frames.
_BY_FIRST_FPDU: Final = frozenset(
    (
        "startup-fpdu-after-rejection", "startup-not-closed", "rtr", "rtr-not-closed", "rnic-version",
        "rnic-version-mixed", "terminate-code",
    )
)  # fmt: skip
#: What octets are taken for that turn out to be Private Data that PD_Length does not count.
_TAKEN_FOR_FPDUS: Final = frozenset(("connection-lost", "fpdu-format", "marker-first", "marker-length"))


class StartupSide:
    """One direction of a connection whose startup is judged.

    Attributes:
        base: the sequence number of offset 0.
        end: how it ended.
        frame: its startup frame, of whatever kind.
        part: a startup frame that arrived only in part.
        garbled: its first octets, if they are nearly a Key.
        after_rejection: the moment of the first octet of an FPDU after a Reply with R.
        opening: the first segment with the first octet after the startup frame, where Full Operation began.
        first: the first FPDU.
        first_octets: the first octets after the startup frame, if no FPDU was found there.
        fpdus: how many were found.
        layout: how FPDUs lie, None if Full Operation did not begin.
    """

    __slots__ = (
        "after_rejection", "base", "end", "first", "first_octets", "fpdus", "frame", "garbled", "layout", "opening",
        "part",
    )  # fmt: skip

    def __init__(
        self,
        base: int,
        end: DirectionEnd,
        frame: FoundFrame | None = None,
        part: PartOfFrame | None = None,
        garbled: OtherOctets | None = None,
        after_rejection: Moment | None = None,
        opening: Arrival | None = None,
        first: FirstFPDU | None = None,
        first_octets: bytes = b"",
        fpdus: int = 0,
        layout: Layout | None = None,
    ) -> None:
        self.base = base
        self.end = end
        self.frame = frame
        self.part = part
        self.garbled = garbled
        self.after_rejection = after_rejection
        self.opening = opening
        self.first = first
        self.first_octets = first_octets
        self.fpdus = fpdus
        self.layout = layout

    def offset_of(self, seq: int) -> int:
        """Return the offset of a sequence number, the one nearest to the startup frame."""
        return seq_diff(seq, self.base)

    def seq_of(self, offset: int) -> int:
        """Return the sequence number of an offset."""
        return (self.base + offset) & SEQ_MASK

    @property
    def begins_with_fpdu(self) -> bool:
        """True if the first octets may be those of an FPDU, damaged or not complete: by length and DDP header."""
        first, layout = self.first, self.layout
        if first is not None and layout is not None:
            return layout.crc or is_plain_header(first.ulpdu, first.ulpdu_length)
        if self.frame is not None and self.end.fin is not None and self.end.fin[0] - self.frame.end < SHORTEST_FPDU:
            return False
        return may_begin_with_fpdu(self.first_octets[MARKER_LENGTH if layout is not None and layout.markers else 0 :])

    @property
    def continues_frame(self) -> bool:
        """True if the first octets share a segment with the startup frame, and are no FPDU."""
        opening, frame = self.opening, self.frame
        is_shared = opening is not None and frame is not None and opening.start < frame.end
        return is_shared and not self.begins_with_fpdu


class StartupPhase:
    """The Startup Phase of a connection.

    Attributes:
        initiator, responder: its directions.
        unexpected: what the Responder sent when it had the Request, before the Reply or in its place.
        answered_octets: how many octets, none of them of a Request, a Reply without one acknowledges; 0 if not known.
        rejected: whether the Reply rejects the connection.
        is_accepted: whether a startup frame was wrong, and FPDUs follow anyway.
        initiator_first: whether its specification has the Initiator send the first FPDU.
        responder_port: the TCP port of the Responder.
        request: the Request, None if the Initiator sent none.
        reply: the Reply, None if the Responder sent none.
        has_begun: whether Full Operation began in a direction.
    """

    __slots__ = (
        "answered_octets", "has_begun", "initiator", "initiator_first", "is_accepted", "rejected", "reply", "request",
        "responder", "responder_port", "unexpected",
    )  # fmt: skip

    def __init__(
        self,
        initiator: StartupSide,
        responder: StartupSide,
        unexpected: OtherOctets | None = None,
        answered_octets: int = 0,
        rejected: bool = False,
        is_accepted: bool = False,
        initiator_first: bool = True,
        responder_port: int = 0,
    ) -> None:
        self.initiator = initiator
        self.responder = responder
        self.unexpected = unexpected
        self.answered_octets = answered_octets
        self.rejected = rejected
        self.is_accepted = is_accepted
        self.initiator_first = initiator_first
        self.responder_port = responder_port
        self.request = _of_kind(initiator, "request")
        self.reply = _of_kind(responder, "reply")
        self.has_begun = initiator.layout is not None or responder.layout is not None

    def side(self, role: Role) -> StartupSide:
        """Return the direction of a role."""
        return self.initiator if role == "initiator" else self.responder


def _of_kind(side: StartupSide, kind: Kind) -> FoundFrame | None:
    """Return the startup frame of a direction if it is of a kind."""
    found = side.frame
    return found if found is not None and found.startup.kind == kind else None


class StartupFindings:
    """The findings about the Startup Phase of a connection.

    Attributes:
        breaches: rules that were broken, and by whom.
        forgotten: rules that were not broken, though FPDUs seemed to show it, and by whom.
        judgement: what the startup frames came to, None without any.
    """

    __slots__ = ("breaches", "forgotten", "judgement")

    def __init__(self) -> None:
        self.breaches: list[tuple[Role, Breach]] = []
        self.forgotten: list[tuple[Role, frozenset[str]]] = []
        self.judgement: Judgement | None = None

    def add(self, role: Role, breaches: Iterable[Breach]) -> None:
        """Add rules that a role broke."""
        self.breaches += [(role, one) for one in breaches]

    def has(self, role: Role, rules: Sequence[str]) -> bool:
        """Return True if a role broke one of these rules."""
        return any(role == by and one.rule in rules for by, one in self.breaches)


def judge_startup(startup: StartupPhase, now: Moment) -> StartupFindings:
    """Judge the Startup Phase of a connection, nothing more coming at a moment."""
    found = StartupFindings()
    initiator, responder, request, reply = startup.initiator, startup.responder, startup.request, startup.reply
    for role in ROLES:
        side, peer = (initiator, responder) if role == "initiator" else (responder, initiator)
        if side.part is not None:
            found.add(role, _unfinished(side, side.part, peer, now))
        if side.frame is not None and side.after_rejection is not None:
            where = side.frame.end, *side.after_rejection
            found.add(role, [Breach("startup-fpdu-after-rejection", *where, "an FPDU after a Reply with R")])
        if side.frame is not None and side.frame is not (request if role == "initiator" else reply):
            found.add(role, [_same_role(side.frame)])
    _judge_keys(startup, found)
    if request is not None and reply is not None:
        _judge_order(startup, request, reply, found)
    if request is not None and request.under_way:
        detail = f"{request.under_way:,} octets were not acknowledged when the Request was sent"
        found.add("initiator", [_at_frame("startup-stream-data", request, detail)])
    _judge_negotiation(startup, found)
    if request is not None and reply is None and not startup.has_begun:
        _judge_octets_after_request(startup, request, found)
    if request is not None and not startup.has_begun and not startup.rejected:
        _judge_silence(startup, request, now, found)
    is_begun = initiator.layout is not None and responder.layout is not None
    if reply is not None and startup.initiator_first and is_begun:
        _judge_first_octets(startup, reply, found)
    if reply is not None and request is None:
        if initiator.frame is not None:
            detail = "a Reply to something that is not a Request: that is also a Reply"
            found.add("responder", [_at_frame("startup-invalid-answered", reply, detail)])
        else:
            _judge_reply_alone(startup, reply, found)
    damaged: list[tuple[Role, Breach]] = []
    for role in ROLES:
        frame = initiator.frame if role == "initiator" else responder.frame
        if frame is not None and frame.is_damaged:
            damaged.append((role, _at_frame("tcp-checksum", frame, DROPPED)))
    # What its receiver took for the frame was not captured, and may have been right.
    found.breaches = damaged or found.breaches
    return found


def is_before(one: int, other: int) -> bool:
    """Return True if a sequence number lies before another (RFC 9293 §3.4)."""
    return seq_diff(one, other) < 0


def _at_frame(rule: str, found: FoundFrame, detail: str) -> Breach:
    return Breach(rule, found.start, found.frame, found.time, detail)


# --- single frames ---


def _same_role(found: FoundFrame) -> Breach:
    """Report a startup frame that the other side has sent already, or has to send."""
    what = "a second MPA Request" if found.startup.kind == "request" else "an MPA Reply from the Initiator"
    return _at_frame("startup-role", found, f"{what}: both sides are in the same role")


def _unfinished(side: StartupSide, part: PartOfFrame, peer: StartupSide, now: Moment) -> Iterator[Breach]:
    """Yield a startup frame that arrived only in part, if no more will arrive, and why."""
    if part.is_damaged:
        yield Breach("tcp-checksum", side.offset_of(part.seq), part.frame, part.time, DROPPED)
        return
    ends = [
        (moment, how)
        for end, fin, rst in ((side.end, "FIN", "RST"), (peer.end, "FIN of the peer", "RST"))
        for moment, how in ((end.fin and end.fin[1:], fin), (_last_reset(end), rst))
        if moment
    ]
    if ends:
        when, how = min([one for one in ends if one[0][0] >= part.frame] or ends)
    elif now[1] - part.time >= PATIENCE:
        when, how = now, f"no more for {(now[1] - part.time) / 1e9:.3f} s"
    else:
        return
    rule = "startup-pd-length" if part.has_header else "startup-frame"
    yield Breach(rule, side.offset_of(part.seq), *when, f"{how} after {part}")


def _last_reset(end: DirectionEnd) -> Moment | None:
    return (end.accepted_resets[-1].frame, end.accepted_resets[-1].time) if end.accepted_resets else None


def garbled_key(garbled: OtherOctets) -> Breach:
    """Report first octets that are nearly a Key; of a connection without MPA its owner says which one it is."""
    where = garbled.offset, garbled.frame, garbled.time
    short, longer = (garbled.beginning[:length] for length in (ERDMA_KEY_LENGTH, ERDMA_KEY_LENGTH + 1))
    # What continues as a Key is a complete one, damaged.
    is_short = any(key.startswith(short) and not key.startswith(longer) for key in (REQUEST_KEY, REPLY_KEY))
    known = ": a Key of 12 octets, as the first drivers of erdma send it" if is_short else ""
    return Breach("startup-key", *where, f"no startup frame: it begins with {garbled.beginning!r}{known}")


def _judge_keys(startup: StartupPhase, found: StartupFindings) -> None:
    """Report octets in place of the Reply, and startup frames with a wrong Key that their peer accepted."""
    request, reply, other = startup.initiator.frame, startup.reply, startup.unexpected
    if request is None and startup.responder.frame is None:
        for role in ROLES:
            garbled = startup.side(role).garbled
            found.add(role, [garbled_key(garbled)] if garbled is not None else [])
    if reply is not None and reply.key:
        beginning = f"no MPA Reply: it begins with {reply.key!r}"
        found.add("responder", [Breach("startup-key", reply.start, reply.frame, reply.time, beginning)])
        first = startup.initiator.first
        if first is not None:
            detail = "an FPDU from the side that must close: the Reply has a different Key"
            found.add("initiator", [Breach("startup-not-closed", 0, *first.known, detail)])
    elif startup.responder.frame is None and startup.responder.part is None and other is not None:
        detail = f"no MPA Reply: it begins with {other.beginning!r}"
        found.add("responder", [Breach("startup-key", other.offset, other.frame, other.time, detail)])
    if reply is not None and request is not None and request.key:
        garbled = OtherOctets(request.start, request.frame, request.time, request.key)
        _judge_garbled_request(garbled, reply, found)


def _judge_garbled_request(garbled: OtherOctets, reply: FoundFrame, found: StartupFindings) -> None:
    found.add("initiator", [garbled_key(garbled)])
    detail = "a Reply to something that is not a Request: its Key is different"
    found.add("responder", [_at_frame("startup-invalid-answered", reply, detail)])


def _judge_reply_alone(startup: StartupPhase, reply: FoundFrame, found: StartupFindings) -> None:
    """Report a Reply without a Request, if it is known that there was none."""
    side = startup.initiator
    if side.end.start is not None and reply.ack == side.seq_of(side.end.start):
        detail = "the Reply acknowledges no octet, so there was no Request"
    elif side.garbled is not None:
        _judge_garbled_request(side.garbled, reply, found)
        return
    elif startup.answered_octets:
        detail = f"the Reply acknowledges {startup.answered_octets:,} octets, and there is no Request in them"
    else:
        return
    found.add("responder", [_at_frame("startup-reply-first", reply, detail)])


# --- their order ---


def _judge_order(startup: StartupPhase, request: FoundFrame, reply: FoundFrame, found: StartupFindings) -> None:
    """Report in which order both startup frames were sent, as their acknowledgement numbers say."""
    unexpected = startup.unexpected
    if not reply.ack or not request.ack:
        return  # nobody knows what their senders had received
    received = max(seq_diff(reply.ack, request.seq), 0)
    if is_before(reply.ack, request.end_seq):
        detail = f"the Reply acknowledges {received:,} of the {request.end - request.start:,} octets of the Request"
        found.add("responder", [_at_frame("startup-reply-first", reply, detail)])
    elif unexpected is not None:
        detail = f"{reply.start - unexpected.offset:,} octets between the Request and the Reply"
        where = unexpected.offset, unexpected.frame, unexpected.time
        found.add("responder", [Breach("startup-octets-before-reply", *where, detail)])
    elif is_before(request.ack, reply.seq):
        under_way = seq_diff(reply.seq, request.ack)
        detail = f"{under_way:,} octets of the Responder were in flight when the Initiator sent its Request"
        found.add("responder", [_at_frame("startup-stream-data", reply, detail)])
    # A side that replied before the header was complete did not check PD_Length.
    if STARTUP_HEADER_LENGTH <= received < request.end - request.start and not is_before(request.ack, reply.end_seq):
        detail = (
            f"PD_Length {request.startup.pd_length}: the last octets of the Request's Private Data were sent after the "
            "Reply"
        )
        found.add("initiator", [_at_frame("startup-pd-length", request, detail)])


def _judge_octets_after_request(startup: StartupPhase, request: FoundFrame, found: StartupFindings) -> None:
    """Report octets after the Request that were sent before a Reply was received, if there was none."""
    side, opening = startup.initiator, startup.initiator.opening
    if opening is None or opening.ack != request.ack:
        return
    if opening.start < request.end and not may_begin_with_fpdu(side.first_octets):
        found.add("initiator", [_longer(request, opening)])
    else:
        detail = "octets after the Request, before a Reply was received"
        where = max(opening.start, request.end), opening.frame, opening.time
        found.add("initiator", [Breach("startup-fpdu-before-reply", *where, detail)])


def _longer(frame: FoundFrame, opening: Arrival) -> Breach:
    """Report octets in the segment that ends a startup frame which its PD_Length does not count."""
    more = opening.end - frame.end
    detail = (
        f"PD_Length {frame.startup.pd_length}, but {more:,} more octets, which are not an FPDU, in the same segment"
    )
    return Breach("startup-pd-length", frame.start, opening.frame, opening.time, detail)


def _judge_first_octets(startup: StartupPhase, reply: FoundFrame, found: StartupFindings) -> None:
    """Report what the first octets of Full Operation, in either direction, came before."""
    initiator, responder, request = startup.initiator, startup.responder, startup.request
    opening = initiator.opening
    answered = request is not None and reply.ack is not None and not is_before(reply.ack, request.end_seq)
    if answered and opening is not None and opening.ack and is_before(opening.ack, reply.end_seq):
        if _took_for_whole(initiator, opening, reply):
            detail = f"PD_Length {reply.startup.pd_length}: the last octets of its Private Data were sent after an FPDU"
            found.add("responder", [_at_frame("startup-pd-length", reply, detail)])
        elif initiator.continues_frame and request is not None:
            _add_longer("initiator", initiator, request, opening, found, reply)
        else:
            what = "an FPDU" if initiator.begins_with_fpdu else "octets"
            is_request = initiator.first_octets.startswith(REQUEST_KEY)
            what = "a second Request" if is_request else f"{what} after the Request,"
            detail = f"{what} before the Reply was received"
            where = 0, opening.frame, opening.time
            found.add("initiator", [Breach("startup-fpdu-before-reply", *where, detail)])
    opening, first = responder.opening, initiator.first
    # What the Responder must have received by then: an FPDU, or at least an octet of it.
    needed = initiator.seq_of(first.end if first is not None and first.end else 1)
    if opening is None or not opening.ack or not is_before(opening.ack, needed):
        return
    if responder.continues_frame:
        _add_longer("responder", responder, reply, opening, found)
    else:
        what = "a second Reply" if responder.first_octets.startswith(REPLY_KEY) else "an FPDU"
        detail = f"{what} before the first FPDU of the Initiator"
        if first is not None:
            detail += f", which came at frame {first.known[0]}"
        where = 0, opening.frame, opening.time
        found.add("responder", [Breach("startup-responder-first", *where, detail)])


def _add_longer(
    role: Role,
    side: StartupSide,
    frame: FoundFrame,
    opening: Arrival,
    found: StartupFindings,
    answer: FoundFrame | None = None,
) -> None:
    if not side.fpdus:
        found.forgotten += (role, _TAKEN_FOR_FPDUS), (peer_of(role), frozenset(("error-closed",)))
    found.add(role, [_longer(frame, opening)])
    if answer is not None and answer.ack is not None and not is_before(answer.ack, side.seq_of(opening.end)):
        detail = "a Reply to an improperly formatted Request (it acknowledges more octets than PD_Length counts)"
        found.add("responder", [_at_frame("startup-invalid-answered", answer, detail)])


def _took_for_whole(initiator: StartupSide, opening: Arrival, reply: FoundFrame) -> bool:
    """Return True if the Initiator's first octets follow a part of the Reply, which continued when it had these.

    Then it was the Private Data that was shorter than PD_Length, and what continued it is something else.
    """
    begun = opening.ack is not None and not is_before(opening.ack, (reply.seq + STARTUP_HEADER_LENGTH) & SEQ_MASK)
    return begun and reply.ack is not None and is_before(initiator.seq_of(opening.start), reply.ack)


def may_begin_with_fpdu(octets: bytes) -> bool:
    """Return True if octets, as far as they exist, may be an FPDU without Markers: by length and DDP header."""
    if len(octets) < 2 + HEADER_OCTETS:
        return True  # nobody knows
    return is_plain_header(octets[2:], octets[0] << 8 | octets[1])


# --- what they came to ---


def _judge_negotiation(startup: StartupPhase, found: StartupFindings) -> None:
    """Report what is wrong with, or remarkable about, the startup frames and the first FPDUs."""
    initiator, responder = startup.initiator, startup.responder
    frames = [startup.request, startup.reply]
    if startup.is_accepted:
        frames = [initiator.frame, responder.frame]
    request, reply = [one.startup if one is not None else None for one in frames]
    if request is None and reply is None:
        return
    seen = Seen(*[bytes(side.first.ulpdu) if side.first is not None else None for side in (initiator, responder)])
    judgement = found.judgement = judge(request, reply, seen, startup.responder_port)
    for deviation in (*judgement.violations, *judgement.remarks):
        role, side = deviation.by, startup.side(deviation.by)
        own = frames[ROLES.index(role)]
        if (deviation.id in _BY_FIRST_FPDU or own is None) and side.first is not None:
            where: tuple[int, int, int] = 0, *side.first.known
        elif own is not None:
            where = own.start, own.frame, own.time
        else:
            continue
        if deviation.id != "startup-role":
            found.add(role, [Breach(deviation.id, *where, deviation.text, topic=deviation.topic)])


def _judge_silence(startup: StartupPhase, request: FoundFrame, now: Moment, found: StartupFindings) -> None:
    """Report a Request that was not answered, and a connection that was not closed."""
    initiator, responder = startup.initiator.end, startup.responder.end
    if initiator.acknowledged is None or initiator.acknowledged < request.end:
        return  # nobody knows whether the Responder has it
    waited, seq = now[1] - request.time, request.ack or 0
    if found.judgement is not None and found.judgement.close is not None and found.judgement.close.certain:
        close = found.judgement.close
        side = startup.side(close.by)
        is_open = side.end.fin is None and not side.end.accepted_resets
        if close.code == 4 and not close.terminate and waited >= PATIENCE and is_open:
            detail = f"not closed {waited // 1_000_000_000} s later: {close.reason}"
            found.add(close.by, [Breach("startup-not-closed", side.offset_of(seq), *now, detail)])
        return
    if any(found.has(role, _NO_SILENCE[role]) for role in ROLES):
        return  # that is why
    closed = _closed(responder, initiator) or _closed(initiator, responder)
    if startup.reply is None and (closed or waited >= PATIENCE) and not startup_frame_problems(request.startup):
        how, when = closed or ("no answer", now)
        detail = f"{how} after {(when[1] - request.time) / 1e9:.3f} s, and no Reply"
        where = startup.responder.offset_of(seq), *when
        found.add("responder", [Breach("startup-unanswered", *where, detail)])


def _closed(mine: DirectionEnd, peer: DirectionEnd) -> tuple[str, Moment] | None:
    """Return by what a direction was closed, and when: its FIN, else the last RST of either."""
    if mine.fin is not None:
        return "FIN", mine.fin[1:]
    resets = [one for one in map(_last_reset, (mine, peer)) if one is not None]
    return ("RST", max(resets)) if resets else None


# --- when it was ---


def startup_events(startup: StartupPhase) -> list[StartupEvent]:
    """Return what each side sent while MPA was started, in the order of capture.

    A FIN or a RST is part of it if no FPDU was sent (RFC 5044 §7.1.2), which is not known of who was not captured.
    """
    found: list[StartupEvent] = []
    for role in ROLES:
        side = startup.side(role)
        frame, opening, key = side.frame, side.opening, REQUEST_KEY if role == "initiator" else REPLY_KEY
        is_again = opening is not None and side.first_octets.startswith(key)
        if frame is not None:
            kind = "Request" if frame.startup.kind == "request" else "Reply"
            what = f"{kind} that rejects" if frame.startup.r and kind == "Reply" else kind
            found.append(StartupEvent(frame.frame, frame.time, role, what))
        elif side.part is not None:
            found.append(StartupEvent(side.part.frame, side.part.time, role, str(side.part)))
        elif side.garbled is not None:
            found.append(StartupEvent(side.garbled.frame, side.garbled.time, role, "octets that are nearly a Key"))
        if frame is not None and opening is not None and is_again:
            found.append(StartupEvent(opening.frame, opening.time, role, f"second {kind}"))
        if side.first is not None:
            # It is known to be one only with both startup frames, and may have been sent before.
            sent = side.first.known if opening is None or is_again else (opening.frame, opening.time)
            found.append(StartupEvent(*sent, role, "first FPDU"))
    ends = [startup.side(role).end for role in ROLES]
    captured = [end for end in ends if end.last[0] or end.resets]
    if not (startup.initiator.fpdus or startup.responder.fpdus) and captured == ends:
        for role, end in zip(ROLES, ends, strict=True):
            if end.fin is not None:
                found.append(StartupEvent(*end.fin[1:], role, "FIN"))
            found += [StartupEvent(one.frame, one.time, role, "RST") for one in end.accepted_resets[:1]]
    return sorted(found)


# --- copies, and many connections ---


def copies_of_frame(rivals: Sequence[Rival], found: FoundFrame) -> Iterator[Breach]:
    """Report copies of a startup frame, after which Full Operation did not begin, with other octets."""
    watch = CopyWatch(Layout(False, False), found.frame)
    for breach in watch.competed([one.shifted(found.end) for one in rivals if one.start < found.end]):
        yield breach._replace(offset=breach.offset + found.end)


def start_not_found(seq: int) -> str:
    """Return the sentence about a sequence number at which, the user said, Full Operation begins."""
    return f"no half connection without startup frames has the sequence number {seq} (start={seq})"


class ManyUnfinished(NamedTuple):
    """Addresses that began many connections with the part of a Request: the first one, and how many there are."""

    first: PartOfFrame
    last_frame: int
    connections: int
    detail: str
    rule: str = "attack-unfinished-startup"


def many_unfinished(parts: Mapping[str, Sequence[PartOfFrame]]) -> ManyUnfinished | None:
    """Return what addresses did that each began many connections with only a part of a Request.

    A host that does that holds resources of its peer as long as that waits (RFC 5044 §7.1.2, rule 10).
    """
    if not parts:
        return None
    most = max(parts, key=lambda address: len(parts[address]))
    detail = f"{len(parts[most])} connections from {most}, each with only part of a Request"
    total = sum(map(len, parts.values()))
    if len(parts) > 1:
        detail += f"; {total - len(parts[most])} from {len(parts) - 1} other such addresses"
    every = [part for some in parts.values() for part in some]
    first, last = min(every, key=lambda part: part.frame), max(part.frame for part in every)
    return ManyUnfinished(first, last, total, detail)
