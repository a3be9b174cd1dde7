"""MPA under ESP: shipped captures, keys that fit and keys that do not, replays, fragments outside and inside, UDP."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa import analyze
from scapy_mpa.capture.esp import _Followed
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.craft.packets import ones_complement_sum
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.scenario import parse
from scapy_mpa.ipsec.associations import Associations
from scapy_mpa.report.model import Report
from scapy_mpa.wireshark.crosscheck import crosscheck
from scapy_mpa.wireshark.tshark import find_tshark
from scripts.dev.esp_captures import CAPTURES, FOLDER, KEYS, made
from tests.conftest import REPO

SHIPPED = FOLDER / KEYS
each_way = pytest.mark.parametrize("way", ["aes-gcm", "aes-cbc,transport", "null,udp", "aes-gcm,transport,udp"])
each_version = pytest.mark.parametrize("version", [4, 6])
_ADDRESSES = {4: {}, 6: {"initiator": "fd00::1", "responder": "fd00::2"}}
_STEPS = ["initiator send 5000", "responder write 3000"]
Frames = list[tuple[int, bytes]]


class Sealed:
    """A crafted conversation: its frames under ESP, and the keys."""

    def __init__(self, tmp_path: Path, way: str, version: int = 4, impair: Sequence[str] = (), mtu: int = 1300) -> None:
        parameters = {"esp": way, "mtu": mtu, **_ADDRESSES[version]}
        self.traffic = parse("", "test", seed=5, parameters=parameters, steps=_STEPS).traffic(impair)
        self.path, self.keys = tmp_path / "capture.pcap", tmp_path / "esp_sa"
        self.keys.write_text(self.traffic.key_lines())
        with self.path.open("wb") as file:
            self.traffic.write(file)

    @property
    def frames(self) -> Frames:
        return [*frames_of(self.path)]

    def write(self, frames: Frames) -> None:
        with self.path.open("wb") as file:
            PcapWriter(file).write(frames)

    def report(self, keys: Path | None = None) -> Report:
        return analyze(self.path, esp=keys or self.keys)


def frames_of(path: Path) -> Iterator[tuple[int, bytes]]:
    octets, at = path.read_bytes(), 24
    while at < len(octets):
        seconds, micro, length, _ = (int.from_bytes(octets[at + 4 * i : at + 4 * i + 4], "little") for i in range(4))
        yield seconds * 10**9 + micro * 1000, octets[at + 16 : at + 16 + length]
        at += 16 + length


def rules(report: Report) -> dict[str, tuple[int, int, int]]:
    return {one.rule.id: (one.frame, one.last_frame, one.count) for one in report.all_findings()}


def counts(report: Report) -> list[int]:
    (connection,) = report.connections
    return [half.counts.delivered for half in (connection.initiator, connection.responder)]


# --- what is shipped ---


def test_the_shipped_captures_are_what_the_script_makes(tmp_path: Path) -> None:
    made(tmp_path)
    assert {path.name for path in FOLDER.iterdir()} == {KEYS, *(f"{name}.pcap" for name in CAPTURES)}
    for path in FOLDER.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path


@pytest.mark.parametrize("name", CAPTURES)
def test_wireshark_finds_the_same_with_the_same_keys(name: str) -> None:
    find_tshark()
    result = crosscheck(FOLDER / f"{name}.pcap", esp=Associations.load(SHIPPED))
    assert result.ours == 10
    assert (result.wireshark, result.agreed, result.unexplained) == (10, 10, 0)


@pytest.mark.parametrize("name", CAPTURES)
def test_without_keys_a_note_says_that_there_is_esp(name: str) -> None:
    report = analyze(FOLDER / f"{name}.pcap")
    assert report.connections == []
    assert rules(report) == {"esp": (1, report.packets, report.packets)}


# --- what the crafted packets hold ---


@each_way
@each_version
def test_what_is_sealed_is_read(tmp_path: Path, way: str, version: int) -> None:
    sealed = Sealed(tmp_path, way, version)
    report = sealed.report()
    assert rules(report) == {}
    plain = parse("", "plain", seed=5, parameters={"mtu": 1300, **_ADDRESSES[version]}, steps=_STEPS).traffic()
    file = io.BytesIO()
    plain.write(file)
    file.seek(0)
    expected = analyze(file)
    for ours, theirs in zip(report.connections, expected.connections, strict=True):
        assert [*ours.initiator.fpdus] == [*theirs.initiator.fpdus]
        assert [*ours.responder.fpdus] == [*theirs.responder.fpdus]
    records = [*report.connections[0].initiator.fpdus]
    assert [record.octets() for record in records] == [
        record.octets() for record in expected.connections[0].initiator.fpdus
    ]


def test_frames_can_be_read_again_in_any_order(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, "aes-gcm")
    keys = Associations.load(sealed.keys)
    from scapy_mpa.capture.named import Sources

    index = FrameIndex(Sources([sealed.path], esp=keys))
    count = len(index)
    assert [seg.frame for seg in index.segments([*range(count, 0, -1), *range(1, count + 1)])] == [
        *range(count, 0, -1),
        *range(1, count + 1),
    ]


def test_fragments_inside_a_tunnel_come_together(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, "aes-gcm", impair=["fragment:mtu=600,reverse=true"])
    report = sealed.report()
    assert counts(report) == counts(Sealed(tmp_path, "aes-gcm").report())
    assert "ip-fragments" not in rules(report)


@each_way
def test_fragments_outside_come_together_first(tmp_path: Path, way: str) -> None:
    sealed = Sealed(tmp_path, way)
    expected = counts(sealed.report())
    sealed.write([(time, piece) for time, frame in sealed.frames for piece in reversed(cut(frame))])
    report = sealed.report()
    assert counts(report) == expected
    assert [record.crc for record in report.connections[0].initiator.fpdus] == ["good"] * expected[0]
    assert next(len(record.octets()) for record in report.connections[0].initiator.fpdus) > 500


def cut(frame: bytes) -> list[bytes]:
    """An IPv4 datagram in fragments."""
    header, octets = frame[14:34], frame[34:]
    pieces = []
    for start in range(0, len(octets), 480):
        piece = octets[start : start + 480]
        more = 0x2000 if start + 480 < len(octets) else 0
        new = header[:2] + (20 + len(piece)).to_bytes(2, "big") + header[4:6]
        new += (more | start // 8).to_bytes(2, "big") + header[8:10] + bytes(2) + header[12:]
        checksum = (-ones_complement_sum(new) % 0xFFFF).to_bytes(2, "big")
        pieces.append(frame[:14] + new[:10] + checksum + new[12:] + piece)
    return pieces


# --- what is wrong ---


def test_a_wrong_key_a_missing_one_and_damage(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, "aes-cbc,transport")
    lines = sealed.keys.read_text().splitlines()
    other = tmp_path / "other"
    other.write_text(lines[0] + "\n")
    assert rules(sealed.report(other))["esp-sa"][0] == 2
    other.write_text("\n".join([lines[0][:-2] + ("0" if lines[0][-2] != "0" else "1") + '"', lines[1]]) + "\n")
    assert rules(sealed.report(other))["esp-integrity"][0] == 1
    frames = sealed.frames
    frames[6] = frames[6][0], frames[6][1][:-1] + bytes([frames[6][1][-1] ^ 1])
    sealed.write(frames)
    assert rules(sealed.report())["esp-integrity"] == (7, 7, 1)


def test_every_packet_is_told_whose_cipher_has_another_key(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, "aes-cbc,transport")
    other = tmp_path / "other"
    # One in 256 seems to have no padding, which nothing speaks against.
    other.write_text(re.sub(r'("AES-CBC[^,]*,"0x)([0-9a-f]{8})', r"\g<1>76543210", sealed.keys.read_text()))
    found = sealed.report(other)
    count = len(sealed.frames)
    assert rules(found) == {"esp-payload": (1, count, count)}


def test_what_comes_again_is_a_replay(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, "aes-gcm")
    frames = sealed.frames
    sealed.write([*frames[:8], frames[5], *frames[8:]])
    report = sealed.report()
    assert rules(report) == {"esp-replay": (9, 9, 1)}


def test_what_the_capture_cut_is_not_decrypted(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, "aes-gcm")
    frames = sealed.frames
    with sealed.path.open("wb") as file:
        PcapWriter(file, snaplen=200).write(frames)
    assert "esp-payload" in rules(sealed.report(sealed.keys))


def test_keepalives_and_ike_are_no_esp(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, "null,udp")
    frames = sealed.frames
    head = frames[0][1][:34]
    for data in (b"\xff", bytes(4) + bytes(40)):
        udp = b"\x11\x94\x11\x94" + (8 + len(data)).to_bytes(2, "big") + bytes(2) + data
        header = head[:16] + (20 + len(udp)).to_bytes(2, "big") + head[18:]
        frames.insert(3, (frames[3][0], header + udp))
    sealed.write(frames)
    assert rules(sealed.report()) == {}


@pytest.mark.parametrize("keys", [True, False])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_octets_in_place_of_esp(tmp_path_factory: pytest.TempPathFactory, keys: bool, data: st.DataObject) -> None:
    sealed = Sealed(tmp_path_factory.mktemp("esp"), data.draw(st.sampled_from(["null,udp", "aes-cbc", "aes-gcm"])))
    frames = sealed.frames
    for _ in range(8):
        which = data.draw(st.integers(0, len(frames) - 1))
        time, frame = frames[which]
        at = data.draw(st.integers(14, min(len(frame), 60) - 1))
        frames[which] = time, frame[:at] + data.draw(st.binary(max_size=9)) + frame[at + data.draw(st.integers(0, 9)) :]
    sealed.write(frames)
    analyze(sealed.path, esp=sealed.keys if keys else None)


# --- what Wireshark exported ---


@pytest.mark.parametrize("name", CAPTURES)
def test_what_wireshark_exported_is_read(tmp_path: Path, name: str) -> None:
    tshark, out = find_tshark().path, tmp_path / "exported.pcapng"
    told = [word for line in SHIPPED.read_text().splitlines() for word in ("-o", f"uat:esp_sa:{line}")]
    options = ["-o", "esp.enable_encryption_decode:TRUE", *told, "-U", "OSI layer 3", "-w", str(out)]
    subprocess.run([tshark, "-r", str(FOLDER / f"{name}.pcap"), *options], check=True, capture_output=True)
    report = analyze(out)
    assert rules(report) == {}
    assert counts(report) == counts(analyze(FOLDER / f"{name}.pcap", esp=SHIPPED))


# --- sequence numbers ---


def test_sequence_numbers_of_64_bits_go_on_past_the_half(tmp_path: Path) -> None:
    followed = _Followed(-1)
    assert followed.extended(0xFFFFFFFE, 4) == 4 << 32 | 0xFFFFFFFE
    assert followed.take(4 << 32 | 0xFFFFFFFE)
    assert followed.extended(3, 4) == 5 << 32 | 3
    assert followed.take(5 << 32 | 3)
    assert followed.extended(0xFFFFFFFF, 4) == 4 << 32 | 0xFFFFFFFF
    assert followed.take(4 << 32 | 0xFFFFFFFF)
    assert not followed.take(4 << 32 | 0xFFFFFFFF)
    assert followed.seen.bit_length() <= 1024


# --- what is imported ---


@pytest.mark.parametrize("options", [[], ["--esp", str(SHIPPED)]])
def test_scapy_is_imported_with_keys_only(options: list[str]) -> None:
    code = (
        "import sys; from scapy_mpa.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(any(name.partition('.')[0] in ('scapy', 'cryptography') for name in sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "analyze", str(FOLDER / "gcm-tunnel.pcap"), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=False)
    assert done.stderr.strip().endswith(str(bool(options)))
