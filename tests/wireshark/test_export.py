"""scapy-mpa export: what a receiver finds, as files that tshark dissects fully."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from io import BytesIO
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa import analyze
from scapy_mpa.capture.files import Captures
from scapy_mpa.cli import cli
from scapy_mpa.errors import FramingError
from scapy_mpa.framing.role import ROLES
from scapy_mpa.reading.found import FoundFPDUs
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.values.segment import endpoints
from scapy_mpa.wireshark.export import export_ulpdus
from scapy_mpa.wireshark.strip import strip_markers
from scapy_mpa.wireshark.unmarked import removed_before
from scapy_mpa.wireshark.upperpdu import UpperPDU
from tests.capture.convert import COMPRESSED, FORMATS, LINKS, recorded
from tests.conftest import PCAPS, captures, truth
from tests.hostile.files import LAYOUTS, Case
from tests.wireshark.tshark import OPCODES, fields, needs_tshark, tshark

REORDERED = PCAPS / "markers-reordered.pcap"
WITH_TRUTH = captures(with_truth=True)
WITH_MARKERS = [path for path in WITH_TRUTH if path.stem.startswith("markers-")]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, arguments)], standalone_mode=False, catch_exceptions=False)


def exported(capture: Path, folder: Path, *options: str) -> Path:
    out = folder / "exported.pcapng"
    assert invoke(capture, out, *options).return_value == 0
    return out


def pdus(path: Path) -> list[tuple[int, UpperPDU]]:
    """Time and PDU of each record of a file of ours: one section, one interface, nanoseconds."""
    octets = path.read_bytes()
    found, at = [], 0
    while at < len(octets):
        kind, length = struct.unpack_from("<II", octets, at)
        if kind == 6:
            _, high, low, captured, wire = struct.unpack_from("<IIIII", octets, at + 8)
            assert captured == wire
            found.append((high << 32 | low, UpperPDU.decode(octets[at + 28 : at + 28 + captured])))
        elif kind == 1:
            assert struct.unpack_from("<H", octets, at + 8) == (252,)
        at += length
    return found


# --- exported PDUs ---


@pytest.mark.parametrize("key", [bytes(range(12)), bytes(range(36))])
def test_a_record_there_and_back(key: bytes) -> None:
    pdu = UpperPDU("iwarp_ddp_rdmap", key, 4711, b"\x41\x43 and so on")
    assert UpperPDU.decode(pdu.encode()) == pdu
    assert UpperPDU.decode(pdu._replace(pdu=b"").encode()).pdu == b""
    assert UpperPDU.decode(pdu._replace(frame=1 << 40).encode()).frame == 0xFFFFFFFF


@pytest.mark.parametrize("end", range(0, 60, 3))
def test_a_record_that_is_cut(end: int) -> None:
    with pytest.raises(FramingError):
        UpperPDU.decode(UpperPDU("iwarp_ddp_rdmap", bytes(12), 1, b"").encode()[:end])


@pytest.mark.parametrize("capture", WITH_TRUTH, ids=lambda path: path.stem)
def test_ulpdus_are_those_of_the_truth(capture: Path, tmp_path: Path) -> None:
    rows = [row for row in truth(capture) if row["crc"] != "bad"]
    found = pdus(exported(capture, tmp_path))
    assert Counter((row["placed_frame"], row["ulpdu_length"]) for row in rows) == Counter(
        (pdu.frame, len(pdu.pdu)) for _, pdu in found
    )
    report = analyze(capture)
    halves = {half.key: half for one in report.connections for half in (one.initiator, one.responder)}
    # Each half connection in the order of the stream, with the octets that Scapy's layer finds.
    by_half: dict[bytes, list[bytes]] = defaultdict(list)
    for _, pdu in found:
        by_half[pdu.key].append(pdu.pdu)
    for key, half in halves.items():
        placed = [record for record in half.fpdus if record.placed_frame is not None]
        want = [bytes(record.packet().payload) for record in placed[:20]]
        assert by_half[key][: len(want)] == want


def test_order_of_placement(tmp_path: Path) -> None:
    placed = [pdu.frame for _, pdu in pdus(exported(REORDERED, tmp_path, "--order", "placed"))]
    delivered = [pdu.frame for _, pdu in pdus(exported(REORDERED, tmp_path))]
    assert placed == sorted(placed) and len(placed) == 700
    assert sorted(delivered) == placed and delivered != placed
    times = [time for time, _ in pdus(exported(REORDERED, tmp_path, "--order", "placed"))]
    with Captures(REORDERED) as capture:
        by_frame = {seg[0]: seg[1] for batch in capture.batches() for seg in batch}
    assert times == [by_frame[frame] for frame in placed]


@pytest.mark.parametrize("form", FORMATS)
def test_formats_and_pipes_give_the_same(form: str, tmp_path: Path) -> None:
    want = exported(REORDERED, tmp_path).read_bytes()
    capture = tmp_path / "capture"
    capture.write_bytes(COMPRESSED["zstd"](FORMATS[form](recorded(REORDERED))))
    assert exported(capture, tmp_path).read_bytes() == want
    result = CliRunner().invoke(cli, ["export", "-", "-"], input=capture.read_bytes(), standalone_mode=False)
    assert result.stdout_bytes == want


def test_a_bad_crc_is_left_out_and_told(tmp_path: Path) -> None:
    octets = bytearray(REORDERED.read_bytes())
    at = octets.index(b"MPA ID Rep") + 4000
    octets[at] ^= 1
    capture = tmp_path / "capture.pcap"
    capture.write_bytes(octets)
    bad = sum(half.counts.crc_errors for one in analyze(capture).connections for half in (one.initiator, one.responder))
    assert bad == 1
    result = invoke(capture, tmp_path / "out")
    assert result.output.endswith("out: 699 ULPDUs in delivered order, 1 FPDU with a bad CRC left out\n")
    assert len(pdus(tmp_path / "out")) == 699


@needs_tshark
@pytest.mark.parametrize("capture", WITH_MARKERS, ids=lambda path: path.stem)
def test_tshark_finds_the_opcodes_of_the_truth(capture: Path, tmp_path: Path) -> None:
    out = exported(capture, tmp_path)
    rows = fields(
        out, "exported_pdu.orig_fno", "exported_pdu.src_port", "iwarp_rdma.opcode", "_ws.malformed", upper_layers=False
    )
    found = Counter((int(frame), int(port), int(opcode, 0)) for frame, port, opcode, *_ in rows)
    want = Counter(
        (row["placed_frame"], int(row["sender"].rpartition(":")[2]), OPCODES[row["opcode"]]) for row in truth(capture)
    )
    assert found == want and not any(row[3:] for row in rows if row[3:] != [""])


@needs_tshark
def test_tshark_finds_all_opcodes_at_once(tmp_path: Path) -> None:
    """Captures without Markers, one after the other in one file, so that tshark starts once."""
    expected, parts = [], []
    for capture in WITH_TRUTH:
        if capture not in WITH_MARKERS and capture.stat().st_size < 400_000:
            parts.append(exported(capture, tmp_path).read_bytes())
            expected += [OPCODES[row["opcode"]] for row in truth(capture)]
    (tmp_path / "all.pcapng").write_bytes(b"".join(parts))
    found = fields(tmp_path / "all.pcapng", "iwarp_rdma.opcode", upper_layers=False)
    assert Counter(int(opcode, 0) for (opcode,) in found) == Counter(expected) and len(expected) > 200


# --- without Markers ---


def test_where_octets_come_to_lie() -> None:
    stream = [position for position in range(2100) if position % 512 >= 4]
    for offset in range(2100):
        assert offset - removed_before(offset) == sum(kept < offset for kept in stream)


def stripped(capture: Path, folder: Path) -> Path:
    return exported(capture, folder, "--strip-markers")


def told(connection: Connection) -> list[tuple[object, ...]]:
    """What stays of a connection's FPDUs when Markers go."""
    return [
        (direction, record.ulpdu_length, record.crc, record.opcode, record.wire_length - 4 * record.markers)
        for direction in ROLES
        for record in connection.half(direction).fpdus
    ]


