"""What is wrong with startup frames, and with their order and that of the first FPDUs.

Frames of a capture come in the order in which they passed the tap, which is not always that of the endpoints; the
acknowledgement number of a segment says what its sender had received (RFC 5044 §7.1.2, §7.1.5).

What :mod:`scapy_mpa.framing.judgement` states of two startup frames is placed and dated: a breach of a frame shows at
that frame, one of their pair at the Reply, and one of the beginning of Full Operation at the first FPDU of whoever did
it (RFC 5044 §7.1, §7.1.2 and appendix C; RFC 6581 §6, §9 and §10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_LENGTH, plain_length, wire_length
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.framing.startup import STARTUP_HEADER_LENGTH, startup_frame_problems
from scapy_mpa.infer.evidence import HEADER_OCTETS
from scapy_mpa.receive.mpa import CapturedConnection, FoundFrame
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.segment import ACK_FLAG, Segment, small_copy
from scapy_mpa.watch.fpdus import begins_with_header, is_fpdu

if TYPE_CHECKING:
    from scapy_mpa.framing.judgement import Judgement

#: How long the answer to a startup frame, or a close, is waited for: longer than any stack's own timeout (nanoseconds).
PATIENCE = 10_000_000_000
#: What is reported where something came in place of a Reply, and of an Initiator that did not wait for one.
_NO_SILENCE = {
    "responder": ("startup-key", "startup-role", "startup-frame", "startup-pd-length"),
    "initiator": ("startup-pd-length", "startup-fpdu-before-reply"),
}

#: What is judged by the first FPDU, not by the frames.
_BY_FIRST_FPDU = frozenset(
    (
        "startup-fpdu-after-rejection",
        "startup-not-closed",
        "rtr",
        "rtr-not-closed",
        "rnic-version",
        "rnic-version-mixed",
        "terminate-code",
    )
)


def is_before(one: int, other: int) -> bool:
    """Whether a sequence number lies before another (RFC 9293 §3.4)."""
    return (one - other) & SEQ_MASK >= 0x80000000


def find_order_of_frames(mpa: CapturedConnection, unexpected: Segment | None) -> None:
    """Both startup frames are known; ``unexpected`` is what the Responder sent before its Reply."""
    request, reply = mpa.request, mpa.reply
    assert request is not None and reply is not None
    seen = reply.frame, reply.time, reply.seq
    request_end = request.end_seq
    if not reply.ack or not request.ack:
        return  # nobody knows what they had received
    received = max((reply.ack - request.seq + 0x80000000 & SEQ_MASK) - 0x80000000, 0)
    if is_before(reply.ack, request_end):
        detail = f"the Reply acknowledges {received} of the {request.end - request.start} octets of the Request"
        mpa.findings.add("startup-reply-first", "responder", *seen, detail)
    elif unexpected is not None:
        detail = f"{reply.seq - unexpected.seq & SEQ_MASK} octets between the Request and the Reply"
        where = unexpected.frame, unexpected.time, unexpected.seq
        mpa.findings.add("startup-octets-before-reply", "responder", *where, detail)
    elif is_before(request.ack, reply.seq):
        under_way = (reply.seq - request.ack) & SEQ_MASK
        detail = f"{under_way} octets of the Responder were under way when the Initiator sent its Request"
        mpa.findings.add("startup-stream-data", "responder", *seen, detail)
    # Who replied before the header was there did not look at PD_Length.
    if received >= STARTUP_HEADER_LENGTH and not is_before(request.ack, reply.end_seq):
        detail = (
            f"PD_Length {request.startup.pd_length}: the last octets of the Request's Private Data were sent after the "
            "Reply"
        )
        mpa.findings.add("startup-pd-length", "initiator", request.frame, request.time, request.seq, detail)


def find_data_under_way(mpa: CapturedConnection, acknowledged: int) -> None:
    """The Request is known, when the Responder had acknowledged so much."""
    request = mpa.request
    assert request is not None
    if acknowledged > 0 and is_before(acknowledged, request.seq):
        detail = f"{request.seq - acknowledged & SEQ_MASK} octets were not acknowledged when the Request was sent"
        mpa.findings.add("startup-stream-data", "initiator", request.frame, request.time, request.seq, detail)


def find_reply_alone(mpa: CapturedConnection, garbled: tuple[int, int, int, str] | None) -> None:
    """With a Reply alone: was there a Request?  ``garbled`` is where the Initiator sent what is nearly one."""
    reply, half = mpa.reply, mpa.halves["initiator"]
    if mpa.request is not None or reply is None:
        return
    place = reply.frame, reply.time, reply.seq
    if half.origin is not None and reply.ack == half.origin:
        detail = "the Reply acknowledges no octet: there was no Request"
        mpa.findings.add("startup-reply-first", "responder", *place, detail)
    elif garbled is not None:
        mpa.findings.add("startup-key", "initiator", *garbled)
        detail = "a Reply to something that is not a Request: it has a different Key"
        mpa.findings.add("startup-invalid-answered", "responder", *place, detail)
    elif mpa.answered_octets:
        detail = f"the Reply acknowledges {mpa.answered_octets} octets, and there is no Request in them"
        mpa.findings.add("startup-reply-first", "responder", *place, detail)


def find_first_octets(mpa: CapturedConnection) -> None:
    """At the end: what the first octets of Full Operation, in either direction, came before."""
    if mpa.reply is None or not mpa.profile.initiator_first:
        return
    initiator, responder = mpa.operations.get("initiator"), mpa.operations.get("responder")
    if initiator is None or responder is None:
        return
    opening = initiator.opening.segment
    answered = mpa.request is not None and not is_before(mpa.reply.ack, mpa.request.end_seq)
    if answered and opening is not None and _tells(opening) and is_before(opening.ack, mpa.reply.end_seq):
        if _took_for_whole(opening, mpa.reply):
            found = mpa.reply
            detail = f"PD_Length {found.startup.pd_length}: the last octets of its Private Data were sent after an FPDU"
            mpa.findings.add("startup-pd-length", "responder", found.frame, found.time, found.seq, detail)
        else:
            _find_before_reply(mpa, initiator, opening)
    opening = responder.opening.segment
    if opening is None or not _tells(opening):
        return
    # What the Responder must have received by then: an FPDU, or at least an octet of it.
    needed = initiator.reassembly.seq_of(initiator.opening.end or 1)
    if is_before(opening.ack, needed):
        if is_part_of_frame(responder, opening):
            _find_longer(mpa, responder, opening, mpa.reply)
        else:
            detail = "an FPDU before the first of the Initiator"
            if initiator.opening.opened is not None:
                detail += f", which came at frame {initiator.opening.opened[0]}"
            seq = responder.reassembly.seq_of(0)
            mpa.findings.add("startup-responder-first", "responder", opening.frame, opening.time, seq, detail)


def _took_for_whole(opening: Segment, reply: FoundFrame) -> bool:
    """Whether the Initiator's first octets follow a part of the Reply, which went on when these had arrived.

    Then it was the Private Data that was shorter than PD_Length, and what went on something else.
    """
    begun = not is_before(opening.ack, (reply.seq + STARTUP_HEADER_LENGTH) & SEQ_MASK)
    return begun and is_before(opening.seq, reply.ack)


def _tells(seg: Segment) -> bool:
    """Whether a segment says what its sender had received."""
    return bool(seg.flags & ACK_FLAG) and seg.ack != 0


def _find_before_reply(mpa: CapturedConnection, initiator: FullOperation, opening: Segment) -> None:
    assert mpa.request is not None
    if is_part_of_frame(initiator, opening):
        _find_longer(mpa, initiator, opening, mpa.request)
        return
    what = "an FPDU" if begins_with_fpdu(initiator) else "octets"
    detail = f"{what} after the Request, before the Reply was received"
    where = opening.frame, opening.time, initiator.reassembly.seq_of(0)
    mpa.findings.add("startup-fpdu-before-reply", "initiator", *where, detail)


def is_part_of_frame(operation: FullOperation, opening: Segment) -> bool:
    """Whether the first octets of Full Operation share a segment with the startup frame, and are no FPDU."""
    return opening.seq != operation.reassembly.seq_of(0) and not begins_with_fpdu(operation)


def begins_with_fpdu(operation: FullOperation) -> bool:
    """Whether the first octets may be those of an FPDU, be it damaged, or not complete: by length and DDP header."""
    ulpdu = operation.opening.ulpdu
    if ulpdu is not None:
        return operation.crc or begins_with_header(ulpdu, operation.opening.ulpdu_length)
    return may_begin_with_fpdu(operation.opening.octets[MARKER_LENGTH if operation.markers else 0 :])


def may_begin_with_fpdu(octets: bytes) -> bool:
    """The same of octets that begin with ULPDU_Length, as far as they are there."""
    if len(octets) < 2 + HEADER_OCTETS:
        return True  # nobody knows
    return begins_with_header(octets[2:], octets[0] << 8 | octets[1])


def _find_longer(mpa: CapturedConnection, operation: FullOperation, opening: Segment, found: FoundFrame) -> None:
    more = opening.length - (operation.reassembly.seq_of(0) - opening.seq & SEQ_MASK)
    detail = f"PD_Length {found.startup.pd_length}, but {more} more octets, which are no FPDU, in the same segment"
    where = opening.frame, opening.time, found.seq
    if not operation.counts.fpdus:
        mpa.findings.forget(operation.direction, {"connection-lost"})  # they were no part of an FPDU
    mpa.findings.add("startup-pd-length", operation.direction, *where, detail)


def find_octets_behind_request(mpa: CapturedConnection, seg: Segment) -> None:
    """At the end, without a Reply: ``seg``, the first with octets behind the Request, was sent before one came."""
    request = mpa.request
    if request is None or mpa.reply is not None or mpa.operations or seg.ack != request.ack:
        return
    end = request.end_seq
    skipped = (end - seg.seq) & SEQ_MASK if is_before(seg.seq, end) else 0
    octets = bytes(seg.buffer[seg.start + skipped : seg.end])
    where = seg.frame, seg.time
    if skipped and not may_begin_with_fpdu(octets):
        pd_length, more = request.startup.pd_length, seg.length - skipped
        detail = f"PD_Length {pd_length}, but {more} more octets, which are no FPDU, in the same segment"
        mpa.findings.add("startup-pd-length", "initiator", *where, request.seq, detail)
    elif octets:
        detail = "octets after the Request, before a Reply was received"
        mpa.findings.add("startup-fpdu-before-reply", "initiator", *where, seg.seq + skipped & SEQ_MASK, detail)


def find_silence(mpa: CapturedConnection, judgement: Judgement | None, now: Moment) -> None:
    """At the end: a Request that was not answered, and a connection that was not closed."""
    request, half = mpa.request, mpa.halves["responder"]
    closed = half.closed or mpa.halves["initiator"].closed
    if request is None or mpa.operations or mpa.rejected:
        return
    if half.ack <= 0 or is_before(half.ack, request.end_seq):
        return  # nobody knows whether the Responder has it
    waited = now[1] - request.time >= PATIENCE
    if judgement is not None and judgement.close is not None and judgement.close.certain:
        close = judgement.close
        receiver = mpa.halves[close.by]
        if close.code == 4 and not close.terminate and waited and receiver.fin is None and receiver.rst is None:
            detail = f"not closed {(now[1] - request.time) // 1_000_000_000} s later: {close.reason}"
            mpa.findings.add("startup-not-closed", close.by, *now, request.ack, detail)
        return
    if any(mpa.findings.has(direction, *rules) for direction, rules in _NO_SILENCE.items()):
        return  # that is why
    if mpa.reply is None and (closed is not None or waited) and not startup_frame_problems(request.startup):
        how, when = closed if closed is not None else ("no answer", now)
        detail = f"{how} after {(when[1] - request.time) / 1e9:.3f} s, and no Reply"
        mpa.findings.add("startup-unanswered", "responder", *when, request.ack, detail)


class BehindRejection:
    """The first octets that one side sends after a Reply with R: are they an FPDU (RFC 5044 §7.1.2, rule 3)?

    Args:
        mpa: the connection that was rejected.
        half: the direction of the TCP connection.
        origin: the sequence number of the first octet behind its startup frame.

    Attributes:
        is_open: whether that is not known yet.
        weight: octets of memory that are held for it.
    """

    __slots__ = ("_half", "_mpa", "_need", "_stream", "is_open", "weight")

    def __init__(self, mpa: CapturedConnection, half: Half, origin: int) -> None:
        self._mpa = mpa
        self._half = half
        self._stream = Reassembly(origin, True)
        #: So many octets have to be there before anything can be said.
        self._need = (MARKER_LENGTH if self._markers else 0) + 2
        self.is_open = True
        self.weight = 0

    @property
    def _markers(self) -> bool:
        return bool(self._mpa.markers(self._mpa.role_of(self._half)))

    def take(self, seg: Segment) -> None:
        """Look at a segment, in any order."""
        stream = self._stream
        start = stream.offset_of(seg.seq)
        stream.commit(small_copy(seg, {}), start, start + seg.end - seg.start)
        self.weight = stream.weight
        if (stream.next >= self._need and self._look(stream)) or self.weight > 2 * LONGEST_FPDU:
            self.let_go()

    def _look(self, stream: Reassembly) -> bool:
        """Look at the octets that are in order; True if it is known now what they are."""
        markers, mpa = self._markers, self._mpa
        octets = stream.read(0, min(stream.next, LONGEST_FPDU))
        header = MARKER_LENGTH if markers else 0
        ulpdu_length = octets[header] << 8 | octets[header + 1]
        whole = wire_length(ulpdu_length, 0) if markers else plain_length(ulpdu_length)
        # A CRC covers all of it; without one its header is all there is.
        self._need = whole if mpa.crc else min(whole, header + 2 + HEADER_OCTETS)
        if len(octets) < self._need:
            return False
        if is_fpdu(octets, 0 if markers else None, mpa.crc):
            first = stream.pieces[0].seg
            where = first.frame, first.time, stream.origin
            rule = "startup-fpdu-after-rejection"
            mpa.findings.add(rule, mpa.role_of(self._half), *where, "an FPDU after a Reply with R")
        return True

    def let_go(self) -> None:
        """Nothing more is looked at."""
        self.is_open, self.weight = False, 0
        self._stream.forget()


def find_other_copy(mpa: CapturedConnection | None, half: Half, seg: Segment, before: Segment) -> None:
    """Octets of a startup frame are sent again, and are others than those that ``before`` brought."""
    if mpa is not None:
        detail = f"a startup frame differs from the copy in frame {before.frame}; the first copy is kept"
        mpa.findings.add("overlap", mpa.role_of(half), seg.frame, seg.time, seg.seq, detail)


def find_copy_of_frame(mpa: CapturedConnection, half: Half, seg: Segment) -> None:
    """Octets come once more where a startup frame was: are they others?"""
    found = mpa.frame_of(mpa.role_of(half))
    if found is None:
        return
    octets = found.startup.encode()
    start = seq_diff(seg.seq, found.seq)
    first, last = max(start, 0), min(start + seg.end - seg.start, len(octets))
    # A keep-alive may bring an octet of anything (RFC 9293 §3.8.4).
    if first >= last or (seg.length == 1 and last == len(octets)):
        return
    if octets[first:last] != seg.buffer[seg.start + first - start : seg.start + last - start]:
        detail = (
            f"octets of a startup frame differ from those in frame {found.frame}: this copy came after the peer's "
            "answer"
        )
        mpa.findings.add("overlap", mpa.role_of(half), seg.frame, seg.time, seg.seq, detail)


def find_same_role(mpa: CapturedConnection, direction: Direction, found: FoundFrame) -> None:
    """A startup frame that the other side has sent already, or has to send."""
    what = "a second MPA Request" if found.startup.kind == "request" else "an MPA Reply from the Initiator"
    detail = f"{what}: both sides are in the same role"
    mpa.findings.add("startup-role", direction, found.frame, found.time, found.seq, detail)


def find_negotiation(mpa: CapturedConnection) -> Judgement | None:
    """Report what is wrong with, or remarkable about, the startup frames; the judgement, None without any frame."""
    judgement = mpa.judge()
    if judgement is None:
        return None
    for deviation in (*judgement.violations, *judgement.remarks):
        place = _place(mpa, deviation.by, deviation.id in _BY_FIRST_FPDU)
        if place is not None:
            mpa.findings.add(deviation.id, deviation.by, *place, deviation.text)
    return judgement


def _place(mpa: CapturedConnection, by: Direction, by_first_fpdu: bool) -> tuple[int, int, int] | None:
    """The frame, the time (nanoseconds) and the sequence number at which something that ``by`` did shows."""
    own, operation = mpa.frame_of(by), mpa.operations.get(by)
    if (by_first_fpdu or own is None) and operation is not None and operation.opening.opened is not None:
        return (*operation.opening.opened, operation.reassembly.seq_of(operation.reassembly.first))
    return (own.frame, own.time, own.seq) if own is not None else None
