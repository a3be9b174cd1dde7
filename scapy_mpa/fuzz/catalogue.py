"""The catalogue, as the fuzzer sees it: how often areas are drawn, and packets that are malformed already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache

from scapy_mpa.catalogue.case import AREAS
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.packets import FrameMaker
from scapy_mpa.craft.pcapfile import SNAPLEN, Packet
from scapy_mpa.craft.setup import Setup
from scapy_mpa.craft.tcppacket import SentHalf
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.exchange import Exchange
from scapy_mpa.fuzz.laying import initiator_address, later
from scapy_mpa.fuzz.units import Way


@cache
def weights() -> dict[str, int]:
    """How often each area is drawn: as the catalogue has cases."""
    counted = Counter(case.area for case in CASES.values())
    return {area: counted[area] for area in AREAS}


@lru_cache(maxsize=32)
def malformed_cases(areas: Sequence[str]) -> tuple[str, ...]:
    """The names of the cases of some areas."""
    return tuple(name for name, case in CASES.items() if case.area in areas)


def nothing_said(name: str) -> Exchange:
    """What stands for messages where a case of the catalogue is begun from: there are only packets."""
    ways = Way(False, True), Way(False, True)
    return Exchange(f"catalogue: {name}", 0, 4, (0, 0), None, None, ways, (None, None), True, ())


Change = Callable[[list[Packet]], list[Packet]]


def malform(draft: Draft, name: str) -> Sequence[Change]:
    """Have the packets of a case of the catalogue in a draft, with the address and the time of the draft's number.

    Returns what is still to be done to the frames.
    """
    plan = CASES[name].plan()
    packets = plan.sent()
    for half in dict.fromkeys(packet.half for packet in packets):
        draft.halves = _moved(half, Setup(**plan.setup), draft.case)
    draft.packets = [packet._replace(time=packet.time + later(draft.case)) for packet in packets]
    draft.snaplen = plan.snaplen if plan.snaplen < SNAPLEN else None
    return plan.wire


def _moved(one: SentHalf, setup: Setup, case: int) -> tuple[SentHalf, SentHalf]:
    """Both halves of a connection, the Initiator at another address."""
    halves = (one, one.peer) if one.role == "initiator" else (one.peer, one)
    ends = [setup.endpoint(half.role, half.connection) for half in halves]
    ends[0] = replace(ends[0], address=initiator_address(case, setup.ip_version))
    for half, end, peer in zip(halves, ends, ends[::-1], strict=True):
        half.frames = FrameMaker(end, peer, setup.vlan)
    return halves
