"""TCP under MPA: copies that differ, checksums, sequence numbers that wrap, and signs of attacks (RFC 5044 §9.1)."""

from __future__ import annotations

from functools import partial

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import ACCEPT, BAD_CRC, DISCARD, WAIT, peer
from scapy_mpa.craft.changes.capture import repeated, reported_too_big
from scapy_mpa.craft.changes.change import of_peer
from scapy_mpa.craft.changes.injected import injected
from scapy_mpa.craft.changes.packets import again, hops, keep_alive, recut, refused
from scapy_mpa.craft.changes.said import says
from scapy_mpa.craft.changes.startup import frame_cut, instead, wraps
from scapy_mpa.craft.impairments import impaired
from scapy_mpa.craft.ulpdus import send

_FIRST, _SAID = "initiator send 30", "responder send 30"
_KEEPS_FIRST = peer("accept", "It keeps the copy that came first: to TCP the octets of the later one are old.")
#: What becomes of a segment that arrives.
_ARRIVES = "RFC 9293 §3.10.7.4"
_DROPS = peer(
    "discard",
    "It may silently drop the segment, accept the octets that TCP retransmits, and continue; if it reports the error "
    "instead, it passes on nothing from there on.",
)
_GIVES_UP = peer("wait", "It waits for the rest of each frame, gives up after a while and closes the connection.")
_EVIL = b"evil"
#: FPDUs of the Initiator, so that others follow the second.
_FOUR = says(_FIRST, _SAID, *(send(msn, bytes(60)) for msn in (2, 3, 4)))
#: A damaged segment that its receiver drops for the CRC; it comes again after this many others.
_dropped = partial(impaired, "corrupt", repaired=True, dropped=True)
#: Octets of a startup frame without Private Data.
_STARTUP = 20


_COPIES = (
    Case(
        "overlap-second-differs", "A segment arrives twice, the second time with different octets that fit no "
        "FPDU", "plain",
        (again(2, at=40, octets=_EVIL),), ("overlap", "attack-injection"), DISCARD, clause=_ARRIVES,
    ),
    Case(
        "overlap-first-differs",
        "A segment arrives twice, first with different octets that fit no FPDU, and the peer acknowledges "
        "those", "plain",
        (again(2, at=40, octets=_EVIL, ahead=True, acknowledged_between=True),),
        ("overlap", "attack-injection", "crc", "terminate@peer"), BAD_CRC, clause=_ARRIVES,
    ),
    Case(
        "overlap-no-crc", "A segment arrives twice with different octets, and no CRC says which is right", "no-crc",
        (again(2, at=40, octets=_EVIL),), ("overlap",), _KEEPS_FIRST, clause=_ARRIVES,
    ),
    Case(
        "overlap-of-a-part", "Part of a segment arrives again with different octets", "no-crc",
        (again(2, at=40, octets=_EVIL, skip=30, keep=60),), ("overlap", "alignment-retransmission"), _KEEPS_FIRST,
        clause=_ARRIVES,
    ),
    Case(
        "overlap-of-a-marker", "A segment arrives twice, and the copies differ in a Marker", "markers-no-crc",
        (says(_FIRST, _SAID, send(2, bytes(600)), send(3, b"")), again(2, at=452, octets=b"\0\0\0\x40")), ("overlap",),
        _KEEPS_FIRST, clause=_ARRIVES,
    ),
    Case(
        "two-conflicting-retransmissions", "A segment is late, and arrives twice with different octets", "no-crc",
        (
            says(_FIRST, _SAID, *(send(msn, bytes(60)) for msn in (2, 3, 4))), impaired("reorder", 2, distance=2),
            again(4, at=40, octets=_EVIL),
        ),
        ("overlap",), _KEEPS_FIRST, clause=_ARRIVES,
    ),
    Case(
        "retransmission-of-request", "The Request arrives twice", "plain", (again(0),), (), ACCEPT, clause=_ARRIVES,
    ),
    Case(
        "overlap-of-request", "The Request arrives twice, the second time with M", "plain",
        (again(0, at=16, octets=b"\xc0"),), ("overlap",), _KEEPS_FIRST, clause=_ARRIVES,
    ),
    Case(
        "keep-alive", "A keep-alive repeats an octet that was sent before, with another value", "plain",
        (keep_alive(2),), (), DISCARD, clause="RFC 9293 §3.8.4",
    ),
)  # fmt: skip

_DROPPED = (
    Case(
        "crc-dropped-and-sent-again",
        "A segment has a damaged octet but a correct TCP checksum, is not acknowledged, and is retransmitted undamaged",
        "plain", (_FOUR, _dropped(2, at=40, mask=1, distance=2)), ("crc-dropped",), _DROPS,
    ),
    Case(
        "crc-dropped-at-once", "A segment has wrong octets but a correct TCP checksum; the right copy follows",
        "plain", (again(2, at=40, octets=_EVIL, ahead=True),), ("crc-dropped",), _DROPS,
    ),
    Case(
        "crc-dropped-of-three-segments", "The second of an FPDU's three segments is damaged, and is retransmitted",
        "plain", (_FOUR, recut(2, 20, 50), _dropped(3, at=10, mask=1, distance=3)), ("crc-dropped",), _DROPS,
    ),
    Case(
        "crc-dropped-marker", "A Marker is damaged, so the CRC is wrong; the segment is retransmitted undamaged",
        "markers",
        (says(_FIRST, _SAID, send(2, bytes(600)), send(3, b""), send(4, b"")),
         _dropped(2, at=455, mask=0x40, distance=1)), ("crc-dropped",), _DROPS,
    ),
)  # fmt: skip