def halves(connection: Connection) -> tuple[HalfConnection, HalfConnection]:
    return connection.initiator, connection.responder


@pytest.mark.parametrize("capture", captures(), ids=lambda path: path.stem)
def test_the_same_connections_without_markers(capture: Path, tmp_path: Path) -> None:
    before, after = analyze(capture), analyze(stripped(capture, tmp_path))
    assert not after.damage
    if any(half.dialect is not None and half.dialect.markers for one in before.connections for half in halves(one)):
        assert not after.connections, "where a sender that deviates puts Markers is its own"
        return
    if not any(one.inferred for one in before.connections):
        assert len(after.connections) == len(before.connections)
    for old, new in zip(before.connections, after.connections, strict=False):
        assert (old.initiator.key, old.responder.key) == (new.initiator.key, new.responder.key)
        for one, other in ((old.request, new.request), (old.reply, new.reply)):
            assert other == (None if one is None else one._replace(m=0))
        if old.inferred:
            continue
        assert told(new) == told(old)
        for direction in ROLES:
            half = new.half(direction)
            assert not half.markers and half.counts.out_of_order_segments == half.counts.retransmitted_segments == 0
            if old.half(direction).counts.missing_octets == 0 and not old.half(direction).counts.unlocated_octets:
                assert half.counts.missing_octets == 0
    rules = {finding.rule.id for finding in before.all_findings()}
    # Without M the ends may be of other kinds than they were.
    new_ones = {finding.rule.id for finding in after.all_findings()} - rules
    assert new_ones <= {"gap", "capture-gap", "connection-lost", "rnic-parameters"}


