"""Captures that broke the analysis once: found by fuzzing, kept as small as they could be made."""

from __future__ import annotations

from io import BytesIO

import pytest

from scapy_mpa import analyze
from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.craft.packets import ACK, FIN, SYN, Endpoint
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.senders import Bases, spoken
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.values.limits import DEFAULT_LIMITS
from scripts.dev.fuzz_captures import captures_of
from tests.hostile.examine import TIGHT, TIGHT_IN_ALL, examine
from tests.hostile.files import LAYOUTS, Case
from tests.hostile.flow import Flow, file_of
from tests.laying import lay_dialect, lay_stream
from tests.receive.cases import Talk, Tap, ulpdus

_REQUEST = startup_frame("request", c=1).encode()
_READ_REQUEST = lay_stream([bytes.fromhex("41410000000000000001 00000001") + bytes(32)], markers=False)[0]
_FPDUS = lay_stream(ulpdus(1008, 1008, 1008, 1008), markers=False)[0]


@pytest.mark.parametrize("size", [20, 3])
def test_a_rejecting_reply_and_data_before_a_late_request(size: int) -> None:
    flow = Flow()
    end = 1000 + len(_REQUEST)
    flow.put("b", 5000, startup_frame("reply", r=1).encode(), ack=end)
    flow.put("b", 5020, _READ_REQUEST, ack=end)
    pieces = [(at, _REQUEST[at : at + size]) for at in range(0, len(_REQUEST), size)]
    for at, piece in pieces[1:] + pieces[:1]:
        flow.put("a", 1000 + at, piece, ack=5000)
    assert examine([file_of(flow.frames)]).connections == 1


def test_more_in_all_than_may_be_held_where_startup_frames_are_waited_for() -> None:
    """Of a half connection that waits, no octets may be held that could be let go."""
    frames: list[bytes] = []
    one, two = Flow(1, frames), Flow(2, frames)
    one.say("b", startup_frame("reply", r=1).encode())
    for number in range(4):
        one.put("a", 100_000 + number * 1024, _FPDUS[number * 1024 : (number + 1) * 1024])
        if number > 1:
            two.put("a", 90_000 * number, _FPDUS[:1028])
    examine([file_of(frames)], limits=TIGHT_IN_ALL)


def test_octets_of_an_fpdu_in_a_syn() -> None:
    """The first octet that comes with a SYN has the sequence number behind that of the SYN."""
    flow = Flow()
    flow.put("a", 999, _FPDUS, flags=SYN | ACK)
    assert examine([file_of(flow.frames)], octets_again=True).fpdus == 4


def test_a_deviating_sender_and_a_hole_before_anything_else_shows_it() -> None:
    """Whoever looks beyond a hole at once and whoever waits for it have the same reason to doubt a sender."""
    candidate = spoken(["pad-plus-2"], Dialect(False, False), Bases(None, None))
    assert candidate is not None
    octets, fpdus = lay_dialect(candidate.dialect, ulpdus(42, 1015, 1015, 1015, 42))
    flow = Flow().open().start()
    flow.bring("b", octets, ((fpdus[number].offset, fpdus[number].end) for number in (0, 1, 2, 4)))
    assert examine([file_of(flow.frames)]).deviations == {"pad-plus-2"}


def test_segments_that_waited_inside_an_fpdu_with_a_wrong_length() -> None:
    """Whether a segment begins with an FPDU is judged once, however often it waits."""
    octets = bytearray(lay_stream(ulpdus(*9 * [34]), markers=False)[0])
    octets[40:42] = (190).to_bytes(2, "big")
    flow = Flow().open().start(crc=True)
    flow.bring("a", bytes(octets), ((40 * number, 40 * number + 40) for number in (0, 8, 1, 3, 2, 5, 4)))
    assert examine([file_of(flow.frames)]).fpdus == 7


def test_segments_of_an_fpdu_with_a_wrong_length_around_one_that_waited() -> None:
    """Each is judged once, however it came in: those in order before the one that waited, too."""
    flow = Flow().open().start(markers=True, crc=True)
    places, offset = [], 0
    for number, ulpdu in enumerate(ulpdus(*[100] * 12)):
        octets = encode_fpdu(ulpdu, offset, ulpdu_length=5000 if number == 1 else None)
        places.append((flow.at["a"] + offset, octets))
        offset += len(octets)
    for number in (0, 1, 2, 5, 3, 4, 6, 8, 7, 9, 10, 11):
        flow.put("a", *places[number])
    assert examine([file_of(flow.frames)]).fpdus == 11


def test_a_copy_that_differs_where_no_fpdu_is_known() -> None:
    """None is looked for before SeqStart."""
    flow = Flow().open().start(markers=True, crc=True, request=False)
    flow.put("a", flow.at["a"] + 7, bytes(5))
    flow.put("a", flow.at["a"] - 20, bytes(range(1, 39)))
    examine([file_of(flow.frames)])


