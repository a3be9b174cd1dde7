"""Rules of FPDUs, Markers and segments: each broken by one sender, and kept by its twin."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from scapy_mpa.craft.packets import ACK, FIN, RST
from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.craft.ulpdus import rdma_write, rdma_write_message, send, untagged
from scapy_mpa.framing.crc import crc32c, crc_field
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.markers import marker_positions
from scapy_mpa.framing.startup import startup_frame
from tests.receive.cases import Side, Talk, feed, started
from tests.rules.talks import HOWS, How, Teller, begun, findings, put, told

MARKERS = [(0, 0), (1, 1)]


def resigned(octets: bytearray) -> bytes:
    """With the right CRC."""
    octets[-4:] = crc_field(crc32c(bytes(octets[:-4])))
    return bytes(octets)


# --- PAD ---


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("crc", [0, 1])
@pytest.mark.parametrize("m", MARKERS)
@pytest.mark.parametrize("size", range(19, 23))
def test_pad(size: int, m: tuple[int, int], crc: int, how: How) -> None:
    for at in range(-(size + 2) % 4):
        talk = begun(m=m, c=(crc, crc))
        # A few FPDUs lead to each place of a Marker, between PAD and CRC too.
        for msn in range(2, 60):
            stream = talk.streams["a"]
            ulpdu = send(msn, bytes(size - 18))
            pad = bytearray(-(size + 2) % 4)
            pad[at] = 0x40
            octets = encode_fpdu(ulpdu, stream.offset if m[1] else None, crc=bool(crc), pad=bytes(pad))
            stream.lay([ulpdu])
            Teller(how).put(talk, "a", octets)
        assert told(talk, how) == {("pad", "initiator")}
        found = next(one for one in findings(feed([talk.segments])) if one.rule.id == "pad")
        assert (found.rule.id, found.direction, found.count) == ("pad", "initiator", 58)
        assert found.detail == f"PAD of a ULPDU of {size} octets: {pad.hex(' ')}"


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("m", MARKERS)
def test_payload_before_the_crc_is_no_pad(m: tuple[int, int], how: How) -> None:
    talk = begun(m=m)
    for msn in range(2, 80):
        put(talk, "a", send(msn, b"\xff" * (msn % 7 + 1)), rdma_write(1, 0, b"\xff" * (msn % 9)), how=how)
    assert told(talk, how) == set()


# --- Markers ---

#: Given the number of a Marker in its FPDU, RESERVED and FPDUPTR: what is sent.
Change = Callable[[int, int, int], tuple[int, int]]


def changing(change: Change, which: int) -> Callable[[LaidFPDU, bytes, bytes], bytes]:
    """Change the Markers of every FPDU that holds as many as ``which``, and make the CRC right again."""

    def alter(place: LaidFPDU, _ulpdu: bytes, octets: bytes) -> bytes:
        if place.markers < which:
            return octets
        changed = bytearray(octets)
        for number, marker in enumerate(marker_positions(place.offset, place.end)):
            at = marker - place.offset
            struct.pack_into("!HH", changed, at, *change(number, *struct.unpack_from("!HH", changed, at)))
        return resigned(changed)

    return alter


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("rule", "change", "also"),
    [
        ("marker-reserved", lambda n, reserved, fpduptr: (reserved | 1, fpduptr), set()),
        ("marker-reserved", lambda n, reserved, fpduptr: (0x8000, fpduptr), set()),
        ("fpduptr-low-bits", lambda n, reserved, fpduptr: (reserved, fpduptr | 2), set()),
        ("fpduptr-low-bits", lambda n, reserved, fpduptr: (reserved, fpduptr | 1), set()),
        ("marker-agree", lambda n, reserved, fpduptr: (reserved, fpduptr + 8 * n), {"marker-length"}),
    ],
)
def test_markers(rule: str, change: Change, also: set[str], how: How) -> None:
    for wrong in (True, False):
        talk = started(m=(1, 1))
        if wrong:
            talk.streams["a"] = HalfStream(Dialect(True, True), changing(change, 2))
        put(talk, "a", send(1, bytes(900)), how=how)
        put(talk, "a", send(2, bytes(1200)), how=how)
        put(talk, "a", send(3, b""), how=how)
        assert told(talk, how) == ({(name, "initiator") for name in (rule, *also)} if wrong else set())


@pytest.mark.parametrize("crc", [0, 1])
def test_the_first_marker_is_not_zero(crc: int) -> None:
    talk = started(m=(1, 1), c=(crc, crc))
    octets = bytearray(talk.streams["a"].lay([send(1, bytes(40))])[0])
    octets[3] = 4
    talk.say("a", resigned(octets) if crc else bytes(octets))
    put(talk, "a", send(2, b""))
    assert told(talk) == {("marker-first", "initiator"), ("marker-length", "initiator")}


@pytest.mark.parametrize("crc", [0, 1])
def test_markers_that_were_asked_for_are_not_there(crc: int) -> None:
    talk = started(m=(1, 1), c=(crc, crc))
    talk.streams["a"] = HalfStream(Dialect(False, bool(crc)))
    for msn in range(1, 30):
        put(talk, "a", send(msn, bytes(100)))
    assert ("marker-absent", "initiator") in told(talk)
    assert not {rule for rule, who in told(talk) if who == "responder"}


@pytest.mark.parametrize("crc", [0, 1])
def test_markers_that_nobody_asked_for(crc: int) -> None:
    talk = started(c=(crc, crc))
    talk.streams["a"] = HalfStream(Dialect(True, bool(crc)))
    for msn in range(1, 30):
        put(talk, "a", send(msn, bytes(100)))
    assert ("marker-unasked", "initiator") in told(talk)


def test_octets_after_the_last_fpdu_that_are_none() -> None:
    for wrong in (True, False):
        talk = begun(m=(1, 1))
        octets = bytearray(talk.streams["a"].lay([send(2, bytes(3000))])[0])
        if wrong:
            octets[100:] = bytes(i * 37 & 0xFF for i in range(len(octets) - 100))
            octets += bytes(i * 37 & 0xFF for i in range(5000))
        for at in range(0, len(octets), 1000):
            talk.say("a", bytes(octets[at : at + 1000]))
        rules = {rule for rule, _ in told(talk.close())}
        assert ("fpdu-format" in rules) == wrong
        assert wrong or rules == {"fpdu-above-emss"}


# --- EMSS ---

MSS = 1000


def announcing(m: tuple[int, int] = (0, 0), mss: int | None = MSS, stamps: bool = False) -> Talk:
    """A talk in Full Operation whose SYNs announce an MSS."""
    talk = Talk()
    options = struct.pack("!BBH", 2, 4, mss) if mss is not None else b""
    if stamps:
        options += b"\x01\x01" + struct.pack("!BBII", 8, 10, 1, 0)
    opening: tuple[tuple[Side, int], ...] = (("a", 2), ("b", 0x12))
    for side, flags in opening:
        talk.put(side, talk.next[side], options, flags=flags)
        talk.next[side] += 1
        seg = talk.tap.segments[-1]
        # The options lie where a payload would.
        talk.tap.segments[-1] = seg.replace(start=seg.end, length=0)
    talk.say("a")
    talk.startup_phase(m=m)
    put(talk, "a", send(1, bytes(30)))
    return talk


@pytest.mark.parametrize("m", MARKERS)
@pytest.mark.parametrize("stamps", [False, True])
def test_fpdus_and_ulpdus_against_emss(m: tuple[int, int], stamps: bool) -> None:
    emss = MSS - 12 * stamps
    # With one more Marker than may fall into a segment there is room that a ULPDU must not use.
    largest = emss - 6 - emss % 4 - (8 if m[1] else 0)
    for more, rules in ((0, set()), (600, {"fpdu-above-emss"})):
        talk = announcing(m, stamps=stamps)
        octets = talk.streams["a"].lay([send(2, bytes(largest - 18 + more))])[0]
        for at in range(0, len(octets), emss):
            talk.say("a", octets[at : at + emss])
        put(talk, "a", send(3, b""))
        assert told(talk) == {(rule, "initiator") for rule in rules}


@pytest.mark.parametrize(("size", "rules"), [(986, set()), (990, {("mulpdu", "initiator")})])
def test_a_ulpdu_above_mulpdu_that_happens_to_fit(size: int, rules: set[tuple[str, str]]) -> None:
    talk = announcing((1, 1))
    # Up to the octet after a Marker and the CRC behind it.
    offset = talk.streams["a"].offset
    first = next(n for n in range(512) if (offset + len(encode_fpdu(send(2, bytes(n)), offset))) % 512 == 8)
    put(talk, "a", send(2, bytes(first)))
    # Here only one Marker falls into 996 octets, and MULPDU keeps room for two.
    put(talk, "a", send(3, bytes(size - 18)))
    assert told(talk) == rules


@pytest.mark.parametrize("longest", [900, 300])
def test_parts_of_messages_that_do_not_fill_a_segment(longest: int) -> None:
    talk = announcing()
    put(talk, "a", send(2, bytes(900)))
    for ulpdu in rdma_write_message(1, 0, bytes(4000), longest):
        put(talk, "a", ulpdu)
    assert told(talk) == ({("mulpdu-filled", "initiator")} if longest == 300 else set())


GSO = "(siw's experimental GSO flag: TSO, intended; or FPDUs of up to 32 KiB, as siw and cxgb4 may announce)"


@pytest.mark.parametrize(
    ("res", "said"),
    [
        ((0, 0), ""),
        ((8, 0), f"; Res of the Request is 0x08 {GSO}"),
        ((0, 8), f"; Res of the Reply is 0x08 {GSO}"),
        ((8, 8), f"; Res of the Request is 0x08 {GSO}; Res of the Reply is 0x08 {GSO}"),
        ((4, 2), "; Res of the Request is 0x04 (FPDUs of up to 16 KiB, as siw and cxgb4 may announce)"),
    ],
)
def test_fpdus_longer_than_a_segment_where_a_startup_frame_says_so(res: tuple[int, int], said: str) -> None:
    """Bits of siw and cxgb4 in Res."""
    talk = Talk().open()
    talk.greet("a", startup_frame("request", c=1, res=res[0]).encode())
    talk.greet("b", startup_frame("reply", c=1, res=res[1]).encode())
    talk.operate(crc=True)
    octets = talk.streams["a"].lay([send(1, bytes(2000))])[0]
    for at in range(0, len(octets), 800):
        talk.say("a", octets[at : at + 800])
    (found,) = (one for one in findings(feed([talk.segments])) if one.rule.id == "fpdu-above-emss")
    assert found.detail == f"an FPDU of 2,024 octets, but no segment has more than 800{said}"


def test_fpdus_longer_than_any_segment_though_no_syn_was_captured() -> None:
    for size, rules in ((2000, {("fpdu-above-emss", "initiator")}), (500, set())):
        talk = begun()
        octets = talk.streams["a"].lay([send(2, bytes(size))])[0]
        for at in range(0, len(octets), 800):
            talk.say("a", octets[at : at + 800])
        assert told(talk) == rules


# --- alignment ---


def cut(talk: Talk, octets: bytes, size: int) -> None:
    for at in range(0, len(octets), size):
        talk.say("a", octets[at : at + size])


@pytest.mark.parametrize("m", MARKERS)
@pytest.mark.parametrize("aligned", [True, False])
def test_alignment(m: tuple[int, int], aligned: bool) -> None:
    talk = begun(m=m)
    octets, laid = talk.streams["a"].lay([send(msn, bytes(500)) for msn in range(2, 42)])
    if aligned:
        for fpdu in laid:
            talk.say("a", octets[fpdu.offset - laid[0].offset : fpdu.end - laid[0].offset])
    else:
        cut(talk, octets, 701)
    assert told(talk) == (set() if aligned else {("alignment", "initiator")})


@pytest.mark.parametrize("m", MARKERS)
@pytest.mark.parametrize("how", ["never lost", "regained", "lost", "lost without a pause"])
def test_alignment_that_is_lost(m: tuple[int, int], how: str) -> None:
    talk = begun(m=m)
    for msn in range(2, 42):
        octets = talk.streams["a"].lay([send(msn, bytes(500))])[0]
        if how != "never lost" and msn == 22:
            talk.say("a", octets[:300])
            rest = octets[300:]
        elif how == "regained" and msn == 30:
            talk.say("a", rest)
            rest = b""
            talk.say("a", octets)
        elif msn > 22 and how != "never lost" and (how != "regained" or msn < 30):
            # Everything before is acknowledged, and a second goes by.
            if how != "lost without a pause":
                talk.say("b")
            talk.say("a", rest + octets[:300])
            rest = octets[300:]
        else:
            talk.say("a", octets)
    assert told(talk) == ({("alignment-lost", "initiator")} if how == "lost" else set())


def test_a_retransmission_with_other_boundaries() -> None:
    for moved, rules in ((0, set()), (200, {("alignment-retransmission", "initiator")})):
        talk = begun()
        seq = talk.next["a"]
        octets = talk.streams["a"].lay([send(2, bytes(500)), send(3, bytes(500))])[0]
        talk.say("a", octets[: len(octets) // 2])
        talk.say("a", octets[len(octets) // 2 :])
        talk.put("a", seq + moved, octets[moved : moved + len(octets) // 2])
        assert told(talk) == rules


def test_a_keep_alive_is_no_retransmission() -> None:
    talk = begun()
    put(talk, "a", send(2, bytes(500)))
    talk.put("a", talk.next["a"] - 1, b"\xee")
    put(talk, "a", send(3, b""))
    assert told(talk) == set()


@pytest.mark.parametrize("far", [0x60000000, -0x60000000])
def test_segments_further_away_than_any_window(far: int) -> None:
    talk = begun()
    talk.put("a", talk.next["a"] + far, b"stray")
    put(talk, "a", send(2, b""))
    assert told(talk) == {("outside-window", "initiator")}


# --- the end ---


@pytest.mark.parametrize("ends", ["FIN", "RST", "FIN, RST", "Terminate, RST"])
def test_a_reset(ends: str) -> None:
    talk = begun()
    if ends.startswith("Terminate"):
        put(talk, "b", untagged(7, 2, 1, b"\x02\x06\0\0"))
    if "FIN" in ends:
        talk.say("a", flags=FIN | ACK)
    if "RST" in ends:
        talk.say("a", flags=RST | ACK)
    assert told(talk) - {("terminate", "responder")} == ({("teardown-reset", "initiator")} if ends == "RST" else set())


@pytest.mark.parametrize("says", [True, False])
def test_a_close_after_an_error(says: bool) -> None:
    talk = begun()
    octets = bytearray(talk.streams["a"].lay([send(2, bytes(50))])[0])
    octets[30] ^= 1
    talk.say("a", bytes(octets))
    if says:
        put(talk, "b", untagged(7, 2, 1, b"\x20\x02\0\0"))
    talk.close()
    rules = {("terminate", "responder")} if says else {("error-closed", "responder")}
    assert told(talk) == {("crc", "initiator")} | rules


# --- attacks ---


@pytest.mark.parametrize("first", [True, False])
def test_octets_that_someone_wrote_into_the_stream(first: bool) -> None:
    """Two copies with right TCP checksums, of which one is no FPDU, whichever came first."""
    talk = begun()
    seq = talk.next["a"]
    good = talk.streams["a"].lay([send(2, bytes(300))])[0]
    bad = good[:100] + b"evil" + good[104:]
    talk.say("a", bad if first else good)
    talk.put("a", seq, good if first else bad)
    put(talk, "a", send(3, b""))
    # What is bad and comes again, not acknowledged, was dropped by the receiver (RFC 5044 §8).
    rules = ("crc-dropped",) if first else ("overlap", "attack-injection")
    assert told(talk) == {(rule, "initiator") for rule in rules}


def test_octets_that_someone_wrote_in_place_of_a_length() -> None:
    """What they begin seems to be an FPDU that is not complete yet; the copy that comes then is a whole one."""
    talk = begun()
    seq = talk.next["a"]
    good = talk.streams["a"].lay([send(2, bytes(300))])[0]
    frame = talk.say("a", b"EVIL" * 20)
    talk.put("a", seq, good)
    found = {one.rule.id: one.detail for one in findings(feed([talk.segments]))}
    assert found["overlap"] == f"an octet differs from its copy in frame {frame}: the CRC says which is right"
    assert f"the octets of frame {frame} fit TCP but no FPDU" in found["attack-injection"]


def test_two_copies_that_are_both_fpdus() -> None:
    talk = begun()
    seq = talk.next["a"]
    one = talk.streams["a"].lay([send(2, b"one" * 30)])[0]
    other = HalfStream(Dialect(False, True)).lay([send(2, b"two" * 30)])[0]
    frame = talk.say("a", one)
    again = talk.put("a", seq, other)
    found = {one.rule.id: one.detail for one in findings(feed([talk.segments]))}
    assert f"frames {frame} and {again} carried different FPDUs" in found["attack-injection"]


def test_nobody_knows_who_wrote_it_where_there_is_no_crc() -> None:
    talk = begun(c=(0, 0))
    seq = talk.next["a"]
    octets = talk.streams["a"].lay([send(2, bytes(300))])[0]
    talk.say("a", octets)
    talk.put("a", seq, octets[:100] + b"evil" + octets[104:])
    assert told(talk) == {("overlap", "initiator")}


@pytest.mark.parametrize("later", [True, False])
def test_data_after_a_reset(later: bool) -> None:
    talk = begun()
    talk.put("a", talk.next["a"], flags=RST | ACK)
    frame = put(talk, "a", send(2, bytes(50))) if later else 0
    found = {one.rule.id: one for one in findings(feed([talk.segments]))}
    # What comes behind the RST is acknowledged by nobody.
    assert set(found) == {"teardown-reset"} | ({"attack-reset", "teardown-unacknowledged"} if later else set())
    if later:
        assert (found["attack-reset"].direction, found["attack-reset"].frame) == ("initiator", frame)


@pytest.mark.parametrize("changes", [True, False])
def test_packets_that_come_another_way(changes: bool) -> None:
    talk = begun()
    for msn in range(2, 8):
        put(talk, "a", send(msn, bytes(50)))
        if changes and msn > 4:
            seg = talk.tap.segments[-1]
            octets = bytearray(seg.buffer)
            octets[seg.tcp - 12] -= 5
            talk.tap.segments[-1] = seg.replace(buffer=memoryview(bytes(octets)))
    for batches in ([talk.segments], [[seg] for seg in talk.segments]):
        found = [(one.rule.id, one.direction, one.count) for one in findings(feed(batches))]
        assert found == ([("attack-hijack", "initiator", 1)] if changes else [])


@pytest.mark.parametrize("size", [60, 500])
def test_segments_that_become_tiny(size: int) -> None:
    talk = announcing()
    cut(talk, talk.streams["a"].lay([send(2, bytes(900))])[0], 950)
    cut(talk, talk.streams["a"].lay([send(3, bytes(9000))])[0], size)
    rules = told(talk) - {("fpdu-above-emss", "initiator")}
    assert rules == ({("attack-path-mtu", "initiator")} if size == 60 else set())


@pytest.mark.parametrize("control", [b"\x01\x00", b"\x11\x01", b"\x11\x04", b"\x12\x02"])
def test_a_terminate_that_names_a_buffer(control: bytes) -> None:
    talk = begun()
    put(talk, "b", untagged(7, 2, 1, control + bytes(2)))
    # A buffer error is ordinary, no attack.
    assert told(talk) == {("terminate", "responder")}
