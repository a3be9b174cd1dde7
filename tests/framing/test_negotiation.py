"""Negotiation against RFC 5044 Figures 14 to 17, RFC 6581, and the startup frames of real captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.errors import FramingError
from scapy_mpa.framing import NOT_NEGOTIATED, PROFILES, EnhancedData, StartupFrame, startup_frame
from scapy_mpa.framing.agreement import RNIC_KINDS, RTR_TYPES, Close, ReadDepths, RnicKind, RtrType, agreed, rtr_types
from scapy_mpa.framing.deviations import Seen, rtr_type
from scapy_mpa.framing.judgement import Judgement, judge
from scapy_mpa.framing.negotiation import NegotiationOutcome, Side, initiator_closes, negotiate, request_of
from scapy_mpa.framing.role import Role
from scapy_mpa.rules.table import RULES
from tests.conftest import captures

RDMAC, IETF, PERMISSIVE = RNIC_KINDS
BOTH_IETF = (IETF, PERMISSIVE)

# --- Figure 14: kind, what its frames may say as (Rev, M, C), and the DDP and RDMAP versions it can speak ---

FIGURE_14 = [
    (RDMAC, {(0, 1, 1)}, {0}),
    (IETF, {(1, m, c) for m in (0, 1) for c in (0, 1)}, {1}),
    (PERMISSIVE, {(1, m, c) for m in (0, 1) for c in (0, 1)} | {(0, 1, 1)}, {0, 1}),
]


@pytest.mark.parametrize(("kind", "frames", "versions"), FIGURE_14, ids=[row[0] for row in FIGURE_14])
def test_figure_14(kind: RnicKind, frames: set[tuple[int, int, int]], versions: set[int]) -> None:
    seen_frames: set[tuple[int, int, int]] = set()
    seen_versions: set[int] = set()
    for other in RNIC_KINDS:
        for m, c in ((0, 0), (0, 1), (1, 0), (1, 1)):
            for outcome, own in (
                (negotiate(Side(kind, m, c), Side(other)), "request"),
                (negotiate(Side(other), Side(kind, m, c)), "reply"),
            ):
                frame = getattr(outcome, own)
                if frame is not None:
                    seen_frames.add((frame.rev, frame.m, frame.c))
                if outcome.operation is not None:
                    seen_versions.update(outcome.operation.versions)
    assert seen_frames == frames
    assert seen_versions == versions


# --- Figures 15 to 17. A column or row is a kind and its M; a cell is V, and M as the figure writes it: whether the
# Initiator / the Responder receives Markers. ---

Cell = tuple[int, int, int] | str
Row = tuple[RnicKind, int, tuple[Cell, ...]]
Columns = tuple[tuple[RnicKind, int], ...]
FIGURES: dict[int, tuple[Columns, tuple[Row, ...]]] = {
    15: (
        ((RDMAC, 1), (IETF, 0), (IETF, 1)),
        (
            (RDMAC, 1, ((0, 1, 1), "close", "close")),
            (IETF, 0, ("close", (1, 0, 0), (1, 0, 1))),
            (IETF, 1, ("close", (1, 1, 0), (1, 1, 1))),
        ),
    ),
    16: (
        ((RDMAC, 1), (PERMISSIVE, 0), (PERMISSIVE, 1)),
        (
            (RDMAC, 1, ((0, 1, 1), "N/A", (0, 1, 1))),
            (PERMISSIVE, 0, ((0, 1, 1), (1, 0, 0), (1, 0, 1))),
            (PERMISSIVE, 1, ((0, 1, 1), (1, 1, 0), (1, 1, 1))),
        ),
    ),
    17: (
        ((IETF, 0), (IETF, 1), (PERMISSIVE, 0), (PERMISSIVE, 1)),
        (
            (IETF, 0, ((1, 0, 0), (1, 0, 1), (1, 0, 0), (1, 0, 1))),
            (IETF, 1, ((1, 1, 0), (1, 1, 1), (1, 1, 0), (1, 1, 1))),
            (PERMISSIVE, 0, ((1, 0, 0), (1, 0, 1), (1, 0, 0), (1, 0, 1))),
            (PERMISSIVE, 1, ((1, 1, 0), (1, 1, 1), (1, 1, 0), (1, 1, 1))),
        ),
    ),
}
CELLS = [
    pytest.param(
        Side(kind, m), Side(other, other_m), cell, id=f"figure-{number}: {kind} M={m} to {other} M={other_m}: {cell}"
    )
    for number, (columns, rows) in FIGURES.items()
    for kind, m, cells in rows
    for (other, other_m), cell in zip(columns, cells, strict=True)
]


def test_every_cell_is_there() -> None:
    assert len(CELLS) == 9 + 9 + 16


@pytest.mark.parametrize(("initiator", "responder", "cell"), CELLS)
def test_figures_15_to_17(initiator: Side, responder: Side, cell: Cell) -> None:
    outcome = negotiate(initiator, responder)
    judgement = judge(outcome.request, outcome.reply)
    assert judgement.permitted
    assert initiator.kind in judgement.initiator_kinds
    assert responder.kind in judgement.responder_kinds
    assert outcome.reply is not None
    if cell == "close":
        # C.2.1: the Reply says Rev 1, and the Responder closes. C.2.2: the Initiator closes when it reads Rev 0.
        assert outcome.operation is None
        assert outcome.close is not None
        closer = "responder" if initiator.kind == RDMAC else "initiator"
        assert (outcome.close.by, outcome.close.code, outcome.close.certain) == (closer, 4, True)
        assert outcome.reply.rev == (1 if initiator.kind == RDMAC else 0)
        assert judgement.close is not None
        assert (judgement.close.by, judgement.close.on) == (closer, outcome.close.on)
        assert not judgement.close.certain  # nor is it in a capture: a permissive RNIC would go on
        return
    if cell == "N/A":
        # A permissive Responder answers an RDMAC RNIC as in the next column. C.2.3.
        assert outcome == negotiate(initiator, responder._replace(m=1))
        assert judge(outcome.request, outcome.reply._replace(m=0)).responder_kinds == ()
        cell = (0, 1, 1)
    for operation in (outcome.operation, judgement.operation):
        assert operation is not None
        assert (operation.versions, operation.markers_from_responder, operation.markers_from_initiator) == (
            (cell[0],),
            bool(cell[1]),
            bool(cell[2]),
        )
        assert operation.crc is (cell[0] == 0)
        assert operation.profile is PROFILES["rfc5044" if cell[0] else "rddp-01"]


RDMAC_REQUEST = startup_frame("request", m=1, c=1, rev=0)
RDMAC_REPLY = startup_frame("reply", m=1, c=1, rev=0)
REQUEST, REPLY = startup_frame("request"), startup_frame("reply")

# Request, Reply, versions the Initiator sends (None: nothing), kinds of the Initiator, of the Responder.
KINDS = [
    (None, None, None, RNIC_KINDS, RNIC_KINDS),
    (RDMAC_REQUEST, None, None, (RDMAC,), RNIC_KINDS),
    (RDMAC_REQUEST, RDMAC_REPLY, None, (RDMAC,), (RDMAC, PERMISSIVE)),
    (RDMAC_REQUEST, RDMAC_REPLY, 1, (), (RDMAC, PERMISSIVE)),
    (RDMAC_REQUEST, REPLY, None, (RDMAC,), (IETF,)),
    (REQUEST, None, None, BOTH_IETF, RNIC_KINDS),
    (REQUEST, REPLY, None, BOTH_IETF, BOTH_IETF),
    (REQUEST, REPLY, 1, BOTH_IETF, BOTH_IETF),
    (REQUEST, RDMAC_REPLY, None, BOTH_IETF, (RDMAC,)),
    (REQUEST, RDMAC_REPLY, 0, (PERMISSIVE,), (RDMAC,)),
    (REQUEST, RDMAC_REPLY, 1, (IETF,), (RDMAC,)),
    (None, RDMAC_REPLY, None, RNIC_KINDS, (RDMAC, PERMISSIVE)),
    (None, RDMAC_REPLY, 0, (RDMAC, PERMISSIVE), (RDMAC, PERMISSIVE)),
    (None, REPLY, 1, BOTH_IETF, BOTH_IETF),
    (None, startup_frame("reply", enhanced=EnhancedData()), None, BOTH_IETF, BOTH_IETF),
    (startup_frame("request", m=1, rev=0), None, None, (), RNIC_KINDS),
    (RDMAC_REQUEST, startup_frame("reply", rev=0), None, (RDMAC,), ()),
    (REQUEST, startup_frame("reply", rev=0), 0, (PERMISSIVE,), ()),
    (REQUEST, startup_frame("reply", rev=0), 1, BOTH_IETF, ()),
]


def message(version: int, opcode: int = 3, *, tagged: bool = False, body: bytes = b"") -> bytes:
    """A ULPDU, the last of its message."""
    control = bytes([(0xC0 if tagged else 0x40) | version, version << 6 | opcode])
    return control + bytes(12 if tagged else 16) + body


@pytest.mark.parametrize(("request_", "reply", "version", "initiator", "responder"), KINDS)
def test_kinds(
    request_: StartupFrame | None,
    reply: StartupFrame | None,
    version: int | None,
    initiator: tuple[RnicKind, ...],
    responder: tuple[RnicKind, ...],
) -> None:
    seen = Seen(initiator=None if version is None else message(version, body=b"x"))
    judgement = judge(request_, reply, seen)
    assert (judgement.initiator_kinds, judgement.responder_kinds) == (initiator, responder)


def ids_of(deviations: tuple[Any, ...]) -> list[str]:
    return [deviation.id for deviation in deviations]


# --- RFC 6581 ---


def enhanced_data(flags: str, ird: int, ord_: int) -> EnhancedData:
    a, b, c, d = (int(flag in flags) for flag in "ABCD")
    return EnhancedData(a, b, c, d, ird, ord_)


def enhanced(
    flags: str = "", ird: int = 0, ord: int = 0, *, kind: RnicKind = IETF, revision: int = 2, **choices: Any
) -> Side:
    """A Side with RFC 6581; ``flags`` are those of A, B, C, D that are set."""
    return Side(kind, revision=revision, enhanced=enhanced_data(flags, ird, ord), **choices)


def reply_data(outcome: NegotiationOutcome) -> EnhancedData:
    assert outcome.reply is not None
    assert outcome.reply.enhanced is not None
    return outcome.reply.enhanced


# Initiator's IRD, ORD; what the Responder can hold and wants; IRD, ORD of the Reply; all four afterwards. §9.1
DEPTHS = [
    ((4, 4), (8, 8), (4, 4), (4, 4, 4, 4)),
    ((8, 8), (4, 4), (4, 4), (8, 4, 4, 4)),
    ((0, 0), (8, 8), (0, 0), (0, 0, 0, 0)),
    ((16, 0), (0, 16), (0, 16), (16, 0, 0, 16)),
    ((1, 9), (3, 0), (3, 0), (1, 3, 3, 0)),
    ((NOT_NEGOTIATED, 4), (8, 8), (4, NOT_NEGOTIATED), (None, 4, 4, None)),
    ((4, NOT_NEGOTIATED), (8, 8), (NOT_NEGOTIATED, 4), (4, None, None, 4)),
    ((NOT_NEGOTIATED, NOT_NEGOTIATED), (8, 8), (NOT_NEGOTIATED, NOT_NEGOTIATED), (None,) * 4),
    ((4, 4), (NOT_NEGOTIATED, NOT_NEGOTIATED), (NOT_NEGOTIATED, NOT_NEGOTIATED), (4, 4, None, None)),
    ((16382, 16382), (16382, 16382), (16382, 16382), (16382, 16382, 16382, 16382)),
]


@pytest.mark.parametrize(("asked", "has", "answered", "after"), DEPTHS)
def test_ird_and_ord(
    asked: tuple[int, int], has: tuple[int, int], answered: tuple[int, int], after: tuple[int | None, ...]
) -> None:
    outcome = negotiate(enhanced("", *asked), enhanced("", *has))
    assert reply_data(outcome)[4:] == answered
    assert outcome.operation is not None
    assert outcome.operation.depths == ReadDepths(*after)
    judgement = judge(outcome.request, outcome.reply)
    assert judgement.permitted
    assert judgement.operation == outcome.operation


def test_depths_that_do_not_fit() -> None:
    with pytest.raises(FramingError, match="14 bits"):
        negotiate(enhanced("", 16384, 0), Side())


def test_responder_rejects_for_its_ord() -> None:
    outcome = negotiate(enhanced("", 1, 1), enhanced("", 1, 2, requires_ord=True))
    assert (outcome.rejected, outcome.operation, outcome.close) == ("ird", None, None)
    assert outcome.reply is not None
    assert (outcome.reply.r, reply_data(outcome).ord) == (1, 2)  # §9.1: R, and the ORD that is required
    judgement = judge(outcome.request, outcome.reply)
    assert (judgement.permitted, judgement.rejected, judgement.operation) == (True, True, None)
    by_the_ulp = negotiate(enhanced("", 1, 1), enhanced("", 1, 2, rejects=True))
    assert (by_the_ulp.rejected, reply_data(by_the_ulp).ord) == ("ulp", 1)
    content = negotiate(enhanced("", 2, 1), enhanced("", 1, 2, requires_ord=True))
    assert (content.rejected, reply_data(content).ord) == (None, 2)
    left_to_the_ulp = negotiate(enhanced("", NOT_NEGOTIATED, 1), enhanced("", 1, 2, requires_ord=True))
    assert left_to_the_ulp.rejected is None


def test_initiator_without_resources_sends_code_6() -> None:
    outcome = negotiate(enhanced("AC", 8, 1, ird_resources=3), enhanced("C", 1, 4))
    assert outcome.close is not None
    assert outcome.close[:4] == ("initiator", "reply", 6, "ird-ord")
    assert outcome.close.terminate
    assert negotiate(enhanced("AC", 8, 1, ird_resources=4), enhanced("C", 1, 4)).close is None


# What the Initiator has and prefers, what the Responder has, the Reply's types, the common ones, the one sent. §9.2
RTR: list[tuple[str, tuple[RtrType, ...], str, str, tuple[RtrType, ...], RtrType | None]] = [
    ("AB", (), "B", "B", ("send",), "send"),
    ("AC", (), "C", "C", ("write",), "write"),
    ("AD", (), "D", "D", ("read",), "read"),
    ("ABCD", (), "BCD", "BCD", RTR_TYPES, "send"),
    ("ABCD", ("read", "write"), "BCD", "BCD", RTR_TYPES, "read"),
    ("ABCD", ("read", "write"), "BC", "BC", ("send", "write"), "write"),
    ("AC", (), "BD", "BD", (), None),
    ("AC", (), "", "B", (), None),
    ("AB", (), "", "B", ("send",), "send"),
    ("A", (), "BCD", "BCD", (), None),
]


@pytest.mark.parametrize(("has", "prefers", "other", "answered", "common", "sent"), RTR)
def test_rtr(
    has: str,
    prefers: tuple[RtrType, ...],
    other: str,
    answered: str,
    common: tuple[RtrType, ...],
    sent: RtrType | None,
) -> None:
    outcome = negotiate(enhanced(has, 1, 1, rtr_preference=prefers), enhanced(other, 1, 1))
    data = reply_data(outcome)
    assert data[:4] == (1, *(int(flag in answered) for flag in "BCD"))
    assert outcome.rtr == sent
    judgement = judge(outcome.request, outcome.reply)
    assert judgement.permitted
    if common:
        assert outcome.operation is not None
        assert judgement.operation is not None
        assert outcome.operation.rtr == judgement.operation.rtr == common
    else:
        assert outcome.close == judgement.close
        assert outcome.close is not None
        assert outcome.close[:4] == ("initiator", "reply", 7, "peer-to-peer")
        assert outcome.close.terminate
        assert outcome.operation is judgement.operation is None


@pytest.mark.parametrize(
    ("flags", "other", "ird", "remarks"),
    [
        ("AD", enhanced("D", 4, 4), 1, []),
        ("AD", enhanced("D", 4, 4, raises_ird=False), 0, ["rtr-read-depth"]),
        ("AD", enhanced("D", 0, 4), 0, ["rtr-read-depth"]),
        ("AB", enhanced("BD", 4, 4), 0, []),
        ("ABD", enhanced("B", 4, 4), 0, []),
        ("", enhanced("D", 4, 4), 0, []),
    ],
)
def test_ird_for_an_rtr_read(flags: str, other: Side, ird: int, remarks: list[str]) -> None:
    outcome = negotiate(enhanced(flags, 4, 0), other)
    assert reply_data(outcome).ird == ird
    assert ids_of(judge(outcome.request, outcome.reply).remarks) == remarks


def test_flags_are_ignored_without_a() -> None:
    assert rtr_types(EnhancedData(0, 1, 1, 1)) == ()
    assert rtr_types(EnhancedData(1, 1, 0, 1)) == ("send", "read")


def test_client_server_clears_the_flags() -> None:
    outcome = negotiate(enhanced("BCD", 1, 1), enhanced("BCD", 1, 1))
    assert outcome.request.enhanced == reply_data(outcome) == EnhancedData(ird=1, ord=1)
    assert outcome.operation is not None
    assert (outcome.operation.rtr, outcome.rtr) == (None, None)


PLAIN_2 = Side(revision=2)
# Initiator, Responder, Rev of the Request and of the Reply (None: closed at once), both enhanced. §6, §10
REVISIONS = [
    (enhanced(), enhanced(), 2, 2, True),
    (enhanced(revision=3), enhanced(), 3, 2, True),
    (enhanced(), enhanced(revision=3), 2, 2, True),
    (Side(), enhanced(), 1, 1, False),
    (PLAIN_2, enhanced(), 2, 2, False),
    (PLAIN_2, PLAIN_2, 2, 2, False),
    (PLAIN_2, Side(), 2, 1, False),
    (PLAIN_2, Side(accepts_newer=False), 2, None, False),
    (enhanced(), Side(), 2, None, False),
    (enhanced(), PLAIN_2, 2, None, False),
    (enhanced(), Side(RDMAC), 2, None, False),
    (enhanced(), Side(PERMISSIVE), 2, None, False),
    (Side(RDMAC), enhanced(kind=PERMISSIVE), 0, 0, False),
    (Side(RDMAC), enhanced(), 0, 1, False),
    (Side(RDMAC), enhanced(replies_before_close=False), 0, None, False),
]


@pytest.mark.parametrize(("initiator", "responder", "rev", "answer", "both"), REVISIONS)
def test_revisions(initiator: Side, responder: Side, rev: int, answer: int | None, both: bool) -> None:
    outcome = negotiate(initiator, responder)
    assert outcome.request.rev == rev
    assert (outcome.reply.rev if outcome.reply else None) == answer
    assert (outcome.operation is not None and outcome.operation.depths is not None) == both
    if outcome.reply is None:
        assert outcome.close is not None
        assert outcome.close[:3] == ("responder", "request", 4)
        assert outcome.operation is None
    else:
        assert (outcome.reply.s, outcome.request.s) == (int(both), int(both))
    if outcome.request.s and outcome.reply is None:
        # The plain Request that may follow is answered by whoever closed. §10
        assert outcome.retry == startup_frame("request")
        assert negotiate(Side(PERMISSIVE), responder).operation is not None
    else:
        assert outcome.retry is None


@pytest.mark.parametrize("data", [b"x" * 509, b"x" * 70_000])
def test_private_data_that_is_too_long(data: bytes) -> None:
    outcome = negotiate(enhanced(private_data=data), enhanced())
    assert outcome.close is not None
    assert outcome.close[:3] == ("responder", "request", 4)
    assert outcome.reply is outcome.retry is None
    outcome = negotiate(enhanced(), enhanced(private_data=data))
    assert outcome.close is not None
    assert outcome.close[:3] == ("initiator", "reply", 4)
    assert negotiate(enhanced(private_data=b"x" * 508), enhanced(private_data=b"x" * 508)).close is None


def test_a_rejection_comes_before_the_rtr_types() -> None:
    assert negotiate(enhanced("AB", 1, 1), enhanced("C", 1, 1, rejects=True)).rejected == "ulp"


@pytest.mark.parametrize("data", [None, EnhancedData(1, 1, 0, 0, 1, 1)])
def test_ulp_rejects(data: EnhancedData | None) -> None:
    revision = 2 if data else 1
    initiator = Side(revision=revision, enhanced=data, private_data=b"question")
    responder = Side(revision=revision, enhanced=data, private_data=b"answer", rejects=True)
    outcome = negotiate(initiator, responder)
    assert (outcome.rejected, outcome.close, outcome.operation, outcome.rtr) == ("ulp", None, None, None)
    assert outcome.reply is not None
    assert outcome.reply.r == 1
    assert outcome.reply.private_data.endswith(b"answer")
    judgement = judge(outcome.request, outcome.reply)
    assert (judgement.permitted, judgement.rejected, judgement.operation) == (True, True, None)
    after = judge(outcome.request, outcome.reply, Seen(initiator=message(1)))
    assert ids_of(after.violations) == ["startup-fpdu-after-rejection"]


# --- wrong frames ---


def frame(kind: str, text: str = "", **fields: Any) -> StartupFrame:
    """A frame; ``text`` is flags and depths of an enhanced one, as in "AC 1/4"."""
    if text:
        flags, _, depths = text.partition(" ")
        ird, ord_ = map(int, depths.split("/"))
        fields["enhanced"] = enhanced_data(flags, ird, ord_)
    return startup_frame("request" if kind == "request" else "reply", **fields)


def pair(asked: str, answered: str, **fields: Any) -> tuple[StartupFrame, StartupFrame]:
    return frame("request", asked), frame("reply", answered, **fields)


ALL_ONES = NOT_NEGOTIATED
# What was captured; ids of violations; who is at fault.
VIOLATIONS: list[tuple[str, StartupFrame | None, StartupFrame | None, list[str], Role]] = [
    ("reserved bits", frame("request", res=8), REPLY, ["startup-reserved-bits"], "initiator"),
    ("S with Rev 1", frame("request", s=1, rev=1), REPLY, ["startup-enhanced-revision"], "initiator"),
    ("S with Rev 0", frame("request", s=1, rev=0), None, ["startup-enhanced-revision"], "initiator"),
    ("R in a Request", frame("request", r=1), REPLY, ["startup-request-r"], "initiator"),
    ("flags without A", *pair("B 1/1", "- 1/1"), ["enhanced-control-flags"], "initiator"),
    ("flags without A", *pair("- 1/1", "CD 1/1"), ["enhanced-control-flags"], "responder"),
    ("A is dropped", *pair("AB 1/1", "- 1/1"), ["enhanced-connection-model"], "responder"),
    ("A is made up", *pair("- 1/1", "AB 1/1"), ["enhanced-connection-model"], "responder"),
    ("A is dropped in a rejection", *pair("AB 1/1", "- 1/1", r=1), ["enhanced-connection-model"], "responder"),
    ("A and no type", *pair("AB 1/1", "A 1/1"), ["rtr-none"], "responder"),
    ("ORD above IRD", *pair("- 1/1", "- 1/2"), ["ird-ord-responder-ord"], "responder"),
    ("ORD 0x3FFF not answered", *pair(f"- 1/{ALL_ONES}", "- 1/1"), ["ird-ord-not-negotiated"], "responder"),
    ("IRD 0x3FFF not answered", *pair(f"- {ALL_ONES}/1", "- 1/1"), ["ird-ord-not-negotiated"], "responder"),
    ("plain Reply", frame("request", "- 1/1"), REPLY, ["enhanced-reply"], "responder"),
    ("plain Reply of Rev 2", frame("request", "- 1/1"), frame("reply", rev=2), ["enhanced-reply"], "responder"),
    ("enhanced Reply", REQUEST, frame("reply", "- 1/1"), ["enhanced-reply"], "responder"),
    ("long Private Data", frame("request", private_data=bytes(513)), None, ["startup-private-data-limit"], "initiator"),
    (
        "long Private Data",
        REQUEST,
        frame("reply", private_data=bytes(513)),
        ["startup-private-data-limit"],
        "responder",
    ),
    ("draft's long Private Data", frame("request", rev=0, private_data=bytes(513)), None, [], "initiator"),
    ("two Requests", REQUEST, REQUEST, ["startup-role"], "responder"),
    ("two Replies", REPLY, REPLY, ["startup-role"], "initiator"),
    ("S, no room", frame("request", s=1, rev=2, private_data=bytes(3)), None, ["startup-enhanced-data"], "initiator"),
]


@pytest.mark.parametrize(
    ("request_", "reply", "found", "by"), [pytest.param(*row[1:], id=row[0]) for row in VIOLATIONS]
)
def test_violations(request_: StartupFrame | None, reply: StartupFrame | None, found: list[str], by: Role) -> None:
    judgement = judge(request_, reply)
    assert ids_of(judgement.violations) == found
    assert {deviation.by for deviation in judgement.violations} <= {by}
    assert judgement.permitted is (not found)
    assert all(RULES[deviation.id].severity != "note" for deviation in judgement.violations)
    assert all(RULES[deviation.id].severity == "note" for deviation in judgement.remarks)


def test_long_private_data_of_the_draft_to_an_rfc_5044_responder() -> None:
    request = frame("request", rev=0, private_data=bytes(513))
    judgement = judge(request, REPLY)
    assert ids_of(judgement.violations) == ["startup-private-data-limit", "startup-invalid-answered"]
    assert judgement.close is not None
    assert judgement.close[:4] == ("responder", "request", 4, "startup-frame")
    assert judge(request, startup_frame("reply", rev=0)).permitted


@pytest.mark.parametrize(
    ("request_", "reply", "remarks"),
    [
        (startup_frame("request", rev=0), startup_frame("reply", rev=0), ["rnic-parameters"] * 2),
        (startup_frame("request", rev=0, c=1), REPLY, ["rnic-parameters", "rnic-foreign-revision"]),
        (REQUEST, RDMAC_REPLY, ["rnic-foreign-revision"]),
        (frame("request", rev=2), REPLY, ["startup-revision-differs"]),
        (*pair("- 1/2", "- 1/1"), ["ird-ord-responder-ird"]),
        (*pair("A 1/1", "AB 1/1"), ["rtr-none-offered"]),
        (*pair("ABD 1/0", "ABD 0/1"), ["rtr-read-depth"]),
        (*pair("ABD 1/0", "AB 0/1"), []),
        (*pair("- 1/1", f"- {ALL_ONES}/{ALL_ONES}"), []),
    ],
)
def test_remarks(request_: StartupFrame, reply: StartupFrame, remarks: list[str]) -> None:
    judgement = judge(request_, reply)
    assert ids_of(judgement.remarks) == remarks
    assert judgement.permitted


def test_no_remark_about_depths_in_a_rejection() -> None:
    assert judge(*pair("- 1/2", "- 1/1", r=1)).remarks == ()


@pytest.mark.parametrize(
    ("request_", "reply", "end"),
    [
        (REQUEST, REQUEST, ("initiator", "reply", 4, "startup-rules")),
        (REPLY, REPLY, ("responder", "request", 4, "startup-rules")),
        (REPLY, None, ("responder", "request", 4, "startup-rules")),
        (*pair("AB 1/1", "- 1/1"), ("initiator", "reply", 7, "peer-to-peer")),
        (*pair("- 1/1", "AB 1/1"), ("initiator", "reply", 7, "peer-to-peer")),
        (*pair("AB 1/1", "AC 1/1"), ("initiator", "reply", 7, "peer-to-peer")),
        (*pair("AB 1/1", "AC 1/1", r=1), None),
        (*pair(f"- 1/{ALL_ONES}", "- 1/1"), None),
    ],
)
def test_ends(request_: StartupFrame, reply: StartupFrame | None, end: tuple[str, str, int, str] | None) -> None:
    close = judge(request_, reply).close
    assert (close[:4] if close else None) == end


def test_the_end_of_a_dropped_a_is_not_certain() -> None:
    judgement = judge(*pair("AB 1/1", "- 1/1"))
    assert judgement.close is not None
    assert not judgement.close.certain
    assert judgement.operation is not None
    assert judgement.operation.rtr is None


def test_no_depth_no_remark() -> None:
    assert judge(*pair(f"- 1/{ALL_ONES}", "- 1/1")).remarks == ()


def test_rev_0_that_is_not_an_rdmac_rnic() -> None:
    operation = judge(startup_frame("request", rev=0), RDMAC_REPLY).operation
    assert operation is not None
    assert operation.versions == (0, 1)
    assert (operation.markers_from_initiator, operation.markers_from_responder) == (True, False)


def test_too_high_an_ord_may_end_in_code_6() -> None:
    request, reply = pair("- 1/1", "- 1/2")
    judgement = judge(request, reply)
    assert judgement.close is not None
    assert (judgement.close.code, judgement.close.by, judgement.close.certain) == (6, "initiator", False)
    assert judgement.operation is not None
    assert judgement.operation.depths == ReadDepths(2, 1, 1, 2)  # unless the Initiator raises its IRD


# --- the beginning of Full Operation ---

ZERO_SEND, ZERO_WRITE = message(1), message(1, 0, tagged=True)
ZERO_READ = message(1, 1, body=bytes(28))
READ = message(1, 1, body=bytes(12) + b"\0\0\0\1" + bytes(12))
CODE_7, CODE_6 = message(1, 7, body=b"\x20\x07\0\0"), message(1, 7, body=b"\x20\x06\0\0")


@pytest.mark.parametrize(
    ("ulpdu", "kind"),
    [
        (ZERO_SEND, "send"), (ZERO_WRITE, "write"), (ZERO_READ, "read"),
        (message(1, body=b"x"), None), (message(1, 0, tagged=True, body=b"x"), None), (READ, None),
        (message(1, 5), None), (message(1, 1), None), (message(1, 2, tagged=True), None), (CODE_7, None),
        (b"", None), (b"\x40", None), (b"\0" + ZERO_SEND[1:], None),
    ],
)  # fmt: skip
def test_rtr_type(ulpdu: bytes, kind: RtrType | None) -> None:
    assert rtr_type(ulpdu) == kind


AGREED, DISAGREED = pair("ACD 1/1", "ACB 1/1"), pair("AC 1/1", "AB 1/1")
RAN_AS_RDMAC = RDMAC_REQUEST, RDMAC_REPLY
INVALID, ANSWERED = (
    (frame("request", private_data=bytes(513)), REPLY),
    ["startup-private-data-limit", "startup-invalid-answered"],
)
SEEN: list[tuple[str, tuple[StartupFrame, StartupFrame], Seen, list[str]]] = [
    ("RTR Write", AGREED, Seen(ZERO_WRITE, message(1, body=b"x")), []),
    ("Terminate in place of RTR", AGREED, Seen(CODE_6), []),
    ("RTR of the Initiator only", AGREED, Seen(ZERO_READ), ["rtr"]),
    ("RTR of the Responder only", AGREED, Seen(ZERO_SEND), ["rtr"]),
    ("no RTR", AGREED, Seen(message(1, body=b"x")), ["rtr"]),
    ("an FPDU that is no DDP", AGREED, Seen(b"x"), ["rtr"]),
    ("Responder's only", AGREED, Seen(None, message(1)), []),
    ("code 7", DISAGREED, Seen(CODE_7), []),
    ("no code 7", DISAGREED, Seen(ZERO_WRITE), ["rtr-not-closed"]),
    ("a Responder that had to close", INVALID, Seen(message(1)), ANSWERED),
    ("a Responder that had to close", INVALID, Seen(None, message(1)), [*ANSWERED, "startup-not-closed"]),
    ("version 1", (REQUEST, REPLY), Seen(message(1), message(1)), []),
    ("version 0", (REQUEST, REPLY), Seen(message(0), message(0)), ["rnic-version"] * 2),
    ("versions differ", (REQUEST, REPLY), Seen(message(0), message(1)), ["rnic-version", "rnic-version-mixed"]),
    ("DV is not RV", (REQUEST, REPLY), Seen(b"\x41\3" + bytes(16)), ["rnic-version"]),
    ("RDMAC", RAN_AS_RDMAC, Seen(message(0), message(0)), []),
    ("RDMAC with version 1", RAN_AS_RDMAC, Seen(message(1)), ["rnic-version"]),
    ("permissive", (REQUEST, RDMAC_REPLY), Seen(message(0), message(0)), []),
    ("Rev 0 answered by Rev 1", (RDMAC_REQUEST, REPLY), Seen(message(1), message(1)), []),
    (
        "Rev 0 answered by Rev 1",
        (RDMAC_REQUEST, REPLY),
        Seen(message(0), message(1)),
        ["rnic-version", "rnic-version-mixed"],
    ),
]


@pytest.mark.parametrize(("frames", "seen", "found"), [pytest.param(*row[1:], id=row[0]) for row in SEEN])
def test_seen(frames: tuple[StartupFrame, StartupFrame], seen: Seen, found: list[str]) -> None:
    assert ids_of(judge(*frames, seen).violations) == found


@pytest.mark.parametrize("m", [0, 1])
@pytest.mark.parametrize("c", [0, 1])
def test_one_frame_alone(m: int, c: int) -> None:
    one = judge(startup_frame("request", m=m, c=c), None).operation
    other = judge(None, startup_frame("reply", m=m, c=c)).operation
    assert one is not None
    assert other is not None
    assert (one.markers_from_initiator, one.markers_from_responder, one.crc) == (None, bool(m), True if c else None)
    assert (other.markers_from_initiator, other.markers_from_responder, other.crc) == (
        bool(m), None, True if c else None,
    )  # fmt: skip


def test_no_frame() -> None:
    assert judge(None, None) == Judgement(RNIC_KINDS, RNIC_KINDS, None, False, None, (), ())
    with pytest.raises(ValueError, match="neither"):
        agreed(None, None)


# --- for every pair of sides, and of frames ---

bits = st.integers(0, 1)
depths = st.integers(0, 3) | st.just(NOT_NEGOTIATED) | st.integers(0, NOT_NEGOTIATED)
datas = st.builds(EnhancedData, bits, bits, bits, bits, depths, depths)
sides = st.builds(
    Side,
    kind=st.sampled_from(RNIC_KINDS),
    m=bits,
    c=bits,
    revision=st.integers(1, 3),
    enhanced=st.none() | datas,
    private_data=st.binary(max_size=8) | st.sampled_from([bytes(508), bytes(509), bytes(513)]),
    rtr_preference=st.permutations(RTR_TYPES).map(lambda order: tuple(order[:2])),
    ird_resources=st.none() | st.integers(0, 3),
    rejects=st.sampled_from([False, False, False, True]),
    requires_ord=st.booleans(),
    raises_ird=st.booleans(),
    accepts_newer=st.booleans(),
    replies_before_close=st.booleans(),
    is_draft=st.just(False),
)


@pytest.mark.parametrize("m", [0, 1])
@pytest.mark.parametrize("c", [0, 1])
def test_implementations_of_the_draft(m: int, c: int) -> None:
    """draft-ietf-rddp-mpa-01 §6.1.1: M and C are negotiated with Rev 0, and there is no other Rev."""
    draft = Side(m=m, c=c, is_draft=True, private_data=bytes(600))
    outcome = negotiate(draft, Side(is_draft=True))
    assert outcome.reply is not None
    assert (outcome.request.rev, outcome.request.m, outcome.request.c) == (0, m, c)
    assert (outcome.reply.rev, outcome.reply.m, outcome.reply.c) == (0, 0, 0)
    assert outcome.operation is not None
    assert outcome.operation.profile.name == "rddp-01"
    assert (outcome.operation.markers_from_responder, outcome.operation.crc) == (bool(m), bool(c))
    newer = negotiate(Side(), draft)
    assert newer.reply is None
    assert newer.close == Close("responder", "request", 4, "startup-frame", "Rev 1 where only 0 is accepted")
    older = negotiate(draft._replace(private_data=b""), Side())
    assert older.close is not None
    assert older.close.by == "responder"
    assert initiator_closes(outcome.request, startup_frame("reply"), draft) is not None


def test_rdmac_initiator_closes_on_a_later_rev() -> None:
    """Appendix C.2.1: the Responder that answers with Rev 1 closes; so does who cannot speak it."""
    rdmac = Side("rdmac")
    close = initiator_closes(request_of(rdmac), startup_frame("reply", m=1, c=1), rdmac)
    assert close is not None
    assert (close.by, close.topic) == ("initiator", "rnic-negotiation")


@given(sides, sides)
def test_every_negotiation_is_consistent(initiator: Side, responder: Side) -> None:
    outcome = negotiate(initiator, responder)
    request, reply, operation = outcome.request, outcome.reply, outcome.operation
    # There is one end.
    assert sum(end is not None for end in (outcome.close, outcome.rejected, operation)) == 1
    assert outcome.close is None or outcome.close.certain
    assert (outcome.retry is None) or (request.s and outcome.close is not None and reply is None)
    judgement = judge(request, reply)
    if max(request.pd_length, reply.pd_length if reply else 0) <= 512:
        assert judgement.permitted
        assert initiator.kind in judgement.initiator_kinds
        assert responder.kind in judgement.responder_kinds
    assert judgement.rejected == bool(reply is not None and reply.r)
    if operation is None:
        assert outcome.rtr is None
        return
    assert judgement.operation == operation
    assert judgement.close is None or not judgement.close.certain
    assert reply is not None
    assert not reply.r
    as_rdmac = reply.rev == 0
    assert len(operation.versions) == 1
    assert operation.versions[0] == (0 if as_rdmac else 1)
    assert operation.markers_from_initiator == (as_rdmac or bool(responder.m))
    assert operation.markers_from_responder == (as_rdmac or bool(initiator.m))
    assert operation.crc == (as_rdmac or bool(initiator.c or responder.c))
    assert (outcome.rtr is None) == (operation.rtr is None)
    assert outcome.rtr is None or outcome.rtr in (operation.rtr or ())
    if operation.depths is not None:
        for outbound, inbound in (
            (operation.depths.initiator_ord, operation.depths.responder_ird),
            (operation.depths.responder_ord, operation.depths.initiator_ird),
        ):
            assert outbound is None or inbound is None or outbound <= inbound


frames = st.builds(
    StartupFrame,
    kind=st.sampled_from(["request", "reply"]),
    m=bits,
    c=bits,
    r=bits,
    s=bits,
    res=st.integers(0, 15),
    rev=st.integers(0, 3) | st.just(255),
    pd_length=st.integers(0, 8) | st.integers(0, 65535),
    private_data=st.binary(max_size=8),
).map(lambda frame: frame._replace(pd_length=len(frame.private_data)) if frame.pd_length < 8 else frame)
ulpdus = st.none() | st.binary(max_size=50) | st.sampled_from([ZERO_SEND, ZERO_WRITE, ZERO_READ, CODE_7, message(0)])


@given(st.none() | frames, st.none() | frames, st.builds(Seen, ulpdus, ulpdus))
def test_every_pair_can_be_judged(request_: StartupFrame | None, reply: StartupFrame | None, seen: Seen) -> None:
    judgement = judge(request_, reply, seen)
    assert set(judgement.initiator_kinds) | set(judgement.responder_kinds) <= set(RNIC_KINDS)
    assert judgement.permitted == (not judgement.violations)
    assert all(RULES[deviation.id].severity != "note" for deviation in judgement.violations)
    assert all(RULES[deviation.id].severity == "note" for deviation in judgement.remarks)
    for deviation in judgement.violations + judgement.remarks:
        assert deviation.text
    # What the second frame adds never takes back what the first one says of the direction it rules.
    for one, direction in ((request_, "markers_from_responder"), (reply, "markers_from_initiator")):
        if one is not None and one.m and judgement.operation is not None:
            assert getattr(judgement.operation, direction) is True


# --- real captures ---

# Remarks and kinds that are not those of two IETF RNICs without a remark.
REMARKED = {
    "crc-only": (["rnic-parameters", "rnic-foreign-revision"], (), (IETF,)),
    "faulty-no-crc-field": (["rnic-parameters", "rnic-foreign-revision"], (), (IETF,)),
    "faulty-fpduptr-and-spacing": (["rnic-foreign-revision"], (RDMAC,), (IETF,)),
    "siw-rev0": (["rnic-parameters", "rnic-parameters"], (), ()),
}


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_captures(path: Path) -> None:
    from scapy_mpa import analyze

    for connection in analyze(str(path)).connections:
        judgement = judge(connection.request, connection.reply)
        assert judgement.violations == ()
        remarks, initiator, responder = REMARKED.get(path.stem, ([], BOTH_IETF, BOTH_IETF))
        if connection.request is None and connection.reply is None:
            initiator = responder = RNIC_KINDS
        assert ids_of(judgement.remarks) == remarks
        assert (judgement.initiator_kinds, judgement.responder_kinds) == (initiator, responder)
        assert judgement.rejected == connection.rejected
        # The receiver found every FPDU of the truth with these, in tests/receive/test_truth.py.
        operation = judgement.operation
        if operation is not None and connection.initiator.fpdus and connection.responder.fpdus:
            assert operation.markers_from_initiator == connection.initiator.markers
            assert operation.markers_from_responder == connection.responder.markers
            assert operation.crc == connection.crc
            assert operation.profile == connection.profile


# First FPDU of each direction, RTR types the frames permit, kinds once DDP's version is known.
FIRST_FPDUS = [
    ("siw-peer-to-peer", ("write",), "write", BOTH_IETF, BOTH_IETF),
    ("siw-rping", None, None, BOTH_IETF, BOTH_IETF),
    ("siw-rev0", None, None, (), ()),
    ("suiw-two-hosts", None, None, BOTH_IETF, BOTH_IETF),
]


@pytest.mark.parametrize(("name", "permitted", "sent", "initiator", "responder"), FIRST_FPDUS)
def test_first_fpdus_of_captures(
    pcap: Any,
    name: str,
    permitted: tuple[RtrType, ...] | None,
    sent: RtrType | None,
    initiator: tuple[RnicKind, ...],
    responder: tuple[RnicKind, ...],
) -> None:
    from scapy.layers.inet import TCP
    from scapy.sendrecv import sniff

    from scapy_mpa import analyze
    from scapy_mpa.layers import FPDU, MPARequest, MPASession

    path = str(pcap(name))
    connection = analyze(path).connections[0]
    packets = sniff(offline=path, session=MPASession)
    port = next(packet[TCP].sport for packet in packets if MPARequest in packet)
    first: dict[bool, bytes] = {}
    for packet in packets:
        if FPDU in packet:
            length = packet[FPDU].ulpdu_length
            first.setdefault(packet[TCP].sport == port, bytes(packet[FPDU])[2 : 2 + length])
    judgement = judge(connection.request, connection.reply, Seen(first.get(True), first.get(False)))
    assert judgement.violations == ()
    assert judgement.operation is not None
    assert judgement.operation.rtr == permitted
    assert rtr_type(first[True]) == sent
    assert (judgement.initiator_kinds, judgement.responder_kinds) == (initiator, responder)
