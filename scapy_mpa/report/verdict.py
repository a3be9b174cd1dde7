"""How a connection ended and why, in one sentence, from a table of causes.

The first row that fits has the word: what a Terminate says goes before the FIN that follows it.  A row knows the
connection with its findings, how it went (:class:`~scapy_mpa.values.lifecycle.Lifecycle`), and what the upper layers
stated, which is handed in.
"""

from __future__ import annotations

from collections.abc import Callable

from scapy_mpa.framing.ddp import TaggedHeader, UntaggedHeader, message_and_place
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.report.blame import bad_before, evidence, weighed, went_on
from scapy_mpa.report.circumstances import Circumstances, JudgedConnection, StatedLimits, who
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.lifecycle import HalfEnd, Quoted, Terminated
from scapy_mpa.values.segment import is_stream
from scapy_mpa.values.words import plural

#: Octets of Private Data that are quoted.
_MOST_QUOTED = 32
#: Rules of severity error that a sentence already names.
_TOLD = frozenset(("crc", "marker-length", "connection-lost"))

#: Rules that a startup frame breaks which its receiver must refuse, and those of one that does not.
_WRONG_FRAME = frozenset(
    (
        "startup-enhanced-data", "startup-frame", "startup-key", "startup-pd-length", "startup-private-data-limit",
        "startup-role",
    )
)  # fmt: skip
_ACCEPTED = frozenset(("startup-invalid-answered", "startup-not-closed"))

#: Rules broken by octets in place of a Reply that are not one.
_NO_REPLY = ("startup-key", "startup-role")

#: (layer, error type, error code) of a Terminate: what the message that it quotes did (RFC 5040 §4.8, RFC 5041 §7.2).
_DID: dict[tuple[int, int, int], str] = {
    (0, 1, 0x00): "named an STag that is not valid",
    (0, 1, 0x01): "went beyond the bounds of its buffer",
    (0, 1, 0x02): "asked for what the access rights of its buffer do not allow",
    (0, 1, 0x03): "named an STag of another RDMAP Stream",
    (0, 1, 0x04): "had a TO that wraps",
    (0, 1, 0x09): "named an STag that cannot be invalidated",
    (0, 2, 0x05): "had an RDMAP version that is not valid",
    (0, 2, 0x06): "had an opcode that was not expected",
    (0, 2, 0x09): "named an STag that cannot be invalidated",
    (1, 1, 0x00): "named an STag that is not valid",
    (1, 1, 0x01): "went beyond the bounds of its buffer",
    (1, 1, 0x02): "named an STag of another DDP Stream",
    (1, 1, 0x03): "had a TO that wraps",
    (1, 1, 0x04): "had a DDP version that is not valid",
    (1, 2, 0x01): "named a queue that does not exist",
    (1, 2, 0x02): "found no buffer",
    (1, 2, 0x03): "had an MSN out of range",
    (1, 2, 0x04): "had an MO that is not valid",
    (1, 2, 0x05): "found a buffer that was too small",
    (1, 2, 0x06): "had a DDP version that is not valid",
}
#: Those that a limit stated by the peer may cause.
_TOO_LONG = ((1, 2, 0x05), (1, 2, 0x02))


def verdict(connection: JudgedConnection, limits: StatedLimits) -> str:
    """Return how a connection ended and why; ``limits`` are what the upper layers stated."""
    known = Circumstances(connection, connection.lifecycle, limits)
    for row in CAUSES:
        if row.fits(known):
            break
    if not connection.findings:
        return row.says(known)  # all else is about findings
    said = "; ".join(filter(None, (went_on(known), row.says(known))))
    return said + _accepted(known) + _errors(known)


# --- a Terminate ---


def _terminates(known: Circumstances) -> bool:
    return known.life.ended == "terminate"


def _says_terminate(known: Circumstances) -> str:
    sender = known.life.ended_by
    assert sender is not None
    found = known.end(sender).terminated
    assert found is not None
    bad = _named_by(known, found, peer_of(sender))
    if bad is not None:
        said = f"{_error(bad)} in frame {bad.frame}, then a Terminate from the receiver at frame {found.frame}"
        if found.said is not None and found.said.code != bad.code:
            said += f", which says {_why(known, found, sender)}"
        elif not went_on(known):
            said += ", as RFC 5044 §8 specifies"
        return said + _after(known, found.frame)
    said = f"{who(sender)} terminated it at frame {found.frame}: {_why(known, found, sender)}"
    return said + _after(known, found.frame)


def _named_by(known: Circumstances, found: Terminated, direction: Role) -> Finding | None:
    """The CRC or Marker error of a direction after which its peer sent a Terminate for an error of MPA."""
    return bad_before(known, found.frame, direction) if found.said is not None and found.said.layer == 2 else None


