"""scapy-mpa messages: messages put together from their DDP segments, with their octets."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa.cli import cli
from scapy_mpa.craft.ulpdus import rdma_write, send
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.row import MessageRow, row_of
from scapy_mpa.messages.store import MessageStore
from scapy_mpa.rdmap.assembly import CUT_NOTE, Assembly, ConnectionMessages, DDPSegment
from scapy_mpa.reading.found import FoundFPDUs
from scapy_mpa.reading.spill import OctetStore
from tests.conftest import PCAPS, captures, truth
from tests.hostile.files import LAYOUTS, Case

RPING = PCAPS / "siw-rping.pcap"
WITH_TRUTH = captures(with_truth=True)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["messages", *map(str, arguments)], standalone_mode=False, catch_exceptions=False)


class Found(NamedTuple):
    """A ULPDU, the frame that brought it, who sent it."""

    ulpdu: bytes
    frame: int = 1
    direction: str = "initiator"
    delivered: bool = True


def messages(*found: Found, held: int = 1 << 20, wants_octets: bool = True) -> list[MessageRow]:
    """Return the messages of the ULPDUs of one connection."""
    store, octets = MessageStore(), OctetStore()
    assembly = Assembly(store, octets if wants_octets else None, held)
    connection = ConnectionMessages(0, None, None, 7471, (None, None))
    for one in found:
        half = connection.halves[ROLES.index(cast(Role, one.direction))]
        time, delivered = one.frame * 10**9, one.frame if one.delivered else 0
        frames = one.frame, one.frame, one.frame, delivered
        assembly.take(half, DDPSegment(one.ulpdu, len(one.ulpdu), *frames, time, time, False))
    assembly.finish()
    rows = [
        row_of(values, 0, ROLES[values.half & 1], None, octets.at(*values.payload) if values.payload else None)
        for values in store.in_order({0: 0})
    ]
    store.close()
    octets.close()
    return rows


def segment(payload: bytes, *, msn: int = 1, mo: int = 0, last: bool = False, qn: int = 0, opcode: int = 3) -> bytes:
    """An untagged DDP segment."""
    control = bytes([0x41 if last else 0x01, 0x40 | opcode])
    return control + b"".join(value.to_bytes(4, "big") for value in (7, qn, msn, mo)) + payload


def said(message: MessageRow) -> tuple[object, ...]:
    return message.offset, message.last, message.payload, message.note


def test_segments_become_a_message() -> None:
    (one,) = messages(
        Found(segment(b"abc"), 4), Found(segment(b"de", mo=3), 5), Found(segment(b"", mo=5, last=True), 9)
    )
    assert said(one) == (0, True, b"abcde", None)
    assert (one.qn, one.msn, one.message, one.segments, one.first_frame, one.last_frame, one.time_ns) == (
        *(0, 1, "Send", 3, 4, 9), 9 * 10**9,
    )  # fmt: skip
    assert one.complete and one.invalidate_stag is None


def test_as_craft_makes_them() -> None:
    (one,) = messages(Found(send(3, b"payload")))
    assert (one.message, one.msn, one.payload, one.complete) == ("Send", 3, b"payload", True)
    (one,) = messages(Found(rdma_write(0x1234, 5 << 40, b"there", last=True)))
    assert (one.message, one.stag, one.to, one.payload) == ("RDMA Write", 0x1234, 5 << 40, b"there")


def test_queues_and_directions_do_not_disturb_each_other() -> None:
    found = messages(
        Found(segment(b"a")),
        Found(segment(b"r", qn=1, opcode=1, last=True)),
        Found(segment(b"x"), direction="responder"),
        Found(rdma_write(1, 100, b"w", last=False)),
        Found(segment(b"b", mo=1, last=True)),
        Found(rdma_write(1, 101, b"v", last=True)),
        Found(segment(b"y", mo=1, last=True), direction="responder"),
    )
    assert [(one.message, one.payload) for one in found] == [
        ("RDMA Read Request", b"r"),
        ("Send", b"ab"),
        ("RDMA Write", b"wv"),
        ("Send", b"xy"),
    ]


@pytest.mark.parametrize(
    "after",
    [rdma_write(2, 101, b"v", last=True), rdma_write(1, 100, b"v", last=True), rdma_write(1, 102, b"v", last=True)],
)
def test_tagged_data_goes_on_where_it_ended(after: bytes) -> None:
    assert len(messages(Found(rdma_write(1, 100, b"w", last=False)), Found(after))) == 2


def test_to_wraps() -> None:
    found = messages(Found(rdma_write(1, 2**64 - 1, b"w", last=False)), Found(rdma_write(1, 0, b"v", last=True)))
    assert [one.payload for one in found] == [b"wv"]


def test_what_is_missing_is_told() -> None:
    first, second = messages(Found(segment(b"abc")), Found(segment(b"gh", mo=6, last=True)))
    assert said(first) == (0, False, b"abc", "what follows it is another message or was not captured")
    assert said(second) == (6, True, b"gh", "the octets of the message before octet 6 are missing")
    assert not first.complete and not second.complete
    (end,) = messages(Found(segment(b"abc")))
    assert said(end) == (0, False, b"abc", "its last segment was never sent, or not captured")


def test_what_is_not_there_leaves_parts() -> None:
    found = messages(Found(segment(b"abc")), Found(segment(b"g", mo=6)))
    assert [(one.offset, one.payload) for one in found] == [(0, b"abc"), (6, b"g")]


def test_mo_in_the_byte_order_of_the_host() -> None:
    (one,) = messages(Found(segment(bytes(300))), Found(segment(b"x", mo=0x2C010000, last=True)))
    assert said(one) == (0, True, bytes(300) + b"x", "MO in little-endian order")


def test_a_long_message_comes_in_parts() -> None:
    parts = [Found(segment(bytes([at]) * 1000, mo=1000 * at, last=at == 9)) for at in range(10)]
    found = messages(*parts, held=3000)
    assert b"".join(one.payload or b"" for one in found) == b"".join(bytes([at]) * 1000 for at in range(10))
    assert [one.offset for one in found] == [
        sum(len(one.payload or b"") for one in found[:n]) for n in range(len(found))
    ]
    assert len(found) > 3 and max(len(one.payload or b"") for one in found) <= 4000
    assert all("in parts: more than 3000 octets wait" in str(one.note) for one in found[:-1])
    assert [one.last for one in found] == [False] * (len(found) - 1) + [True]


def test_many_unfinished_messages_are_bounded() -> None:
    store = MessageStore()
    assembly = Assembly(store, held=100_000)
    half = ConnectionMessages(0, None, None, 7471, (None, None)).halves[0]
    for qn in range(5000):
        ulpdu = segment(b"z", qn=qn)
        assembly.take(half, DDPSegment(ulpdu, len(ulpdu), 1, 1, 1, 1, 0, 0, False))
        assert len(half.open) * 512 <= 100_512
    assert len(list(store.in_order({}))) > 4000
    store.close()


def test_invalidate_stag() -> None:
    (one,) = messages(Found(segment(b"", opcode=4, last=True)))
    assert (one.message, one.invalidate_stag) == ("Send with Invalidate", 7)


@pytest.mark.parametrize("ulpdu", [b"", b"\x41", b"\x41\x43\0\0", b"\xc1\x40" + bytes(11)])
def test_what_is_no_ddp_segment(ulpdu: bytes) -> None:
    (one,) = messages(Found(ulpdu))
    assert one.payload == ulpdu and one.message is None and one.note


@pytest.mark.parametrize("capture", WITH_TRUTH, ids=lambda path: path.stem)
def test_all_octets_of_the_truth_are_there_once(capture: Path) -> None:
    rows = [json.loads(line) for line in invoke(capture, "--format", "jsonl", "--payload").output.splitlines()]
    found: Counter[str] = Counter()
    want: Counter[str] = Counter()
    for row in rows:
        found[row["message"]] += row["octets"]
        assert row["octets"] == len(bytes.fromhex(row["payload"]))
    for row in truth(capture):
        tagged = row["opcode"] in ("RDMA Write", "RDMA Read Response")
        want[row["opcode"]] += row["ulpdu_length"] - (14 if tagged else 18)
    assert found == want
    assert sum(row["segments"] for row in rows) == len(truth(capture))


def test_files(tmp_path: Path) -> None:
    capture, folder = PCAPS / "siw-rping.pcap", tmp_path / "out"
    plain = [json.loads(line) for line in invoke(capture, "--format", "jsonl", "--payload").output.splitlines()]
    rows = [
        json.loads(line) for line in invoke(capture, "--format", "jsonl", "--directory", folder).output.splitlines()
    ]
    assert [Path(row["payload"]).read_bytes().hex() for row in rows] == [row["payload"] for row in plain]
    assert len([*folder.iterdir()]) == len(rows) == 35
    with pytest.raises(UsageError, match="the folder is not empty"):
        invoke(capture, "--directory", folder)


@pytest.mark.parametrize(
    ("arguments", "error"), [(("{folder}/none",), CaptureError), ((RPING, "--connection", "7"), UsageError)]
)
def test_no_directory_is_made_in_vain(arguments: tuple[object, ...], error: type[Exception], tmp_path: Path) -> None:
    words = (str(word).format(folder=tmp_path) for word in arguments)
    with pytest.raises(error):
        invoke(*words, "--directory", tmp_path / "out")
    with pytest.raises(UsageError, match="there is no folder"):
        invoke(RPING, "--directory", tmp_path / "none" / "out")
    assert not [*tmp_path.iterdir()]


def test_text_is_one_line_a_message() -> None:
    lines = invoke(PCAPS / "siw-rping.pcap", "--direction", "initiator", "--payload").output.splitlines()
    assert lines[0] == (
        "#0 initiator frame 12 Send QN 0 MSN 1: 16 octets, rping: buffer of 64 octets 000055eabfc99ba05a47490000000040"
    )
    assert lines[1].startswith(
        "#0 initiator frame 14 RDMA Read Response STag 0xa66e7c00 TO 0x557494c4ced0: 64 octets, named at frame 13 7264"
    )


def test_any_mutations() -> None:
    for number in range(60):
        name = ("markers-packed", "siw-rping", "siw-three-in-a-row")[number % 3]
        mutations = (("forge_ddp", number), ("forge_ddp", number + 1), ("drop", number), ("shuffle", number))
        octets = Case(name, number, mutations, LAYOUTS[number % len(LAYOUTS)]).made().octets
        with FoundFPDUs(BytesIO(octets)) as fpdus:
            placed = [one for one in fpdus if one.record.placed_frame is not None]
        for wants_payload in (False, True):
            with CapturedMessages(BytesIO(octets), payload=wants_payload, held=2000) as found:
                rows = list(found)
            assert sum(row.segments for row in rows) == len(placed)


def test_messages_that_a_snap_length_cut() -> None:
    """They count, with their octets on the wire, but are not complete; payload ends before what is missing."""
    path = PCAPS / "siw-snaplen128.pcap"
    with CapturedMessages(str(path), payload=True) as found:
        rows = list(found)
    cut = [row for row in rows if row.is_cut]
    assert len(cut) == 10 and {row.message for row in cut} == {"RDMA Write", "RDMA Read Response"}
    for row in rows:
        assert row.complete is not row.is_cut
        assert row.payload is not None and (len(row.payload) < row.octets) is row.is_cut
        assert (row.note == CUT_NOTE) is row.is_cut
    assert {row.octets for row in cut} == {300}
    requests = [row for row in rows if row.message == "RDMA Read Request"]
    assert all(row.answer is not None and row.answer.octets == 300 for row in requests) and requests
