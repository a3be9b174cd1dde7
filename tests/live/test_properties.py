"""What holds for two endpoints whatever is sent, cut and damaged between them, and for any octets at all."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scapy_mpa import EndpointSettings, LocalProtocolError, MPAEndpoint, RemoteProtocolError
from scapy_mpa.craft import ulpdus
from scapy_mpa.framing import EnhancedData, encode_fpdu, startup_frame
from scapy_mpa.framing.agreement import RNIC_KINDS, RnicKind
from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.live.events import Established, Event, Rejected, StreamDataReceived, ULPDUReceived
from tests.live.pair import Pair

roles = st.sampled_from(ROLES)
bits = st.integers(0, 1)
masks = st.integers(1, 255)
pieces = st.lists(st.integers(1, 40) | st.integers(1, 4000), max_size=8)
depths = st.integers(0, 3) | st.just(0x3FFF)
datas = st.builds(EnhancedData, bits, bits, bits, bits, depths, depths)


@st.composite
def settings(draw: st.DrawFn) -> EndpointSettings:
    """An endpoint of any kind that negotiates."""
    kind: RnicKind = draw(st.sampled_from(RNIC_KINDS))
    enhanced = draw(st.none() | datas) if kind != "rdmac" else None
    rev = draw(st.none() | st.integers(2, 3)) if enhanced else draw(st.none() | st.integers(1, 3))
    if kind == "ietf" and not enhanced and draw(st.booleans()):
        rev = 0
    return EndpointSettings(
        m=draw(bits),
        c=draw(bits),
        rev=rev,
        kind=kind,
        enhanced=enhanced,
        private_data=draw(st.binary(max_size=20)),
        automatic=draw(st.booleans()),
        rdmap=draw(st.booleans()),
        requires_ord=draw(st.booleans()),
        emss=draw(st.sampled_from([536, 1460, 65483])),
    )


class Endpoints(RuleBasedStateMachine):
    """Two endpoints, and two pipes of which pieces of any length are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.pipes: dict[Role, bytearray] = {role: bytearray() for role in ROLES}
        self.said: dict[Role, list[bytes]] = {role: [] for role in ROLES}
        self.streamed: dict[Role, bytes] = dict.fromkeys(ROLES, b"")
        self.heard: dict[Role, list[Event]] = {role: [] for role in ROLES}
        self.errors: dict[Role, RemoteProtocolError] = {}
        self.damaged: set[Role] = set()
        self.ended: set[Role] = set()

    @initialize(initiator=settings(), responder=settings(), delayed=st.booleans(), ready=st.integers(0, 3))
    def begin(self, initiator: EndpointSettings, responder: EndpointSettings, delayed: bool, ready: int) -> None:
        self.endpoints: dict[Role, MPAEndpoint] = {
            "initiator": MPAEndpoint("initiator", initiator),
            "responder": MPAEndpoint("responder", responder),
        }
        if delayed:
            self.endpoints["initiator"].send_streaming(b"hello")
            self.streamed["responder"] = b"hello"
            self.collect("initiator")
            self.deliver("initiator", 5)
        self.endpoints["responder"].start(0)
        self.endpoints["initiator"].start(0)
        for role in ROLES * 2 if ready else ():
            self.collect(role)
            self.deliver(role, 1 << 30)
            if role == "initiator" and self.endpoints["responder"].state == "deciding":
                self.answer(False)

    @rule(role=roles, sizes=st.lists(st.integers(0, 40) | st.integers(0, 1500), min_size=1, max_size=6), pieces=pieces)
    def say(self, role: Role, sizes: list[int], pieces: list[int]) -> None:
        """Sends, or, where that is forbidden, an exception and nothing else; some of it is handed over at once."""
        for size in sizes:
            self.say_one(role, ulpdus.send(len(self.said[role]) + 1, bytes([size % 251]) * size))
        self.collect(role)
        while pieces and self.pipes[role]:
            self.deliver(role, pieces.pop())

    def say_one(self, role: Role, ulpdu: bytes) -> None:
        endpoint = self.endpoints[role]
        if endpoint.may_send and len(ulpdu) <= endpoint.mulpdu:
            endpoint.send(ulpdu)
            self.said[role].append(ulpdu)
        else:
            with pytest.raises(LocalProtocolError):
                endpoint.send(ulpdu)

    @rule(role=roles)
    def collect(self, role: Role) -> None:
        for octets in self.endpoints[role].data_to_send():
            assert octets
            if role not in self.ended:
                self.pipes[role] += octets

    @rule(role=roles, size=st.integers(1, 40) | st.integers(1, 4000))
    def deliver(self, role: Role, size: int) -> None:
        """The next octets of a pipe reach the other endpoint."""
        pipe, peer = self.pipes[role], peer_of(role)
        if role in self.ended:
            return
        piece = bytes(pipe[:size])
        del pipe[:size]
        self.hand(peer, lambda: self.endpoints[peer].receive(piece, 1))

    def hand(self, peer: Role, call: Callable[[], list[Event]]) -> None:
        try:
            self.heard[peer] += call()
        except RemoteProtocolError as error:
            assert peer not in self.errors, "an error is raised once"
            self.heard[peer] += error.events
            self.errors[peer] = error

    @precondition(lambda self: self.endpoints["responder"].state == "deciding")
    @rule(rejects=st.booleans())
    def answer(self, rejects: bool) -> None:
        responder = self.endpoints["responder"]
        self.heard["responder"] += responder.reject(b"no") if rejects else responder.accept(b"yes")

    @rule(role=roles, emss=st.sampled_from([128, 536, 1460, 9000]))
    def resize(self, role: Role, emss: int) -> None:
        self.endpoints[role].emss = emss

    @precondition(lambda self: all(one.is_established for one in self.endpoints.values()))
    @rule(
        role=roles, sizes=st.lists(st.integers(1, 90), min_size=1, max_size=4), at=st.integers(0, 1 << 16), mask=masks
    )
    def damage(self, role: Role, sizes: list[int], at: int, mask: int) -> None:
        """Bits of an octet that is under way are others; a CRC notices."""
        agreement = self.endpoints[role].agreement
        if agreement is None or not agreement.crc or role in self.damaged:
            return
        self.say(role, sizes, [])
        pipe = self.pipes[role]
        if pipe:
            pipe[at % len(pipe)] ^= mask
            self.damaged.add(role)
            self.deliver(role, 1 << 30)

    @precondition(lambda self: self.endpoints["initiator"].is_established and len(self.said["initiator"]) > 4)
    @rule(role=roles)
    def finish(self, role: Role) -> None:
        """A side has said all that it wants to, and its peer has it all."""
        peer = peer_of(role)
        if role in self.ended or self.pipes[role] or self.endpoints[peer].state != "operating":
            return
        self.ended.add(role)
        self.hand(peer, lambda: self.endpoints[peer].receive_eof(2))

    @invariant()
    def what_arrives_was_said(self) -> None:
        for role in ROLES:
            peer = peer_of(role)
            got = [event.ulpdu for event in self.heard[peer] if isinstance(event, ULPDUReceived) and not event.rtr]
            terminates = [ulpdu for ulpdu in got if ulpdu[1] & 0x0F == ulpdus.TERMINATE]
            assert len(terminates) <= 1
            got = [ulpdu for ulpdu in got if ulpdu not in terminates]
            assert got == self.said[role][: len(got)]

    @invariant()
    def both_agree(self) -> None:
        initiator, responder = (self.endpoints[role] for role in ROLES)
        if initiator.agreement is not None:
            assert initiator.agreement == responder.agreement
        kinds = {role: {type(event) for event in self.heard[role]} for role in ROLES}
        for role in ROLES:
            assert not (Established in kinds[role] and Rejected in kinds[role])
        if Rejected in kinds["initiator"]:
            assert Rejected in kinds["responder"]

    @invariant()
    def an_error_is_the_end(self) -> None:
        for role, error in self.errors.items():
            endpoint = self.endpoints[role]
            assert endpoint.error is error
            assert error.clause
            assert endpoint.state == "failed"
            assert endpoint.receive(b"more", 9) == [] if peer_of(role) not in self.ended else True

    def teardown(self) -> None:
        """All that was said arrives, unless it was damaged or the endpoints could not agree."""
        if not hasattr(self, "endpoints"):
            return
        for _ in range(4):
            for role in ROLES:
                self.collect(role)
                self.deliver(role, 1 << 30)
        self.what_arrives_was_said()
        self.both_agree()
        for role in ROLES:
            peer = peer_of(role)
            if self.endpoints[peer].state == "operating" and role not in self.damaged | self.ended:
                got = [event.ulpdu for event in self.heard[peer] if isinstance(event, ULPDUReceived) and not event.rtr]
                assert got[: len(self.said[role])] == self.said[role]
            if role in self.damaged and peer in self.errors:
                assert self.errors[peer].code in (1, 2, 3, None)
        stream = b"".join(event.octets for event in self.heard["responder"] if isinstance(event, StreamDataReceived))
        assert stream == self.streamed["responder"]