def _why(known: Circumstances, found: Terminated, sender: Role) -> str:
    """Return what a Terminate says, and what the capture shows about it."""
    limit = _limit(known, found, sender)
    shown = limit or weighed(known, found, sender)
    return _claim(known, found, sender) + (f"; {shown}" if shown else "")


def _claim(known: Circumstances, found: Terminated, sender: Role) -> str:
    said = found.said
    if said is None:
        return "the Terminate does not say why"
    if found.header is None:
        return said.meaning
    did = _DID.get((said.layer, said.etype, said.code))
    is_unsent = known.finding("terminate-quote", direction=sender) is not None
    name = _message(found.header, found.message, is_unsent=is_unsent)
    return f"{name} {did}" if did is not None else f"{name}: {said.meaning}"


def _limit(known: Circumstances, found: Terminated, sender: Role) -> str:
    """The limit that the sender of a Terminate had stated, if it was passed, or may have been."""
    limit, said = known.limits.get(sender), found.said
    if limit is None or said is None or found.header is None:
        return ""
    if (said.layer, said.etype, said.code) not in _TOO_LONG:
        return ""
    if found.message is not None and found.message.octets <= limit.octets:
        return ""
    return f"{limit.protocol} had agreed on at most {limit.octets:,}"


def _message(header: TaggedHeader | UntaggedHeader, message: Quoted | None, *, is_unsent: bool) -> str:
    """A message by the DDP header that a Terminate quotes, its size and its frames."""
    name, place = message_and_place(header)
    if is_unsent or message is None:
        return f"the {name} ({place}, which {'was never sent' if is_unsent else 'was not captured'})"
    size = f" of {message.octets:,} octets" if message.is_whole else ""
    part = "" if message.is_whole else f"{message.octets:,} octets of its payload captured, "
    return f"the {name}{size} ({place}, {part}{_frames(message.first_frame, message.last_frame)})"


def _frames(first: int, last: int) -> str:
    return f"frame {first}" if first == last else f"frames {first}-{last}"


# --- an error of code 2 or 3 ---


def _error(found: Finding) -> str:
    return "CRC error" if found.rule.id == "crc" else "Marker and length disagree"


def _fails(known: Circumstances) -> bool:
    life = known.life
    if life.ended not in ("fin", "rst") or life.ended_by is None or life.ended_frame is None or went_on(known):
        return False
    return bad_before(known, life.ended_frame, peer_of(life.ended_by)) is not None


def _says_failure(known: Circumstances) -> str:
    life = known.life
    assert life.ended_by is not None and life.ended_frame is not None
    bad = bad_before(known, life.ended_frame, peer_of(life.ended_by))
    assert bad is not None
    close = f"{life.ended.upper()} by the receiver at frame {life.ended_frame}"
    said = f"{_error(bad)} in frame {bad.frame}, then {close}, as RFC 5044 §8 specifies"
    return said + _after(known, life.ended_frame)


# --- the beginning ---


def _is_rejected(known: Circumstances) -> bool:
    return known.life.ended == "rejected"


def _says_rejection(known: Circumstances) -> str:
    reply = known.connection.reply
    assert reply is not None
    said = f"rejected by the Responder (Reply, frame {known.connection.reply_frame})"
    data = reply.ulp_data
    if not data:
        return f"{said}, without Private Data from the upper layer" + _close(known)
    return f"{said}: its Private Data says {_quoted(data)}" + _close(known)


def _quoted(octets: bytes) -> str:
    """Octets as text, if they are some, else in hexadecimal."""
    text = octets.rstrip(b"\0")
    more = " ..." if len(text) > _MOST_QUOTED else ""
    if text and all(32 <= octet < 127 for octet in text):
        return f'"{text[:_MOST_QUOTED].decode("ascii")}"{more}'
    return octets[:_MOST_QUOTED].hex(" ") + (" ..." if len(octets) > _MOST_QUOTED else "")


def _only_began(known: Circumstances) -> bool:
    return known.connection.part is not None and not known.connection.half("initiator").counts.fpdus


def _says_beginning(known: Circumstances) -> str:
    return f"only {known.connection.part}" + _ended(known)


def _is_unanswered(known: Circumstances) -> bool:
    connection = known.connection
    if connection.request_frame is None or connection.reply_frame is not None or known.has_fpdus:
        return False
    return not is_stream(connection.half("initiator").key)  # the octets of one side say nothing of the other


def _says_unanswered(known: Circumstances) -> str:
    request = f"the Request of frame {known.connection.request_frame}"
    wrong = [
        one.frame for one in known.connection.findings if one.rule.id in _NO_REPLY and one.direction == "responder"
    ]
    if wrong:
        return f"the Responder answered {request} with octets that are not a Reply (frame {min(wrong)})" + _ended(known)
    if not known.end("responder").is_captured:
        return f"nothing that the Responder sent was captured, so its answer to {request} is unknown" + _ended(known)
    # Who gave up stands in what is remarkable about the beginning.
    return f"the Responder did not answer {request}" + ("" if known.life.ended in ("fin", "rst") else _ended(known))


