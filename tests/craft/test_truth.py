"""The truth about crafted captures: against the formulas read octet by octet, and by hand where these say nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.segmentation import SEGMENTATIONS
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.truth import Truth
from scapy_mpa.framing.role import ROLES
from tests.receive.reference import OPCODES, Captured, Sent, first_frames, tell
from tests.sampling import examples

SIZES = st.one_of(st.integers(0, 200), st.integers(200, 6000))


@st.composite
def conversations(draw: st.DrawFn, /, **fixed: Any) -> Conversation:
    kinds = st.sampled_from([kind for kind in SEGMENTATIONS if kind != "tiny"])
    parameters = {
        "m": (draw(st.integers(0, 1)), draw(st.integers(0, 1))),
        "c": (draw(st.integers(0, 1)), 1),
        "segmentation": (draw(kinds), draw(kinds)),
        "mtu": draw(st.sampled_from([300, 1500, 1501, 9000])),
        "seed": draw(st.integers(0, 1000)),
        "isn": (draw(st.integers(0, 2**32 - 1)), 2**32 - draw(st.integers(1, 4000))),
        **fixed,
    }
    made = Conversation(**parameters)
    made.send("initiator", draw(SIZES))
    for _ in range(draw(st.integers(0, 12))):
        role = draw(st.sampled_from(["initiator", "responder"]))
        getattr(made, draw(st.sampled_from(["send", "write", "read"])))(role, draw(SIZES))
    return made


def truth_of(traffic: Traffic) -> tuple[list[TcpPacket], list[dict[str, Any]]]:
    packets, truth = list(traffic.packets()), Truth()
    for packet in packets:
        truth.note(packet, traffic.pipeline.snaplen)
    return packets, list(truth.records())


def by_the_formulas(packets: list[TcpPacket]) -> list[dict[str, Any]]:
    """The records that the design's formulas give, from the first frame of each octet, or that of the copy taken."""
    halves = {packet.half.role: packet.half for packet in packets}
    brought: dict[SentHalf, list[Captured]] = {half: [] for half in halves.values()}
    for frame, packet in enumerate(packets, 1):
        half = packet.half
        if packet.payload:
            assert half.origin is not None
            start = packet.start - half.origin
            damage = tuple(start + index for index, _ in packet.damage)
            brought[half].append(Captured(frame, start, start + len(packet.payload), damage))
    bad_for_good = {half: settle_damage(half, packets, brought[half]) for half in halves.values()}
    startup = 0
    for half in halves.values():
        assert half.startup is not None and half.origin is not None
        first, last = half.startup
        startup = max(startup, *first_frames(brought[half], first - half.origin, last - half.origin))
    records: list[dict[str, Any]] = []
    for role in ROLES:
        half = halves[role]
        assert half.origin is not None
        sent = []
        for fpdu, opcode in zip(half.laid, half.opcodes, strict=True):
            bad = any(fpdu.offset <= at < fpdu.end for at in bad_for_good[half])
            name = None if opcode is None else OPCODES[opcode]
            sent.append(
                Sent(
                    fpdu.offset,
                    fpdu.header_offset,
                    fpdu.ulpdu_length,
                    fpdu.end,
                    fpdu.markers,
                    name,
                    fpdu.markers > 0,
                    bad,
                )
            )
        told = tell(
            sent,
            brought[half],
            startup=startup,
            seq_start=half.seq(half.origin),
            crc=half.crc,
            time=lambda frame: packets[frame - 1].time / 1_000_000_000,
            direction=role,
        )
        records += told.records
    return records


def settle_damage(half: SentHalf, packets: list[TcpPacket], captured: list[Captured]) -> set[int]:
    """The octets of FPDUs that stay bad; of these and of octets that were right before, no segment keeps its damage.

    What is left is damage for which a segment was dropped: it came again before it was acknowledged.
    """
    assert half.origin is not None
    settled: set[int] = set()
    for i, (_, _, _, damage) in enumerate(captured):
        for at in damage:
            if any(start <= at < end and at not in wrong for _, start, end, wrong in captured[:i]):
                continue
            again = next((c.frame for c in captured[i + 1 :] if c.start <= at < c.end and at not in c.damage), 0)
            acks = (p.ack for p in packets[: again - 1] if p.half is half.peer and p.ack is not None)
            if half.crc and (not again or any(ack > at + half.origin for ack in acks)):
                settled.add(at)
    bad = [fpdu for fpdu in half.laid if any(fpdu.offset <= at < fpdu.end for at in settled)]
    for i, segment in enumerate(captured):
        kept = (at for at in segment.damage if half.crc and not any(f.offset <= at < f.end for f in bad))
        captured[i] = segment._replace(damage=tuple(kept))
    return settled