TestEndpoints = Endpoints.TestCase


# --- any octets ---

LAYOUTS = [(m, c) for m in (0, 1) for c in (0, 1)]


def operating(m: int, c: int, role: Role = "responder") -> MPAEndpoint:
    """An endpoint in Full Operation that has said and heard nothing, and receives Markers if ``m``."""
    pair = Pair(EndpointSettings(m=m, c=c), EndpointSettings(m=m, c=c))
    pair.start()
    return pair.endpoints[role]


def fed(endpoint: MPAEndpoint, pieces: list[bytes]) -> tuple[list[Event], str]:
    """Return the result of feeding octets: the events, and the error."""
    events: list[Event] = []
    for piece in pieces:
        try:
            events += endpoint.receive(piece, 0)
        except RemoteProtocolError as error:
            return [*events, *error.events], str(error)
    return events, ""


def cut_at(octets: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(octets) + 1) for cut in cuts), len(octets)]
    return [octets[start:end] for start, end in pairwise(edges)]


@given(
    st.sampled_from(LAYOUTS),
    st.lists(st.binary(max_size=40) | st.integers(0, 1200).map(bytes), max_size=6),
    st.lists(st.tuples(st.integers(0, 1 << 16), masks), max_size=3),
    st.lists(st.integers(0, 1 << 16), max_size=6),
)
def test_cuts_change_nothing(
    layout: tuple[int, int], said: list[bytes], damage: list[tuple[int, int]], cuts: list[int]
) -> None:
    """FPDUs, damaged anywhere, mean the same however they are cut; without a CRC, when an error shows may differ."""
    m, c = layout
    stream = bytearray()
    for ulpdu in said:
        stream += encode_fpdu(ulpdu, len(stream) if m else None, crc=bool(c))
    for at, mask in damage if stream else ():
        stream[at % len(stream)] ^= mask
    octets = bytes(stream)
    whole = fed(operating(m, c), [octets])
    assert fed(operating(m, c), cut_at(octets, cuts)) == whole
    assert fed(operating(m, c), [octets[at : at + 1] for at in range(len(octets))]) == whole
    if not damage:
        assert whole[1] == ""
        assert [event.ulpdu for event in whole[0] if isinstance(event, ULPDUReceived)] == said


