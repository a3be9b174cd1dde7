"""Connections that only began MPA, where one address has many: one finding, and one paragraph of the text.

Nothing is remembered for that while the capture is read: the connections are at hand anyway, as many as the limits let.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Findings
from scapy_mpa.watches.startup import FEWEST_OF_AN_ADDRESS, many_unfinished

#: What is found of a connection that is like the others.
_ALIKE = frozenset(("startup-frame", "startup-pd-length"))


def address_of(connection: Connection) -> str:
    """The address of the Initiator."""
    return connection.initiator.endpoint.rpartition(":")[0].strip("[]")


def _only_began(connections: Iterable[Connection]) -> dict[str, list[Connection]]:
    """The connections with only a part of a Request, by address; each address has many."""
    found: dict[str, list[Connection]] = {}
    for connection in connections:
        part = connection.part
        if part is not None and part.kind == "request" and connection.request is None and connection.reply is None:
            found.setdefault(address_of(connection), []).append(connection)
    return {address: some for address, some in found.items() if len(some) >= FEWEST_OF_AN_ADDRESS}


def report_unfinished(connections: Sequence[Connection], findings: Findings) -> None:
    """Report addresses that began many connections, and went on with none of these."""
    found = _only_began(connections)
    many = many_unfinished({address: [one.part for one in some if one.part] for address, some in found.items()})
    if many is not None:
        first = many.first
        place = first.frame, first.time, first.seq
        count, last_frame = many.connections, many.last_frame
        findings.add(many.rule, None, *place, many.detail, count=count, last_frame=last_frame)


def alike(connections: Sequence[Connection]) -> dict[int, int]:
    """Return the connections that the text need not list, because they are like an earlier one: 0 for each number.

    For the first of them, which is listed, it is how many more there are like it.
    """
    found: dict[int, int] = {}
    for some in _only_began(connections).values():
        same = [one for one in some if {finding.rule.id for finding in one.findings} <= _ALIKE]
        found.update((one.number, 0) for one in same)
        found.update((one.number, len(same) - 1) for one in same[:1])
    return found
