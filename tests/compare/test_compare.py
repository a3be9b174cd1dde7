"""What happened between two taps: crafted pairs through every impairment of the network, and what middleboxes do."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.cli import cli
from scapy_mpa.compare.comparison import Comparison, compare
from scapy_mpa.compare.half import ComparedHalf, Kind
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.framing.role import ROLES
from scapy_mpa.plot.taps import taps_figure
from tests.compare.pairs import AHEAD, WAY, Taps, conversation, taps
from tests.conftest import REPO

SCHEMA = json.loads((REPO / "scapy_mpa" / "compare" / "compare.schema.json").read_text())

IMPAIRMENTS = [
    [],
    ["lose:probability=0.2"],
    ["lose:probability=0.2,resegment=true"],
    ["lose:probability=0.2,retransmit=false"],
    ["reorder:probability=0.3"],
    ["duplicate:probability=0.3"],
    ["retransmit:probability=0.3"],
    ["corrupt:probability=0.2"],
    ["corrupt:probability=0.2,repaired=true"],
    ["corrupt:probability=0.2,repaired=true,dropped=true"],
    ["fragment"],
    ["fragment:reverse=true"],
    ["reorder", "duplicate", "lose", "corrupt:repaired=true"],
]
#: Cut, joined and unknown: no impairment of these does that.
NEVER: tuple[Kind, ...] = ("cut", "joined", "recut", "unknown")


def changed(half: ComparedHalf) -> set[int]:
    return {place for one in half.changes for place in range(one.offset, one.offset + one.octets)}


def check(pair: Taps) -> Comparison:
    found = compare(str(pair.first), str(pair.second))
    (one,) = found.connections
    for role in ROLES:
        half, truth = one.halves[role], pair.truth[role]
        counts = half.counts
        assert counts["lost"] + counts["not-captured"] == truth.lost
        assert counts["repeated"] == truth.repeated
        assert counts["reordered"] == truth.reordered or truth.has_copies
        assert changed(half) == truth.changed
        assert [kind for kind in NEVER if counts[kind]] == []
        assert not [*half.remarks()]
    return found


@pytest.mark.parametrize("m", [(0, 0), (1, 1)], ids=["no-markers", "markers"])
@pytest.mark.parametrize("impairments", IMPAIRMENTS, ids=",".join)
def test_each_change_is_found_and_none_else(impairments: list[str], m: tuple[int, int], tmp_path: Path) -> None:
    pair = taps(conversation(m=m), impairments, tmp_path)
    found = check(pair)
    # The table reaches what it is about.
    truths = [(one.lost, one.repeated, one.reordered, len(one.changed)) for one in pair.truth.values()]
    kinds = {one.partition(":")[0] for one in impairments}
    expected = {"lose": 0, "duplicate": 1, "reorder": 2, "corrupt": 3}
    assert all(any(truth[expected[kind]] for truth in truths) for kind in kinds & expected.keys())
    assert found.is_same == (kinds <= {"fragment", "retransmit"})
    assert found.clock is not None
    assert abs(found.clock.offset - AHEAD) <= found.clock.error
    jsonschema.validate(found.as_dict(), SCHEMA)
    for half in found.connections[0].halves.values():
        for change in half.changes:
            assert (change.crc_before, change.part in ("ULPDU", "PAD", "CRC")) == ("good", True)


CHOICES = ("lose", "reorder", "duplicate", "retransmit", "corrupt", "corrupt:repaired=true", "fragment")


@given(
    chosen=st.lists(st.sampled_from(CHOICES), max_size=4, unique_by=lambda one: one.partition(":")[0]),
    seed=st.integers(0, 1 << 16),
    ipv6=st.booleans(),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_is_found(tmp_path: Path, chosen: list[str], seed: int, ipv6: bool) -> None:
    ends = {"initiator": "2001:db8::1", "responder": "2001:db8::2"} if ipv6 else {}
    check(taps(conversation(**ends), chosen, tmp_path, seed))


# --- middleboxes ---

Change = Callable[[list[TcpPacket]], list[TcpPacket]]


def behind(change: Change, folder: Path, octets: Callable[[bytes], bytes] = bytes) -> tuple[Path, Path]:
    """Captures before and behind something that changes what the Initiator sends, and the octets of every frame."""
    plain = [*conversation().sending(0).packets()]
    ours = [one for one in plain if one.half.role == "initiator"]
    theirs = [one for one in plain if one.half.role == "responder"]
    first = ours + [one._replace(time=one.time + WAY) for one in theirs]
    second = [one._replace(time=one.time + WAY) for one in change(ours)] + theirs
    paths = folder / "first.pcap", folder / "second.pcap"
    for path, packets, made in zip(paths, (first, second), (bytes, octets), strict=True):
        packets.sort(key=lambda one: one.time)
        with path.open("wb") as file:
            PcapWriter(file).write((one.time, made(octets_of(one))) for one in packets)
    return paths


def initiator(paths: tuple[Path, Path]) -> ComparedHalf:
    (one,) = compare(*map(str, paths)).connections
    return one.halves["initiator"]


def cut(packets: list[TcpPacket]) -> list[TcpPacket]:
    found = []
    for one in packets:
        half = len(one.payload) // 2
        if not one.in_operation or half < 100:
            found.append(one)
        else:
            found += [one._replace(payload=one.payload[:half])]
            found += [one._replace(start=one.start + half, payload=one.payload[half:], time=one.time + 1)]
    return found


def join(packets: list[TcpPacket]) -> list[TcpPacket]:
    found: list[TcpPacket] = []
    joined = False
    for one in packets:
        if found and not joined and one.in_operation and found[-1].in_operation and found[-1].end == one.start:
            found[-1] = found[-1]._replace(payload=found[-1].payload + one.payload)
            joined = True
        else:
            found.append(one)
            joined = False
    return found


def test_what_is_cut_is_found(tmp_path: Path) -> None:
    paths = behind(cut, tmp_path)
    half = initiator(paths)
    here, there = half.segments
    assert half.counts["cut"] == there - here > 10
    assert set(half.counts) == {"cut"}
    assert all((len(one.sent_frames), len(one.received_frames)) == (1, 2) for one in half.events)


def test_what_is_joined_is_found(tmp_path: Path) -> None:
    half = initiator(behind(join, tmp_path))
    here, there = half.segments
    assert half.counts["joined"] == here - there > 10
    assert set(half.counts) == {"joined"}


def test_what_is_cut_and_damaged_is_both(tmp_path: Path) -> None:
    def damage(packets: list[TcpPacket]) -> list[TcpPacket]:
        found = cut(packets)
        places = [index for index, one in enumerate(found) if one.in_operation and len(one.payload) > 200]
        one = found[places[7]]
        found[places[7]] = one._replace(damage=((20, 0xFF), (21, 0x0F)))
        return found

    half = initiator(behind(damage, tmp_path))
    (change,) = half.changes
    assert (change.octets, change.checksum_shows, change.crc_before, change.crc_after) == (2, False, "good", "bad")


def test_clamped_mss_is_said(tmp_path: Path) -> None:
    half = initiator(behind(list, tmp_path, lambda frame: frame.replace(b"\x02\x04\x05\xb4", b"\x02\x04\x05\x14")))
    assert half.mss == (1460, 1300)
    assert [*half.remarks()] == ["MSS of its SYN changed from 1460 to 1300"]


@pytest.mark.parametrize("port", [b"\x9c\x40", b"\x1f\x90"], ids=["same port", "another"])
def test_through_a_nat(port: bytes, tmp_path: Path) -> None:
    ours, theirs = b"\x0a\x00\x00\x01", b"\xc0\x00\x02\x09"

    def translate(frame: bytes) -> bytes:
        head = frame[:34].replace(ours, theirs)
        return head + frame[34:38].replace(b"\x9c\x40", port) + frame[38:]

    paths = behind(cut, tmp_path, translate)
    apart = compare(*map(str, paths))
    assert (apart.connections, len(apart.only_first), len(apart.only_second)) == ([], 1, 1)
    (one,) = compare(*map(str, paths), mapping=["10.0.0.1=192.0.2.9"]).connections
    assert one.halves["initiator"].counts.keys() == {"cut"}
    assert one.name[1].startswith("192.0.2.9:")


#: What a middlebox adds to the sequence numbers of the Initiator.
REWRITTEN = 0x7000_0001


def rewritten(change: Change, folder: Path) -> tuple[Path, Path]:
    def rewrite(frame: bytes) -> bytes:
        at = 38 if frame[26:30] == b"\x0a\x00\x00\x01" else 42
        if at == 42 and not frame[47] & 0x10:
            return frame
        number = int.from_bytes(frame[at : at + 4], "big") + REWRITTEN & 0xFFFFFFFF
        return frame[:at] + number.to_bytes(4, "big") + frame[at + 4 :]

    return behind(change, folder, rewrite)


def test_rewritten_sequence_numbers(tmp_path: Path) -> None:
    half = initiator(rewritten(cut, tmp_path))
    assert (half.seq_shift, set(half.counts)) == (REWRITTEN, {"cut"})


def test_rewritten_sequence_numbers_without_syns(tmp_path: Path) -> None:
    paths = rewritten(list, tmp_path)
    for path in paths:
        octets = path.read_bytes()
        at, left = 24, octets[:24]
        while at < len(octets):
            length = int.from_bytes(octets[at + 8 : at + 12], "little")
            left += octets[at : at + 16 + length] if not octets[at + 63] & 2 else b""
            at += 16 + length
        path.write_bytes(left)
    half = initiator(paths)
    assert (half.seq_shift, set(half.counts)) == (REWRITTEN, set())


def test_removed_markers_are_said(tmp_path: Path) -> None:
    paths = tmp_path / "first.pcap", tmp_path / "second.pcap"
    for path, m in zip(paths, ((0, 1), (0, 0)), strict=True):
        with path.open("wb") as file:
            PcapWriter(file).write((one.time, octets_of(one)) for one in conversation(m=m).sending(0).packets())
    half = initiator(paths)
    assert (half.is_compared, half.markers) == (False, (True, False))
    assert [*half.remarks()] == ["Markers are removed in transit: octets and segments are not compared"]


def test_the_other_order_gives_the_same(tmp_path: Path) -> None:
    pair = taps(conversation(), ["lose:probability=0.2", "corrupt:repaired=true"], tmp_path)
    one = compare(str(pair.first), str(pair.second)).connections[0].halves["initiator"]
    two = compare(str(pair.second), str(pair.first)).connections[0].halves["initiator"]
    assert one.counts == two.counts and one.changes == two.changes
    assert (one.sender_tap, two.sender_tap) == (0, 1)


# --- the command ---


def test_the_command(tmp_path: Path) -> None:
    pair = taps(conversation(), ["corrupt:probability=0.2,repaired=true"], tmp_path)
    args = ["compare", str(pair.first), str(pair.second)]
    picture = tmp_path / "taps.svg"
    ran = CliRunner().invoke(cli, [*args, "--picture", str(picture)], standalone_mode=False)
    assert ran.return_value == 1
    assert "CRC good before, bad after; the TCP checksum does not show it" in ran.output
    assert max(map(len, ran.output.replace(str(tmp_path), "").splitlines())) <= 100
    assert picture.read_text().count("<svg") == 1
    ran = CliRunner().invoke(cli, [*args, "--format", "json"], standalone_mode=False)
    jsonschema.validate(json.loads(ran.output), SCHEMA)
    ran = CliRunner().invoke(cli, ["compare", str(pair.first), str(pair.first)], standalone_mode=False)
    assert (ran.return_value, ran.output.splitlines()[-1]) == (0, "nothing happened in transit")


@pytest.mark.parametrize("mapping", ["x=y", "10.0.0.1", "10.0.0.1=10.0.0.2:5", "10.0.0.1:99999=10.0.0.2:5"])
def test_a_mapping_that_is_none_is_refused(mapping: str, tmp_path: Path) -> None:
    pair = taps(conversation(), [], tmp_path)
    ran = CliRunner().invoke(cli, ["compare", str(pair.first), str(pair.second), "--map", mapping])
    assert ran.exit_code == 2 and mapping.partition("=")[0] in ran.output


def test_the_picture_of_nothing(tmp_path: Path) -> None:
    pair = taps(conversation(), [], tmp_path)
    assert "nothing happened" in taps_figure(compare(str(pair.first), str(pair.second))).get_suptitle()


@pytest.mark.parametrize("seed", range(20))
def test_damaged_captures_are_compared_all_the_same(seed: int, tmp_path: Path) -> None:
    """Octets anywhere behind the file header are changed: nothing but CaptureError may come of it."""
    from scapy_mpa.errors import CaptureError

    pair = taps(conversation(), ["lose"], tmp_path)
    rng = random.Random(seed)
    for path in (pair.first, pair.second):
        octets = bytearray(path.read_bytes())
        for _ in range(rng.randrange(1, 200)):
            octets[rng.randrange(24, len(octets))] = rng.randrange(256)
        path.write_bytes(octets)
    try:
        found = compare(str(pair.first), str(pair.second))
    except CaptureError:
        return
    jsonschema.validate(found.as_dict(), SCHEMA)
