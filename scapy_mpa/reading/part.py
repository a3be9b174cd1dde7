"""The result of one pass over the captures: a complete report, or a share of it."""

from __future__ import annotations

from collections.abc import Mapping

from scapy_mpa.capture.notes import Note
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple


class ReportPart(NamedTuple):
    """What one process found: the connections, with the frames that number them, and findings that belong to no
    connection.

    ``services`` are the ports that a port mapper named; ``begins`` are those of
    :class:`~scapy_mpa.capture.files.Captures`.
    """

    captures: list[str]
    packets: int
    tcp_connections: int
    connections: list[tuple[int, Connection]]
    findings: list[Finding]
    notes: list[Note]
    damage: list[str]
    begins: list[tuple[int, int]] | None = None
    services: Mapping[tuple[bytes, int], int] | None = None
