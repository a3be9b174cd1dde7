#!/usr/bin/env python3
"""The Python API in one page: what is in a capture, which FPDUs came early, and what is wrong.

Usage: analyze_pcap.py CAPTURE
"""

from __future__ import annotations

import sys

from scapy_mpa import CaptureError, analyze, iter_fpdus


def main(path: str) -> int:
    """Print what the capture at ``path`` holds; 1 if something in it is an error."""
    report = analyze(path)
    for connection in report.connections:
        print(f"{connection.initiator.endpoint} > {connection.responder.endpoint} ({connection.profile.title})")
        for half in (connection.initiator, connection.responder):
            longest = max((fpdu.ulpdu_length for fpdu in half.fpdus), default=0)
            print(f"  {half.endpoint} sent {half.counts.fpdus} FPDUs, {half.counts.marker_count} Markers;")
            print(f"    {half.counts.placed_out_of_order} placed early; the longest ULPDU has {longest} octets")
        for found in connection.findings:
            print(f"  {found.severity}: {found.detail} (frame {found.frame}, {found.clause})")

    # The same FPDUs in the order in which they can be placed, in bounded memory whatever the capture's size.
    early = (fpdu for fpdu in iter_fpdus(path) if fpdu.located_by == "marker")
    for fpdu in list(early)[:3]:
        print(f"frame {fpdu.placed_frame}: {fpdu.opcode} of the {fpdu.direction}, found by a Marker ahead of its turn")
    return 1 if report.has_errors else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except CaptureError as error:
        sys.exit(str(error))
