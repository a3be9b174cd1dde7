"""What impairments do to packets, separately and together, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.impairments import IMPAIRMENTS, Pipeline, impairment
from scapy_mpa.craft.network import is_data
from scapy_mpa.craft.packets import FIN, SYN, ones_complement_sum
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.errors import MPAError


def conversation(**parameters: Any) -> Conversation:
    made = Conversation(**{"m": (1, 0), "seed": 2, **parameters})
    return made.send("initiator", 60).write("initiator", 60000).send("responder", 9000).send("initiator", 3000)


def captured(*impairments: object, seed: int = 1, **parameters: Any) -> list[TcpPacket]:
    return list(Traffic([conversation(**parameters)], impairments, seed=seed).packets())


ALL = captured()


def data(packets: Sequence[TcpPacket]) -> list[TcpPacket]:
    return [packet for packet in packets if is_data(packet)]


def identity(packet: TcpPacket) -> tuple[str, int, bytes]:
    return packet.half.role, packet.start, packet.payload


def streams(packets: Sequence[TcpPacket]) -> dict[str, bytes]:
    """Return what each side's receiver has in the end, the first copy of each octet counting."""
    found = {}
    for role in ("initiator", "responder"):
        octets: dict[int, int] = {}
        for packet in packets:
            if packet.half.role == role and not packet.is_dropped:
                for index, octet in enumerate(packet.payload):
                    octets.setdefault(packet.start + index, octet)
        found[role] = bytes(octets[at] for at in range(len(octets)))
    return found


LOSSLESS = ["reorder:probability=0.4", "duplicate", "lose", "lose:resegment=true", "retransmit", "corrupt", "jitter"]