@needs_tshark
@pytest.mark.parametrize("capture", WITH_MARKERS, ids=lambda path: path.stem)
def test_tshark_finds_all_of_them_with_good_crcs(capture: Path, tmp_path: Path) -> None:
    """With its defaults, whichever way segments came."""
    out = stripped(capture, tmp_path)
    rows = truth(capture)
    names = ("tcp.srcport", "iwarp_mpa.ulpdulength", "iwarp_rdma.opcode", "tcp.checksum.status", "ip.checksum.status")
    checks = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for port, lengths, opcodes, tcp, ip in fields(out, *names, arguments=checks, upper_layers=False):
        assert (tcp, ip) == ("1", "1")
        if lengths:
            found[port] += [
                (int(length), int(opcode, 0))
                for length, opcode in zip(lengths.split(","), opcodes.split(","), strict=True)
            ]
    want: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        want[row["sender"].rpartition(":")[2]].append((row["ulpdu_length"], OPCODES[row["opcode"]]))
    assert found == want
    said = tshark(out, "-V", "-O", "iwarp_mpa", upper_layers=False)
    assert sum("(Good CRC32)" in line for line in said) == len(rows)
    assert not any("Bad CRC32" in line or "Malformed" in line for line in said)


@needs_tshark
def test_acknowledgements_do_not_go_back(tmp_path: Path) -> None:
    """Segments were captured out of order; what they acknowledge late has been acknowledged."""
    last: dict[str, int] = {}
    for port, ack, acks in fields(stripped(REORDERED, tmp_path), "tcp.srcport", "tcp.ack", "tcp.flags.ack"):
        if acks == "1":
            assert int(ack) >= last.get(port, 0)
            last[port] = int(ack)
    assert len(last) == 2 and all(last.values())


def test_a_bad_crc_stays_bad(tmp_path: Path) -> None:
    octets = bytearray(REORDERED.read_bytes())
    octets[octets.index(b"MPA ID Rep") + 4000] ^= 1
    capture = tmp_path / "capture.pcap"
    capture.write_bytes(octets)
    before, after = analyze(capture), analyze(stripped(capture, tmp_path))
    assert told(after.connections[0]) == told(before.connections[0])
    assert sum(half.counts.crc_errors for half in (after.connections[0].initiator, after.connections[0].responder)) == 1


