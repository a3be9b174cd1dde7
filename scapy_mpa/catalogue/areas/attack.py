"""Segments that their sender never sent, late duplicates, and overlaps that differ (RFC 5044 §9.1).

What a TCP receiver does with them decides whether a stream stays in step: T. Ptacek and T. Newsham, "Insertion,
Evasion, and Denial of Service: Eluding Network Intrusion Detection" (1998), §3 and §5, list how an observer is made to
see another stream than the receiver.  Here stands what of that applies to a TCP stream.  The receiver follows RFC 9293
§3.10.7.4, RFC 5961 and RFC 7323 §5.
"""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import DISCARD, Peer, peer
from scapy_mpa.craft.changes.injected import injected, late_of_earlier, octets_in_syn, overlapping, syn_again
from scapy_mpa.craft.changes.said import answers, says
from scapy_mpa.craft.changes.startup import setup, wraps
from scapy_mpa.craft.impairments import impaired
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.role import ROLES

_EVIL = b"evil"
#: What becomes of a segment that arrives.
_ARRIVES = "RFC 9293 §3.10.7.4"
#: Outside every window, ahead or behind.
_FAR = 0x20000000
#: FPDUs of the Initiator, a segment each, of 54 octets and then three times 84; and of the Responder.
_FIRST, _SAID, _SIZE = "initiator send 30", "responder send 30", 84
_FOUR = says(_FIRST, _SAID, *(send(msn, bytes(60)) for msn in (2, 3, 4)))
_NO_STAMPS = setup(timestamps=False)
#: The third of them holds the octet with sequence number 0.
_WRAPS = wraps(20 + 54 + _SIZE + _SIZE // 2)

_CHALLENGES = peer("discard", "It drops the segment, and sends an acknowledgement with the octet it expects.")
_RESETS = peer("lose", "It accepts the RST: the connection is reset, and an FPDU that is not complete is lost.")
_ENDS = peer("lose", "It takes the FIN as the end of the half connection, and drops all octets after it.")
_FORGETS = peer("discard", "It holds the FIN until octets arrive at its sequence number, and then discards it.")
_TAKES = peer("accept", "It cannot detect that the octets are old: it accepts them, and drops the real ones.")
#: RFC 9293 §3.10.7.4: of what lies beyond a hole no clause says which copy is kept; what was received is old.
_KEEPS = peer("accept", "It keeps the copy that came first, or the one that came last: both are allowed.")
_KEEPS_FIRST = peer("accept", "It keeps the copy that came first: to TCP the octets of the later one are old.")
_DROPS = peer(
    "discard",
    "It may silently drop octets that fit no FPDU, accept the octets that TCP retransmits, and continue; if it "
    "reports the error instead, it passes on nothing from there on.",
)
_NOT_IN_STEP = peer("discard", "It acknowledges the SYN, and drops the octets: its sequence numbers do not change.")

_RST = (
    *(
        Case(
            f"rst-{name}", f"A forged RST, {where}", "plain", (_FOUR, change),
            # What is sent after one that was believed reaches nobody.
            ("attack-reset", "teardown-unacknowledged") if name == "believed" else ("attack-reset",),
            said, clause=clause,
        )
        for name, where, change, said, clause in (
            ("in-the-window", "in the window, but not exactly next",
             injected(3, "RA", far=1000, challenged=True), _CHALLENGES, "RFC 5961 §3.2"),
            ("last-in-the-window", "with the last sequence number in the window",
             injected(3, "RA", far=-1, edge=True, challenged=True), _CHALLENGES, "RFC 5961 §3.2"),
            ("at-the-edge", "with the first sequence number beyond the window", injected(3, "RA", edge=True), DISCARD,
             "RFC 9293 §3.10.7.4"),
            ("acknowledged", "among octets that were acknowledged", injected(3, "R", far=-10), DISCARD,
             "RFC 9293 §3.10.7.4"),
            ("before-the-syn", "far before the SYN", injected(3, "RA", far=-_FAR), DISCARD, "RFC 9293 §3.10.7.4"),
            ("with-octets", "with octets, in the window", injected(3, "RA", far=1000, octets=_EVIL), _CHALLENGES,
             "RFC 5961 §3.2"),
            ("believed", "with the next sequence number, and the real sender continues",
             injected(3, "RA", believed=True), _RESETS, "RFC 5961 §3.2"),
        )
    ),
    Case(
        "rst-of-the-responder", "A forged RST of the Responder, in the window, but not exactly next", "plain",
        (_FOUR, injected(2, "RA", far=1000, challenged=True)), ("attack-reset",), _CHALLENGES, by="responder",
    ),
    Case(
        "rst-checksum", "A RST with the next sequence number and a wrong TCP checksum", "plain",
        (_FOUR, injected(3, "RA", checksum="wrong")), ("tcp-checksum",), DISCARD,
    ),
)  # fmt: skip

_SYN = (
    *(
        Case(
            f"syn-{name}", f"A forged SYN in mid-connection, {where}", "plain", (_FOUR, change), ("attack-syn",),
            _CHALLENGES, clause="RFC 5961 §4.2",
        )
        for name, where, change in (
            ("next", "with the next sequence number", injected(3, "S", challenged=True)),
            ("in-the-window", "in the window", injected(3, "S", far=1000, challenged=True)),
            ("ahead", "far ahead of the window", injected(3, "S", far=_FAR, challenged=True)),
            ("before-the-syn", "far before the first", injected(3, "S", far=-_FAR, challenged=True)),
            ("acknowledged", "among octets that were acknowledged", injected(3, "S", far=-10, challenged=True)),
            ("and-ack", "with ACK, in the window", injected(3, "SA", far=1000, challenged=True)),
            ("with-octets", "with octets in it", injected(3, "S", far=_FAR, octets=_EVIL, challenged=True)),
            ("before-the-request", "between the handshake and the Request", injected(0, "S", far=-_FAR)),
        )
    ),
    Case(
        "syn-resynchronizes", "A forged SYN far ahead, and octets at the sequence numbers after it", "plain",
        (_FOUR, injected(3, "S", far=_FAR), injected(3, far=_FAR + 1, octets=_EVIL)),
        ("attack-syn", "outside-window"), _NOT_IN_STEP, clause="RFC 5961 §4.2",
    ),
    Case(
        "syn-of-the-responder", "A forged SYN of the Responder, with ACK, far ahead", "plain",
        (_FOUR, injected(2, "SA", far=_FAR, challenged=True)), ("attack-syn",), _CHALLENGES, by="responder",
    ),
    Case(
        "syn-checksum", "A SYN in mid-connection with a wrong TCP checksum", "plain",
        (_FOUR, injected(3, "S", far=_FAR, checksum="wrong")), ("tcp-checksum",), DISCARD,
    ),
    Case(
        "syn-again", "The SYN of the connection arrives again, among FPDUs", "plain", (_FOUR, syn_again(3)), (),
        _CHALLENGES, clause="RFC 5961 §4.2",
    ),
    Case(
        "syn-with-request", "The SYN brings the Request", "plain", (_FOUR, octets_in_syn(0)), (),
        peer("accept", "It keeps the octets until the connection is established, and then reads the Request."),
        clause="RFC 9293 §3.10.7.2",
    ),
)  # fmt: skip

_FIN = (
    *(
        Case(f"fin-{name}", f"A forged FIN, {where}", "plain", (_FOUR, change), (rule,), DISCARD, clause=clause)
        for name, where, change, rule, clause in (
            ("ahead", "far ahead of the window", injected(3, "FA", far=_FAR), "outside-window", "RFC 9293 §3.10.7.4"),
            ("before-the-syn", "far before the SYN", injected(3, "FA", far=-_FAR), "outside-window",
             "RFC 9293 §3.10.7.4"),
            ("acknowledged", "among octets that were acknowledged", injected(3, "FA", far=-10), "outside-window",
             "RFC 9293 §3.10.7.4"),
            ("checksum", "with the next sequence number, and a wrong TCP checksum", injected(3, "FA", checksum="wrong"),
             "tcp-checksum", "RFC 9293 §3.1"),
            ("old", "with the next sequence number, and an old timestamp",
             injected(3, "FA", seconds=60), "old-timestamp", "RFC 7323 §5.3"),
        )
    ),
    Case(
        "fin-in-the-window", "A forged FIN at a sequence number in the window, where octets arrive later", "plain",
        (_FOUR, injected(3, "FA", far=90)), ("outside-window",), _FORGETS, clause="RFC 9293 §3.10.7.4",
    ),
    Case(
        "fin-believed", "A forged FIN with the next sequence number, and the real sender continues", "plain",
        (_FOUR, answers(None), injected(3, "FA", believed=True)), ("outside-window",), _ENDS,
    ),
)  # fmt: skip

_DATA = (
    *(
        Case(f"octets-{name}", f"Forged octets {where}", "plain", (_FOUR, change), raises, said, clause=clause)
        for name, where, change, raises, said, clause in (
            ("last-in-the-window", "where the window ends", injected(3, far=-4, edge=True, octets=_EVIL),
             ("outside-window",), DISCARD, ""),
            ("at-the-edge", "just beyond the window", injected(3, edge=True, octets=_EVIL), ("outside-window",),
             DISCARD, ""),
            ("before-the-syn", "far before the SYN", injected(3, far=-_FAR, octets=_EVIL), ("outside-window",),
             DISCARD, ""),
            ("in-the-window", "in the window, before the real octets arrive there",
             injected(3, far=120, octets=_EVIL), ("overlap", "attack-injection"), _DROPS, _ARRIVES),
            ("acknowledged", "at sequence numbers that were acknowledged before", overlapping(3, -_SIZE, 0, 40, _EVIL),
             ("overlap", "attack-injection"), DISCARD, _ARRIVES),
            ("checksum", "with the next sequence number, and a wrong TCP checksum",
             injected(3, octets=_EVIL, checksum="wrong"), ("tcp-checksum",), DISCARD, ""),
            ("checksum-ahead", "in the window, with a wrong TCP checksum",
             injected(3, far=120, octets=_EVIL, checksum="wrong"), ("tcp-checksum",), DISCARD, ""),
            ("old", "with the next sequence number, and an old timestamp", injected(3, octets=_EVIL, seconds=60),
             ("old-timestamp",), DISCARD, ""),
            ("old-ahead", "in the window, with an old timestamp", injected(3, far=120, octets=_EVIL, seconds=60),
             ("old-timestamp",), DISCARD, ""),
            ("without-ack", "in the window, in a segment without the flag ACK", injected(3, "", far=120, octets=_EVIL),
             ("overlap", "attack-injection"), DISCARD, "RFC 9293 §3.10.7.4"),
        )
    ),
    *(
        Case(
            f"octets-{name}-no-crc", f"Forged octets {where}, and no CRC is in use", "no-crc", (_FOUR, change), raises,
            DISCARD, clause=clause,
        )
        for name, where, change, raises, clause in (
            ("at-the-edge", "just beyond the window", injected(3, edge=True, octets=_EVIL), ("outside-window",), ""),
            ("checksum", "with a wrong TCP checksum", injected(3, octets=_EVIL, checksum="wrong"), ("tcp-checksum",),
             ""),
            ("old", "with an old timestamp", injected(3, octets=_EVIL, seconds=60), ("old-timestamp",), ""),
            ("acknowledged", "at sequence numbers that were acknowledged before", overlapping(3, -_SIZE, 0, 40, _EVIL),
             ("overlap",), _ARRIVES),
        )
    ),
    Case(
        "octets-of-the-responder", "Forged octets of the Responder, just beyond the window", "plain",
        (_FOUR, injected(2, edge=True, octets=_EVIL)), ("outside-window",), DISCARD, by="responder",
    ),
)  # fmt: skip

_ACKNOWLEDGEMENTS = (
    *(
        Case(
            f"ack-{name}", f"An acknowledgement {what}", "plain", (_FOUR, change), raises, DISCARD,
            clause=clause,
        )
        for name, what, change, raises, clause in (
            # This close, the capture may lack what it acknowledges.
            ("of-never-sent", "of 1,000 octets that were never sent", injected(3, acknowledges=1000), (),
             "RFC 5961 §5.2"),
            ("far-ahead", "of octets far ahead of what was sent", injected(3, acknowledges=_FAR), ("outside-window",),
             "RFC 5961 §5.2"),
            ("outside-window", "of octets that were sent, in a segment outside the window",
             injected(3, far=_FAR, acknowledges=0), ("outside-window",), _ARRIVES),
        )
    ),
    Case(
        "octets-that-acknowledge-never-sent", "Forged octets in a segment that acknowledges what was never sent",
        "plain", (_FOUR, injected(3, far=120, octets=_EVIL, acknowledges=1000)), ("overlap", "attack-injection"),
        DISCARD, clause="RFC 5961 §5.2",
    ),
)  # fmt: skip

_LATE = (
    *(
        Case(
            f"late-{name}",
            f"{what} of the previous connection on the same ports {where}", "plain", (_FOUR, *changes), (rule,), said,
            by=ROLES[by], clause=clause,
        )
        for name, what, where, by, changes, rule, said, clause in (
            ("request", "The Request", "comes among FPDUs, far ahead", 0,
             (_NO_STAMPS, late_of_earlier(0, 3, _FAR)), "late-duplicate", DISCARD, _ARRIVES),
            ("request-behind", "The Request", "comes among FPDUs, far back", 0,
             (_NO_STAMPS, late_of_earlier(0, 3, -_FAR)), "late-duplicate", DISCARD, _ARRIVES),
            ("request-first", "The Request", "comes before the Request of this one", 0,
             (_NO_STAMPS, late_of_earlier(0, 0, _FAR)), "late-duplicate", DISCARD, _ARRIVES),
            ("reply", "The Reply", "comes among FPDUs", 1,
             (_NO_STAMPS, late_of_earlier(0, 2, _FAR)), "late-duplicate", DISCARD, _ARRIVES),
            ("octets", "An FPDU", "comes among FPDUs", 0,
             (_NO_STAMPS, late_of_earlier(2, 3, _FAR)), "late-duplicate", DISCARD, _ARRIVES),
            ("fin", "The FIN", "comes among FPDUs", 0,
             (_NO_STAMPS, late_of_earlier(0, 3, _FAR, what="FIN")), "late-duplicate", DISCARD, _ARRIVES),
            ("syn", "The SYN", "comes among FPDUs", 0, (late_of_earlier(0, 3, _FAR, what="SYN"),),
             "attack-syn", _CHALLENGES, "RFC 5961 §4.2"),
            ("syn-of-the-responder", "The SYN of the Responder", "comes among FPDUs", 1,
             (late_of_earlier(0, 2, _FAR, what="SYN"),), "attack-syn", _CHALLENGES, "RFC 5961 §4.2"),
            ("octets-in-the-window", "An FPDU", "lies in the window; its timestamp is old", 0,
             (late_of_earlier(2, 3, 1000, peer_far=0),), "old-timestamp", DISCARD, ""),
            ("octets-next", "An FPDU", "has the next number; its timestamp is old", 0,
             (late_of_earlier(2, 3, _SIZE, peer_far=0),), "old-timestamp", DISCARD, ""),
        )
    ),
    Case(
        "late-octets-next-no-timestamps",
        "An FPDU of the previous connection on the same ports has the next number, and there are no timestamps",
        "plain", (_FOUR, _NO_STAMPS, late_of_earlier(2, 3, _SIZE, peer_far=0)),
        ("overlap", "attack-injection", "ddp-msn"), _TAKES, clause="RFC 7323 §5",
    ),
)  # fmt: skip

#: What a forged segment covers of the third FPDU: name, words, where it begins and ends, where it differs, for that.
_COVERS = (
    ("whole", "the whole of a segment", 0, _SIZE, 40),
    ("inside", "a part inside a segment", 30, 60, 10),
    ("head", "the end of one segment and the beginning of the next", -20, 50, 60),
    ("tail", "the end of a segment and the beginning of one sent later", 40, _SIZE + 20, 4),
    ("around", "a segment and octets on both sides of it", -20, _SIZE + 20, 60),
)
#: In order, or the segment before the third FPDU is late: name, words, changes, the number of that with the third FPDU.
_ORDERS = (("", "", (), 3), ("beyond-a-hole-", ", beyond a hole", (impaired("reorder", 2, distance=2),), 2))
#: Those that make the FPDU complete, so that its CRC tells that it is bad, and its receiver may have dropped it.
_COMPLETE = ("whole", "around")
#: Those that end within the FPDU, and repeat only octets that came.
_CUT = ("inside", "head")


def _takes(baseline: str, order: str, *, is_first: bool) -> Peer:
    """Return what the receiver does: it keeps the first copy of octets not beyond a hole, whose CRC may fail."""
    if baseline == "no-crc":
        return _KEEPS if order else _KEEPS_FIRST
    return _DROPS if order or is_first else DISCARD


def _overlap(baseline: str, cover: str, order: str, *, is_first: bool) -> tuple[str, ...]:
    """Return what the analysis finds if forged octets come before or after the right ones."""
    if is_first and baseline == "plain" and cover in _COMPLETE:
        return ("crc-dropped",)
    found = ("overlap", "attack-injection") if baseline == "plain" else ("overlap",)
    is_in_fpdu = not is_first and (cover == "inside" or (cover in _CUT and not order))
    return (*found, "alignment-retransmission") if is_in_fpdu else found


_OVERLAPS = (
    *(
        Case(
            f"overlap-{order}{cover}-{'first' if is_first else 'second'}{'' if baseline == 'plain' else '-no-crc'}",
            f"Forged octets in place of {what}, {'before' if is_first else 'after'} the real ones{words}",
            baseline, (_FOUR, *changes, overlapping(number, first, last, at, _EVIL, before=is_first)),
            _overlap(baseline, cover, order, is_first=is_first), _takes(baseline, order, is_first=is_first),
            clause=_ARRIVES,
        )
        for baseline in ("plain", "no-crc")
        for cover, what, first, last, at in _COVERS
        for order, words, changes, number in _ORDERS
        for is_first in (True, False)
        if (baseline, cover, order, is_first) != ("no-crc", "around", "", True)
    ),
    *(
        Case(
            f"overlap-wraps-{name}", f"Forged octets in place of a segment, {when} it, where numbers wrap",
            "plain", (_FOUR, _WRAPS, overlapping(3, 0, _SIZE, 40, _EVIL, before=name == "first")), raises, take,
            clause="RFC 9293 §3.4",
        )
        for name, when, raises, take in (
            ("first", "before", ("crc-dropped",), _DROPS),
            ("second", "after", ("overlap", "attack-injection"), DISCARD),
        )
    ),
)  # fmt: skip

CASES = (*_RST, *_SYN, *_FIN, *_DATA, *_ACKNOWLEDGEMENTS, *_LATE, *_OVERLAPS)
