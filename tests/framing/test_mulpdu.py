"""MULPDU (RFC 5044 §4.5) against a search by counting octets."""

from __future__ import annotations

import pytest

from scapy_mpa.framing import mulpdu
from tests.framing import naive


@pytest.mark.parametrize(
    ("emss", "with_markers", "without"),
    [
        (0, 128, 128),
        (134, 128, 128),
        (138, 128, 130),  # 138 - (6 + 4 + 2) = 126, and 138 - (6 + 2)
        (140, 130, 134),
        (512, 502, 506),
        (513, 498, 506),
        (1460, 1442, 1454),  # Ethernet, IPv4: three Markers
        (1448, 1430, 1442),  # with timestamps
        (8960, 8882, 8954),  # jumbo frames: 18 Markers
        (65000, 64486, 64768),
        (65495, 64768, 64768),
    ],
)
def test_table(emss: int, with_markers: int, without: int) -> None:
    assert (mulpdu(emss, True), mulpdu(emss, False)) == (with_markers, without)


def longest_fpdu(ulpdu_length: int) -> int:
    """Octets of the FPDU with this ULPDU where it is largest: over every place it can begin."""
    return max(len(naive.fpdu(bytes(ulpdu_length), offset, "header")[0]) for offset in range(0, 512, 4))


@pytest.mark.parametrize("emss", [140, 141, 142, 143, 512, 514, 515, 516, 519, 520, 1024, 1025, 1028, 1460])
def test_with_markers_it_fits_wherever_it_begins(emss: int) -> None:
    largest = mulpdu(emss, True)
    assert longest_fpdu(largest) <= emss
    # And it wastes nothing, except where rounding EMSS down to a multiple of 4 saves a Marker that the
    # formula, which divides EMSS itself by 512, still counts.
    wasted = 4 if emss % 4 and (emss - emss % 4) % 512 == 0 else 0
    assert longest_fpdu(largest + wasted) <= emss < longest_fpdu(largest + wasted + 1)


@pytest.mark.parametrize("emss", range(140, 160))
def test_without_markers_it_is_the_largest_that_fits(emss: int) -> None:
    def length(ulpdu_length: int) -> int:
        return len(naive.fpdu(bytes(ulpdu_length), 4, "header")[0])  # too short to meet a Marker

    assert length(mulpdu(emss, False)) <= emss < length(mulpdu(emss, False) + 1)