COUNTED = {
    "lose:retransmit=false,probability=0.3": lambda packets: len(ALL) - len(packets),
    "lose:probability=0.3": lambda packets: sum(packet.is_again for packet in packets),
    "duplicate:probability=0.3": lambda packets: len(packets) - len(ALL),
    "corrupt:probability=0.3": lambda packets: sum(bool(packet.damage) for packet in packets),
    "fragment": lambda packets: len({packet.piece.identification for packet in packets if packet.piece}),
    "capture-loss:probability=0.3": lambda packets: len(ALL) - len(packets),
    "cut:count=7": lambda packets: len(ALL) - len(packets),
    "cut:count=100000": lambda packets: len(ALL),
    "inject:probability=0.3": lambda packets: sum(packet.is_injected for packet in packets),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_happened_is_counted(name: str) -> None:
    traffic = Traffic([conversation()], [name, "jitter"], seed=1)
    for _ in range(2):
        packets = list(traffic.packets())
        ((count, _, _),) = traffic.pipeline.happened()
        assert count == COUNTED[name](packets) > 0


@pytest.mark.parametrize("names", [*([name] for name in LOSSLESS), LOSSLESS])
def test_what_is_not_lost_for_good_arrives(names: list[str]) -> None:
    packets = captured(*names)
    assert streams(packets) == streams(ALL)
    assert [identity(one) for one in packets] != [identity(one) for one in ALL] or names == ["jitter"]
    assert [one.flags for one in packets][:2] == [SYN, SYN | 0x10]
    first_data = next(index for index, one in enumerate(packets) if one.in_operation)
    assert [identity(one) for one in packets[:first_data]] == [identity(one) for one in ALL[:first_data]]


def test_reordering_moves_segments_within_their_turn_and_by_the_distance() -> None:
    packets = data(captured("reorder:probability=0.3,distance=4"))
    places = {identity(one): index for index, one in enumerate(data(ALL))}
    moved = [index - places[identity(one)] for index, one in enumerate(packets)]
    assert max(moved) > 1 and max(moved) <= 4 + 4  # others may be late at the same time
    turns = [one.half.role for one in packets]
    assert turns == [one.half.role for one in data(ALL)]


def test_duplicates_are_octet_for_octet_the_same() -> None:
    counts = Counter(octets_of(one) for one in captured("duplicate:probability=0.5") if is_data(one))
    assert set(counts.values()) == {1, 2}
    assert counts.keys() == {octets_of(one) for one in data(ALL)}


def test_a_loss_is_seen_later_or_never() -> None:
    known = {one.identification for one in ALL}
    again = [one for one in captured("lose:probability=0.3,distance=2") if one.identification not in known]
    assert len(again) > 5 and {identity(one) for one in again} < {identity(one) for one in data(ALL)}
    lost = captured("lose:probability=0.3,retransmit=false")
    assert 0.5 < len(data(lost)) / len(data(ALL)) < 0.9
    # Nobody acknowledges what did not arrive.
    hole = next(one for one in data(ALL) if identity(one) not in {identity(other) for other in lost})
    acks = [one.ack for one in lost if one.half.role != hole.half.role and one.ack is not None]
    assert max(acks) == hole.start


def test_acknowledgements_follow_what_has_arrived() -> None:
    packets = captured("reorder:probability=0.3", "lose", "duplicate", "corrupt")
    arrived: dict[str, set[int]] = {"initiator": {-1}, "responder": {-1}}
    for packet in packets:
        role = packet.half.role
        peer = packet.half.peer.role
        if packet.ack is not None:
            assert all(at in arrived[peer] for at in range(-1, packet.ack)), "not arrived yet"
        if not packet.is_dropped:
            length = len(packet.payload) + bool(packet.flags & (SYN | FIN))
            arrived[role].update(range(packet.start, packet.start + length))
    assert packets[-1].ack == max(one.end for one in ALL if one.half.role == "responder") + 1


def test_retransmissions_have_other_boundaries() -> None:
    edges = {(one.half.role, one.start, one.end) for one in data(ALL)}
    packets = data(captured("retransmit:probability=0.3"))
    others = [one for one in packets if (one.half.role, one.start, one.end) not in edges]
    assert len(others) > 5
    assert len(packets) == len(data(ALL)) + sum(
        1 for one in packets if one.identification not in {p.identification for p in ALL}
    )


@pytest.mark.parametrize("repaired", [True, False])
def test_damage_falls_on_ulpdus_and_crcs_and_the_checksum_tells_it_or_not(repaired: bool) -> None:
    packets = captured(f"corrupt:probability=0.3,repaired={str(repaired).lower()}")
    damaged = [one for one in packets if one.damage]
    assert len(damaged) > 5
    for packet in damaged:
        ((index, mask),) = packet.damage
        assert packet.half.origin is not None and 0 < mask < 256
        offset = packet.start + index - packet.half.origin
        fpdu = next(packet.half.fpdus_from(offset))
        assert fpdu.offset <= offset < fpdu.end
        assert offset >= min(fpdu.header_offset + 20, fpdu.end - 4)
        assert not packet.half.markers or offset % 512 >= 4
        frame = octets_of(packet)
        clean = octets_of(packet._replace(damage=(), checksum="right"))
        assert checksum_is_right(clean)
        assert checksum_is_right(frame) == repaired
        different = [at for at, (a, b) in enumerate(zip(frame, clean, strict=True)) if a != b]
        assert packet.headers + index in different
        assert set(different) <= {packet.headers + index, 50, 51}


def checksum_is_right(frame: bytes) -> bool:
    """Of an IPv4 TCP segment in Ethernet."""
    tcp = frame[34:]
    return ones_complement_sum(frame[26:34] + (6).to_bytes(2, "big") + len(tcp).to_bytes(2, "big") + tcp) == 0


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_put_together_are_the_datagram(version: int) -> None:
    ends: dict[str, Any] = {} if version == 4 else {"initiator": "fd00::1", "responder": "fd00::2"}
    header = 34 if version == 4 else 54
    packets = captured("fragment:mtu=600", **ends)
    pieces = [one for one in packets if one.piece is not None]
    assert len(pieces) > 10 and all(len(octets_of(one)) <= 614 for one in packets)
    whole: dict[int, bytes] = {}
    for packet in pieces:
        assert packet.piece is not None
        frame = octets_of(packet)
        at = header + (8 if version == 6 else 0)
        number = packet.piece.identification
        assert packet.piece.start == len(whole.get(number, b""))
        whole[number] = whole.get(number, b"") + frame[at:]
        more = frame[20] & 0x20 if version == 4 else frame[57] & 1
        assert bool(more) == (packet.piece.end < packet.piece.total)
        if version == 4:
            assert ones_complement_sum(frame[14:34]) == 0
            assert (frame[20] & 0x1F) << 8 | frame[21] == packet.piece.start // 8
    first = next(one for one in pieces if one.piece and one.piece.identification == 1)
    assert whole[1] == octets_of(first._replace(piece=None))[header:]
    reverse = [one.piece for one in captured("fragment:mtu=600,reverse=true", **ends) if one.piece]
    assert [one.start for one in reverse] != sorted(one.start for one in reverse) and reverse[0].start > 0


def test_what_happens_at_the_capture() -> None:
    assert [identity(one) for one in captured("cut:count=7")] == [identity(one) for one in ALL[7:]]
    assert len(captured("capture-loss:probability=0.3")) < 0.85 * len(ALL)
    assert Pipeline(["snap:length=80", "snap"]).snaplen == 80 and Pipeline(["lose"]).snaplen is None
    times = [one.time for one in captured("jitter:seconds=0.001")]
    assert times != sorted(times) and max(abs(a - b.time) for a, b in zip(times, ALL, strict=True)) <= 1_000_000
    for mode in ("zero", "pseudo"):
        for packet in captured(f"offload:mode={mode},direction=initiator"):
            frame = octets_of(packet)
            if packet.half.role == "responder":
                assert checksum_is_right(frame)
            else:
                length = len(frame) - 34
                pseudo = ones_complement_sum(frame[26:34] + (6).to_bytes(2, "big") + length.to_bytes(2, "big"))
                assert int.from_bytes(frame[50:52], "big") == (0 if mode == "zero" else pseudo)


def test_the_same_seed_does_the_same_and_another_impairment_beside_it_nothing_else() -> None:
    one, again, other = (
        [identity(packet) for packet in captured("lose:retransmit=false", seed=seed)] for seed in (1, 1, 2)
    )
    assert one == again != other
    assert [identity(packet) for packet in captured("jitter", "lose:retransmit=false")] == one


def test_an_impairment_may_be_meant_for_some() -> None:
    packets = captured("lose:probability=1,retransmit=false,direction=responder")
    assert {one.half.role for one in data(packets)} == {"initiator"}
    two = Traffic([conversation(), conversation()], ["lose:probability=1,retransmit=false,connection=1"])
    assert {one.half.connection for one in data(list(two.packets()))} == {0}


WRONG = {
    "lost": "there is no impairment 'lost'",
    "lose:often": "'often' in 'lose:often' is not NAME=VALUE",
    "lose:rate=1": "lose has no 'rate'; it has probability",
    "lose:probability=2": "must be a number from 0 to 1",
    "lose:distance=0": "a whole number from 1",
    "lose:retransmit=1": "true or false",
    "offload:mode=half": "pseudo or zero",
    "lose:direction=client": "direction is 'client'",
    "lose:connection=first": "connection is 'first'",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_impairment_is_said(text: str) -> None:
    with pytest.raises(MPAError) as raised:
        impairment(text)
    assert WRONG[text] in str(raised.value)


@pytest.mark.parametrize("number", [1, 4, 17])
def test_one_packet_by_its_number(number: int) -> None:
    mine = [one for one in data(ALL) if one.half.role == "initiator"]
    chosen = mine[number - 1]
    lost = data(captured(f"lose:number={number},retransmit=false"))
    assert [identity(one) for one in lost] == [identity(one) for one in data(ALL) if one is not chosen]
    reordered = data(captured(f"reorder:number={number},distance=1"))
    late = [identity(one) for one in reordered if one.half.role == "initiator"]
    assert late.index(identity(chosen)) == number
    with pytest.raises(MPAError, match="there is no packet 5000"):
        captured("lose:number=5000")
    others = Counter(identity(one) for one in captured("duplicate:number=2,distance=0,direction=responder"))
    others.subtract(Counter(map(identity, ALL)))
    assert [(one[0], count) for one, count in others.items() if count] == [("responder", 1)]


def test_impairments_from_tables() -> None:
    made = impairment({"kind": "reorder", "distance": 2})
    assert made.parameters == {"probability": 0.1, "distance": 2} and impairment(made) is made
    with pytest.raises(MPAError):
        impairment(3)
    assert all(impairment(kind).parameters == IMPAIRMENTS[kind].parameters for kind in IMPAIRMENTS)
