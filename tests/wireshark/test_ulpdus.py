"""scapy-mpa ulpdus: messages put together from their DDP segments."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa.cli import cli
from scapy_mpa.craft.ulpdus import rdma_write, send
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.fpdu import Fpdu
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.wireshark.found import FoundFPDU, FoundFPDUs
from scapy_mpa.wireshark.messages import Messages, ReceivedMessage
from tests.conftest import PCAPS, captures, truth
from tests.hostile.files import LAYOUTS, Case

RPING = PCAPS / "siw-rping.pcap"
WITH_TRUTH = captures(with_truth=True)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["ulpdus", *map(str, arguments)], standalone_mode=False, catch_exceptions=False)


class Found:
    """As much of a FoundFPDU as counts here."""

    def __init__(self, ulpdu: bytes, frame: int = 1, direction: str = "initiator", placed: bool = True) -> None:
        self.decoded = Fpdu(len(ulpdu), ulpdu, b"", 0, None, (), 0)
        self.record = FPDURecord(
            0, cast(Any, direction), 0, 0, len(ulpdu), 0, 0, "good", "length", (frame,), frame if placed else None,
            frame if placed else None, frame * 10**9, False, None,
        )  # fmt: skip


def messages(*found: Found, held: int = 1 << 20) -> list[ReceivedMessage]:
    return list(Messages(held).of(cast("list[FoundFPDU]", list(found))))


def segment(payload: bytes, *, msn: int = 1, mo: int = 0, last: bool = False, qn: int = 0, opcode: int = 3) -> bytes:
    """An untagged DDP segment."""
    control = bytes([0x41 if last else 0x01, 0x40 | opcode])
    return control + b"".join(value.to_bytes(4, "big") for value in (7, qn, msn, mo)) + payload


def said(message: ReceivedMessage) -> tuple[object, ...]:
    return message.offset, message.last, message.octets, message.note


def test_segments_become_a_message() -> None:
    (one,) = messages(
        Found(segment(b"abc"), 4), Found(segment(b"de", mo=3), 5), Found(segment(b"", mo=5, last=True), 9)
    )
    assert said(one) == (0, True, b"abcde", None)
    assert (one.qn, one.msn, one.message, one.segments, one.first_frame, one.frame, one.time_ns) == (
        *(0, 1, "Send", 3, 4, 9), 9 * 10**9,
    )  # fmt: skip
    assert one.complete and one.invalidate_stag is None


def test_as_craft_makes_them() -> None:
    (one,) = messages(Found(send(3, b"payload")))
    assert (one.message, one.msn, one.octets, one.complete) == ("Send", 3, b"payload", True)
    (one,) = messages(Found(rdma_write(0x1234, 5 << 40, b"there", last=True)))
    assert (one.message, one.stag, one.to, one.octets) == ("RDMA Write", 0x1234, 5 << 40, b"there")


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
    assert [(one.message, one.octets) for one in found] == [
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
    assert [one.octets for one in found] == [b"wv"]


def test_what_is_missing_is_told() -> None:
    first, second = messages(Found(segment(b"abc")), Found(segment(b"gh", mo=6, last=True)))
    assert said(first) == (0, False, b"abc", "what follows it is another message or was not captured")
    assert said(second) == (6, True, b"gh", "what is before octet 6 of the message is not here")
    assert not first.complete and not second.complete
    (end,) = messages(Found(segment(b"abc")))
    assert said(end) == (0, False, b"abc", "nothing more of it is there")


def test_a_bad_crc_is_not_there() -> None:
    found = messages(Found(segment(b"abc")), Found(segment(b"def", mo=3), placed=False), Found(segment(b"g", mo=6)))
    assert [(one.offset, one.octets) for one in found] == [(0, b"abc"), (6, b"g")]


def test_mo_in_the_byte_order_of_the_host() -> None:
    (one,) = messages(Found(segment(bytes(300))), Found(segment(b"x", mo=0x2C010000, last=True)))
    assert said(one) == (0, True, bytes(300) + b"x", "MO in little-endian order")


def test_a_long_message_comes_in_parts() -> None:
    parts = [Found(segment(bytes([at]) * 1000, mo=1000 * at, last=at == 9)) for at in range(10)]
    found = messages(*parts, held=3000)
    assert b"".join(one.octets for one in found) == b"".join(bytes([at]) * 1000 for at in range(10))
    assert [one.offset for one in found] == [sum(len(one.octets) for one in found[:n]) for n in range(len(found))]
    assert len(found) > 3 and max(len(one.octets) for one in found) <= 4000
    assert all("in parts: more than 3000 octets wait" in str(one.note) for one in found[:-1])
    assert [one.last for one in found] == [False] * (len(found) - 1) + [True]


def test_many_unfinished_messages_are_bounded() -> None:
    joined = Messages(100_000)
    count = 0
    for qn in range(5000):
        count += len(list(joined._segment(Found(b"").record, segment(b"z", qn=qn))))
        assert len(joined._open) * 512 <= 100_512
    assert count > 4000


def test_invalidate_stag() -> None:
    (one,) = messages(Found(segment(b"", opcode=4, last=True)))
    assert (one.message, one.invalidate_stag) == ("Send with Invalidate", 7)


@pytest.mark.parametrize("ulpdu", [b"", b"\x41", b"\x41\x43\0\0", b"\xc1\x40" + bytes(11)])
def test_what_is_no_ddp_segment(ulpdu: bytes) -> None:
    (one,) = messages(Found(ulpdu))
    assert one.octets == ulpdu and one.message is None and one.note


@pytest.mark.parametrize("capture", WITH_TRUTH, ids=lambda path: path.stem)
def test_all_octets_of_the_truth_are_there_once(capture: Path) -> None:
    rows = [json.loads(line) for line in invoke(capture, "--format", "jsonl").output.splitlines()]
    found: Counter[str] = Counter()
    want: Counter[str] = Counter()
    for row in rows:
        found[row["message"]] += row["length"]
        assert row["length"] == len(bytes.fromhex(row["octets"]))
    for row in truth(capture):
        tagged = row["opcode"] in ("RDMA Write", "RDMA Read Response")
        want[row["opcode"]] += row["ulpdu_length"] - (14 if tagged else 18)
    assert found == want
    assert sum(row["segments"] for row in rows) == len(truth(capture))


def test_files(tmp_path: Path) -> None:
    capture, folder = PCAPS / "siw-rping.pcap", tmp_path / "out"
    plain = [json.loads(line) for line in invoke(capture, "--format", "jsonl").output.splitlines()]
    rows = [json.loads(line) for line in invoke(capture, "--format", "jsonl", "-d", folder).output.splitlines()]
    assert [Path(row["file"]).read_bytes().hex() for row in rows] == [row["octets"] for row in plain]
    assert len([*folder.iterdir()]) == len(rows) == 35
    with pytest.raises(UsageError, match="there are files in it"):
        invoke(capture, "-d", folder)


@pytest.mark.parametrize(
    ("arguments", "error"), [(("{folder}/none",), CaptureError), ((RPING, "--connection", "7"), UsageError)]
)
def test_no_directory_is_made_in_vain(arguments: tuple[object, ...], error: type[Exception], tmp_path: Path) -> None:
    words = (str(word).format(folder=tmp_path) for word in arguments)
    with pytest.raises(error):
        invoke(*words, "-d", tmp_path / "out")
    with pytest.raises(UsageError, match="there is no folder"):
        invoke(RPING, "-d", tmp_path / "none" / "out")
    assert not [*tmp_path.iterdir()]


def test_text_is_one_line_a_message() -> None:
    lines = invoke(PCAPS / "siw-rping.pcap", "--direction", "initiator").output.splitlines()
    assert lines[0] == "0 initiator frame 12 Send QN 0 MSN 1: 16 octets 000055eabfc99ba05a47490000000040"
    assert lines[1].startswith(
        "0 initiator frame 14 RDMA Read Response STag 0xa66e7c00 TO 0x557494c4ced0: 64 octets 7264"
    )


def test_any_mutations() -> None:
    from io import BytesIO

    for number in range(60):
        name = ("markers-packed", "siw-rping", "siw-three-in-a-row")[number % 3]
        mutations = (("forge_ddp", number), ("forge_ddp", number + 1), ("drop", number), ("shuffle", number))
        octets = Case(name, number, mutations, LAYOUTS[number % len(LAYOUTS)]).made().octets
        with FoundFPDUs(BytesIO(octets)) as fpdus:
            rows = list(Messages(2000).of(fpdus))
            assert sum(row.segments for row in rows) == sum(one.record.placed_frame is not None for one in fpdus)