COMPLETE = ["reorder:probability=0.3", "duplicate", "lose:resegment=true", "retransmit", "jitter"]
DAMAGE = ["corrupt:repaired=true,probability=0.2", "corrupt:repaired=true,dropped=true,probability=0.3"]
DAMAGE += ["corrupt:repaired=true,dropped=true,resegment=true,distance=3,probability=0.3"]


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(
    conversations(),
    st.lists(st.sampled_from([*COMPLETE, "lose"]), max_size=3),
    st.sampled_from(["", *DAMAGE]),
    st.integers(0, 3),
)
def test_what_arrives_in_the_end_is_told_by_the_formulas(
    made: Conversation, impairments: list[str], damage: str, place: int
) -> None:
    # Damaged twice, a segment may be put together of two copies that are both bad.
    impairments[place:place] = filter(None, [damage])
    packets, records = truth_of(Traffic([made], impairments, seed=made.setup.seed))
    expected = by_the_formulas(packets)
    if any(one["crc"] == other["crc"] == "bad" for one, other in pairwise(expected)):
        # The formulas know of one bad FPDU at a time: where one follows another the first error is not theirs to tell.
        for record in (*records, *expected):
            record["after_error"] = None
    assert records == expected


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(
    conversations(m=(1, 1), c=(1, 1)),
    st.lists(st.sampled_from(["reorder:probability=0.3", "duplicate", "retransmit"]), max_size=2),
    st.sampled_from(["lose:retransmit=false", "capture-loss:probability=0.1"]),
)
def test_with_markers_losses_are_told_by_the_formulas(made: Conversation, impairments: list[str], loss: str) -> None:
    packets, records = truth_of(Traffic([made], [*impairments, loss], seed=made.setup.seed))
    assert records == by_the_formulas(packets)


# --- by hand ---


def told(records: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(record[name] for name in names) for record in records]


def three(**parameters: Any) -> tuple[list[TcpPacket], list[int]]:
    """A connection with three FPDUs from the Initiator, one a segment; the indices of their packets."""
    made = Conversation(c=(1, 1), timestamps=False, close="none", **parameters)
    for _ in range(3):
        made.send("initiator", 600)
    packets = list(made.sending().packets())
    places = [index for index, packet in enumerate(packets) if packet.in_operation and packet.payload]
    assert len(places) == 3
    return packets, places


def note_all(packets: list[TcpPacket]) -> list[dict[str, Any]]:
    truth = Truth()
    for packet in packets:
        truth.note(packet)
    return list(truth.records())


def test_behind_a_gap_an_fpdu_without_markers_is_found_by_searching() -> None:
    packets, (_, second, third) = three()
    del packets[second]
    records = note_all(packets)
    assert told(records, "located_by", "placed_frame", "delivered_frame") == [("start", 6, 6), ("scan", third, None)]


def test_behind_a_gap_an_fpdu_with_a_marker_is_found_by_it() -> None:
    packets, (_, second, third) = three(m=(0, 1))
    del packets[second]
    assert told(note_all(packets), "located_by", "placed_frame") == [("start", 6), ("marker", third)]


def test_a_dropped_segment_counts_when_it_is_sent_again() -> None:
    packets, (_, second, third) = three()
    damaged = packets[second]._replace(damage=((100, 1),), checksum="before")
    packets.insert(second, damaged)
    records = note_all(packets)
    assert told(records, "crc", "frames") == [("good", [6]), ("good", [second + 2]), ("good", [third + 2])]
    # If it never is, its octets are the connection's, but MPA never had them.
    del packets[second + 1]
    records = note_all(packets)
    assert told(records, "crc", "located_by") == [("good", "start"), ("bad", "length"), ("good", "scan")]
    assert told(records, "after_error") == [(False,)] * 3


