"""What our own analysis finds wrong with a peer in a connection in which nothing else is wrong."""

from __future__ import annotations

import io

from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import Role
from scapy_mpa.probe.case import BINDING
from scapy_mpa.probe.judge import ProbeJudgement
from scapy_mpa.rules.table import GROUPS

#: What is made up in a recording, or says nothing against a peer: segments, acknowledgements, what ends a connection.
_NOT_SEEN = {
    *(rule.id for name in ("Alignment", "TCP and attacks", "The capture") for rule in GROUPS[name]),
    *("teardown-unacknowledged", "teardown-reset", "terminate", "startup-rejected", "connection-lost", "error-closed"),
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