def test_private_data_that_pd_length_leaves_out_is_no_marker() -> None:
    """Four octets before the FPDUs, and CRCs that are good without them: it may be the startup frame that lies."""
    flow = Flow().open().start(crc=True)
    octets = bytes.fromhex("00010001") + lay_stream(ulpdus(*8 * [34]), markers=False)[0]
    flow.bring("b", octets, [(0, 4), *((at, at + 40) for at in range(4, len(octets), 40))])
    assert not examine([file_of(flow.frames)]).deviations


def test_connections_that_are_over_hold_nothing_back() -> None:
    """Each of them was cut inside an FPDU, in one block of the capture, and none of what it held counts any more."""
    tap, limits = Tap(), DEFAULT_LIMITS._replace(total_octets=1 << 20)
    receiver = Analyzer(limits=limits)
    for number in range(30):
        talk = Talk(tap, isn=(1000 + number * 10_000_000, 5000 + number * 10_000_000)).open().startup_phase()
        talk.say("a", talk.lay("a", 60_000)[:50_000])
    receiver.feed(tap.segments)
    receiver.release()
    # Another connection, with a segment that comes late.
    known = len(tap.segments)
    talk = Talk(tap, a=Endpoint("10.0.0.9", 1, bytes(6))).open().startup_phase()
    octets = talk.lay("a", *[1000] * 20)
    for start, end in ((0, 1008), (2016, 10_080), (1008, 2016), (10_080, len(octets))):
        talk.at("a", start, octets[start:end])
        receiver.feed(tap.segments[known:])
        receiver.release()
        known = len(tap.segments)
    receiver.finish()
    last = receiver.connections[-1]
    assert last.operations["initiator"].counts.fpdus == 20
    assert not {found.rule.id for found in last.findings.sorted()} & {"gap", "limit"}


def test_a_segment_that_waits_when_the_sender_is_found_to_deviate() -> None:
    """It is one of those that came, whether the doubt is raised by what is read, or only when the block goes."""
    candidate = spoken(["pad-plus-2"], Dialect(False, False), Bases(None, None))
    assert candidate is not None
    octets, fpdus = lay_dialect(candidate.dialect, ulpdus(42, 1015, 1015, 1015, 1015, 42))
    flow = Flow().open().start()
    flow.bring("b", octets, ((fpdus[number].offset, fpdus[number].end) for number in (0, 1, 2, 3, 5)))
    assert examine([file_of(flow.frames)], limits=TIGHT).deviations == {"pad-plus-2"}


def test_an_acknowledgement_number_of_0_takes_back_none() -> None:
    flow = Flow(first=(3_000_000_000, 5000)).open().start(crc=True)
    flow.bring("a", _FPDUS, [(0, 1016), (2032, 4064)])
    flow.put("b", flow.at["b"], ack=flow.at["a"] + 4064)
    flow.put("b", flow.at["b"], ack=0)
    report = analyze(BytesIO(file_of(flow.frames)))
    # That it was dropped is a note.
    assert [found.rule.id for found in report.connections[0].findings] == ["capture-gap", "outside-window"]


@pytest.mark.parametrize("size", range(30, 60, 3))
def test_a_rejecting_reply_whose_octets_are_replaced(size: int) -> None:
    """What was rejected may have been received anew as often as may be, with nothing behind it."""
    reply = startup_frame("reply", r=True, private_data=bytes(size)).encode()
    damaged = [18, *range(20, 32)]
    flow = Flow().open()
    flow.say("a", _REQUEST)
    for at, octet in enumerate(reply):
        flow.put("b", 5001 + at, bytes([octet ^ (at in damaged)]))
        if at in damaged:
            flow.frames[-1] = flow.frames[-1][:50] + b"\x55\x55" + flow.frames[-1][52:]
    for at in reversed(damaged):
        flow.put("b", 5001 + at, reply[at : at + 1])
    assert examine([file_of(flow.frames)]).connections == 1


def test_a_connection_that_is_over_and_another_in_the_same_block() -> None:
    """Without CRC, a part of an FPDU was there when the connection was over."""
    flow = Flow().open().start(crc=False)
    flow.bring("a", _FPDUS, [(0, 40)])
    Flow(frames=flow.frames, first=(900_000_000, 800_000_000)).open().start()
    assert examine([file_of(flow.frames)]).connections == 2


def test_segments_for_which_a_suspicion_has_no_room() -> None:
    """They came, be the sender found to deviate or not: nothing is missing."""
    octets, fpdus = lay_dialect(Dialect(False, True, crc_order="big"), ulpdus(*[1000] * 40))
    flow = Flow().open().start(crc=True)
    flow.bring("b", octets, ((fpdu.offset, fpdu.end) for fpdu in fpdus))
    other = Flow(7, flow.frames)
    for _ in range(12):
        other.say("a", b"GET / HTTP/1.1\r\n" * 3750)
    long = b"\xfd\0\x41\x47" + bytes(6000)
    flow.at["b"] += len(octets)
    flow.bring("b", long, ((at, at + 1) for at in range(len(long))))
    report = analyze(BytesIO(file_of(flow.frames)))
    found = {finding.rule.id for finding in report.connections[0].findings if finding.direction == "responder"}
    assert "deviating-sender" in found and "gap" not in found


