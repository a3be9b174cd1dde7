"""What our own analysis finds wrong with a peer in a connection in which nothing else is wrong."""

from __future__ import annotations

import io
from typing import NamedTuple

from scapy_mpa.catalogue.named import NAMED
from scapy_mpa.craft.ulpdus import RDMA_WRITE, READ_REQUEST, SEND_INVALIDATE, SEND_SE_INVALIDATE
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH, TaggedHeader, UntaggedHeader, decode_ddp
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.framing.role import Role
from scapy_mpa.probe.case import BINDING
from scapy_mpa.probe.judge import ProbeJudgement
from scapy_mpa.probe.seen import SeenPeer
from scapy_mpa.rules.table import GROUPS, RULES
from scapy_mpa.values.words import plural

INVALIDATING = frozenset((SEND_INVALIDATE, SEND_SE_INVALIDATE))
#: What is made up in a recording, or says nothing against a peer: segments, acknowledgements, what ends a connection.
#: A Read that was not answered is judged by itself: an upper layer may have ended the connection first.
_NOT_SEEN = {
    *(rule.id for name in ("Alignment", "TCP and attacks", "The capture") for rule in GROUPS[name]),
    *("teardown-unacknowledged", "teardown-reset", "terminate", "startup-rejected", "connection-lost", "error-closed"),
    "request-unanswered",
}


def wrong_with(capture: bytes, peer: Role, told: set[str], *, strict: bool) -> ProbeJudgement | None:
    """The gravest breach of a rule by the peer that was not ``told`` before; None if there is none.

    Of what SHOULD be, only if ``strict``.
    """
    from scapy_mpa.reading.analysis import analyze

    try:
        report = analyze(io.BytesIO(capture), fpdus=False)
    except CaptureError:
        return None
    words = (*BINDING, "SHOULD", "SHOULD NOT") if strict else BINDING
    found = [
        one
        for one in report.all_findings()
        if one.direction == peer and one.rule.id not in _NOT_SEEN | told and one.rule.requirement in words
    ]
    found.sort(key=lambda one: (("error", "warning", "note").index(one.rule.severity), one.frame))
    if not found:
        return None
    first = found[0]
    others = sorted({one.rule.id for one in found[1:]} - {first.rule.id})
    more = f" (and {', '.join(others)})" if others else ""
    return ProbeJudgement(
        "fail", f"{first.rule.id}: {first.detail}{more}", first.clause or "", first.rule.id, also=tuple(others)
    )


class _Access(NamedTuple):
    """Octets of our memory that the peer writes or reads."""

    name: str
    stag: int
    to: int
    octets: int


def outside(seen: SeenPeer) -> ProbeJudgement | None:
    """The first access of the peer that is outside the memory which a case named to it, or after the peer invalidated
    it; None if there is none."""
    is_ended = False
    for number, one in enumerate(seen.fpdus, 1):
        header = decode_ddp(one.ulpdu)
        if isinstance(header, UntaggedHeader) and header.opcode in INVALIDATING and header.rsvdulp == NAMED.stag:
            is_ended = True
        access = _access(one.ulpdu, header)
        if access is None or access.stag != NAMED.stag or not access.octets:
            continue
        first, end = access.to, access.to + access.octets
        words = f"FPDU {number} of the peer, an {access.name} of {plural(access.octets, 'octet')} at TO {first:#x},"
        if is_ended:
            return _of_memory("memory-life", f"{words} comes after the peer invalidated STag {NAMED.stag:#010x}")
        if not NAMED.to <= first <= end <= NAMED.to + NAMED.length:
            named = f"the {NAMED.length} at TO {NAMED.to:#x} that were named"
            return _of_memory("memory-bounds", f"{words} is outside {named}")
    return None


def _access(ulpdu: bytes, header: TaggedHeader | UntaggedHeader | None) -> _Access | None:
    if isinstance(header, TaggedHeader) and header.opcode == RDMA_WRITE:
        return _Access("RDMA Write", header.stag, header.to, header.payload_length)
    if isinstance(header, UntaggedHeader) and header.opcode == READ_REQUEST:
        for read in read_requests(ulpdu[UNTAGGED_HEADER_LENGTH:])[:1]:
            return _Access("RDMA Read", read.source_stag, read.source_to, read.size)
    return None


def _of_memory(name: str, detail: str) -> ProbeJudgement:
    rule = RULES[name]
    return ProbeJudgement("fail", f"{name}: {detail}", rule.clause, name)