def _ended(known: Circumstances) -> str:
    life = known.life
    if life.ended in ("fin", "rst"):
        return f": {who(life.ended_by)} {_did(life.ended)} at frame {life.ended_frame}"
    if life.ended == "lost":
        return f": retransmitted {_times(_in_vain(known)[1].in_vain)} without an answer"
    return f"; the capture ends at frame {life.last[0]}"


def _did(ended: str) -> str:
    return "closed" if ended == "fin" else "reset it"


# --- nobody answers ---


def _is_lost(known: Circumstances) -> bool:
    return known.life.ended == "lost"


def _in_vain(known: Circumstances) -> tuple[Role, HalfEnd]:
    """Return the side whose octets were retransmitted in vain, and how that half connection ended."""
    return next((one, known.end(one)) for one in ROLES if known.end(one).in_vain)


def _says_lost(known: Circumstances) -> str:
    direction, end = _in_vain(known)
    again = f"{_times(end.in_vain)} without an answer ({_frames(*end.in_vain_frames)})"
    said = f"{who(peer_of(direction))} no longer answered: {who(direction)} sent the same octets again {again}"
    return f"{said}, {_left(direction, end)}" + _after(known, end.in_vain_frames[1])


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"


def _left(side: Role, end: HalfEnd) -> str:
    """Return what of a side was not acknowledged; TCP acknowledges headers, PAD, CRC and Markers, too."""
    octets = f"{plural(end.unacknowledged_octets, 'octet', thousands=True)} of TCP payload"
    if not end.unacknowledged_messages:
        return f"{octets} of {who(side)} not acknowledged"
    messages = plural(end.unacknowledged_messages, "message", thousands=True)
    return f"{messages} of {who(side)} not fully acknowledged ({octets}, headers included)"


# --- FIN and RST ---


def _is_cut(known: Circumstances) -> bool:
    return known.life.ended in ("fin", "rst") and known.finding("connection-lost") is not None


def _says_cut(known: Circumstances) -> str:
    found = known.finding("connection-lost")
    assert found is not None and found.direction is not None
    cut = f"what {who(found.direction)} sent ends in the middle of an FPDU ({found.detail}, frame {found.frame})"
    return f"{_beginning(known)}; {cut}" + _unacknowledged(known)


def _is_reset(known: Circumstances) -> bool:
    return known.life.reset_by is not None


def _says_reset(known: Circumstances) -> str:
    life = known.life
    by = life.reset_by
    assert by is not None
    times = known.end(by).resets
    left = _unacknowledged(known) or (", everything acknowledged" if known.has_fpdus else "")
    if life.ended == "fin" and life.ended_by == by:
        closed, left = f"{who(by)} closed (FIN, frame {life.ended_frame})", left.replace(",", ":", 1)
        if known.end(peer_of(by)).unacknowledged_octets:
            # What is lost comes first: pictures cut the end of a long sentence.
            first = f"the first in frame {life.reset_frame}" if times > 1 else f"in frame {life.reset_frame}"
            answer = f"{who(by)} answered with {plural(times, 'RST')}, {first}"
            return f"{closed} while {who(peer_of(by))} was still sending{left}; {answer}"
        what = f" {_times(times)}" if times > 1 else f" (RST, frame {life.reset_frame})"
        return f"{closed} and reset{what}{left}"
    if life.ended == "fin":
        return f"{_beginning(known)}, then {who(by)} reset it (RST, frame {life.reset_frame})" + left
    return f"{who(by)} reset it (RST, frame {life.reset_frame}){_idle(known)}" + left


def _beginning(known: Circumstances) -> str:
    life = known.life
    return f"{who(life.ended_by)} {_did(life.ended)} ({life.ended.upper()}, frame {life.ended_frame}){_idle(known)}"


def _idle(known: Circumstances) -> str:
    """Return a note that nothing was sent, if that is certain: no octet arrived, and none is missing."""
    for direction in ROLES:
        counts = known.connection.half(direction).counts
        if counts.stream_octets or counts.missing_octets or not known.end(direction).is_captured:
            return ""
    return "" if known.finding("gap", "capture-gap") else " before any FPDU was sent"


def _unacknowledged(known: Circumstances) -> str:
    """Return what either side sent that was not acknowledged."""
    left = [(side, known.end(side)) for side in ROLES if known.end(side).unacknowledged_octets]
    if not left:
        return ""
    return ", " + " and ".join(_left(side, end) for side, end in left)


def _is_closed(known: Circumstances) -> bool:
    return known.life.ended == "fin"


