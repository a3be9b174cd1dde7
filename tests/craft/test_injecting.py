"""Segments that are none of the connection's: the truth stays what it is, and the analysis finds it, and them."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scapy_mpa import analyze
from scapy_mpa.craft.impairments import impairment
from scapy_mpa.craft.injecting import PLACES, WHERE, aged, forged
from scapy_mpa.craft.packets import ACK, RST, SYN
from scapy_mpa.craft.scenario import load
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.truth import Truth
from scapy_mpa.errors import MPAError
from tests.craft.test_impairments import checksum_is_right, conversation, streams
from tests.craft.test_scenarios import differences, records_of
from tests.sampling import examples

INJECTED = [(what, where) for what, places in PLACES.items() for where in places]
each = pytest.mark.parametrize(("what", "where"), INJECTED)
#: By what rules the analysis says so.
FOUND = {
    "rst": {"attack-reset"},
    "syn": {"attack-syn"},
    "fin": {"outside-window"},
    "data": {"outside-window"},
    # Only what fits no connection is asked whether it begins with a Key.
    "startup": {"late-duplicate", "outside-window"},
    "ack": {"outside-window"},
    "checksum": {"tcp-checksum"},
    "timestamp": {"old-timestamp"},
    ("data", "acknowledged"): {"overlap"},
    ("data", "window"): {"crc-dropped", "overlap"},
}
#: With and without Markers, CRCs and timestamps, in order and not, sequence numbers that wrap.
SCENARIOS = [
    "a4-multiple-late", "a4-unaligned", "culley-02", "ipv6-in-a-vlan", "lossy-network", "many-connections",
    "markers-without-crc", "middlebox", "neither-markers-nor-crc", "sequence-numbers-wrap", "small-window",
    "stack-siw-crc",
]  # fmt: skip
#: Nothing of the connection is lost by these.
OTHERS = ["reorder", "duplicate", "lose", "retransmit:probability=0.2", "fragment:mtu=600", "jitter:seconds=0.000001"]


def text(what: str, where: str, probability: float = 0.15) -> str:
    return f"inject:what={what},where={where},probability={probability}"


def captured(*impairments: object, seed: int = 1, **parameters: Any) -> list[TcpPacket]:
    return list(Traffic([conversation(**parameters)], impairments, seed=seed).packets())


def plain(packet: TcpPacket) -> TcpPacket:
    return packet._replace(time=0, half=None)  # type: ignore[arg-type]


@each
def test_the_connection_stays_what_it_is(what: str, where: str) -> None:
    packets = captured(text(what, where))
    forged_ones = [one for one in packets if one.is_injected]
    real = [one for one in packets if not one.is_injected]
    assert forged_ones
    assert [plain(one) for one in real] == [plain(one) for one in captured()]
    assert [one.time for one in packets] == sorted(one.time for one in packets)
    assert [octets_of(one) for one in packets] == [octets_of(one) for one in captured(text(what, where))]
    assert all(checksum_is_right(octets_of(one)) == (what != "checksum") for one in forged_ones)


@each
def test_where_it_lies(what: str, where: str) -> None:
    """By what can be read off the capture before it: the highest octet, acknowledgement and window."""
    packets = captured(text(what, where))
    for at, one in enumerate(packets):
        if not one.is_injected:
            continue
        before = [other for other in packets[:at] if not other.is_injected]
        acks = [other for other in before if other.half is one.half.peer and other.ack is not None]
        acked = max((other.ack or 0) for other in acks)
        edge = max((other.ack or 0) + (other.window << 7) for other in acks)
        sent = max(other.end for other in before if other.half is one.half)
        size = len(one.payload)
        if what == "ack":
            assert one.ack is not None and one.start <= sent and not size
            assert one.ack >= 100_000_000 + max(other.end for other in before if other.half is one.half.peer)
        elif where == "ahead":
            assert one.start >= max(edge, sent) + 100_000_000 - (1 << 24)
        elif where == "behind":
            assert one.start + size <= -1
        elif where == "acknowledged":
            assert 0 <= one.start < acked and one.start + size <= acked
        else:
            assert acked <= one.start < edge and (size or one.start > sent)
        assert not one.flags & RST or one.start not in {other.ack for other in acks}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_analysis_finds_what_the_truth_says(name: str) -> None:
    scenario = load(name, seed=1)
    clean = rules_and_records(scenario, ())[0]
    problems = []
    for what, where in INJECTED:
        count = sum(one.is_injected for one in scenario.traffic([text(what, where)]).packets())
        rules, found, true = rules_and_records(scenario, (text(what, where),))
        problems += [f"{what} {where}: {one}" for one in differences(found, true, is_lossy=False)[:3]]
        expected = FOUND.get((what, where), FOUND.get(what, set()))
        more = rules - clean
        if where == "window" and what == "data":
            expected = expected | {"attack-injection"}
        if not more <= expected or (count and not more & expected and not rules & expected):
            problems.append(f"{what} {where}: {count} injected, {sorted(more)} found")
    assert not problems, "\n".join(problems)


def rules_and_records(scenario: Any, impairments: tuple[str, ...]) -> tuple[set[str], list[Any], list[Any]]:
    file, truth = io.BytesIO(), Truth()
    scenario.traffic(impairments).write(file, truth=truth)
    file.seek(0)
    report = analyze(file)
    return {one.rule.id for one in report.all_findings()}, records_of(report), list(truth.records())


def is_believed(injected: list[tuple[str, str]]) -> bool:
    """Return True if the analysis may take for the connection what is none of it: it ends, and another one begins."""
    return ("rst", "window") in injected and any(what == "syn" for what, _ in injected)


@settings(max_examples=examples(150), deadline=None)
@given(
    seed=st.integers(0, 2**16),
    injected=st.lists(st.sampled_from([one for one in INJECTED if one != ("data", "window")]), min_size=1, max_size=3),
    others=st.lists(st.sampled_from(OTHERS), max_size=2, unique=True),
    m=st.tuples(st.integers(0, 1), st.integers(0, 1)),
)
def test_with_other_impairments(
    seed: int, injected: list[tuple[str, str]], others: list[str], m: tuple[int, int]
) -> None:
    impairments = [*others, *(text(*one, probability=0.1) for one in injected)]
    made, file, truth = conversation(m=m, seed=seed), io.BytesIO(), Truth()
    traffic = Traffic([made], impairments, seed=seed)
    assume(not is_believed(injected))
    traffic.write(file, truth=truth)
    file.seek(0)
    assert differences(records_of(analyze(file)), list(truth.records()), is_lossy=False) == []


def test_another_impairment_changes_nothing_of_what_is_real() -> None:
    both = captured("lose:resegment=true", "inject:what=data,probability=0.5", "inject:what=syn")
    one = captured("lose:resegment=true")
    assert [plain(packet) for packet in both if not packet.is_injected] == [plain(packet) for packet in one]
    assert {packet.flags & SYN for packet in both if packet.is_injected} == {0, SYN}
    assert streams([packet for packet in both if not packet.is_injected]) == streams(captured())


def test_only_in_one_direction() -> None:
    packets = captured("inject:what=fin,probability=1,direction=responder")
    assert {one.half.role for one in packets if one.is_injected} == {"responder"}


def test_a_segment_without_timestamps_gets_no_older() -> None:
    packets = captured(timestamps=False)
    assert aged(forged(packets[5], 7)) == forged(packets[5], 7)
    assert not any(one.is_injected for one in captured(text("timestamp", "window", 1), timestamps=False))
    assert forged(packets[5], 7).flags == ACK


def test_octets_are_forged_in_the_window_only_where_a_crc_refuses_them() -> None:
    assert not any(one.is_injected for one in captured(text("data", "window", 1), c=(0, 0)))


@pytest.mark.parametrize(("what", "where"), [one for one in product(PLACES, WHERE) if one not in INJECTED])
def test_what_would_be_believed_is_refused(what: str, where: str) -> None:
    with pytest.raises(MPAError, match=f"where of {what} may be {', '.join(PLACES[what])}"):
        impairment(f"inject:what={what},where={where}")


def test_the_usual_place() -> None:
    for what, places in PLACES.items():
        assert impairment({"kind": "inject", "what": what}).parameters["where"] == places[0]
