#!/usr/bin/env python3
"""Make a connection on a bad network, write its capture, and check that the analysis finds in it what was sent."""

from __future__ import annotations

import argparse
import sys

from scapy.utils import wrpcap

from scapy_mpa import ConversationError, MPAConnection, analyze


def main(path: str) -> int:
    """Write a capture to ``path``; return 1 if the analysis does not find in it what was sent, else 0."""
    # RFC 6581, peer to peer: the ready-to-receive message comes by itself. Markers go towards the Responder, which
    # places what arrives out of order. Pairs are the Initiator's value and the Responder's.
    peer = {"a": 1, "c": 1, "ird": 4, "ord": 4}
    impairments = ["lose:probability=0.03", "reorder", "corrupt:probability=0.01"]
    connection = MPAConnection(
        profile="rfc6581", enhanced=(peer, peer), m=(0, 1), segmentation="random", impair=impairments, seed=7
    )
    connection.send("initiator", b"read the first 20000 octets")
    connection.write("responder", 20000, stag=0x1234).send("responder", b"here they are")
    connection.write("initiator", 50000, stag=0x5678).pause(0.01).send("initiator", b"and these are for you")
    connection.read("initiator", 9000).close("rst", by="responder")

    # Rules of MPA are kept, unless one says otherwise.
    try:
        MPAConnection().send("responder", b"me first")
    except ConversationError as error:
        print(error)

    wrpcap(path, connection.packets(), nano=True)
    sent = connection.truth()
    early = sum(record["located_by"] == "marker" for record in sent)
    print(f"{len(connection)} packets, {len(sent)} FPDUs, {early} of them first found by a Marker")

    (found,) = analyze(path).connections
    return int([fpdu.as_dict() for half in (found.initiator, found.responder) for fpdu in half.fpdus] != sent)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("capture", help="the capture file that is written")
    try:
        sys.exit(main(parser.parse_args().capture))
    except OSError as error:
        parser.error(str(error))
