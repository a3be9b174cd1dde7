"""After their startup frames, scenarios do what ``framing.negotiation`` says."""

from __future__ import annotations

import re

import pytest

from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.turns import Say
from scapy_mpa.framing.agreement import RnicKind, agreed
from scapy_mpa.framing.negotiation import Side, negotiate
from scapy_mpa.framing.role import ROLES

KINDS: dict[str, RnicKind] = {"RDMAC": "rdmac", "IETF non-permissive": "ietf", "IETF permissive": "ietf-permissive"}
CELL = re.compile(r"(.*) M=(\d), (.*) M=(\d): (?:close|V=(\d) M=(\d)/(\d))")
#: Cells that are not N/A.
CELLS = {"rfc5044-figure-15": 9, "rfc5044-figure-16": 8, "rfc5044-figure-17": 16}


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_of_the_figures_is_there_once_and_as_it_is_drawn(name: str) -> None:
    scenario = load(name)
    assert len(set(scenario.titles)) == len(scenario.titles) == CELLS[name]
    for title, conversation in zip(scenario.titles, scenario.conversations, strict=True):
        parsed = CELL.fullmatch(title)
        assert parsed is not None
        one, m_one, two, m_two, version, receives_one, receives_two = parsed.groups()
        sides = Side(KINDS[one], m=int(m_one), c=1), Side(KINDS[two], m=int(m_two), c=1)
        outcome = negotiate(*sides)
        setup = conversation.setup
        assert outcome.request == setup.startup("initiator"), title
        assert outcome.reply == setup.startup("responder"), title
        says = any(isinstance(step, Say) for step in conversation.steps)
        assert (outcome.close is None) == (version is not None) == says, title
        if outcome.close is not None:
            assert outcome.close.by == setup.closes, title
        elif version is not None:
            assert outcome.operation is not None and int(version) in outcome.operation.versions, title
            assert setup.ddp_version == int(version), title
            # The figures give Markers by who receives them.
            received = bool(int(receives_one)), bool(int(receives_two))
            assert (setup.has_markers("responder"), setup.has_markers("initiator")) == received, title


@pytest.mark.parametrize("name", shipped())
def test_what_follows_of_the_startup_frames_is_what_is_agreed(name: str) -> None:
    for conversation in load(name).conversations:
        setup = conversation.setup
        if not setup.specification.startup_frames or setup.reject:
            continue
        operation = agreed(setup.startup("initiator"), setup.startup("responder"))
        if not any(isinstance(step, Say) for step in conversation.steps):
            continue
        markers = operation.markers_from_initiator, operation.markers_from_responder
        assert tuple(setup.has_markers(role) for role in ROLES) == markers
        assert setup.crc == operation.crc
        assert setup.ddp_version in operation.versions
        assert setup.origin == operation.profile.fpduptr_origin
        assert setup.rtr_message in (operation.rtr or (None,))
