"""What is compiled: from the source that lies beside it, and it reads what the source reads."""

from __future__ import annotations

import importlib.util
import io
import os
import random
import struct
import subprocess
import sys
from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.capture import pcap, pcapng
from scapy_mpa.capture.files import Captures
from scapy_mpa.compiled import PURE, binary_of, hash_in, hash_of, hot_sources, is_compiled
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.crc import crc32c
from scapy_mpa.values import octets as read
from scapy_mpa.values.segment import CarriedSegment, Segment
from scripts.dev.fuzz_captures import case
from tests.alike import digests
from tests.capture.blocks import capture_ng, interface, packet, section
from tests.capture.frames import capture, ethernet, linked
from tests.conftest import REPO, captures
from tests.hostile.files import LAYOUTS

SOURCES = [*hot_sources()]
needs_compiled = pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")


def uncompiled_octets() -> ModuleType:
    """``values/octets.py`` by itself, without what is compiled of it."""
    spec = importlib.util.spec_from_file_location("uncompiled_octets", read.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    hidden = sys.modules.get("scapy_mpa.values._octets")
    sys.modules["scapy_mpa.values._octets"] = None  # type: ignore[assignment]
    try:
        spec.loader.exec_module(module)
    finally:
        if hidden is None:
            del sys.modules["scapy_mpa.values._octets"]
        else:
            sys.modules["scapy_mpa.values._octets"] = hidden
    return module


PLAIN = uncompiled_octets()


def test_there_are_hot_modules() -> None:
    names = {source.stem for source in SOURCES}
    assert names >= {"fpdus", "copies", "connection", "peer_state", "_octets", "_ordinary"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_what_is_compiled_is_made_from_its_source(source: Any) -> None:
    """An editable install would go on running the old one: `make` builds it again."""
    binary = binary_of(source)
    assert binary is None or hash_in(binary) == hash_of(source)


def test_all_is_compiled_or_nothing() -> None:
    assert len({binary_of(source) is None for source in SOURCES}) == 1


@pytest.mark.parametrize("pure", ["", "0", "1"])
def test_the_environment_says_what_runs(pure: str) -> None:
    code = (
        "import sys, scapy_mpa.reading.analysis, scapy_mpa.receiver.fpdus as hot, scapy_mpa.compiled as compiled; "
        "print(compiled.is_compiled(), hot.__file__.endswith('.py'), 'scapy_mpa.values._octets' in sys.modules)"
    )
    environment = {**os.environ, PURE: pure}
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=REPO
    ).stdout.split()
    runs_compiled = pure != "1" and binary_of(SOURCES[0]) is not None
    assert said == [str(runs_compiled), str(not runs_compiled), str(runs_compiled)]


# --- the readers of octets ---


@needs_compiled
@given(st.binary(min_size=32, max_size=600), st.data())
def test_numbers_are_read_alike(octets: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(octets) - 32))
    end = data.draw(st.integers(at, len(octets)))
    for form in (octets, bytearray(octets), memoryview(octets)):
        for name in ("head", "place", "queued", "stamped", "time_to_live", "word"):
            assert getattr(read, name)(form, at) == getattr(PLAIN, name)(form, at)
        assert read.crc_of(form, at, end) == PLAIN.crc_of(form, at, end) == crc32c(octets[at:end])
        assert read.sum_of(form, at, end) == PLAIN.sum_of(form, at, end)


NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
INDEX = st.integers(-2, 9)
#: Functions that change an array, with what they may be asked.
CHANGES = st.one_of(
    st.tuples(st.just("append_number"), NUMBER),
    st.tuples(st.just("append_four"), *4 * [NUMBER]),
    st.tuples(st.just("put_number"), INDEX, NUMBER),
    st.tuples(st.just("put_four"), INDEX, *4 * [NUMBER]),
    st.tuples(st.just("make_room"), INDEX, st.integers(0, 9)),
    st.tuples(st.just("cut_first"), INDEX),
    st.tuples(st.just("fit")),
)


@needs_compiled
@given(st.lists(CHANGES, max_size=40))
def test_arrays_are_changed_alike(changes: list[Any]) -> None:
    ours, plain = array("q"), array("q")
    for name, *asked in changes:
        said = []
        for module, numbers in ((read, ours), (PLAIN, plain)):
            try:
                said.append(getattr(module, name)(numbers, *asked))
            except IndexError:
                said.append(IndexError)
        assert said[0] == said[1]
        assert ours == plain


