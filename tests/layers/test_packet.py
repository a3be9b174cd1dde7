"""From a record of the analysis to its octets and its Scapy packet."""

# mypy: disable-error-code="index, operator, unused-ignore"

from __future__ import annotations

import io
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import rdpcap, wrpcap

from scapy_mpa import analyze, iter_fpdus
from scapy_mpa.errors import MPAError
from scapy_mpa.layers import FPDU
from scapy_mpa.values.records import FPDURecord
from tests.conftest import PCAPS, captures, truth
from tests.layers.test_session import Streams, Wire, connection, ids, stamped

#: In-order and reordered, with Markers and without, FPDUs over many frames, retransmissions with other boundaries.
SOME = [path for path in captures(with_truth=True) if path.stat().st_size < 460_000 or path.stem == "markers-reordered"]


def all_records(*sources: Any) -> list[FPDURecord]:
    report = analyze(list(sources))
    halves = [half for one in report.connections for half in (one.initiator, one.responder)]
    return [record for half in halves for record in half.fpdus]


def check(record: FPDURecord, octets: bytes) -> None:
    assert record.octets() == octets
    packet = record.packet()
    assert type(packet) is FPDU and bytes(packet) == octets
    assert packet.ulpdu_length == record.ulpdu_length
    assert len(packet.markers or ()) == record.markers
    assert packet.crc_good == {"good": True, "bad": False, "unchecked": None}[record.crc]


@pytest.mark.parametrize("path", SOME, ids=ids)
def test_every_fpdu_of_a_capture(path: Path) -> None:
    streams = Streams(rdpcap(str(path)))
    records = all_records(path)
    assert len(records) == len(truth(path))
    for record in records:
        check(record, streams.octets(record.as_dict()))
    some = {(record.seq, record.frames): record for record in records}
    for record in iter_fpdus(path):
        assert bytes(record.packet()) == some[record.seq, record.frames].octets()


def test_captures_merged(tmp_path: Path) -> None:
    """Frame numbers run through the merge."""
    paths = [PCAPS / "siw-rping.pcap", PCAPS / "markers-before-crc.pcap", PCAPS / "siw-three-in-a-row.pcap"]
    alone = sorted(record.octets() for path in paths for record in all_records(path))
    merged = all_records(*paths)
    assert sorted(record.octets() for record in merged) == alone
    assert sorted(bytes(record.packet()) for record in iter_fpdus(paths)) == alone
    # One connection over two files, packet by packet.
    packets = stamped(connection(Wire()))
    for number in (0, 1):
        wrpcap(str(tmp_path / f"{number}.pcap"), packets[number::2])
    for record in all_records(tmp_path / "0.pcap", tmp_path / "1.pcap"):
        check(record, Streams(packets).octets(record.as_dict()))


@pytest.mark.parametrize("seed", range(5))
def test_repeats_with_other_boundaries(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    wire = Wire(isn=(2**32 - 2000, 1))
    packets = connection(wire, sizes=range(10, 2000, 150), segment=500)
    stream = b"".join(bytes(packet[TCP].payload) for packet in packets[4:])
    for size in (300, 777):
        cuts = range(0, len(stream), size)
        packets += [wire.segment("client", stream[at : at + size], at=at - len(stream)) for at in cuts]
    late = packets[4:]
    rng.shuffle(late)
    packets = stamped([*packets[:4], *late])
    wrpcap(str(tmp_path / "again.pcap"), packets)
    records = all_records(tmp_path / "again.pcap")
    assert len(records) == 14 and any(len(record.frames) > 3 for record in records)
    assert b"".join(record.octets() for record in records) == stream
    for record in records:
        check(record, Streams(packets).octets(record.as_dict()))


def test_a_bad_crc(tmp_path: Path) -> None:
    packets = stamped(connection(Wire(), sizes=[100, 100, 100], segment=10_000))
    octets = bytearray(bytes(packets[4]))
    octets[-10] ^= 1
    packets[4] = Ether(bytes(octets))
    del packets[4][TCP].chksum
    packets[4] = Ether(bytes(packets[4]))
    wrpcap(str(tmp_path / "bad.pcap"), packets)
    records = all_records(tmp_path / "bad.pcap")
    assert [record.crc for record in records] == ["good", "good", "bad"]
    for record in records:
        check(record, Streams(packets).octets(record.as_dict()))


def test_nothing_else_is_dissected(monkeypatch: pytest.MonkeyPatch) -> None:
    record = analyze(PCAPS / "markers-aligned.pcap").connections[0].initiator.fpdus[3]
    made: list[type] = []
    original = Packet.__init__

    def noted(self: Packet, *args: Any, **fields: Any) -> None:
        made.append(type(self))
        original(self, *args, **fields)

    monkeypatch.setattr(Packet, "__init__", noted)
    packet = record.packet()
    layers = {type(packet)}
    layer = packet
    while layer.payload:
        layer = layer.payload
        layers.add(type(layer))
    assert made.count(FPDU) == 1 and not {Ether, IP, TCP} & set(made)
    assert {one.__name__ for one in set(made) - layers} <= {"Marker", "NoPayload"}
    assert len(made) <= len(layers) + record.markers + 2


def raises(records: Iterable[FPDURecord], match: str) -> None:
    for record in records:
        with pytest.raises(MPAError, match=match):
            record.packet()
        with pytest.raises(MPAError, match=match):
            record.octets()


def test_what_cannot_be_read_again(tmp_path: Path) -> None:
    octets = (PCAPS / "siw-rping.pcap").read_bytes()
    gone = tmp_path / "gone.pcap"
    gone.write_bytes(octets)
    records = all_records(gone)[:3]
    gone.unlink()
    raises(records, "gone.pcap")
    gone.write_bytes(octets[: len(octets) // 4])
    raises(all_records(PCAPS / "siw-rping.pcap")[:0], "")
    raises(records[-1:] and [records[-1]._replace(frames=(10**6,))], "does not know the capture")


def test_a_record_that_stands_alone() -> None:
    record = all_records(PCAPS / "siw-rping.pcap")[0]
    raises([FPDURecord(*record)], "does not know the capture that it came from")


def test_open_files() -> None:
    octets = (PCAPS / "siw-rping.pcap").read_bytes()
    wanted = [record.octets() for record in all_records(PCAPS / "siw-rping.pcap")]
    assert [record.octets() for record in all_records(io.BytesIO(octets))] == wanted

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise io.UnsupportedOperation("not seekable")

        def tell(self) -> int:
            raise io.UnsupportedOperation("not seekable")

    raises(all_records(Pipe(octets))[:2], "cannot be read again")
