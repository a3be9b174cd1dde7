"""A scrubbed capture has the same findings, and no payload, Private Data nor address of the one that it was made of."""

from __future__ import annotations

import io
import json
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa import analyze, iter_messages
from scapy_mpa.capture.files import Captures
from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.craft.encapsulation import ENCAPSULATIONS
from scapy_mpa.report.connection import Connection
from scapy_mpa.scrub.capture import scrub
from scapy_mpa.scrub.compared import findings_of
from scapy_mpa.scrub.frame import FrameScrubber
from scapy_mpa.scrub.noise import Noise
from scapy_mpa.values.segment import Segment, addresses_of, checksum_is_right, checksum_is_wrong
from tests.capture.convert import FORMATS, recorded
from tests.capture.frames import LINKED, capture
from tests.capture.test_encapsulation import within, written
from tests.cli.test_command import invoke, run
from tests.conftest import PCAPS, captures, named

RPING, LOSSY = named("siw-crc-rping"), named("markers-lossy")
EVERY = [*captures(), *sorted(PCAPS.glob("siw-deviations/*.pcapng")), *sorted(PCAPS.glob("*/*.pcap"))]
#: Octets of a string that may stand in both: by chance no longer one does.
LENGTH = 8
#: Rules about memory that only the headers of upper layers name: where one was broken, the buffers that rping and
#: perftest name stay readable.
OF_NAMED_MEMORY = {"memory-bounds", "memory-life", "placement-overlap"}
#: The octets of such a Send at most.
NAMES_A_BUFFER = 32


def scrubbed(source: Path | bytes, **options: Any) -> bytes:
    out = io.BytesIO()
    scrub(source if isinstance(source, Path) else io.BytesIO(source), out, **{"seed": "a seed", **options})
    return out.getvalue()


def segments(source: Path | bytes) -> list[Segment]:
    with Captures(source if isinstance(source, Path) else io.BytesIO(source)) as opened:
        return [seg for batch in opened.batches() for seg in batch if seg.tcp >= 0]


def records(source: Path | bytes) -> list[tuple[int, int, bytes, int]]:
    with Captures(source if isinstance(source, Path) else io.BytesIO(source)) as opened:
        return [*opened.readers[0].records()]


def secrets(source: Path | bytes) -> Iterator[bytes]:
    """Payload and Private Data; of Requests, Terminates and Atomics, which are headers, nothing."""
    whole = source if isinstance(source, Path) else io.BytesIO(source)
    for row in iter_messages(whole, payload=True):
        if row.message is None or row.message.startswith(("Send", "RDMA Write", "RDMA Read Resp", "Immediate")):
            assert row.payload is not None
            yield row.payload
    whole = source if isinstance(source, Path) else io.BytesIO(source)
    for connection in analyze(whole, fpdus=False).connections:
        yield from (one.ulp_data for one in (connection.request, connection.reply) if one is not None)


def strings(pieces: Iterator[bytes]) -> set[bytes]:
    """All strings of LENGTH octets, but those of one octet alone: filler says nothing of who wrote it."""
    found = {piece[at : at + LENGTH] for piece in pieces for at in range(len(piece) - LENGTH + 1)}
    return {one for one in found if len(set(one)) > 1}


