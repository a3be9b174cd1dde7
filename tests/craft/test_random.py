"""Conversations nobody thought of, on networks nobody thought of: the analysis finds the FPDUs of the truth."""

from __future__ import annotations

import io
import json
import re

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scapy_mpa import analyze
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.packets import FIN, SYN
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.tcppacket import octets_of
from scapy_mpa.craft.traffic import FORMATS, Format, Traffic
from scapy_mpa.craft.truth import Truth
from tests.craft.test_scenarios import LOSSES, differences, records_of
from tests.craft.test_truth import COMPLETE, conversations
from tests.sampling import examples

#: Damage that the receiver takes is left to the scenarios: where several FPDUs are damaged it may be told in more than
#: one way. What it drops for a CRC comes again.
DROPPED = ["corrupt:repaired=true,dropped=true,probability=0.2"]
DROPPED += ["corrupt:repaired=true,dropped=true,resegment=true,distance=3,probability=0.3"]
WHAT_HAPPENS = ["reorder:probability=0.3", "duplicate", "lose", "lose:resegment=true", "lose:retransmit=false"]
WHAT_HAPPENS += ["retransmit", "fragment", "fragment:reverse=true", "capture-loss", "jitter", "offload"]


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(conversations(), st.lists(st.sampled_from(WHAT_HAPPENS), max_size=4), st.sampled_from(FORMATS))
def test_the_analysis_finds_what_the_truth_says(made: Conversation, impairments: list[str], format: Format) -> None:
    file, truth = io.BytesIO(), Truth()
    Traffic([made], impairments, seed=made.setup.seed).write(file, format, truth)
    file.seek(0)
    found = records_of(analyze(file))
    assert differences(found, list(truth.records()), bool(LOSSES & set(impairments))) == []


def names_a_copy(said: str) -> bool:
    """Return True if the two name different copies of octets amid an FPDU: either may be the one that was dropped."""
    found = re.search(r": frames is (\[.*\]), not (\[.*\])$", said)
    if found is None:
        return False
    mine, theirs = map(json.loads, found.groups())
    return (mine[0], mine[-1], len(mine)) == (theirs[0], theirs[-1], len(theirs))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(
    conversations(c=(1, 1)),
    st.lists(st.sampled_from(COMPLETE), max_size=3),
    st.sampled_from(DROPPED),
    st.integers(0, 3),
    st.booleans(),
)
def test_what_is_dropped_for_its_crc_and_comes_again_is_good(
    made: Conversation, impairments: list[str], dropped: str, place: int, has_acks: bool
) -> None:
    # Only acknowledgements say how far a full window has moved: what is beyond is taken once it lies in the window.
    assume(has_acks or "window" not in made.setup.segmentation)
    impairments[place:place] = [dropped]
    file, truth, frames = io.BytesIO(), Truth(), []
    for packet in Traffic([made], impairments, seed=made.setup.seed).packets():
        if has_acks or packet.payload or packet.flags & (SYN | FIN):
            truth.note(packet)
            frames.append((packet.time, octets_of(packet)))
    PcapWriter(file).write(frames)
    file.seek(0)
    report, true = analyze(file), list(truth.records())
    said = differences(records_of(report), true, False)
    assert [one for one in said if not names_a_copy(one)] == []
    assert {record["crc"] for record in true} <= {"good"}
    assert not [finding for finding in report.all_findings() if finding.severity == "error"]
