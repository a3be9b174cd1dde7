"""What routers report of the path MTU, and whether it fits what is under way."""

from __future__ import annotations

import pytest

from scapy_mpa.values.pathmtu import MOST_KEPT, PathMTUMessage
from scapy_mpa.watches.pathmtu import PathMTUWatch


def message(frame: int, unfit: str = "") -> PathMTUMessage:
    return PathMTUMessage(frame, frame, 1000, 1400, 1500, "192.0.2.1", unfit)


@pytest.mark.parametrize(
    ("offset", "acknowledged", "sent", "why"),
    [
        (50, 50, 51, ""),
        (50, None, None, ""),
        (49, 50, 99, "; octet 1000, which it quotes, had been acknowledged"),
        (99, 50, 99, "; octet 1000, which it quotes, had not been sent"),
    ],
)
def test_whether_it_fits(offset: int, acknowledged: int | None, sent: int | None, why: str) -> None:
    watch = PathMTUWatch()
    watch.received(message(1), offset, acknowledged, sent)
    (found,) = watch.finish()
    assert found.detail == f"192.0.2.1 reports a next-hop MTU of 1400 for a packet of 1500 octets{why}"
    assert watch.messages.explanation(2, 1460) == ("" if why else "; frame 1 reports a path MTU of 1400")


def test_many() -> None:
    watch = PathMTUWatch()
    for frame in range(1, MOST_KEPT + 4):
        watch.received(message(frame, "its ICMP checksum is wrong" if frame == 2 else ""), 0, None, None)
    found = list(watch.finish())
    assert [(one.message.frame, one.times) for one in found[-2:]] == [(MOST_KEPT, 1), (MOST_KEPT + 3, 3)]
    assert found[0].detail.endswith(f"; 1 of the first {MOST_KEPT} such messages do not fit")
