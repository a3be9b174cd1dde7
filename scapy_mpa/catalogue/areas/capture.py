"""What a capture lacks, or what was not examined: gaps, snap lengths, fragments, limits."""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import ACCEPT, peer
from scapy_mpa.craft.changes.capture import foreign, fragmented
from scapy_mpa.craft.changes.change import of_peer
from scapy_mpa.craft.changes.packets import again, recut
from scapy_mpa.craft.changes.said import says
from scapy_mpa.craft.impairments import impaired
from scapy_mpa.craft.ulpdus import send

_FIRST, _SAID = "initiator send 30", "responder send 30"
_LONG = says(_FIRST, _SAID, send(2, bytes(600)), send(3, bytes(600)), send(4, b""))
_LOST, _LATE = impaired("lose", 2, retransmit=False), impaired("reorder", 2, distance=1)
#: Octets of the second FPDU of ``_LONG`` before its Marker.
_BEFORE = 512 - 60
_HAS_ALL = peer("accept", "It has received everything: only the capture lacks octets.")
_AGAIN = peer("wait", "It waits for the missing octets, and passes on nothing after them.")
_LATER = peer(
    "wait",
    "It waits for the missing octets; it may place what a Marker locates after them, but does not deliver it.",
)
_LINKTYPE_ETHERNET, _LINKTYPE_USER0 = 1, 147
#: Two addresses of Ethernet and the EtherType of IEEE 802.1AE, then octets that nobody without its key can read.
_MACSEC = bytes(12) + b"\x88\xe5" + bytes(range(64))

_GAPS = (
    Case("gap", "A segment is lost and never retransmitted", "plain", (_LOST,), ("gap",), _AGAIN,
         tests=("receiver-whole-fpdu",)),
    Case("gap-markers", "A segment is lost and never retransmitted; a Marker points to an FPDU after it", "markers",
         (_LONG, _LOST), ("gap",), _LATER),
    Case("gap-no-crc", "A segment is lost and never retransmitted, and there are neither CRCs nor Markers", "no-crc",
         (_LOST,), ("gap",), _AGAIN),
    Case("gap-at-the-beginning", "The first FPDU is lost and never retransmitted", "plain", (says(_FIRST,
         "initiator send 60", "initiator send 60"), impaired("lose", 1, retransmit=False)), ("gap",), _AGAIN),
    Case("capture-gap", "A segment that the peer acknowledges is not in the capture", "plain",
         (impaired("capture-loss", 2),), ("capture-gap",), _HAS_ALL),
    *(
        Case(f"capture-gap-{name}", f"An FPDU is cut by a gap: {what}", "markers",
             (_LONG, recut(2, at), impaired("capture-loss", number)), ("capture-gap",), _HAS_ALL)
        for name, what, at, number in (
            ("up-to-a-marker", "what was captured of it begins with its Marker", _BEFORE, 2),
            ("up-to-behind-a-marker", "what was captured of it begins after its Marker", _BEFORE + 4, 2),
            ("from-a-marker", "what was captured of it ends before its Marker", _BEFORE, 3),
            ("from-behind-a-marker", "what was captured of it ends with its Marker", _BEFORE + 4, 3),
            ("in-a-marker", "what was captured of it begins in the middle of its Marker", _BEFORE + 2, 2),
        )
    ),
    Case("capture-gap-in-length", "A gap begins between the two octets of ULPDU_Length", "plain",
         (recut(2, 1), impaired("capture-loss", 3)), ("capture-gap",), _HAS_ALL),
    Case("late-segment", "A segment arrives late, but does arrive", "plain", (_LATE,), (), ACCEPT,
         clause="RFC 5044 §6"),
    Case("request-not-captured", "The Request is not in the capture: what it asked for is inferred", "plain",
         (impaired("capture-loss", 0),), (), _HAS_ALL, clause="RFC 5044 §7.1.2"),
    Case("reply-not-captured", "The Reply is not in the capture: what it asked for is inferred", "plain",
         (of_peer(impaired("capture-loss", 0)),), (), _HAS_ALL, clause="RFC 5044 §7.1.2"),
    Case("captured-from-the-middle", "The capture begins after the startup frames", "markers",
         (says(*("initiator send 600", "responder send 600") * 6), impaired("cut", count=7)), (), _HAS_ALL,
         clause="RFC 5044 §6"),
)  # fmt: skip

_PARTS = (
    Case("snap-length-100", "The capture keeps 100 octets of each packet", "plain", (impaired("snap", length=100),),
         ("capture-cut", "capture-cut@peer"), _HAS_ALL),
    Case("fragments", "A segment arrives in two IP fragments", "plain", (fragmented(8),),
         ("ip-fragmented",), ACCEPT),
    Case("fragments-overlap", "Two IP fragments overlap by eight octets; the segment is retransmitted", "plain",
         (again(2), fragmented(8, overlap=8)), ("ip-fragments@capture",),
         peer("discard", "It reassembles the datagram or drops it, and has the segment once."),
         clause="RFC 791 §3.2"),
    Case("link-type-147", "A second interface of the capture has an unknown link type", "plain",
         (foreign(_LINKTYPE_USER0, b"whatever this is"),), ("link-type@capture",), _HAS_ALL),
    Case("macsec", "A packet under MACsec, which is not read", "plain", (foreign(_LINKTYPE_ETHERNET, _MACSEC),),
         ("not-read@capture",), _HAS_ALL),
    Case("limit-of-50-octets", "More octets wait for a late segment than may be held", "plain", (_LATE,),
         ("limit", "gap"), ACCEPT, options=("--limit", "held_octets=50")),
    Case("assumed-start-elsewhere", "Full Operation begins where nothing was captured, as --assume says", "plain", (),
         ("assumption@capture",), ACCEPT, options=("--assume", "start=1")),
)  # fmt: skip

CASES = (*_GAPS, *_PARTS)
