"""Named memory: who stays inside it and in its life, who does not, and of what nothing may be said."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from itertools import count
from pathlib import Path
from random import Random

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa.capture.streams import Streams
from scapy_mpa.cli import cli
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.ulpdus import rdma_write, send, untagged
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.messages.stags import CapturedMemory, STagRow
from scapy_mpa.rdmap.links import Call
from scapy_mpa.rdmap.memory import MOST_RANGES, MOST_RUNS, MOST_STAGS, MemoryAccess, NamedMemories
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.model import Report
from scapy_mpa.rules.table import GROUPS
from scapy_mpa.ulp.header import NamedMemory
from tests.conftest import REPO, captures, named
from tests.messages.test_formats import closed

RPING_PORT, NVME_PORT, ISER_PORT = 7174, 4420, 3260
SCHEMA = closed(REPO / "scapy_mpa" / "messages" / "memory.schema.json")
OF_MEMORY = frozenset(rule.id for rule in GROUPS["Memory"])
STAG, TO = 0x00C0FFEE, 0x7F00_0000_1000


def rows_of(capture: object) -> list[STagRow]:
    with CapturedMemory(capture) as found:  # type: ignore[arg-type]
        return list(found.rows())


def of_memory(report: Report) -> Counter[tuple[str, str | None]]:
    """Return how often each rule of memory was broken by whom, as `analyze` says it."""
    found = Counter[tuple[str, str | None]]()
    for one in report.all_findings():
        if one.rule.id in OF_MEMORY:
            found[one.rule.id, one.direction] += one.count
    return found


def made(talk: Conversation, *impairments: str, seed: int = 1) -> list[STagRow]:
    """Return what is found in a captured conversation.

    `analyze` finds the same; where octets were not captured no more, since it reads one direction long after the other.
    """
    file = BytesIO()
    Traffic([talk], impairments, seed=seed).write(file)
    file.seek(0)
    rows = rows_of(file)
    file.seek(0)
    report = analyze(file)
    found = of_memory(report)
    if any(row.protocol for row in rows):
        others = {one.rule.id for one in report.all_findings()} & {"stag-invalidated"}
        for rule in {*OF_MEMORY} - ({"memory-life"} if others else set()):
            for role in ROLES:
                is_of_sinks = rule == "placement-early"
                ours = [row for row in rows if row.owner == peer_of(role) and (is_of_sinks or row.uses != ("sink",))]
                count_of, most = found[rule, role], sum(row.counts.get(rule, 0) for row in ours)
                is_complete = not any(one.startswith("capture-loss") for one in impairments)
                assert count_of == most or (count_of < most and not is_complete), (rule, role, details(rows))
    else:
        assert not {rule for rule, _ in found} - {"placement-early"}
    return rows


def broken(rows: Iterable[STagRow]) -> list[tuple[str, str]]:
    """(rule, whose memory) of all findings."""
    return sorted((one.rule, row.owner) for row in rows for one in row.findings)


def details(rows: Iterable[STagRow]) -> list[str]:
    return [one.detail for row in rows for one in row.findings]


# --- upper layers that name memory of the Initiator ---


def ready(**setup: object) -> Conversation:
    """Both sides may send."""
    return Conversation(**setup).send("initiator", 1)


def rping(**setup: object) -> Conversation:
    return Conversation(ports=(None, RPING_PORT), **setup)


def rping_buffer(stag: int = STAG, to: int = TO, size: int = 64) -> bytes:
    return struct.pack(">QII", to, stag, size)


def call(xid: int, *, reads: Sequence[tuple[int, int, int]] = (), writes: Sequence[tuple[int, int, int]] = (),
         reply: Sequence[tuple[int, int, int]] = (), long: bool = False) -> bytes:  # fmt: skip
    """An RPC over RDMA that names (STag, TO, octets); a long one has its message in the read chunk at position 0."""
    octets = struct.pack(">IIII", xid, 1, 32, 1 if long else 0)
    for stag, to, length in reads:
        octets += struct.pack(">IIIIQ", 1, 0 if long else 148, stag, length, to)
    octets += bytes(4)
    if writes:
        octets += struct.pack(">II", 1, len(writes))
        octets += b"".join(struct.pack(">IIQ", stag, length, to) for stag, to, length in writes)
    octets += bytes(4)
    octets += struct.pack(">II", 1, len(reply)) if reply else bytes(4)
    octets += b"".join(struct.pack(">IIQ", stag, length, to) for stag, to, length in reply)
    return octets if long else octets + struct.pack(">IIIIII", xid, 0, 2, 100003, 4, 1)


def answer(xid: int, writes: Sequence[tuple[int, int, int]] = ()) -> bytes:
    octets = struct.pack(">IIIII", xid, 1, 32, 0, 0)
    if writes:
        octets += struct.pack(">II", 1, len(writes))
        octets += b"".join(struct.pack(">IIQ", stag, length, to) for stag, to, length in writes)
    return octets + bytes(8) + struct.pack(">III", xid, 1, 0)


def command(cid: int, stag: int, to: int, length: int, opcode: int = 2) -> bytes:
    """An NVMe command with a keyed SGL."""
    pointer = struct.pack("<Q3sIB", to, length.to_bytes(3, "little"), stag, 0x40)
    return (struct.pack("<BBHI", opcode, 0x40, cid, 1) + bytes(16) + pointer).ljust(64, b"\0")


def scsi(stag: int, to: int, length: int, *, writes: bool) -> bytes:
    """An iSCSI command in iSER, whose buffer the target reads or writes."""
    w, r = ((stag, to), (0, 0)) if writes else ((0, 0), (stag, to))
    header = struct.pack(">B3xIQIQ", 0x10 | (0x08 if writes else 0x04), *w, *r)
    return header + (b"\x01" + bytes(19) + struct.pack(">I", length)).ljust(48, b"\0")


def smb2(request: int, *descriptors: tuple[int, int, int], name: bytes = b"\xfeSMB") -> bytes:
    """An SMB2 READ (8) or WRITE (9) Request in a Data Transfer, with Buffer Descriptors."""
    place, channel_at, where = (112, 36, 44) if request == 8 else (112, 32, 40)
    body = bytearray(48)
    struct.pack_into("<I", body, channel_at, 1)
    struct.pack_into("<HH", body, where, place, 16 * len(descriptors))
    message = (name + struct.pack("<HHIHHII", 64, 0, 0, request, 1, 0, 0)).ljust(64, b"\0") + body
    message += b"".join(struct.pack("<QII", to, stag, length) for stag, to, length in descriptors)
    return struct.pack("<HHHHIII", 10, 1, 0, 0, 0, 24, len(message)) + bytes(4) + message


def smb_direct() -> Conversation:
    talk = Conversation(ports=(None, 5445))
    talk.send("initiator", struct.pack("<HHHHIII", 0x100, 0x100, 0, 10, 1364, 1364, 1 << 20))
    return talk.send(
        "responder", struct.pack("<HHHHHHIIIII", 0x100, 0x100, 0x100, 0, 10, 10, 0, 1 << 20, 1364, 1364, 1 << 20)
    )


# --- what is wrong ---


def test_a_write_of_rping_behind_its_buffer() -> None:
    talk = rping().send("initiator", rping_buffer()).write("responder", 64, stag=STAG, to=TO + 64)
    (row,) = made(talk)
    assert (row.owner, row.stag, row.to, row.length, row.named, row.written_octets) == (
        *("initiator", STAG, TO, 64, 1, 64),
    )
    assert broken([row]) == [("memory-bounds", "initiator")]
    (found,) = row.findings
    assert (found.other_frame, found.frame) == (row.named_frame, row.first_used_frame)
    assert f"begins right after the 64 octets at TO {TO:#x}" in found.detail


@pytest.mark.parametrize(
    ("to", "octets", "said"),
    [
        (TO - 8, 8, "ends right before"),
        (TO - 8, 16, "begins 8 octets before"),
        (TO + 60, 8, "goes 4 octets beyond"),
        (TO + (1 << 20), 64, "begins 1048512 octets after"),
    ],
)
def test_where_it_is_outside(to: int, octets: int, said: str) -> None:
    found = details(made(rping().send("initiator", rping_buffer()).write("responder", octets, stag=STAG, to=to)))
    assert len(found) == 1 and said in found[0]


def test_a_read_source_behind_its_buffer() -> None:
    talk = Conversation(ports=(None, NVME_PORT)).send("initiator", command(7, STAG, TO, 4096, opcode=1))
    talk.read("responder", 4096, sink=(0x99, 0), source=(STAG, TO + 4096))
    rows = made(talk)
    assert broken(rows) == [("memory-bounds", "initiator")]
    assert [(row.owner, row.uses, row.written_octets, row.read_octets) for row in rows] == [
        ("initiator", ("read",), 0, 4096),
        ("responder", ("sink",), 4096, 0),
    ]
    assert rows[1].ended == "answered" and not rows[0].ended


def test_a_write_after_the_reply() -> None:
    talk = Conversation().send("initiator", call(5, writes=[(STAG, TO, 8192)]))
    talk.write("responder", 4096, stag=STAG, to=TO).send("responder", answer(5, [(STAG, TO, 4096)]))
    talk.write("responder", 4096, stag=STAG, to=TO + 4096)
    (row,) = made(talk)
    assert broken([row]) == [("memory-life", "initiator")]
    assert row.ended == "answered" and f"comes after frame {row.ended_frame}, which is the answer" in details([row])[0]


def test_a_write_after_the_stag_was_invalidated() -> None:
    talk = Conversation(ports=(None, NVME_PORT)).send("initiator", command(7, STAG, TO, 4096))
    talk.send("responder", struct.pack("<QHHHH", 0, 1, 1, 7, 0), invalidate=STAG)
    (row,) = made(talk.write("responder", 64, stag=STAG, to=TO))
    assert broken([row]) == [("memory-life", "initiator")] and row.ended == "invalidated"


def test_a_read_after_the_reply_in_one_turn() -> None:
    talk = Conversation().send("initiator", call(5, reads=[(STAG, TO, 8192)]))
    talk.send("responder", answer(5)).read("responder", 4096, sink=(0x99, 0), source=(STAG, TO))
    assert broken(made(talk)) == [("memory-life", "initiator")]


def test_a_write_before_memory_is_named() -> None:
    talk = Conversation().send("initiator", call(4)).send("responder", answer(4))
    talk.write("responder", 64, stag=STAG, to=TO)
    talk.send("initiator", call(5, writes=[(STAG, TO, 8192)])).send("responder", answer(5))
    (row,) = made(talk)
    assert broken([row]) == [("memory-life", "initiator")] and "which names it" in details([row])[0]


def test_a_response_beyond_its_sink_and_a_second_one() -> None:
    talk = Conversation().read_request("initiator", 100, sink=(16, 0), source=(1, 0))
    assert broken(made(talk.read_response("responder", 110, sink=(16, 0)))) == [("memory-bounds", "initiator")]
    talk = Conversation().read("initiator", 100, sink=(16, 0), source=(1, 0))
    assert broken(made(talk.read_response("responder", 100, sink=(16, 0)))) == [("memory-life", "initiator")]


def test_smb_direct_and_iser() -> None:
    talk = smb_direct().send("initiator", smb2(8, (STAG, TO, 4096), (STAG + 1, TO, 512)))
    talk.write("responder", 4096, stag=STAG, to=TO).write("responder", 513, stag=STAG + 1, to=TO)
    assert [row.counts for row in made(talk)] == [{}, {"memory-bounds": 1}]
    talk = smb_direct().send("initiator", smb2(9, (STAG, TO, 4096)))
    talk.read("responder", 4096, sink=(9, 0), source=(STAG, TO + 8))
    assert broken(made(talk)) == [("memory-bounds", "initiator")]
    for length, found in ((4096, []), (4095, [("memory-bounds", "initiator")])):
        talk = Conversation(ports=(None, ISER_PORT)).send("initiator", scsi(STAG, TO, length, writes=False))
        assert broken(made(talk.write("responder", 4096, stag=STAG, to=TO))) == found


@pytest.mark.parametrize("seed", range(6))
def test_what_the_network_loses_hides_nothing(seed: int) -> None:
    talk = Conversation(ports=(None, NVME_PORT), m=(1, 1))
    for number in range(12):
        talk.send("initiator", command(number, STAG, TO, 9000))
        talk.write("responder", 9000, stag=STAG, to=TO + (64 if number == 9 else 0))
        talk.send("responder", struct.pack("<QHHHH", 0, 1, 1, number, 0), invalidate=STAG)
    (row,) = made(talk, "lose:probability=0.15,resegment=true", "reorder:probability=0.2", seed=seed)
    assert {rule for rule in row.counts if rule != "placement-early"} == {"memory-bounds"}
    assert [row.named, row.writes, row.counts["memory-bounds"]] == [12, 12, 1]


def named_anew(octets: int) -> Conversation:
    """One STag is named, written to and invalidated, 40 times."""
    talk = Conversation(ports=(None, NVME_PORT))
    for number in range(40):
        talk.send("initiator", command(number, STAG, TO, 900)).write("responder", octets, stag=STAG, to=TO)
        talk.send("responder", struct.pack("<QHHHH", 0, 1, 1, number, 0), invalidate=STAG)
    return talk


def test_a_direction_that_waits_for_octets_uses_no_stag_that_was_invalidated() -> None:
    for seed in range(8):
        file = BytesIO()
        Traffic([named_anew(900)], ["capture-loss:probability=0.02"], seed=seed).write(file)
        file.seek(0)
        assert not {one.rule.id for one in analyze(file).all_findings()} - {"capture-gap"}


def test_what_the_capture_lacks_hides_no_more_than_that() -> None:
    talk = named_anew(901)
    found = [made(talk, "capture-loss:probability=0.02", seed=seed)[0].counts["memory-bounds"] for seed in range(4)]
    # Where the very first name is missing, its half connection waits until the capture ends.
    assert all(0 < one <= 40 for one in found) and max(found) >= 38


# --- that is wrong in real captures in which it was made ---


def test_an_nfs_write_moved_a_mebibyte(pcap: Callable[[str], Path]) -> None:
    octets = pcap("siw-nfs4").read_bytes()
    stag, to = 0x51321A01, 0x5EB6CE8E4943E000
    before = struct.pack(">IQ", stag, to)
    assert octets.count(before) == 1  # in the chunk, the length is between
    moved = octets.replace(before, struct.pack(">IQ", stag, to + (1 << 20)))
    rows = rows_of(BytesIO(moved))
    found = [(row.stag, one.rule, one.frame, one.other_frame) for row in rows for one in row.findings]
    assert found == [(stag, "memory-bounds", 15, 14)]
    (bounds,) = [one for one in analyze(BytesIO(moved)).all_findings() if one.severity == "error"]
    assert (bounds.rule.id, bounds.direction, bounds.frame) == ("memory-bounds", "responder", 15)


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_no_real_capture_has_an_error(path: Path) -> None:
    counted: dict[str, int] = {}
    for row in rows_of(path):
        SCHEMA.validate(json.loads(json.dumps(row.as_dict())))
        assert not row.has_error, details([row])
        for rule, number in row.counts.items():
            counted[rule] = counted.get(rule, 0) + number
    if path.stem in ("siw-nfs4", "siw-nvme", "siw-rping", "siw-crc-netem-read"):
        assert not counted
    if path.stem.startswith("markers-lossy"):
        assert counted["placement-early"] == 2
    found = of_memory(analyze(path))
    assert not {rule for rule, _ in found} - {"placement-early"}
    assert sum(found.values()) == counted.get("placement-early", 0)


def test_the_last_octet_before_others(pcap: Callable[[str], Path]) -> None:
    (row,) = rows_of(pcap("markers-lossy"))
    early = [one for one in row.findings if one.rule == "placement-early"]
    assert len(early) == row.as_dict()["early"] == 2
    assert (early[0].since_frame, early[0].until_frame) == (79, 103)
    assert 0.003 < early[0].stale_ns / 1e9 < 0.004
    assert all(one.frame == one.since_frame < one.until_frame == one.other_frame for one in early)


# --- what nobody may be accused of ---


def inside() -> Iterable[tuple[str, Conversation]]:
    """Conversations that do nothing wrong, whatever the capture lacks of them."""
    numbers = count(0x1000)
    talk = rping(m=(1, 1))
    for _ in range(20):
        talk.send("initiator", rping_buffer()).read("responder", 64, sink=(7, 64), source=(STAG, TO))
        talk.send("responder", bytes(16)).send("initiator", rping_buffer(STAG + 1)).send("responder", bytes(16))
        talk.write("responder", 64, stag=STAG + 1, to=TO).send("responder", bytes(16))
    yield "rping", talk
    talk = Conversation(m=(1, 1))
    for number in range(12):
        # One STag for all of memory, with another range each time; calls under way together, each with its own.
        low, high = (STAG, TO + 65536 * number, 9000), (STAG, TO + 65536 * number + 9000, 3000)
        other = (next(numbers), TO, 70000)
        talk.send("initiator", call(2 * number + 1, writes=[low, high])).send(
            "initiator", call(2 * number + 2, reads=[other], reply=[(STAG, TO + 50_000_000, 500)], long=True)
        )
        talk.write("responder", 12000, stag=STAG, to=low[1])  # over both segments at once
        talk.read("responder", 70000, sink=(3, 0), source=other[:2]).send("responder", answer(2 * number + 1, [low]))
        talk.write("responder", 500, stag=STAG, to=TO + 50_000_000)
        talk.send("responder", answer(2 * number + 2), invalidate=other[0])
    yield "RPC-over-RDMA", talk
    talk = Conversation(ports=(None, NVME_PORT), m=(1, 1))
    for number in range(20):
        # The same STag again and again, each time of other memory.
        to = TO + 8192 * (number % 3)
        talk.send("initiator", command(number % 2, STAG, to, 4096 + number))
        talk.write("responder", 4096 + number, stag=STAG, to=to)
        talk.send("responder", struct.pack("<QHHHH", 0, 1, 1, number % 2, 0), invalidate=STAG)
    yield "NVMe-oF", talk
    talk = smb_direct()
    for _ in range(10):
        talk.send("initiator", smb2(8, (STAG, TO, 4096)))
        # What is encrypted may name the same STag with other bounds.
        talk.send("initiator", smb2(8, (STAG, TO, 9000), name=b"\xfdSMB"))
        talk.write("responder", 9000, stag=STAG, to=TO).send("responder", smb2(8), invalidate=STAG)
    yield "SMB Direct", talk


@pytest.mark.parametrize(
    "impairments",
    [
        (),
        ("lose:probability=0.1,resegment=true", "reorder:probability=0.2"),
        ("capture-loss:probability=0.05",),
        ("capture-loss:probability=0.3", "reorder:probability=0.2"),
        ("lose:probability=0.1", "capture-loss:probability=0.1", "duplicate:probability=0.1"),
        ("corrupt:probability=0.05",),
        ("snap:length=120",),
        ("cut:count=60",),
    ],
    ids=lambda impairments: "+".join(one.partition(":")[0] for one in impairments) or "none",
)
@pytest.mark.parametrize(("name", "talk"), [*inside()], ids=lambda one: one if isinstance(one, str) else "")
def test_nothing_wrong_is_found_whatever_is_missing(name: str, talk: Conversation, impairments: Sequence[str]) -> None:
    for seed in range(4):
        rows = made(talk, *impairments, seed=seed)
        assert not any(row.has_error for row in rows), details(rows)
        assert rows or impairments


def frames_of(capture: bytes) -> list[bytes]:
    """The records of a little-endian pcap, each with its header."""
    found, at = [], 24
    while at < len(capture):
        end = at + 16 + int.from_bytes(capture[at + 8 : at + 12], "little")
        found.append(capture[at:end])
        at = end
    return found


def is_of_responder(frame: bytes, port: int = RPING_PORT) -> bool:
    """Return True if a frame of a pcap, of IPv4 over Ethernet, is from this port."""
    return frame[50:52] == port.to_bytes(2, "big")


@pytest.mark.parametrize("earlier", [3, 1000])
def test_frames_dated_by_two_clocks_accuse_nobody(earlier: int) -> None:
    """Taps of both directions with different clocks: what the Responder sent comes first, all of it or some frames.

    That it acknowledges what names the memory shows that it had received that.
    """
    talk = rping()
    for _ in range(2):
        talk.send("initiator", rping_buffer()).read("responder", 64, sink=(7, 64), source=(STAG, TO))
        talk.send("responder", bytes(16)).send("initiator", rping_buffer(STAG + 1))
        talk.write("responder", 64, stag=STAG + 1, to=TO).send("responder", bytes(16))
    file = BytesIO()
    Traffic([talk]).write(file)
    octets = file.getvalue()
    frames = enumerate(frames_of(octets))
    numbered = [(n - earlier * is_of_responder(one), n, one) for n, one in frames]
    moved = octets[:24] + b"".join(one for _, _, one in sorted(numbered))
    rows = rows_of(BytesIO(moved))
    assert {row.protocol for row in rows} == {"rping", None} and not any(row.has_error for row in rows), details(rows)
    assert not of_memory(analyze(BytesIO(moved)))


@pytest.mark.parametrize("length", [68, 96, 256])
def test_packets_cut_anywhere_accuse_nobody(length: int) -> None:
    """FPDUs begin anywhere in these packets, so that of some only the length is captured."""
    whole = named("siw-crc-netem-read").read_bytes()
    cut = [one[:8] + (len(one[16:][:length])).to_bytes(4, "little") + one[12 : 16 + length] for one in frames_of(whole)]
    capture = whole[:24] + b"".join(cut)
    assert not any(row.has_error for row in rows_of(BytesIO(capture)))
    assert not of_memory(analyze(BytesIO(capture)))


def test_without_an_upper_layer_nothing_is_found() -> None:
    talk = Conversation().send("initiator", b"some other protocol's own header, with an STag").write("responder", 64)
    assert not broken(made(talk.write("responder", 100, stag=STAG, to=TO)))
    # A first Send that looks like one of rping names no memory until it is used.
    talk = Conversation().send("initiator", rping_buffer()).write("responder", 64, stag=STAG, to=TO + 64)
    assert not broken(made(talk))


def test_a_call_whose_identifier_is_in_use_does_not_end() -> None:
    chunk = STAG, TO, 4096
    talk = Conversation().send("initiator", call(5, writes=[chunk])).send("initiator", call(5, writes=[chunk]))
    talk.send("responder", answer(5)).write("responder", 4096, stag=STAG, to=TO).send("responder", answer(5))
    assert not broken(made(talk))


def test_a_header_longer_than_what_is_looked_at() -> None:
    chunks = [(STAG + number, TO, 16) for number in range(400)]
    talk = Conversation(mulpdu=(9000, 9000)).send("initiator", call(5, writes=[(STAG, TO, 64)]))
    talk.send("initiator", call(6, writes=[*chunks, (STAG, TO, 4096)])).write("responder", 4096, stag=STAG, to=TO)
    assert not broken(made(talk))


def test_octets_without_packets_have_no_order(tmp_path: Path) -> None:
    ulpdus: dict[Role, list[bytes]] = {
        "initiator": [send(1, command(1, STAG, TO, 64)), send(2, command(2, STAG, TO, 128))],
        "responder": [rdma_write(STAG, TO, bytes(128)), untagged(4, 0, 1, bytes(16), invalidate=STAG)],
    }
    frames = startup_frame("request", c=1), startup_frame("reply", c=1)
    for (role, said), frame in zip(ulpdus.items(), frames, strict=True):
        octets, _ = HalfStream(Dialect(False, True)).lay(said)
        (tmp_path / role).write_bytes(frame.encode() + octets)
    assert not broken(rows_of(Streams(str(tmp_path / "initiator"), str(tmp_path / "responder"))))


# --- octets that are indeterminate ---


def test_overlapping_writes_without_a_send_between() -> None:
    talk = ready().write("responder", 100, stag=STAG, to=TO).write("responder", 50, stag=STAG, to=TO + 100)
    talk.write("responder", 20, stag=STAG, to=TO + 90)
    (row,) = made(talk)
    assert row.counts == {"placement-overlap": 1} and "overlaps 20 octets" in details([row])[0]
    for between in (
        lambda talk: talk.send("responder", 1),
        lambda talk: talk.immediate("responder"),
        lambda talk: talk.read("responder", 4, sink=(1, 0), source=(2, 0)),
    ):
        talk = ready().write("responder", 100, stag=STAG, to=TO)
        between(talk)
        assert not broken(made(talk.write("responder", 100, stag=STAG, to=TO)))
    # Of another STag, and of the peer's memory.
    talk = ready().write("responder", 100, stag=STAG, to=TO).write("responder", 100, stag=STAG + 1, to=TO)
    assert not broken(made(talk.write("initiator", 100, stag=STAG, to=TO)))


def test_overlaps_are_those_of_octets_one_by_one() -> None:
    rng = Random(5)
    talk, wrote, want = ready(), set[int](), 0
    for _ in range(200):
        first, octets = int(100 * rng.random()), int(20 * rng.random())
        if rng.random() < 0.1:
            talk.send("responder", 1)
            wrote.clear()
        talk.write("responder", octets, stag=STAG, to=TO + first)
        new = set(range(first, first + octets))
        want += bool(new & wrote)
        wrote |= new
    (row,) = made(talk)
    assert row.counts == {"placement-overlap": want}


def test_a_lost_segment_of_a_write_with_markers() -> None:
    talk = ready(m=(1, 1), mulpdu=(1000, 1000)).write("responder", 20000, stag=STAG, to=TO)
    found = [made(talk, "lose:probability=0.3", seed=seed)[0] for seed in range(8)]
    counts = {row.counts.get("placement-early", 0) for row in found}
    assert counts == {0, 1}
    for row in found:
        for one in row.findings:
            assert one.since_frame < one.until_frame and one.stale_ns > 0


# --- bounds ---


def test_more_ranges_than_are_remembered_have_no_bounds() -> None:
    talk = Conversation()
    for number in range(MOST_RANGES + 1):
        talk.send("initiator", call(number + 1, writes=[(STAG, TO + 8192 * number, 4096)]))
    assert not broken(made(talk.write("responder", 8, stag=STAG, to=TO + 4096)))


def test_an_stag_that_was_forgotten_has_a_row_and_no_finding() -> None:
    talk = Conversation(mulpdu=(9000, 9000))
    stags = count(1)
    for number in range(MOST_STAGS // 200 + 2):
        talk.send("initiator", call(number + 1, writes=[(next(stags), TO, 16) for _ in range(200)]))
    talk.write("responder", 17, stag=1, to=TO).write("responder", 17, stag=next(stags) - 1, to=TO)
    rows = made(talk)
    assert len(rows) == MOST_STAGS // 200 * 200 + 401 and not broken(rows)


def test_a_flood_of_names_and_writes_is_bounded() -> None:
    """As many ranges, runs and findings as there may be take no more memory the second time."""
    stags = MOST_STAGS // 64

    def flood(memories: NamedMemories, octets: int) -> None:
        for number in range(2 * stags):
            stag = number % stags
            named = [NamedMemory(stag, 64 * place, 32, "write") for place in range(3 * MOST_RANGES)]
            memories.name(named, number, number, Call(number, 0), protocol="rping", is_sure=True)
            memory = memories.at(stag)
            for place in range(2 * MOST_RUNS):
                access = MemoryAccess(0, stag, 1000 * place, octets, 1, 1, 1)
                memory.write(access, memories.epoch)

    memories = NamedMemories(True)
    tracemalloc.start()
    try:
        flood(memories, 500)
        once = tracemalloc.get_traced_memory()[0]
        flood(memories, 900)
        again = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert again < 1.5 * once and 64 * once < 160 << 20


# --- the command ---


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["memory", *map(str, arguments)], standalone_mode=False, catch_exceptions=False)


@pytest.fixture(scope="module")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with an error in one STag and a note in another."""
    talk = rping().send("initiator", rping_buffer()).write("responder", 64, stag=STAG, to=TO)
    talk.send("initiator", rping_buffer(STAG + 1)).write("responder", 64, stag=STAG + 1, to=TO)
    talk.write("responder", 16, stag=STAG + 1, to=TO + 8).write("responder", 8, stag=STAG, to=TO + 60)
    path = tmp_path_factory.mktemp("memory") / "beyond.pcap"
    with path.open("wb") as file:
        Traffic([talk]).write(file)
    return path


