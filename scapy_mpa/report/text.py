"""A report as text: one line a connection that can be pasted into a mail, then what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from scapy_mpa.report.model import Connection, HalfConnection, Report
from scapy_mpa.report.words import plural
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import SEVERITIES

#: Given a severity and a text, the text as the terminal should show it.
Styler = Callable[[str, str], str]


def _plain(_severity: str, text: str) -> str:
    return text


def report_lines(report: Report, style: Styler = _plain) -> Iterator[str]:
    """Yield the lines of a report."""
    for connection in report.connections:
        yield connection_line(connection)
        for found in connection.findings:
            yield from finding_lines(found, style)
    for found in report.findings:
        yield from finding_lines(found, style)
    yield summary_line(report)


def connection_line(connection: Connection) -> str:
    """One line that says who spoke, what was negotiated, and what came of it."""
    parts = [
        f"#{connection.number}",
        f"{connection.initiator.endpoint} > {connection.responder.endpoint}",
        connection.profile.name,
        _grounds(connection),
        "C" if connection.crc else "no CRC",
        f"markers {_markers(connection.initiator)}/{_markers(connection.responder)}",
        *_enhanced(connection),
        *_kinds(connection),
    ]
    return " ".join(parts) + " | " + ", ".join(_outcome(connection))


def _grounds(connection: Connection) -> str:
    """The revision, or from how many FPDUs it was inferred what the connection is."""
    halves = connection.initiator.inferred, connection.responder.inferred
    if any(halves):
        counts = "+".join(str(half.confirmations if half is not None else 0) for half in halves)
        return f"inferred from {counts} FPDUs"
    return f"rev {connection.revision}"


def _markers(half: HalfConnection) -> str:
    return "?" if half.markers is None else "M" if half.markers else "-"


def _enhanced(connection: Connection) -> Iterator[str]:
    """IRD and ORD as the Reply, else the Request, has them, and the RTR message (RFC 6581 §9)."""
    request, reply = connection.request, connection.reply
    asked = request.enhanced if request is not None else None
    answered = reply.enhanced if reply is not None else None
    data = answered or asked
    if data is None:
        return
    yield f"ird {data.ird}"
    yield f"ord {data.ord}"
    if data.a:
        yield "p2p"
        for name, bit in (("send-rtr", data.b), ("write-rtr", data.c), ("read-rtr", data.d)):
            if bit:
                yield name


def _kinds(connection: Connection) -> Iterator[str]:
    """What kinds of RNIC the two can be, where one is not simply an IETF RNIC (RFC 5044 appendix C)."""
    if connection.request is None and connection.reply is None:
        return
    judgement = connection.judgement
    kinds = judgement.initiator_kinds, judgement.responder_kinds
    if any(kind and "ietf" not in kind for kind in kinds):
        yield "RNICs " + "/".join("|".join(kind) or "?" for kind in kinds)


def _outcome(connection: Connection) -> Iterator[str]:
    if connection.rejected:
        yield "rejected"
        return
    if connection.request is None:
        yield "no Request captured"
    if connection.reply is None:
        yield "no Reply captured"
        if not connection.inferred:
            return
    halves = connection.initiator.counts, connection.responder.counts
    total = "+".join(str(counts.fpdus) for counts in halves)
    yield f"{total} FPDUs"
    for what, attribute in (
        ("placed early", "placed_out_of_order"),
        ("bad CRC", "crc_errors"),
        ("cut", "cut_fpdus"),
        ("octets missing", "missing_octets"),
        ("octets without a located FPDU", "unlocated_octets"),
    ):
        count = sum(getattr(counts, attribute) for counts in halves)
        if count:
            yield f"{count} {what}"


def finding_lines(found: Finding, style: Styler = _plain) -> Iterator[str]:
    """The lines of one finding: where and what; then by which clause, and what was there if that is told apart."""
    where = f"frame {found.frame}"
    if found.count > 1:
        where += f" to {found.last_frame}" if found.last_frame != found.frame else ""
        where += f", {found.count} times"
    who = f" {found.direction}," if found.direction is not None else ""
    yield f"  {style(found.severity, found.severity)} {found.rule.id}: {where},{who} seq {found.seq}: {found.detail}"
    grounds = [ground for ground in (found.clause, found.rule.requirement) if ground]
    if found.code is not None:
        grounds.append(f"error code {found.code}")
    expected = found.expected + (f" ({', '.join(grounds)})" if grounds else "")
    yield f"    expected: {expected}"
    if found.seen != found.detail:
        yield f"    seen: {found.seen}"


def summary_line(report: Report) -> str:
    """The last line: how much was read, and how many findings of each severity."""
    found = Counter(finding.severity for finding in report.all_findings())
    counted = ", ".join(plural(found[severity], severity) for severity in SEVERITIES if found[severity])
    read = f"{plural(report.packets, 'packet')}, {plural(report.tcp_connections, 'TCP connection')}"
    return f"{read}, {plural(len(report.connections), 'MPA connection')}, {counted or 'nothing to report'}"
