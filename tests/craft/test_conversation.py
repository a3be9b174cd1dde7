"""What is said, and what may not be: rules, messages cut in DDP segments, startup frames, TCP's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.craft.conversation import RULES, Conversation
from scapy_mpa.craft.messages import RAW, Message, Queues, segments
from scapy_mpa.craft.packets import ACK, FIN, RST, SYN
from scapy_mpa.craft.setup import ConversationError
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.craft.turns import Say
from scapy_mpa.craft.ulpdus import (
    ATOMIC_RESPONSE,
    RDMA_WRITE,
    READ_REQUEST,
    SEND,
    SEND_INVALIDATE,
    rdma_write,
    send,
    untagged,
)
from scapy_mpa.errors import MPAError
from scapy_mpa.framing import (
    EnhancedData,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
    decode_fpdu,
    decode_startup_frame,
    decode_terminate,
    mulpdu,
)
from scapy_mpa.framing.role import ROLES


def made(conversation: Conversation) -> tuple[list[TcpPacket], dict[str, SentHalf]]:
    sending = conversation.sending()
    return list(sending.packets()), {half.role: half for half in sending.halves}


def stream(packets: list[TcpPacket], role: str) -> bytes:
    """The octets that one side sent, put together from its packets."""
    return b"".join(packet.payload for packet in packets if packet.half.role == role)


def ulpdus(conversation: Conversation, role: str) -> list[bytes]:
    """The ULPDUs of one side, decoded from its packets; every CRC is looked at."""
    packets, halves = made(conversation)
    half = halves[role]
    assert half.origin is not None
    octets, at, found = stream(packets, role)[half.origin :], 0, []
    while at < len(octets):
        fpdu = decode_fpdu(octets[at:], at if half.markers else None)
        assert fpdu is not None and fpdu.crc_good
        found.append(fpdu.ulpdu)
        at += fpdu.wire_length
    return found


# --- rules ---

BROKEN: dict[str, Callable[..., Conversation]] = {
    "responder-first": lambda **more: Conversation(**more).send("responder"),
    "after-rejection": lambda **more: Conversation(reject=True, **more).send("initiator"),
    "after-terminate": lambda **more: Conversation(**more).send("initiator").terminate("initiator").send("initiator"),
    "no-rtr": lambda **more: Conversation(
        profile="rfc6581", enhanced=({"a": 1, "c": 1}, {"a": 1, "c": 1}), rtr="read", **more
    ).send("initiator"),
    "startup-frame": lambda **more: Conversation(private_data=(bytes(513), b""), **more),
}


def test_every_rule_has_a_breach() -> None:
    assert BROKEN.keys() == RULES.keys()


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_broken_only_on_purpose(rule: str) -> None:
    with pytest.raises(ConversationError) as raised:
        BROKEN[rule]()
    assert RULES[rule] in str(raised.value)
    assert f"allow={rule!r}" in str(raised.value)
    packets, _ = made(BROKEN[rule](allow=rule))
    assert len(packets) > 5


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "side": (lambda: Conversation().send("client"), "'client' is not a side"),  # type: ignore[arg-type]
    "unknown": (lambda: Conversation(mss=3), "a conversation has no mss"),
    "pair": (lambda: Conversation(m=1), "m is 1, but must be a pair"),
    "profile": (lambda: Conversation(profile="rfc9999"), "profile is 'rfc9999'"),
    "rule": (lambda: Conversation(allow=("everything",)), "there is no rule everything"),
    "versions": (lambda: Conversation(initiator="fd00::1"), "do not have the same IP version"),
    "address": (lambda: Conversation(initiator="here"), "initiator is 'here', but must be an IPv4 or IPv6 address"),
    "mac": (lambda: Conversation(macs=("02:00", "02:00:00:00:00:02")), "macs is '02:00', but must be a MAC address"),
    "mtu": (lambda: Conversation(mtu=100), "mtu is 100, but must be a whole number from 128"),
    "kind": (lambda: Conversation(segmentation="clever"), "no segmentation 'clever'"),
    "size": (lambda: Conversation(segmentation={"kind": "random", "longest": 0}), "random: longest is 0"),
    "enhanced": (lambda: Conversation(enhanced=({"e": 1}, None)), "enhanced is"),
    "late streaming": (lambda: Conversation().send("initiator").stream("responder", b""), "before MPA starts"),
    "twice": (lambda: Conversation().start().start(), "one Request and one Reply"),
    "after close": (lambda: Conversation().close().send("initiator"), "has been closed"),
    "immediate": (lambda: Conversation().immediate("initiator", b"seven"), "8 octets"),
    "ulpdu": (lambda: Conversation().ulpdu("initiator", 64769), "at most 64768"),
    "atomic": (lambda: Conversation().atomic("initiator", "swap"), "no Atomic Operation 'swap'"),
    "number": (lambda: Conversation().terminate("initiator", 16), "16 is not a number that fits in 4 bits"),
    "buffer": (lambda: Conversation().read("initiator", 1, sink=3), "an STag and an offset"),  # type: ignore[arg-type]
    "text": (lambda: Conversation().write("initiator", 1, stag="x"), "'x' is not a number"),  # type: ignore[arg-type]
    "vlan": (lambda: Conversation(vlan=4096), "vlan is 4096"),
    "rev": (lambda: Conversation(rev=(0, 256)), "rev is 256"),
    "negative": (lambda: Conversation().send("initiator", -1), "-1 octets"),
    "no octets": (lambda: Conversation().send("initiator", 1.5), "1.5 is not bytes"),  # type: ignore[arg-type]
    "nothing": (lambda: Conversation().send("initiator", None), "None is not bytes"),  # type: ignore[arg-type]
    "flag": (lambda: Conversation(m=("0", "1")), "m is '0', but must be 0 or 1"),
    "isn": (lambda: Conversation(isn=(1 << 32, 0)), "isn is 4294967296"),
    "one end": (
        lambda: Conversation(responder="10.0.0.1", ports=(7, 7)),
        "is given for both ends, but they must differ",
    ),
    "scope": (lambda: Conversation(initiator="fe80::1%0", responder="fe80::2"), "initiator is"),
    "sizes": (lambda: Conversation(segmentation={"kind": "random", "shortest": 9, "longest": 3}), "above longest"),
    "large": (lambda: Conversation(segmentation={"kind": "window", "longest": 1 << 30}), "longest is 1073741824"),
    "kind of kind": (lambda: Conversation(segmentation={"kind": ["random"]}), "no segmentation"),
    "gap": (lambda: Conversation(gap=float("nan")), "gap is nan"),
    "pause": (lambda: Conversation().pause(float("inf")), "pause is inf"),
    "path MTU": (lambda: Conversation().path_mtu("a"), "path MTU is 'a'"),  # type: ignore[arg-type]
    "depth": (lambda: Conversation(profile="rfc6581", enhanced={"ird": 0x4000}), "ird is 16384"),
    "no frames": (lambda: Conversation(profile="culley-02", reject=True), "culley-02 has no startup frames"),
    "allowed": (lambda: Conversation(allow=(1,)), "names of rules"),
}


A, B = {"a": 1, "c": 1, "ird": 4, "ord": 4}, {"ird": 4, "ord": 4}
#: Startup frames that break RFC 5044 §7.1.1 or RFC 6581 §6 and §9.
INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "Private Data": ({"private_data": (b"", bytes(513))}, "responder: PD_Length 517 is above 512"),
    "depth": ({"enhanced": (B, {"ird": 4, "ord": 9})}, "ORD 9 in the Reply is above IRD 4"),
    "plain Reply": ({"enhanced": (B, False)}, "answered by a plain Reply"),
    "plain Request": ({"enhanced": (False, B)}, "answered by an enhanced Reply"),
    "model": ({"enhanced": (A, B)}, "Control Flag A is 1 in the Request and 0 in the Reply"),
    "flags": ({"enhanced": ({"b": 1}, None)}, "without A"),
    "no RTR": ({"enhanced": {"a": 1}}, "without an RTR type"),
    "reserved": ({"profile": "rfc5044", "enhanced": B}, "S) is set in a Request of Rev 1"),
}


@pytest.mark.parametrize("name", INVALID)
def test_startup_frames_are_valid_unless_told(name: str) -> None:
    parameters, message = INVALID[name]
    parameters = {"profile": "rfc6581", **parameters}
    with pytest.raises(ConversationError) as raised:
        Conversation(**parameters)
    assert message in str(raised.value)
    assert len(made(Conversation(**parameters, allow="startup-frame"))[0]) > 5


def test_an_atomic_operation_is_on_all_64_bits_unless_told() -> None:
    for operation, mask in ("fetch-add", 0), ("cmp-swap", (1 << 64) - 1):
        request = Conversation().atomic("initiator", operation).steps[1]
        assert isinstance(request, Say) and isinstance(request.message.payload, bytes)
        assert int.from_bytes(request.message.payload[28:36], "big") == mask


def test_a_reply_fits_the_request() -> None:
    for enhanced in {**A, "ird": 3, "ord": 7}, ({**A, "ird": 3, "ord": 7}, None):
        setup = Conversation(profile="rfc6581", enhanced=enhanced).setup
        assert setup.startup("responder").enhanced == EnhancedData(a=1, c=1, ird=7, ord=3)
    setup = Conversation(profile="rfc6581", rev=(1, 1)).setup
    assert (setup.startup("initiator").s, setup.startup("responder").enhanced) == (0, None)


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_said(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(MPAError, match=message):
        call()


# --- messages ---


@given(st.integers(0, 10000), st.integers(128, 3000), st.sampled_from([0, 2, 3, 4]), st.integers(0, 1))
def test_a_message_is_cut_in_full_segments_that_count_on(length: int, limit: int, opcode: int, version: int) -> None:
    payload = bytes(index % 251 for index in range(length))
    cut = list(segments(Message(opcode, payload, 7, 2**64 - 100), Queues(), lambda: limit, version))
    headers = [decode_ddp(one) for one in cut]
    at = 0
    for one, header in zip(cut, headers, strict=True):
        assert header is not None and header.opcode == opcode
        assert header.dv == header.rv == version
        if isinstance(header, TaggedHeader):
            assert (header.stag, header.to) == (7, (2**64 - 100 + at) % 2**64)
        else:
            assert (header.rsvdulp, header.qn, header.msn, header.mo) == (7, 0, 1, at)
        assert one[len(one) - header.payload_length :] == payload[at : at + header.payload_length]
        at += header.payload_length
        assert header.last == (at == length and one is cut[-1])
        assert len(one) == limit or header.last
    assert at == length


def test_a_segment_without_room_is_refused() -> None:
    with pytest.raises(MPAError, match="no room"):
        list(segments(Message(RDMA_WRITE, b"a"), Queues(), lambda: 14))


@pytest.mark.parametrize(
    ("ulpdu", "crc", "msn"),
    [
        (send(7, b"x"), None, 8),
        (send(7, b"x", message_offset=300, last=False), None, 8),
        (send(0xFFFFFFFF, b"x"), None, 0),
        # Of another queue, of none, in the wrong one, damaged.
        (untagged(READ_REQUEST, 1, 7, bytes(28)), None, 1),
        (rdma_write(1, 7, b"x"), None, 1),
        (untagged(SEND, 1, 7, b"x"), None, 1),
        (b"", None, 1),
        (send(7, b"x"), 0xDEADBEEF, 1),
    ],
)
def test_a_queue_goes_on_from_a_ulpdu_as_it_is(ulpdu: bytes, crc: int | None, msn: int) -> None:
    queues = Queues()
    assert [*segments(Message(RAW, ulpdu, crc=crc), queues, lambda: 100)] == [ulpdu]
    assert [*segments(Message(SEND, b""), queues, lambda: 100)] == [send(msn, b"")]


def test_every_queue_counts_its_messages() -> None:
    c = Conversation().send("initiator").send("initiator").read("initiator", 10).atomic("initiator").send("initiator")
    c.immediate("initiator").terminate("initiator", 2, 0, 1)
    seen = [
        (header.qn, header.msn)
        for header in map(decode_ddp, ulpdus(c, "initiator"))
        if isinstance(header, UntaggedHeader)
    ]
    assert seen == [(0, 1), (0, 2), (1, 1), (1, 2), (0, 3), (0, 4), (2, 1)]
    answers = [decode_ddp(ulpdu) for ulpdu in ulpdus(c, "responder")]
    assert [header.opcode for header in answers if header is not None] == [2, ATOMIC_RESPONSE]


def test_messages_say_what_they_were_told() -> None:
    c = Conversation().send("initiator", b"x", solicited=True, invalidate=0x1234)
    c.read("initiator", b"answer", sink=(1, 2), source=(3, 4)).terminate("responder", 1, 2, 3)
    send, request = ulpdus(c, "initiator")
    assert send == bytes.fromhex("4146 00001234 00000000 00000001 00000000") + b"x"
    assert request[18:] == bytes.fromhex("00000001 0000000000000002 00000006 00000003 0000000000000004")
    response, terminate = ulpdus(c, "responder")
    assert response == bytes.fromhex("c142 00000001 0000000000000002") + b"answer"
    read = decode_terminate(terminate)
    assert read is not None and (read.layer, read.etype, read.code) == (1, 2, 3)
    assert SEND_INVALIDATE == 4 and READ_REQUEST == 1


def test_made_up_octets_are_those_of_the_seed_and_never_twice_the_same() -> None:
    one, two = ulpdus(Conversation(seed=5).send("initiator", 100).send("initiator", 100), "initiator")
    assert len(one) == len(two) == 118 and one[18:] != two[18:]
    assert ulpdus(Conversation(seed=6).send("initiator", 100), "initiator")[0][18:] != one[18:]


# --- startup ---


@pytest.mark.parametrize("profile", ["rddp-01", "rfc5044", "rfc6581"])
@pytest.mark.parametrize("m", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_startup_frames_and_what_follows_of_them(profile: str, m: tuple[int, int]) -> None:
    c = Conversation(profile=profile, m=m, c=(0, 1), private_data=(b"one", b"two"))
    packets, halves = made(c.send("initiator", 2000).send("responder", 2000))
    for role, side in zip(ROLES, (0, 1), strict=True):
        half = halves[role]
        assert half.startup == (0, half.origin)
        frame = decode_startup_frame(stream(packets, role))
        assert frame is not None and frame.wire_length == half.origin
        assert (frame.kind, frame.m, frame.c, frame.r) == (("request", "reply")[side], m[side], side, 0)
        assert frame.rev == ["rddp-01", "rfc5044", "rfc6581"].index(profile)
        assert frame.enhanced == (EnhancedData(ird=8, ord=8) if profile == "rfc6581" else None)
        assert frame.private_data.endswith((b"one", b"two")[side])
        assert half.markers == bool(m[1 - side])
        assert half.crc
        first = decode_ddp(ulpdus(c, role)[0])
        assert first is not None and first.dv == (0 if profile == "rddp-01" else 1)


def test_culley_02_has_no_startup_frames() -> None:
    packets, halves = made(Conversation(profile="culley-02").stream("initiator", b"go").send("responder", 600))
    assert stream(packets, "initiator") == b"go"
    assert halves["responder"].origin == 0 and halves["responder"].markers and halves["responder"].crc
    assert stream(packets, "responder")[:8] == bytes.fromhex("00000000 026a 4003")


def test_streaming_data_comes_before_the_startup_frames() -> None:
    packets, halves = made(Conversation().stream("initiator", b"hello").stream("responder", b"yes").send("initiator"))
    assert stream(packets, "initiator").startswith(b"helloMPA ID Req Frame")
    assert stream(packets, "responder") == b"yes" + stream(packets, "responder")[3:]
    assert halves["initiator"].startup == (5, 25)


def test_a_rejected_connection_may_go_on_without_mpa() -> None:
    packets, halves = made(Conversation(reject=True).start().stream("initiator", b"then").stream("responder", b"so"))
    frame = decode_startup_frame(stream(packets, "responder"))
    assert frame is not None and frame.r == 1
    assert stream(packets, "initiator").endswith(b"then")
    assert halves["initiator"].origin is None and not halves["initiator"].laid


RTRS = {
    ("bcd", "bcd"): (RDMA_WRITE, None),
    ("b", "bd"): (3, None),
    ("bd", "d"): (READ_REQUEST, 0),
    ("c", "d"): (7, None),
}


@pytest.mark.parametrize(("offered", "expected"), RTRS.items())
def test_the_ready_to_receive_message_comes_first(offered: tuple[str, str], expected: tuple[int, Any]) -> None:
    sides = tuple({"a": 1, **dict.fromkeys(flags, 1)} for flags in offered)
    c = Conversation(profile="rfc6581", enhanced=sides)
    if expected[0] != 7:
        c.send("responder", b"x")
    c.start() if not c.steps else None
    first, *rest = ulpdus(c, "initiator")
    header = decode_ddp(first)
    assert header is not None and header.opcode == expected[0] and rest == []
    assert len(first) == {0: 14, 1: 46, 3: 18, 7: 22}[expected[0]]
    if expected[0] == 7:
        read = decode_terminate(first)
        assert read is not None and (read.layer, read.etype, read.code) == (2, 0, 7)


# --- TCP ---


@pytest.mark.parametrize("opens", ROLES)
@pytest.mark.parametrize(("close", "flags"), [("fin", FIN | ACK), ("rst", RST | ACK), ("none", ACK)])
def test_the_connection_is_opened_and_closed_as_told(opens: str, close: str, flags: int) -> None:
    packets, _ = made(Conversation(opens=opens, close=close, closes="responder").send("initiator", 10))
    assert packets[0].half.role == opens and packets[0].flags == SYN
    assert packets[1].flags == SYN | ACK
    last = packets[-2 if close == "fin" else -1]
    assert last.flags == flags
    assert {"fin": packets[-3], "rst": last, "none": last}[close].half.role == "responder"


def test_sequence_and_acknowledgement_numbers_are_those_of_a_receiver_that_misses_nothing() -> None:
    c = (
        Conversation(segmentation="random", isn=(2**32 - 100, 7), seed=3)
        .send("initiator", 5000)
        .read("initiator", 4000)
    )
    packets, halves = made(c)
    sent = dict.fromkeys(ROLES, -1)
    for packet in packets:
        role = packet.half.role
        peer = halves[role].peer.role
        assert packet.start == sent[role]
        assert packet.ack is None or packet.ack <= sent[peer]
        sent[role] = packet.end + bool(packet.flags & (SYN | FIN))
    assert packets[-1].ack == sent["responder"]
    assert halves["initiator"].seq(99) == 0
    times = [packet.time for packet in packets]
    assert times == sorted(times) and len(set(times)) == len(times)
    assert all(time % 1000 == 0 for time in times)


def test_what_was_posted_before_the_path_mtu_fell_loses_its_alignment() -> None:
    c = Conversation(timestamps=False).write("initiator", 4000).path_mtu(576).write("initiator", 4000)
    packets, halves = made(c.write("initiator", 4000).pause().write("initiator", 4000))
    half = halves["initiator"]
    sizes = [fpdu.ulpdu_length for fpdu in half.laid]
    # Messages that follow without a pause were posted too; after one, FPDUs fit again.
    assert max(sizes[:3]) == mulpdu(1460, False)
    assert max(sizes[6:9]) == mulpdu(1460, False)
    assert max(sizes[-8:]) == mulpdu(536, False)
    assert half.origin is not None
    starts = {half.origin + fpdu.offset for fpdu in half.laid}
    data = [packet for packet in packets if packet.in_operation and packet.payload and packet.half is half]
    first_small = next(index for index, packet in enumerate(data) if len(packet.payload) == 536)
    assert max(len(packet.payload) for packet in data[first_small:]) == 536
    assert all(packet.start in starts for packet in data[:first_small])
    assert not all(packet.start in starts for packet in data[first_small : first_small + 8])
    assert all(packet.start in starts for packet in data[-8:])


def test_the_octets_of_fpdus_may_be_altered_before_they_are_cut() -> None:
    seen: list[tuple[LaidFPDU, bytes]] = []

    def alter(place: LaidFPDU, ulpdu: bytes, octets: bytes) -> bytes:
        seen.append((place, ulpdu))
        return octets[:-4] if len(seen) == 1 else octets

    packets, halves = made(Conversation(alter=(alter, None)).send("initiator", b"one").send("initiator", b"two"))
    half = halves["initiator"]
    assert [place.offset for place, _ in seen] == [0, 24]
    assert [fpdu.offset for fpdu in half.laid] == [0, 24]
    assert half.origin is not None and len(stream(packets, "initiator")) == half.origin + 24 + 28


def test_other_octets_may_be_sent_in_place_of_a_startup_frame() -> None:
    """What is agreed on stays as the parameters have it."""
    conversation = Conversation(frames=(b"not MPA", b""), allow="responder-first").send("initiator", b"x")
    sending = conversation.sending()
    sent = [packet.payload for packet in sending.packets() if packet.payload]
    assert sent[0] == b"not MPA" and len(sent) == 2
    assert [half.startup for half in sending.halves] == [(0, 7), (0, 0)]
    with pytest.raises(ConversationError, match="has no startup frames, and so no frames"):
        Conversation(profile="culley-02", frames=(b"", None))
    with pytest.raises(ConversationError, match="frames is 'text', but must be octets"):
        Conversation(frames=("text", None))


def test_a_conversation_can_be_sent_again_and_goes_on() -> None:
    c = Conversation().send("initiator", 5)
    assert made(c)[0][-1].flags == ACK
    before = len(made(c)[0])
    c.send("responder", 5)
    assert len(made(c)[0]) > before


def test_octets_in_place_of_a_side_are_not_repeated_at_length() -> None:
    with pytest.raises(ConversationError, match="is not a side: initiator or responder") as raised:
        Conversation().send(bytes(3000), b"")  # type: ignore[arg-type]
    assert len(str(raised.value)) < 100
