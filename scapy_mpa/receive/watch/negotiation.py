"""Findings of the negotiation: what :mod:`scapy_mpa.framing.judgement` states of two startup frames, placed and dated.

A breach of a frame shows at that frame, one of their pair at the Reply, and one of the beginning of Full Operation at
the first FPDU of whoever did it (RFC 5044 §7.1, §7.1.2 and appendix C; RFC 6581 §6, §9 and §10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.receive.half import Direction

if TYPE_CHECKING:
    from scapy_mpa.framing.judgement import Judgement
    from scapy_mpa.receive.tcp import MPAConnection

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


def find_negotiation(mpa: MPAConnection) -> Judgement | None:
    """Report what is wrong with, or remarkable about, the startup frames; the judgement, None without any frame."""
    from scapy_mpa.framing.deviations import Seen
    from scapy_mpa.framing.judgement import judge

    request = mpa.request.startup if mpa.request is not None else None
    reply = mpa.reply.startup if mpa.reply is not None else None
    if request is None and reply is None:
        return None
    first = {direction: operation.opening.ulpdu for direction, operation in mpa.operations.items()}
    judgement = mpa.judgement = judge(request, reply, Seen(first.get("initiator"), first.get("responder")))
    for deviation in (*judgement.violations, *judgement.remarks):
        place = _place(mpa, deviation.by, deviation.id in _BY_FIRST_FPDU)
        if place is not None:
            mpa.findings.add(deviation.id, deviation.by, *place, deviation.text)
    return judgement


def _place(mpa: MPAConnection, by: Direction, by_first_fpdu: bool) -> tuple[int, int, int] | None:
    """The frame, the time (nanoseconds) and the sequence number at which something that ``by`` did shows."""
    own = mpa.request if by == "initiator" else mpa.reply
    operation = mpa.operations.get(by)
    if (by_first_fpdu or own is None) and operation is not None and operation.opening.opened is not None:
        return (*operation.opening.opened, operation.reassembly.seq_of(operation.reassembly.first))
    return (own.frame, own.time, own.seq) if own is not None else None