@given(
    roles, st.sampled_from(LAYOUTS), st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4), st.booleans()
)
def test_any_octets(role: Role, layout: tuple[int, int], octets: bytes, cuts: list[int], starts: bool) -> None:
    """Nothing else is raised, in Full Operation or in the Startup Phase, and what is held is bounded."""
    endpoint = operating(*layout, role)
    if starts:
        endpoint = MPAEndpoint(role)
        endpoint.start(0)
        key = startup_frame("request" if role == "responder" else "reply").encode()
        octets = key[: len(octets) % 19] + octets
    found = fed(endpoint, cut_at(octets, cuts))
    if not starts:  # in the Startup Phase, octets behind a frame are refused only if they come with it
        assert fed(operating(*layout, role), [octets])[1] == found[1]


#: What a hostile peer sends for ever: a piece, and what becomes of it.
FLOODS: dict[str, Callable[[], bytes]] = {
    "an FPDU of 65535": lambda: encode_fpdu(bytes(65535), allow_oversize=True),
    "FPDUs of nothing": lambda: encode_fpdu(b"") * 512,
    "FPDUs with odd PAD": lambda: encode_fpdu(bytes(21), pad=b"\1") * 128,
    "single octets of ULPDU": lambda: encode_fpdu(b"x") * 512,
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("size", [1, 1000, 1 << 16])
def test_floods(name: str, size: int) -> None:
    """No more is held than one FPDU, whatever comes, in pieces of any size."""
    endpoint, piece = operating(0, 1), FLOODS[name]()
    octets = piece * (1 + (1 << (13 if size == 1 else 15)) // len(piece))
    for at in range(0, len(octets), size):
        try:
            endpoint.receive(octets[at : at + size], 0)
        except RemoteProtocolError as error:
            assert name == "an FPDU of 65535", error  # noqa: PT017
        assert endpoint.held <= LONGEST_FPDU


def test_memory_is_flat() -> None:
    """What was passed on is not kept."""
    endpoint, octets = operating(0, 1), encode_fpdu(bytes(16384)) * 64
    endpoint.receive(octets, 0)
    tracemalloc.start()
    for _ in range(32):
        endpoint.receive(octets[:-7], 0)
        endpoint.receive(octets[-7:], 0)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1 << 17


@pytest.mark.parametrize("pd_length", [512, 513, 65535])
def test_private_data_that_does_not_come(pd_length: int) -> None:
    """A header that counts too much is refused before anything of it is waited for."""
    responder = MPAEndpoint("responder")
    responder.start(0)
    header = startup_frame("request", pd_length=pd_length).encode()
    events, error = fed(responder, [header[at : at + 1] for at in range(len(header))])
    assert events == []
    assert error.startswith("startup-private-data-limit") == (pd_length > 512)