@needs_compiled
@pytest.mark.parametrize("name", ["append_number", "number_at", "cut_first"])
def test_only_arrays_of_64_bits_are_changed(name: str) -> None:
    with pytest.raises(TypeError, match="64"):
        getattr(read, name)(array("i", [1, 2, 3]), 1)


@needs_compiled
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_octets_are_appended_alike(parts: list[bytes]) -> None:
    taken = bytearray()
    for part in parts:
        read.append_octets(taken, part, 0, len(part))
    assert taken == b"".join(parts)
    assert bytes(taken) + b"x" == b"".join(parts) + b"x"
    with memoryview(taken), pytest.raises(BufferError):
        read.append_octets(taken, b"x", 0, 1)


@needs_compiled
@given(st.lists(st.tuples(st.integers(-1, 90), st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40))))
def test_octets_are_put_alike(puts: list[tuple[int, bytes, int, int]]) -> None:
    ours, plain = bytearray(), bytearray()
    for at, octets, first, count in puts:
        if 0 <= at <= len(plain) and first + count <= len(octets):
            PLAIN.put_octets(plain, at, octets, first, count)
            read.put_octets(ours, at, octets, first, count)
        else:
            with pytest.raises(IndexError):
                read.put_octets(ours, at, octets, first, count)
        assert ours == plain


@needs_compiled
def test_room_is_given_back() -> None:
    numbers, octets = read.with_room(array("q"), 64), bytearray()
    room = sys.getsizeof(numbers)
    for number in range(3):
        read.append_number(numbers, number)
        read.append_octets(octets, b"abc", 0, 3)
    taken = sys.getsizeof(octets)
    read.fit(numbers)
    read.fit_octets(octets)
    assert numbers == array("q", range(3)) and octets == b"abcabcabc"
    assert sys.getsizeof(numbers) < room and sys.getsizeof(octets) < taken


@needs_compiled
@given(st.binary(min_size=32, max_size=80), st.binary(min_size=12, max_size=12) | st.binary(min_size=36, max_size=36))
def test_checksums_are_judged_alike(segment: bytes, key: bytes) -> None:
    for octets in (segment, with_checksum(segment, key)):
        said = read.has_right_sum(key, octets, 0, len(octets))
        assert said == PLAIN.has_right_sum(key, octets, 0, len(octets))
    assert said


def with_checksum(segment: bytes, key: bytes) -> bytes:
    """The same TCP segment with the right checksum (RFC 9293 §3.1)."""
    octets = bytearray(segment)
    octets[16:18] = bytes(2)
    covered = key[:-4] + struct.pack(">HH", 6, len(octets)) + octets + bytes(len(octets) & 1)
    total = sum(struct.unpack(f">{len(covered) // 2}H", covered))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    octets[16:18] = struct.pack(">H", ~total & 0xFFFF)
    return bytes(octets)


@needs_compiled
@pytest.mark.parametrize("size", [*range(20), 127, 128, 383, 384, 385, 767, 768, 1460, 9000, 70_000])
def test_crc_of_every_size(size: int) -> None:
    octets = random.Random(size).randbytes(size + 3)
    assert read.crc_of(octets, 3, size + 3) == crc32c(octets[3:])


@needs_compiled
@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
@pytest.mark.parametrize(
    ("name", "size"), [("head", 4), ("word", 4), ("place", 12), ("queued", 12), ("time_to_live", 20), ("stamped", 32)]
)
@pytest.mark.parametrize("at", [-1, 1, 100, 1 << 62])
def test_nothing_outside_is_read(form: Any, name: str, size: int, at: int) -> None:
    with pytest.raises(IndexError):
        getattr(read, name)(form(bytes(size)), at)
    with pytest.raises(IndexError):
        read.crc_of(form(bytes(size)), 0, size + at if at > 0 else at)


@needs_compiled
def test_only_octets_one_behind_the_other_are_read() -> None:
    for wrong in (memoryview(bytes(24))[::2], memoryview(bytes(24)).cast("I")):
        with pytest.raises(ValueError, match="behind"):
            read.head(wrong, 0)
    released = memoryview(bytes(24))
    released.release()
    with pytest.raises(ValueError, match="behind"):
        read.head(released, 0)
    with pytest.raises(TypeError):
        read.head("text", 0)  # type: ignore[arg-type]


