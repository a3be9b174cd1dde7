#!/usr/bin/env python3
"""Making traffic from Python: two connections on a bad network, their capture, and what is to be found in it.

Usage: craft_pcap.py CAPTURE
"""

from __future__ import annotations

import sys

from scapy_mpa import ConversationError, analyze
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.truth import Truth


def main(path: str) -> int:
    """Write a capture to ``path``; 1 if the analysis does not find in it what was sent."""
    # Markers towards the Responder, which places what comes out of order; pairs are (Initiator's, Responder's).
    storage = Conversation(m=(0, 1), segmentation="random", ports=(40000, 5445), seed=7)
    storage.send("initiator", b"read the first 20000 octets")
    storage.write("responder", 20000, stag=0x1234).send("responder", b"here they are")
    storage.write("initiator", 50000, stag=0x5678).pause(0.01).send("initiator", b"and these are for you")

    # RFC 6581, peer to peer: the ready-to-receive message comes by itself.
    peer = {"a": 1, "c": 1, "ird": 4, "ord": 4}
    cluster = Conversation(profile="rfc6581", enhanced=(peer, peer), segmentation="packed", seed=8)
    for _ in range(20):
        cluster.send("initiator", 100).send("responder", 40)
    cluster.read("initiator", 9000).close("rst", by="responder")

    # Rules of MPA are kept, unless one says otherwise.
    try:
        Conversation().send("responder", b"me first")
    except ConversationError as error:
        print(error)

    traffic = Traffic([storage, cluster], ["lose:probability=0.03", "reorder", "corrupt:probability=0.01"], seed=1)
    truth = Truth()
    with open(path, "wb") as file:
        packets = traffic.write(file, truth=truth)
    expected = list(truth.records())
    early = sum(record["located_by"] == "marker" for record in expected)
    print(f"{packets} packets, {len(expected)} FPDUs, {early} of them first found by a Marker")

    found = [
        record for one in analyze(path).connections for half in (one.initiator, one.responder) for record in half.fpdus
    ]
    return int([record.as_dict() for record in found] != expected)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
