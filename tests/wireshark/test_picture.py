"""The picture in docs/wireshark.md is what tshark prints today."""

from __future__ import annotations

import pytest

from scapy_mpa.wireshark.limits import SEEN_IN
from scapy_mpa.wireshark.tshark import find_tshark
from scripts.dev.wireshark_picture import picture
from tests.conftest import REPO
from tests.wireshark.tshark import needs_tshark


@needs_tshark
def test_the_picture_is_what_tshark_prints() -> None:
    if find_tshark().version_text != SEEN_IN:
        pytest.skip(f"the picture is of tshark {SEEN_IN}")
    assert (REPO / "docs" / "wireshark.svg").read_text(encoding="utf-8") == picture()
