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
from tests.craft.test_truth import conversations
from tests.sampling import examples

#: Damage is left to the scenarios: where several FPDUs are damaged it may be told in more than one way.
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