def test_a_gap_stays_a_gap(tmp_path: Path) -> None:
    """Packets that were not captured leave as many octets out as they held, less Markers."""
    link_type, records = recorded(REORDERED)
    capture = tmp_path / "capture.pcap"
    capture.write_bytes(FORMATS["pcapng"](recorded(REORDERED)._replace(records=records[:300] + records[310:])))
    before, after = analyze(capture).connections[0], analyze(stripped(capture, tmp_path)).connections[0]
    assert told(after) == told(before)
    for direction in ROLES:
        old, new = before.half(direction).counts, after.half(direction).counts
        assert (new.missing_octets > 0) == (old.missing_octets + old.unlocated_octets > 0)
        assert old.missing_octets + old.unlocated_octets + 3000 - new.missing_octets >= 0
    assert link_type == 1


@pytest.mark.parametrize("link", LINKS)
def test_tunnels_and_links(link: str, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    want = stripped(PCAPS / "markers-packed.pcap", tmp_path).read_bytes()
    capture.write_bytes(FORMATS["pcapng"](LINKS[link](PCAPS / "markers-packed.pcap")))
    assert stripped(capture, tmp_path).read_bytes() == want


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("{capture}", "{capture}"), "this file is being read"),
        (("{capture}", "{out}", "--strip-markers", "--direction", "initiator"), "both directions"),
        (("{capture}", "{out}", "--strip-markers", "--order", "placed"), "order of the stream"),
        (("{capture}", "{out}", "--connection", "7"), "no connection 7"),
        (("{capture}", "{folder}/none/out"), "No such file"),
        (("{capture}", "{folder}"), "directory"),
    ],
)
def test_what_cannot_be(arguments: tuple[str, ...], why: str, tmp_path: Path) -> None:
    capture, out = tmp_path / "capture.pcap", tmp_path / "out"
    capture.write_bytes(REORDERED.read_bytes())
    with pytest.raises(UsageError, match=why):
        invoke(*(word.format(capture=capture, out=out, folder=tmp_path) for word in arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["capture.pcap"]
    assert capture.read_bytes() == REORDERED.read_bytes()


def test_what_could_not_be_read_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"before")
    (tmp_path / "capture").write_bytes(b"no capture")
    result = CliRunner().invoke(cli, ["export", str(tmp_path / "capture"), str(out)])
    assert result.exit_code and out.read_bytes() == b"before"


def test_any_mutations(tmp_path: Path) -> None:
    for number in range(150):
        name = ("markers-packed", "markers-before-crc", "siw-rping", "siw-three-in-a-row")[number % 4]
        mutations = (
            ("flip", number),
            ("forge_tcp", number),
            ("forge_marker", number),
            ("shuffle", number),
            ("drop", 3),
        )
        octets = Case(name, number, mutations, LAYOUTS[number % len(LAYOUTS)]).made().octets
        source = BytesIO(octets)
        with FoundFPDUs(source) as found:
            counts = [half.counts for one in found.report.connections for half in (one.initiator, one.responder)]
            total, bad = sum(one.fpdus for one in counts), sum(one.crc_errors for one in counts)
            written = export_ulpdus(found, BytesIO())
            assert abs(written.ulpdus + written.bad - total) <= 2 and abs(written.bad - bad) <= 2
            plain = BytesIO()
            made = strip_markers(source, found, plain)
            assert made.fpdus == written.ulpdus + written.bad
        plain.seek(0)
        assert analyze(plain).packets == made.packets


def test_endpoints_are_the_captured_ones(tmp_path: Path) -> None:
    six = PCAPS / "siw-rping-ipv6.pcap"
    (connection,) = analyze(six).connections
    keys = {endpoints(pdu.key) for _, pdu in pdus(exported(six, tmp_path))}
    ends = connection.initiator.endpoint, connection.responder.endpoint
    assert keys == {ends, ends[::-1]}