def _says_closed(known: Circumstances) -> str:
    life = known.life
    assert life.ended_by is not None
    other = peer_of(life.ended_by)
    said, theirs = _beginning(known), known.end(other)
    if theirs.closed == "fin":
        rest = f", then {who(other)} (FIN, frame {theirs.closed_frame})"
    elif not theirs.is_captured:
        rest = f"; nothing that {who(other)} sent was captured"
    else:
        rest = f"; {who(other)} had not closed its side when the capture ended (last frame {life.last[0]})"
    return said + rest + _unacknowledged(known)


def _says_open(known: Circumstances) -> str:
    life = known.life
    if is_stream(known.connection.half("initiator").key):
        return "how it ended is unknown: octets without packets do not show it"
    return f"still open when the capture ends{_idle(known)} (last frame {life.last[0]})" + _unacknowledged(known)


# --- what is added ---


def _close(known: Circumstances) -> str:
    """Return how the TCP connection of a rejected connection ended."""
    closed = [(end.closed_frame, role, end.closed) for role in ROLES if (end := known.end(role)).closed]
    if not closed:
        return ""
    frame, role, how = min(closed, key=lambda one: one[0] or 0)
    assert how is not None
    by = role if how == "fin" else known.life.reset_by
    return f"; {who(by)} {_did(how)} ({how.upper()}, frame {frame})"


def _after(known: Circumstances, frame: int) -> str:
    """Return what followed the end at a frame: FIN, RST, and unacknowledged octets."""
    then = []
    for role in ROLES:
        end = known.end(role)
        if end.closed == "fin" and end.closed_frame is not None and end.closed_frame > frame:
            then.append((end.closed_frame, f"FIN by {who(role)} at frame {end.closed_frame}"))
    reset = known.life.reset_frame
    if reset is not None and reset > frame:
        then.append((reset, f"RST by {who(known.life.reset_by)} at frame {reset}"))
    said = "; then " + ", ".join(text for _, text in sorted(then)) if then else ""
    return said + (_unacknowledged(known) if known.life.ended != "lost" else "")


def _accepted(known: Circumstances) -> str:
    """Say that a side took a startup frame that is wrong."""
    by = _acceptance(known)
    if by is None or by.direction is None:
        return ""
    wrong = min(
        (one for one in known.connection.findings if one.rule.id in _WRONG_FRAME and one.direction != by.direction),
        key=lambda one: one.frame,
        default=None,
    )
    kind = "Request" if by.direction == "responder" else "Reply"
    detail = f": {wrong.detail} (frame {wrong.frame})" if wrong is not None else f" ({by.detail})"
    return f"; {who(by.direction)} accepted the {kind} although it is invalid{detail}"


def _acceptance(known: Circumstances) -> Finding | None:
    return known.finding(*_ACCEPTED) if known.has_fpdus else None


def _errors(known: Circumstances) -> str:
    """Errors that the sentence leaves out."""
    rules = {one.rule.id: None for one in known.connection.findings if one.severity == "error"}
    ended = known.life.ended
    told = _TOLD if ended in ("terminate", "fin", "rst", "lost") else frozenset()
    if not (_fails(known) or went_on(known)):
        told = told - {"crc", "marker-length"}
    told = told | _told_by_terminate(known)
    if known.connection.part is not None:
        told = told | {"startup-frame", "startup-pd-length"}  # that is what the sentence says
    if _acceptance(known) is not None:
        told = told | _WRONG_FRAME | _ACCEPTED
    left = [rule for rule in rules if rule not in told]
    return f"; {'errors' if len(left) > 1 else 'error'} before: {', '.join(left)}" if left else ""


def _told_by_terminate(known: Circumstances) -> frozenset[str]:
    """The rules of errors that the sentence about a Terminate names."""
    by = known.life.ended_by
    found = known.end(by).terminated if by is not None and _terminates(known) else None
    if by is None or found is None:
        return frozenset()
    shown, bad = evidence(known, found, by), bad_before(known, found.frame, peer_of(by))
    return frozenset(one.rule.id for one in (shown, bad if shown is None else None) if one is not None)


class Cause(NamedTuple):
    """A row: whether it fits what is known about a connection, and what it says then."""

    name: str
    fits: Callable[[Circumstances], bool]
    says: Callable[[Circumstances], str]


#: From the one that tells most down; the last one always fits.
CAUSES: tuple[Cause, ...] = (
    Cause("terminate", _terminates, _says_terminate),
    Cause("rejected", _is_rejected, _says_rejection),
    Cause("error", _fails, _says_failure),
    Cause("part", _only_began, _says_beginning),
    Cause("unanswered", _is_unanswered, _says_unanswered),
    Cause("lost", _is_lost, _says_lost),
    Cause("cut", _is_cut, _says_cut),
    Cause("reset", _is_reset, _says_reset),
    Cause("closed", _is_closed, _says_closed),
    Cause("open", lambda _: True, _says_open),
)