def same(one: Connection, other: Connection) -> bool:
    """Return True if two connections are the same but for addresses, and for what is not known of an upper layer."""
    mine, its = one.as_dict(), other.as_dict()
    keys = ("crc", "rejected", "revision", "halves", "inferred", "service_port")
    return all(mine[key] == its[key] for key in keys) and {**mine["lifecycle"]} == {**its["lifecycle"]}


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_the_findings_are_the_same_and_the_payload_is_gone(path: Path) -> None:
    out = scrubbed(path)
    before, after = analyze(path, fpdus=False), analyze(io.BytesIO(out), fpdus=False)
    assert findings_of(before) == findings_of(after)
    assert all(same(*two) for two in zip(before.connections, after.connections, strict=True))
    assert (before.packets, before.tcp_connections) == (after.packets, after.tcp_connections)
    both = strings(secrets(path)) & strings(secrets(out))
    if any(found.rule.id in OF_NAMED_MEMORY for found in before.all_findings()):
        rows = (row for row in iter_messages(path, payload=True) if row.message == "Send")
        both -= strings(row.payload for row in rows if row.payload and len(row.payload) <= NAMES_A_BUFFER)
    assert not both


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_with_headers_all_is_the_same(path: Path) -> None:
    out = scrubbed(path, keeps_headers=True)
    before, after = analyze(path, fpdus=False), analyze(io.BytesIO(out), fpdus=False)
    assert findings_of(before) == findings_of(after)
    assert [one.verdict for one in before.connections] == [one.verdict for one in after.connections]
    assert [one.upper_layer.name for one in before.connections] == [one.upper_layer.name for one in after.connections]
    rows, kept = iter_messages(path), iter_messages(io.BytesIO(out))
    for row, other in zip(rows, kept, strict=True):
        assert row._replace(ulp=None, text="", call=None) == other._replace(ulp=None, text="", call=None)
        # An NFS COMPOUND names its operations between their arguments.
        assert (row.call or "").startswith(other.call or "")


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_frames_checksums_and_order_stay(path: Path) -> None:
    out = scrubbed(path)
    for (time, link, octets, wire), other in zip(records(path), records(out), strict=True):
        assert (time, link, len(octets), wire) == (other[0], other[1], len(other[2]), other[3])
    for seg, new in zip(segments(path), segments(out), strict=True):
        assert (seg.seq, seg.ack, seg.flags, seg.length) == (new.seq, new.ack, new.flags, new.length)
        assert seg.key[-4:] == new.key[-4:] and seg.end - seg.start == new.end - new.start
        # One that a host left to its network card may be right by chance.
        assert checksum_is_right(new) >= checksum_is_right(seg) and checksum_is_wrong(seg) == checksum_is_wrong(new)


def test_a_retransmission_stays_one_and_a_seed_says_what_becomes_of_what() -> None:
    for name in ("siw-netem-send", "markers-reordered"):
        path = named(name)
        halves: dict[tuple[bytes, int], tuple[int, int]] = {}
        for seg, new in zip(segments(path), segments(scrubbed(path)), strict=True):
            for at in range(0, seg.end - seg.start, 97):
                place = seg.key, seg.seq + at
                octets = seg.buffer[seg.start + at], new.buffer[new.start + at]
                assert halves.setdefault(place, octets) == octets
    assert scrubbed(RPING) == scrubbed(RPING) != scrubbed(RPING, seed="another")
    assert scrubbed(RPING, seed=None) != scrubbed(RPING, seed=None)


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_in_tags_and_tunnels(name: str) -> None:
    source = written(within(name, RPING))
    check_without_secrets(source, scrubbed(source))


@pytest.mark.parametrize("link_type", sorted(LINKED))
def test_under_every_link_type(link_type: int) -> None:
    frames = [(time, LINKED[link_type](octets)) for time, octets, _ in recorded(RPING).records]
    source = capture(frames, link_type=link_type)
    check_without_secrets(source, scrubbed(source))


@pytest.mark.parametrize("form", FORMATS)
def test_in_every_format(form: str) -> None:
    source = FORMATS[form](recorded(RPING))
    out = scrubbed(source)
    check_without_secrets(source, out)
    assert [one[0] for one in records(source)] == [one[0] for one in records(out)]


def check_without_secrets(source: bytes, out: bytes) -> None:
    before, after = analyze(io.BytesIO(source), fpdus=False), analyze(io.BytesIO(out), fpdus=False)
    assert findings_of(before) == findings_of(after)
    assert before.connections and [one.path for one in before.connections] == [one.path for one in after.connections]
    assert all(same(*two) for two in zip(before.connections, after.connections, strict=True))
    # What rping says in clear, addresses of hosts and cards, and names that capture programs write.
    assert b"rdma-ping" in source
    addresses = [octets for one in before.connections for octets in addresses_of(one.initiator.key)]
    macs = {octets[at : at + 6] for _, octets, _ in recorded(RPING).records for at in (0, 6) if not octets[at] & 1}
    for secret in (b"rdma-ping", b"rules", *addresses, *macs):
        assert secret not in out


