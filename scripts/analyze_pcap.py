#!/usr/bin/env python3
"""Report what a capture holds, which FPDUs could be placed early, and what is wrong."""

from __future__ import annotations

import argparse
import sys

from scapy_mpa import CaptureError, analyze, iter_fpdus


def main(path: str) -> int:
    """Print what the capture at ``path`` holds; return 1 if something in it is an error, else 0."""
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
        print(f"frame {fpdu.placed_frame}: {fpdu.opcode} of the {fpdu.direction}, found by a Marker, placed early")
    return 1 if report.has_errors else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("capture", help="a capture file of any format that scapy-mpa reads")
    try:
        sys.exit(main(parser.parse_args().capture))
    except CaptureError as error:
        parser.error(str(error))