def test_status_and_rules(beyond: Path) -> None:
    result = run(beyond)
    assert result.return_value == 1
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines if not line.startswith("#0 ")] == [
        "memory-bounds", "placement-overlap", "placement-overlap"
    ]  # fmt: skip
    assert run(beyond, "--ignore", "memory-bounds").return_value == 0
    assert run(beyond, "--fail-on", "never").return_value == 0
    assert run(beyond, "--ignore", "memory-bounds", "--fail-on", "note").return_value == 1
    assert run(beyond, "--stag", hex(STAG + 1)).return_value == 0
    assert "memory-bounds" not in run(beyond, "--rules", "placement").stdout


def test_json_is_the_same_in_both_forms(beyond: Path) -> None:
    lines = [json.loads(line) for line in run(beyond, "--format", "jsonl").stdout.splitlines()]
    whole = json.loads(run(beyond, "--format", "json").stdout)
    for line in lines:
        SCHEMA.validate(line)
    assert whole == {"schema": 1, "captures": [str(beyond)], "memory": lines} and len(lines) == 2
    bounds, overlap = lines[0]["findings"]
    assert (bounds["rule"], bounds["severity"], bounds["clause"]) == ("memory-bounds", "error", "RFC 5041 §7.1")
    assert bounds["stale"] is None and bounds["other_frame"] == lines[0]["named_frame"]
    assert set(overlap["stale"]) == {"from_frame", "to_frame", "seconds"}
    assert [line["overlaps"] for line in lines] == [1, 1]


def test_what_is_named_at_a_frame(pcap: Callable[[str], Path]) -> None:
    rows = [
        json.loads(line) for line in run(pcap("siw-nfs4"), "--at", 15, "--format", "jsonl").stdout.splitlines()
    ]  # fmt: skip
    assert [(row["stag"], row["named_frame"], row["written_octets"]) for row in rows] == [(0x51321A01, 14, 100)]
    assert not run(pcap("siw-nfs4"), "--at", 16).stdout
    with pytest.raises(UsageError, match="--at needs all frames"):
        run(pcap("siw-nfs4"), "--at", 15, "--read-frames", "1-20")


def test_whose_memory_is_chosen(pcap: Callable[[str], Path]) -> None:
    for side, count_of in (("initiator", 2), ("responder", 1)):
        lines = run(pcap("siw-rping"), "-d", side).stdout.splitlines()
        assert len(lines) == count_of and all(line.startswith(f"#0 {side} ") for line in lines)
    assert not run(pcap("siw-rping"), "--ulp", "NVMe-oF").stdout
    with pytest.raises(UsageError, match="there is no connection 3"):
        run(pcap("siw-rping"), "--connection", 3)