def test_what_cannot_be_looked_into_is_replaced_and_said(tmp_path: Path) -> None:
    esp, out = PCAPS / "esp" / "gcm-tunnel.pcap", tmp_path / "out.pcap"
    result = run("scrub", str(esp), str(out))
    assert "replaced entirely: 22 ESP packets" in result.stdout and not result.stderr
    assert not strings(one for _, _, one, _ in records(esp) if one) & strings(
        octets[42:] for _, _, octets, _ in records(out)
    )
    frames = [(time, octets) for time, octets, _ in recorded(RPING).records]
    pieces = [piece for time, octets in frames for piece in in_pieces(time, octets)]
    source = capture(pieces)
    counted = io.BytesIO()
    done = scrub(io.BytesIO(source), counted)
    assert done.replaced["fragments of IP datagrams"] > 10 and b"rdma-ping" not in counted.getvalue()


def in_pieces(time: int, frame: bytes) -> list[tuple[int, bytes]]:
    """An Ethernet frame with IPv4, its datagram in two fragments if it is long enough."""
    if frame[12:14] != b"\x08\x00" or len(frame) < 14 + 20 + 80:
        return [(time, frame)]
    head, body = frame[14:34], frame[34:]
    made = []
    for at, piece, more in ((0, body[:64], 0x2000), (64, body[64:], 0)):
        total = struct.pack("!H", 20 + len(piece))
        made.append(
            (time, frame[:14] + head[:2] + total + head[4:6] + struct.pack("!H", more | at // 8) + head[8:] + piece)
        )
    return made


def test_the_command_lists_what_stays(tmp_path: Path) -> None:
    out = tmp_path / "out.pcap"
    result = run("scrub", str(RPING), str(out), "--keep", "headers")
    assert re.search(r"out.pcap: 54 packets, 1 MPA connection\n  readable: ", result.stdout)
    assert "headers of Sends" in result.stdout and not result.stderr
    # Buffers that are named stay where a finding rests on them, which the command says.
    path = PCAPS / "siw-deviations" / "crc-split-over-segments.pcapng"
    result = run("scrub", str(path), str(out))
    assert "readable: the buffers that rping and perftest name" in result.stdout and not result.stderr
    for wrong in ([str(RPING), str(RPING), str(out)], [str(RPING), str(RPING)], [str(RPING), str(out), "--port", "1"]):
        assert run("scrub", *wrong).returncode == 2


def test_the_first_octet_of_a_reply_stays(tmp_path: Path) -> None:
    """It could be that of a Request, too."""
    path = tmp_path / "in.pcap"
    Malformed("reply-of-1-octets").write(path)
    assert findings_of(analyze(path)) == findings_of(analyze(io.BytesIO(scrubbed(path))))


@pytest.mark.parametrize("case", ["markers-left-out-once", "markers-not-asked-once"])
def test_an_fpdu_that_is_read_otherwise_than_agreed_is_scrubbed_like_that(case: str, tmp_path: Path) -> None:
    """Its CRC is right without Markers, or with them, on which the finding rests; its payload is replaced."""
    source, out = tmp_path / "in.pcap", tmp_path / "out.pcap"
    Malformed(case).write(source)
    result = run("scrub", str(source), str(out))
    assert result.returncode == 0 and not result.stderr
    assert findings_of(analyze(source)) == findings_of(analyze(out))
    # Frame 6 ends with 24 octets of payload, 2 of PAD, and the CRC.
    payload = [records(one)[5][2][-30:-6] for one in (source, out)]
    assert len(set(payload[0])) > 12
    assert all(payload[0][at : at + 4] != payload[1][at : at + 4] for at in range(21))


def test_headers_of_upper_layers_stay_if_asked() -> None:
    for name in ("siw-nfs4", "siw-nvme"):
        calls = [row.call for row in iter_messages(named(name)) if row.call]
        kept = [row.call for row in iter_messages(io.BytesIO(scrubbed(named(name), keeps_headers=True))) if row.call]
        assert len(kept) == len(calls)
        assert not [row.call for row in iter_messages(io.BytesIO(scrubbed(named(name)))) if row.call]


# --- addresses ---


@given(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.text(max_size=3))
def test_an_address_stays_of_its_kind(address: bytes, seed: str) -> None:
    from ipaddress import ip_address

    mapped = Noise(seed).address(address)
    old, new = ip_address(address), ip_address(mapped)
    assert len(mapped) == len(address) and Noise(seed).address(address) == mapped
    for kind in ("is_loopback", "is_multicast", "is_link_local", "is_unspecified"):
        assert getattr(old, kind) == getattr(new, kind)
    blocks = [("10.0.0.0", 8), ("172.16.0.0", 12), ("192.168.0.0", 16), ("169.254.0.0", 16), ("100.64.0.0", 10)]
    if len(address) == 4:
        for begin, length in blocks:
            prefix = int(ip_address(begin)) >> 32 - length
            assert (int(old) >> 32 - length == prefix) == (int(new) >> 32 - length == prefix)


def test_no_two_addresses_become_one() -> None:
    noise, rng = Noise("x"), random.Random(1)
    for size in (4, 16):
        some = {rng.randbytes(size) for _ in range(3000)} | {bytes((10, 0, 0, n)) for n in range(256) if size == 4}
        assert len({noise.address(one) for one in some}) == len(some)
    macs = {rng.randbytes(6) for _ in range(3000)}
    assert len({noise.mac(one) for one in macs}) == len(macs)
    assert noise.mac(b"\xff" * 6) == b"\xff" * 6 and noise.mac(bytes(6)) == bytes(6)


def test_an_address_in_private_data_becomes_what_it_is_elsewhere(tmp_path: Path) -> None:
    made = tmp_path / "made.pcap"
    hosts = json.dumps("hex:0a000001" + "00" * 4 + "6869646465")
    run("craft", "--say", "initiator send 100", "--set", f"private_data=[{hosts}, {hosts}]", "-o", str(made))
    out = scrubbed(made)
    (before,), (after,) = (analyze(one, fpdus=False).connections for one in (made, io.BytesIO(out)))
    assert before.request is not None and after.request is not None
    old, new = addresses_of(before.initiator.key)[0], addresses_of(after.initiator.key)[0]
    assert old in before.request.ulp_data and new in after.request.ulp_data and old != new


# --- hostile frames ---


class NoStreams:
    """No connection is of MPA."""

    def of(self, *_: object) -> None:
        """None is."""


@given(st.data())
def test_whatever_a_frame_holds_its_length_stays_and_nothing_crashes(data: st.DataObject) -> None:
    link_type = data.draw(st.sampled_from(sorted(LINKED)))
    name = data.draw(st.sampled_from([None, *ENCAPSULATIONS]))
    _, frame, _ = data.draw(st.sampled_from([one for one in recorded(RPING).records if one[1][12:14] == b"\x08\x00"]))
    octets = bytearray(LINKED[link_type](frame if name is None else ENCAPSULATIONS[name](frame)))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(octets) - 1), st.integers(0, 255)), max_size=6)):
        octets[at] = value
    cut = bytes(octets[: data.draw(st.integers(0, len(octets)))])
    noise = Noise("x")
    out = FrameScrubber(noise, NoStreams()).frame(1, link_type, cut, len(octets))  # type: ignore[arg-type]
    assert len(out) == len(cut) and b"rdma-ping" not in out


def test_a_capture_that_is_cut_is_written_as_far_as_it_goes(tmp_path: Path) -> None:
    source, out = tmp_path / "cut.pcap", tmp_path / "out.pcap"
    source.write_bytes(LOSSY.read_bytes()[:400_000])
    result = run("scrub", str(source), str(out))
    assert "is cut after" in result.stderr
    assert findings_of(analyze(source, fpdus=False)) == findings_of(analyze(out, fpdus=False))


def test_a_pipe_is_refused() -> None:
    with pytest.raises(UsageError):
        invoke("scrub", "-", "x")
