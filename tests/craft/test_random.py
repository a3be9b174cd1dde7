"""Conversations nobody thought of, on networks nobody thought of: the analysis finds the FPDUs of the truth."""

from __future__ import annotations

import io

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa import analyze
from scapy_mpa.craft.conversation import Conversation
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


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(
    conversations(c=(1, 1)),
    st.lists(st.sampled_from(COMPLETE), max_size=3),
    st.sampled_from(DROPPED),
    st.integers(0, 3),
    st.sampled_from(["", "capture-loss:direction=responder,probability=0.5"]),
)
def test_what_is_dropped_for_its_crc_and_comes_again_is_good(
    made: Conversation, impairments: list[str], dropped: str, place: int, loss: str
) -> None:
    # Of what the Responder sends, the capture may lack the copy that is good.
    impairments[place:place] = [f"{dropped},direction=initiator" if loss else dropped]
    file, truth = io.BytesIO(), Truth()
    Traffic([made], [*impairments, *filter(None, [loss])], seed=made.setup.seed).write(file, truth=truth)
    file.seek(0)
    report = analyze(file)
    assert differences(records_of(report), list(truth.records()), bool(loss)) == []
    assert not [finding for finding in report.all_findings() if finding.severity == "error"]
