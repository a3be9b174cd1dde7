"""The position of FPDUs in TCP segments (RFC 5044 §4.5, §5.1, §6 and appendix A)."""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import ACCEPT, peer
from scapy_mpa.craft.changes.packets import again, merged, recut, shifted
from scapy_mpa.craft.changes.said import says
from scapy_mpa.craft.changes.startup import setup
from scapy_mpa.craft.impairments import impaired
from scapy_mpa.craft.ulpdus import rdma_write, rdma_write_message, send

_FIRST, _SAID = "initiator send 30", "responder send 30"
_TAKES = peer("accept", "It accepts the octets: a receiver does not depend on segment boundaries.")
_TESTED = ("receiver-alignment",)

CASES: tuple[Case, ...] = (
    # --- segments ---
    Case(
        "alignment-aligned", "Forty FPDUs, each at the start of its own segment", "plain",
        (says(_FIRST, _SAID, "initiator send 500 times=40"),), (), ACCEPT, clause="RFC 5044 §5.1",
    ),
    Case(
        "alignment-packed", "Forty FPDUs, as many complete ones in each segment as fit", "plain",
        (says(_FIRST, _SAID, "initiator send 500 times=40"), setup(segmentation="packed")), (), ACCEPT,
        clause="RFC 5044 §5.1", tests=_TESTED,
    ),
    Case(
        "alignment-never", "Forty FPDUs split anywhere: hardly any segment begins with one", "plain",
        (says(_FIRST, _SAID, "initiator send 700 times=40"), setup(segmentation=({"kind": "random", "shortest": 900,
         "longest": 1100}, "aligned"))), ("alignment",), _TAKES, tests=_TESTED,
    ),
    Case(
        "alignment-never-markers", "Forty FPDUs with Markers, split anywhere", "markers",
        (says(_FIRST, _SAID, "initiator send 700 times=40"), setup(segmentation=({"kind": "random", "shortest": 900,
         "longest": 1100}, "aligned"))), ("alignment",), _TAKES, tests=_TESTED,
    ),
    Case(
        "alignment-lost", "Alignment is lost, and not regained in twenty pauses", "plain",
        (says(_FIRST, _SAID, *("initiator send 500", "pause 1") * 40), shifted(21, 300)), ("alignment-lost",), _TAKES,
        tests=_TESTED,
    ),
    Case(
        "alignment-regained", "Alignment is lost, and regained after a while", "plain",
        (says(_FIRST, _SAID, *("initiator send 500", "pause 1") * 40), shifted(21, 300, 23)), (), ACCEPT,
        clause="RFC 5044 §5.1",
    ),
    Case(
        "alignment-of-one-octet-segments", "Five FPDUs in segments of one octet", "plain",
        (says(_FIRST, _SAID, *(send(msn, bytes(6)) for msn in range(2, 7))), setup(segmentation=({"kind": "tiny",
         "longest": 1}, "aligned"))), ("alignment",), _TAKES, tests=(*_TESTED, "receiver-whole-fpdu"),
    ),
    Case(
        "fpdus-in-one-segment", "Three FPDUs in one segment; the last one ends in the next segment", "plain",
        (
            says(_FIRST, _SAID, *(send(msn, bytes(20)) for msn in (2, 3, 4))), merged(3, 2), merged(3, 2),
            recut(2, -6),
        ),
        (), ACCEPT, clause="RFC 5044 §6", tests=_TESTED,
    ),
    Case(
        "fpdu-cut-in-length", "A segment ends between the two octets of ULPDU_Length", "plain", (recut(2, 1),), (),
        ACCEPT, clause="RFC 5044 §6", tests=_TESTED,
    ),
    Case(
        "fpdu-cut-in-marker", "A segment ends in the middle of a Marker", "markers",
        (says(_FIRST, _SAID, send(2, bytes(600)), send(3, b"")), recut(2, 512 - 60 + 2)), (), ACCEPT,
        clause="RFC 5044 §6", tests=_TESTED,
    ),
    Case(
        "fpdu-late-behind-marker", "The first segment of an FPDU arrives last; a Marker before it points to its start",
        "markers", (says(_FIRST, _SAID, send(2, bytes(600)), send(3, b"")), recut(2, 300),
                    impaired("reorder", 2, distance=1)), (), ACCEPT, clause="RFC 5044 §6",
        tests=("receiver-whole-fpdu",),
    ),
    Case(
        "alignment-retransmission", "A retransmission begins in the middle of an FPDU that had its own segment",
        "plain", (says(_FIRST, _SAID, send(2, bytes(500)), send(3, bytes(500))), again(2, skip=200)),
        ("alignment-retransmission",), _TAKES, tests=_TESTED,
    ),
    Case(
        "retransmission-with-its-boundaries", "A segment is retransmitted unchanged", "plain", (again(2),), (), ACCEPT,
        clause="RFC 5044 §5.1",
    ),
    # --- MULPDU ---
    Case(
        "mulpdu-with-markers", "A ULPDU as long as MULPDU with Markers: 1430 octets", "markers",
        (says(_FIRST, _SAID, send(2, bytes(1430 - 18)), send(3, b"")),), (), ACCEPT, clause="RFC 5044 §4.5",
    ),
    Case(
        "mulpdu-and-1-that-fits", "A ULPDU one octet above MULPDU, whose FPDU fits into the segment because no third "
        "Marker falls in it", "markers", (says(_FIRST, _SAID, send(2, bytes(1431 - 18)), send(3, b"")),), ("mulpdu",),
        _TAKES,
    ),
    Case(
        "fpdu-above-emss", "An FPDU over two segments", "plain",
        (setup(mulpdu=(2000, None)), says(_FIRST, _SAID, "initiator send 1900")), ("fpdu-above-emss",), _TAKES,
        tests=("receiver-whole-fpdu",),
    ),
    Case(
        "mulpdu-half-filled", "A message in parts of 300 octets, although a segment holds 1448", "plain",
        (says(_FIRST, _SAID, send(2, bytes(1400)), *rdma_write_message(1, 0, bytes(4000), 300)),), ("mulpdu-filled",),
        _TAKES, tests=_TESTED,
    ),
    Case(
        "mulpdu-filled", "A message in parts that fill MULPDU", "plain",
        (says(_FIRST, _SAID, "initiator write 4000"),), (), ACCEPT, clause="RFC 5044 §4.5",
    ),
    *(
        Case(
            f"mulpdu-of-{size}", f"A message whose first part is a ULPDU of {size} octets, {what}", "plain",
            (
                says(
                    _FIRST, _SAID, rdma_write(1, 0, bytes(size - 14), last=False),
                    rdma_write(1, size - 14, b"", last=True),
                ),
            ),
            raises, _TAKES, clause="RFC 5044 §4.5",
        )
        for size, what, raises in ((127, "below the minimum", ("mulpdu-minimum",)), (128, "the minimum", ()))
    ),
)  # fmt: skip