_CHECKSUMS = (
    Case(
        "tcp-checksum-then-right", "A damaged segment, whose TCP checksum shows it, and then the right one", "plain",
        (again(2, at=40, octets=_EVIL, ahead=True, damaged=True),), ("tcp-checksum",), DISCARD,
    ),
    Case(
        "tcp-checksum-after-right", "The right segment, and then a damaged copy, whose TCP checksum shows it", "plain",
        (again(2, at=40, octets=_EVIL, damaged=True),), ("tcp-checksum",), DISCARD,
    ),
    Case(
        "tcp-checksum-and-never-again", "A damaged segment, whose TCP checksum shows it, and which is not "
        "retransmitted",
        "plain", (impaired("corrupt", 2, at=40, mask=1, retransmit=False),), ("tcp-checksum",), WAIT,
    ),
    *(
        Case(
            f"tcp-checksum-{name}", f"TCP checksums are not filled in: {what}", "plain", (change,), (), ACCEPT,
            clause="RFC 9293 §3.1",
        )
        for name, what, change in (
            ("zero", "zero", impaired("offload", mode="zero")),
            ("pseudo", "the sum over the pseudo-header", impaired("offload", mode="pseudo")),
        )
    ),
)  # fmt: skip

_WRAPS = tuple(
    Case(
        f"wrap-{name}", f"Sequence numbers wrap {where}", baseline, (*steps, wraps(_STARTUP + offset)), (), ACCEPT,
        clause="RFC 9293 §3.4",
    )
    for name, where, baseline, offset, *steps in (
        ("in-request", "in the Key of the Request", "plain", -12),
        ("behind-request", "right after the Request", "plain", 0),
        ("in-length", "between the two octets of ULPDU_Length", "plain", 56 + 1),
        ("between-fpdus", "between two FPDUs", "plain", 56),
        ("in-crc", "in the CRC", "plain", 56 - 2),
        ("in-marker", "in a Marker", "markers", 512 + 2, says(_FIRST, _SAID, send(2, bytes(600)), send(3, b""))),
        ("before-marker", "where a Marker begins", "markers", 512,
         says(_FIRST, _SAID, send(2, bytes(600)), send(3, b""))),
        ("in-late-segment", "in a segment that is late, and located by a Marker", "markers", 512 + 2,
         says(_FIRST, _SAID, send(2, bytes(600)), send(3, b"")), recut(2, 300), impaired("reorder", 2, distance=1)),
    )
)  # fmt: skip

_ATTACKS = (
    Case(
        "outside-window", "A segment further ahead than any window", "plain",
        (injected(3, far=0x60000000, octets=b"forged"),), ("outside-window",), DISCARD,
    ),
    Case(
        "outside-window-behind", "A segment further back than any window", "plain",
        (injected(3, far=-0x60000000, octets=b"forged"),), ("outside-window",), DISCARD,
    ),
    Case(
        "ttl-changes", "From the second FPDU on, segments have a different TTL", "plain", (hops(2, 57),),
        ("attack-hijack",), ACCEPT,
    ),
    Case(
        "path-mtu-of-128", "From now on the path MTU is 128 octets", "plain",
        (says(_FIRST, _SAID, "initiator send 1400", "responder send 30", "path-mtu 128", "initiator write 5000"),),
        ("attack-path-mtu", "alignment"), ACCEPT,
    ),
    Case(
        "path-mtu-of-600", "From now on the path MTU is 600 octets", "plain",
        (says(_FIRST, _SAID, "initiator send 1400", "responder send 30", "path-mtu 600", "initiator write 5000"),),
        (), ACCEPT, clause="RFC 5044 §5.1",
    ),
    Case(
        "path-mtu-reported", "A router reports a path MTU of 128 octets, which holds from then on",
        "plain",
        (says(_FIRST, _SAID, "initiator send 1400", "responder send 30", "path-mtu 128", "initiator write 5000"),
         reported_too_big(8, 128)),
        ("path-mtu", "attack-path-mtu", "alignment"), ACCEPT,
    ),
    Case(
        "path-mtu-of-nobody", "Somebody who cannot quote outstanding octets reports a path MTU of 68 octets",
        "plain", (reported_too_big(8, 68, far=0x40000000),), ("path-mtu",),
        peer("accept", "It ignores a message that quotes none of its outstanding octets, and continues."),
    ),
    Case(
        "nobody-listens", "A SYN that is answered by a RST", "plain", (refused(),), ("tcp-refused@capture",),
        peer("accept", "Nothing listens on its port, so it answers with a RST."),
    ),
    Case(
        "requests-never-finished", "Twenty connections from one address, each with ten octets of a Request and no more",
        "plain", (frame_cut(10), of_peer(instead(b"")), says("start"), repeated(20)),
        ("startup-frame", "attack-unfinished-startup@capture"), _GIVES_UP, tests=("startup-timeout",),
    ),
)  # fmt: skip

CASES = (*_COPIES, *_DROPPED, *_CHECKSUMS, *_WRAPS, *_ATTACKS)
