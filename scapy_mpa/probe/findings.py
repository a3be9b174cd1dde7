"""What our own analysis finds wrong with a peer in the connection of a case."""

from __future__ import annotations

import io

from scapy_mpa.catalogue.named import NAMED
from scapy_mpa.craft.ulpdus import RDMA_WRITE, READ_REQUEST, SEND_INVALIDATE, SEND_SE_INVALIDATE
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH, TaggedHeader, UntaggedHeader, decode_ddp
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.probe.aim import names_memory
from scapy_mpa.probe.case import BINDING, ProbeCase
from scapy_mpa.probe.judge import Fault
from scapy_mpa.probe.seen import SeenPeer
from scapy_mpa.rules.table import GROUPS, RULES
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

INVALIDATING = frozenset((SEND_INVALIDATE, SEND_SE_INVALIDATE))
#: What is made up in a recording, or says nothing against a peer: segments, acknowledgements, what ends a connection.
#: A Read that was not answered is judged separately: an upper layer may have ended the connection first.  What a peer
#: does about an error of ours is the verdict's.
_NOT_SEEN = {
    *(rule.id for name in ("Alignment", "TCP and attacks", "The capture") for rule in GROUPS[name]),
    *("teardown-unacknowledged", "teardown-reset", "terminate", "startup-rejected", "connection-lost", "error-closed"),
    *("request-unanswered", "error-passed", "error-went-on", "startup-invalid-answered", "startup-not-closed"),
    "mulpdu-minimum",
}
#: Rules of our own Key: with a wrong one the analysis cannot know who is who.
_OF_KEYS = {"startup-key", "startup-role"}
#: Where one of these is broken, what else is found in the peer's FPDUs may be read at a wrong place.
STRUCTURE = {rule.id for name in ("FPDUs", "Markers") for rule in GROUPS[name] if rule.severity == "error"}
#: Of these, what says least of why.
VAGUE = frozenset(("crc", "fpdu-format", "connection-lost"))
#: Of rules that RFC 5044 has in an appendix for information only, the clause that binds.
_CLAUSES = dict.fromkeys(("rnic-version", "rnic-version-mixed"), "RFC 5041 §4.1")
_OF_STARTUP = {rule.id for name in ("Startup", "Negotiation") for rule in GROUPS[name]}
#: Octets of a peer above which its recording is not analysed: no answer is so long.
_MOST = 1 << 20


def wrong_with(case: ProbeCase, seen: SeenPeer, capture: bytes, *, strict: bool, is_heard: bool) -> tuple[Fault, ...]:
    """Return what all rules find wrong with the peer in the recording of a case, the gravest first.

    What the case itself provokes is left out: the catalogue names it, and so does the verdict.  Of what SHOULD be,
    only if ``strict``.  ``is_heard``: our first FPDU is valid, so that a Responder may send one.
    """
    from scapy_mpa.reading.analysis import analyze

    raised = case.case.raised()
    if seen.total > _MOST or _OF_KEYS & {one.rule for one in raised}:
        return ()
    try:
        report = analyze(io.BytesIO(capture), fpdus=False)
    except CaptureError:
        return ()
    peer = case.reach.role
    words = (*BINDING, "SHOULD", "SHOULD NOT") if strict else BINDING
    provoked = {one.rule for one in raised if one.direction == peer}
    if "rdmap-read-request" in case.case.raises:
        provoked |= {"terminate-layout", "terminate-headers"}  # which header is quoted of such a Request is not said
    if not is_heard:
        provoked.add("startup-responder-first")
    found = [
        one
        for one in report.all_findings()
        if one.direction == peer and one.rule.id not in _NOT_SEEN | provoked and one.rule.requirement in words
    ]
    is_garbled = seen.error is not None and seen.error.rule in STRUCTURE
    if is_garbled or STRUCTURE & {one.rule.id for one in found}:
        kept = STRUCTURE if is_garbled else STRUCTURE | _OF_STARTUP
        found = [one for one in found if one.rule.id in kept]
    found.sort(key=lambda one: (("error", "warning", "note").index(one.rule.severity), one.frame))
    faults = tuple(Fault(one.rule.id, one.detail, _CLAUSES.get(one.rule.id, one.clause or "")) for one in found)
    return (*faults, *(outside(seen) if names_memory(case.case.plan()) else ()))


class _Access(NamedTuple):
    """Octets of our memory that the peer writes or reads."""

    name: str
    stag: int
    to: int
    octets: int


def outside(seen: SeenPeer) -> tuple[Fault, ...]:
    """Return the first access of the peer outside the memory that a case named to it, or after the peer invalidated
    it."""
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
    return ()


def _access(ulpdu: bytes, header: TaggedHeader | UntaggedHeader | None) -> _Access | None:
    if isinstance(header, TaggedHeader) and header.opcode == RDMA_WRITE:
        return _Access("RDMA Write", header.stag, header.to, header.payload_length)
    if isinstance(header, UntaggedHeader) and header.opcode == READ_REQUEST:
        for read in read_requests(ulpdu[UNTAGGED_HEADER_LENGTH:])[:1]:
            return _Access("RDMA Read", read.source_stag, read.source_to, read.size)
    return None


def _of_memory(name: str, detail: str) -> tuple[Fault, ...]:
    return (Fault(name, detail, RULES[name].clause),)