def test_a_second_deviation_that_explains_no_fpdu_is_none() -> None:
    """Without PAD a length that counts itself leads as far as another; the last one here is too long to be one."""
    octets, _ = lay_stream(ulpdus(*[34] * 15), markers=False)
    flow = Flow().open().start(markers=True, crc=True)
    flow.bring("b", octets + b"\xfd\x01" + bytes(200), [(0, len(octets)), (len(octets), len(octets) + 202)])
    assert not examine([file_of(flow.frames)]).deviations


def test_damaged_segments_around_one_that_differs() -> None:
    """The receiver dropped all of them: the FPDU is made of the octets of the last one alone."""
    octets, _ = lay_stream(ulpdus(794), markers=False)
    flow = Flow().open().start(crc=True)
    damaged = bytearray(octets)
    damaged[105] ^= 0xFF
    for at in range(100, 120):
        flow.put("a", flow.at["a"] + at, bytes(damaged[at : at + 8]))
        flow.frames[-1] = flow.frames[-1][:50] + b"\x55\x55" + flow.frames[-1][52:]
    flow.bring("a", octets, [(0, len(octets))])
    (fpdu,) = analyze(BytesIO(file_of(flow.frames))).connections[0].initiator.fpdus
    assert fpdu.frames == (len(flow.frames),) and fpdu.octets() == octets


def test_two_fpdus_without_crc_do_not_show_two_deviations() -> None:
    """One forged length, and all that follows is read otherwise: so little may mean anything."""
    flow = Flow().open().start(crc=False)
    # A Read Request whose length was 46, and a Terminate, as siw sends them.
    request = "0034414100000000000000010000000100000000f1bed70000007f0ef8000e00000003e98821f80000005569c2bf4fa000000000"
    terminate = "00264147000000000000000200000001000000001101030003e9c142f1bed70000007f0ef8000e0080000000"
    flow.bring("b", bytes.fromhex(request + terminate), [(0, 52), (52, 96)])
    flow.say("b", flags=FIN | ACK)
    assert not examine([file_of(flow.frames)]).deviations


@pytest.mark.parametrize("number", [11198, 27000, 35829])
def test_a_repeat_of_what_was_postponed_with_an_older_timestamp(number: int) -> None:
    """Whoever reads octets beyond a hole at once, and whoever puts them off, see the same repeat."""
    _examine(number)


def test_an_acknowledgement_of_octets_that_came_damaged_beyond_a_hole() -> None:
    """Their sender sent them, whether they are withdrawn at once or later."""
    _examine(57679)


def test_an_old_timestamp_in_a_segment_that_came_damaged() -> None:
    """Its receiver looks at the TCP checksum first."""
    _examine(47890)


def test_the_timestamp_of_an_acknowledgement_before_octets_of_the_peer() -> None:
    """Both passes know it when a copy with an older timestamp comes."""
    _examine(3692)


@pytest.mark.parametrize(
    ("case", "octets", "segments"),
    [
        # Whether acknowledgements are in order decides nothing of the octets that a limit gives up.
        (Case("crafted-aligned", 0, (), LAYOUTS[0]), 1, 1),
        # The timestamp of a copy that comes late is known when the copy is told of.
        (
            Case("crafted-anywhere", 764075126, (("shuffle", 1269082296), ("splice", 1061821320)), LAYOUTS[0]),
            50,
            100,
        ),
    ],
)
def test_a_limit_of_octets_out_of_order(case: Case, octets: int, segments: int) -> None:
    examine([case.made().octets], limits=DEFAULT_LIMITS._replace(held_octets=octets, held_segments=segments))


@pytest.mark.parametrize("number", [502, 4110])
def test_fpdus_after_a_wrong_length_and_before_a_hole_that_stays(number: int) -> None:
    """The FPDU with the wrong length waits for octets beyond the hole, and a Marker had located those after it."""
    _examine(number, seed=4)


def test_the_last_fpdu_without_crc_begins_where_octets_begin_after_a_hole() -> None:
    """Its Marker agrees only at the end."""
    _examine(11161, seed=5)


@pytest.mark.parametrize("number", [2731, 3043, 5963])
def test_a_connection_for_which_one_beside_it_gives_way(number: int) -> None:
    (capture,) = captures_of(4, number)
    examine([capture.octets], limits=TIGHT)


def test_an_fpdu_beyond_a_hole_that_markers_lead_past_later() -> None:
    """Without CRC, Markers that name a start beyond a wrong length do not pass over what had proved right before it."""
    (capture,) = captures_of(21, 43853)
    found = examine([capture.octets])
    assert (found.connections, found.fpdus) == (1, 18)


def test_fpdus_that_overlap_and_have_a_good_crc_each() -> None:
    """Those that were placed before octets in front of them came were told of; lengths lead to others later."""
    _examine(27511, seed=21)


def _examine(number: int, seed: int = 1) -> None:
    for one in captures_of(seed, number):
        examine([one.octets])
