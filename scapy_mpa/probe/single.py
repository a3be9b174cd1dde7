"""One case, sent once: what was sent, what came back, and what to make of it, in lines for people."""

from __future__ import annotations

import io
from dataclasses import replace

from scapy_mpa.catalogue.case import Case
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import opcode_name
from scapy_mpa.live.recording import Recording
from scapy_mpa.probe.carrier import Connector, NotReached
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.deviations import Deviations
from scapy_mpa.probe.exchange import CaseExchange, Terms
from scapy_mpa.probe.findings import wrong_with
from scapy_mpa.probe.judge import BAD, Judge, ProbeJudgement, expected_words, seen_words
from scapy_mpa.probe.run import ProbeRun, RunSettings, recording_of, said_by
from scapy_mpa.probe.seen import SeenPeer
from scapy_mpa.probe.target import Responder
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

#: Octets of a line, and FPDUs that are shown.
_LONGEST, _MOST = 64, 16


class Given(NamedTuple):
    """What became of it."""

    lines: list[str]
    capture: bytes
    frames: int
    is_bad: bool
    is_gone: bool


def given(
    case: Case,
    left: Repairable | None,
    host: str,
    port: int,
    timeout: float,
    settle: float = 0.0,
    recovery: float = 0.0,
    *,
    rping: bool = False,
) -> Given:
    """Give a case to a Responder, and see by a clean connection whether it survived.

    A clean connection before it shows whether the peer answers an RDMA Read of no octets; the case then ends with one.
    Times are seconds; the peer has ``recovery`` of them to take a connection again.  ``rping`` is its upper layer, if
    that is so.  Raises MPAError if the case cannot be given, or the peer cannot be reached.
    """
    one = ProbeCase(case, case.area)
    if one.reach.carriage != "tcp":
        raise MPAError(f"{case.name} cannot be sent over the kernel's TCP: {one.reach.why}")
    if one.reach.role != "responder":
        hint = f"`scapy-mpa probe --listen PORT --case {case.name}` waits for one"
        raise MPAError(f"{case.name} is for an Initiator: {hint}")
    connector, file = Connector(host, port, timeout), io.BytesIO()
    run = ProbeRun(Responder(connector), RunSettings(Terms(timeout, settle=settle, rping=rping), recovery=recovery))
    run.begin()
    carrier, recording, terms = run.connection(), Recording(file), run.terms
    exchange = CaseExchange(carrier, one, terms, recording_of(recording, carrier, one), left)
    seen = exchange.run()
    # What it must do with the choice taken is said by the case's outcome.
    taken, said = ProbeCase(_with(case, left), case.area), said_by(one, terms)
    judgement = Judge(taken, seen, said, is_unanswered=exchange.is_unanswered).judgement()
    gone = _gone(run, has_answered=bool(seen.total))
    if not gone and judgement.saw == "closed" and not [*run.compare(one)]:
        # Whether it ends the same connection without the change as well.
        judgement = Judge(taken, seen, said, *run.controls_of(one), is_unanswered=exchange.is_unanswered).judgement()
    others = wrong_with(taken, seen, file.getvalue(), strict=False, is_heard=said.is_heard)
    judgement = Deviations().count(taken, replace(judgement, faults=(*judgement.faults, *others)))
    lines = _lines(taken, exchange, seen, judgement)
    if gone:
        lines.append(f"  peer gone: {gone}")
    return Given(lines, file.getvalue(), recording.frames, judgement.verdict in BAD, bool(gone))


def _gone(run: ProbeRun, *, has_answered: bool) -> str:
    """Return what shows that the peer crashed on a case, which it ``has_answered`` or not; "" if nothing does."""
    try:
        silence = run.silence()
    except NotReached as error:
        return str(error)
    return f"a clean connection afterwards: {silence}" if silence and has_answered else ""


def _with(case: Case, left: Repairable | None) -> Case:
    return replace(case, peer=case.outcome(left).peer)


def _lines(case: ProbeCase, exchange: CaseExchange, seen: SeenPeer, judgement: ProbeJudgement) -> list[str]:
    lines = [f"{case.name}: {case.case.purpose}"]
    lines += [f"  sent      {len(octets):5}  {_hex(octets)}" for octets in exchange.sent]
    if seen.frame is not None:
        lines.append(f"  received  {seen.frame.wire_length:5}  {_hex(seen.frame.encode())}")
        rest = [(opcode_name(one.ulpdu) or "no opcode", one.ulpdu) for one in seen.fpdus]
        lines += [f"  received  {len(ulpdu):5}  {_hex(ulpdu)} ({name})" for name, ulpdu in rest[:_MOST]]
        if len(rest) > _MOST:
            lines.append(f"  received  {len(rest) - _MOST} more FPDUs")
    elif seen.total:
        lines.append(f"  received  {seen.total:5}  {_hex(bytes(seen.octets))}")
    lines.append(f"  expected: {expected_words(case.case)}")
    lines.append(f"  seen: {printable(seen_words(seen))}")
    clause = judgement.clause or (case.clause if judgement.is_of_case else "")
    reason = f": {printable(judgement.reason)}" if judgement.reason else ""
    lines.append(f"  {judgement.verdict}{reason}{f' ({clause})' if clause and judgement.verdict in BAD else ''}")
    return lines


def _hex(octets: bytes) -> str:
    return octets[:_LONGEST].hex(" ", 4) + ("..." if len(octets) > _LONGEST else "")