def test_an_fpdu_that_ended_in_a_dropped_segment_is_placed_by_another() -> None:
    packets, (first, second, third) = three()
    whole = b"".join(packets[index].payload for index in (first, second, third))
    at, length = packets[first].start, len(packets[first].payload)
    # The first segment holds the first FPDU and some of the second, where it is damaged.
    one = packets[first]._replace(payload=whole[: length + 300], damage=((length + 200, 1),), checksum="before")
    two = packets[first]._replace(start=at + length + 300, payload=whole[length + 300 :])
    again = one._replace(damage=(), checksum="right")
    captured = [*packets[:first], one, two, again]
    assert told(note_all(captured), "frames", "placed_frame") == [
        ([first + 3], first + 3),
        ([first + 2, first + 3], first + 3),
        ([first + 2], first + 3),
    ]


def test_octets_damaged_under_a_right_checksum_are_bad_and_what_follows_is_searched_for() -> None:
    packets, (first, second, third) = three()
    packets[second] = packets[second]._replace(damage=((100, 1),))
    records = note_all(packets)
    assert told(records, "crc", "located_by", "placed_frame", "delivered_frame", "after_error") == [
        ("good", "start", first + 1, first + 1, False),
        ("bad", "length", None, None, False),
        ("good", "scan", third + 1, third + 1, True),
    ]


def test_a_bad_fpdu_behind_a_bad_one_is_an_error_when_it_is_found() -> None:
    packets, (first, second, third) = three()
    whole = packets[second].payload
    damage = ((len(whole) - 1, 1),)
    early = packets[third]._replace(damage=damage)
    late = packets[second]._replace(damage=damage)
    # The third comes before the second, and nothing but the second tells where it begins.
    records = note_all([*packets[: first + 1], early, late])
    assert told(records, "crc", "located_by", "after_error") == [
        ("good", "start", False),
        ("bad", "length", False),
        ("bad", "scan", False),
    ]


def test_a_snap_length_that_cuts_the_octets_of_an_fpdu_leaves_its_place() -> None:
    packets, (first, second, third) = three()
    truth = Truth()
    for index, packet in enumerate(packets):
        truth.note(packet, 100 if index == first else None)
    assert told(list(truth.records()), "crc", "located_by", "delivered_frame") == [
        ("cut", "start", first + 1),
        ("good", "length", second + 1),
        ("good", "length", third + 1),
    ]


def test_a_capture_that_begins_in_the_middle_knows_the_initiator_by_who_speaks_first() -> None:
    made = Conversation(m=(1, 1)).send("initiator", 600).send("responder", 700).send("initiator", 800)
    packets = list(made.sending().packets())
    first = next(
        index for index, packet in enumerate(packets) if packet.in_operation and packet.half.role == "responder"
    )
    records = note_all(packets[first:])
    assert told(records, "direction", "ulpdu_length", "located_by", "delivered_frame") == [
        ("initiator", 718, "marker", 1),
        ("responder", 818, "marker", 2),
    ]


def test_connections_are_numbered_by_their_requests_and_those_that_say_nothing_have_no_number() -> None:
    silent = Conversation(close="none")
    later = Conversation(time=Conversation().setup.time + 1, c=(0, 1)).send("initiator", 10)
    first = Conversation().send("initiator", 20)
    _, records = truth_of(Traffic([later, silent, first]))
    # The silent one has a Request: it is there.
    assert told(records, "connection", "ulpdu_length") == [(1, 38), (2, 28)]


def test_a_datagram_in_fragments_counts_at_the_last_of_them() -> None:
    made = Conversation(close="none").send("initiator", 1200)
    traffic = Traffic([made], ["fragment:mtu=576"])
    packets, records = truth_of(traffic)
    places = [index for index, packet in enumerate(packets, 1) if packet.piece is not None]
    assert len(places) == 3
    assert told(records, "frames", "placed_frame") == [([places[-1]], places[-1])]
    assert note_all([packet for index, packet in enumerate(packets, 1) if index != places[1]]) == []