# --- ordinary records ---


def segments(octets: bytes) -> list[Any]:
    """What is read of a capture: segments, and what is said of the rest."""
    found: list[Any] = []
    try:
        with Captures(io.BytesIO(octets)) as opened:
            for batch in opened.batches():
                found += batch
            found += [opened.packets, opened.damage, opened.notes, [reader.time for reader in opened.readers]]
    except CaptureError as error:
        found.append(str(error))
    return found


def is_read_alike(octets: bytes, patch: pytest.MonkeyPatch) -> bool:
    """Return True if the loop over records finds the same with and without the compiled one."""
    quickly = segments(octets)
    patch.setattr(pcap, "ordinary_records", None)
    patch.setattr(pcapng, "ordinary_blocks", None)
    assert all(type(seg) in (Segment, CarriedSegment) for seg in quickly if isinstance(seg, Segment))
    return quickly == segments(octets)


@needs_compiled
@pytest.mark.parametrize(
    "path", [path for path in captures() if path.suffix in (".pcap", ".pcapng")], ids=lambda path: path.stem
)
def test_records_are_read_alike(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_read_alike(path.read_bytes(), monkeypatch)


@needs_compiled
@given(st.integers(0, 1 << 32))
def test_records_of_mutated_captures_are_read_alike(number: int) -> None:
    octets = case(1, number)._replace(layout=LAYOUTS[number % len(LAYOUTS)]).made().octets
    with pytest.MonkeyPatch.context() as patch:
        assert is_read_alike(octets, patch)


@needs_compiled
@given(st.integers(0, 1 << 32), st.sampled_from([1, 113, 276]))
def test_records_of_garbled_captures_are_read_alike(seed: int, link_type: int) -> None:
    """One octet in fifty is another: lengths, EtherTypes, versions, offsets."""
    rng = random.Random(seed)
    frames = [linked(link_type, ethernet(bytes(rng.randrange(40)), version=rng.choice((4, 6)))) for _ in range(8)]
    octets = bytearray(capture(frames, link_type=link_type))
    for _ in range(rng.randrange(len(octets) // 50)):
        octets[rng.randrange(24, len(octets))] = rng.randrange(256)
    with pytest.MonkeyPatch.context() as patch:
        assert is_read_alike(bytes(octets), patch)


@needs_compiled
@given(st.integers(0, 1 << 32), st.sampled_from([1, 113, 276]), st.sampled_from("<>"))
def test_blocks_of_garbled_captures_are_read_alike(seed: int, link_type: int, order: str) -> None:
    """As above, of two interfaces, one of which counts time from elsewhere, and in two sections."""
    rng = random.Random(seed)
    frames = [linked(link_type, ethernet(bytes(rng.randrange(40)), version=rng.choice((4, 6)))) for _ in range(8)]
    octets = bytearray(section(order) + interface(link_type, order, tsresol=rng.choice((6, 9, 12))))
    octets += interface(link_type, order, tsoffset=rng.choice((0, 5)))
    for number, frame in enumerate(frames):
        octets += packet(frame, rng.randrange(1 << 40) << number, order, index=rng.choice((0, 0, 0, 1)))
    octets += capture_ng([(number, frame, len(frame)) for number, frame in enumerate(frames)], link_type)
    for _ in range(rng.randrange(len(octets) // 50)):
        octets[rng.randrange(28, len(octets))] = rng.randrange(256)
    with pytest.MonkeyPatch.context() as patch:
        assert is_read_alike(bytes(octets), patch)


@needs_compiled
@settings(max_examples=2)
@given(st.integers(0, 1 << 32))
def test_what_is_said_of_mutated_captures_is_the_same_uncompiled(first: int) -> None:
    """The report, the FPDUs and the messages of each of 25."""
    command = [sys.executable, "-m", "tests.alike", str(first), "25"]
    uncompiled = subprocess.run(
        command, env=os.environ | {PURE: "1"}, cwd=REPO, capture_output=True, text=True, check=True
    )
    assert uncompiled.stdout.splitlines() == list(digests(first, 25))
