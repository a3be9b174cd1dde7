"""Receivers of DDP and RDMAP that take what they must refuse: each is found, by a Responder's cases and an Initiator's.

Their checks are switched off one by one, in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias
from unittest.mock import ANY

import pytest

from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.messages import Message
from scapy_mpa.framing.role import Role
from scapy_mpa.live import rdmap
from scapy_mpa.live.buffers import RegisteredBuffer, UntaggedQueue
from scapy_mpa.live.echo import EchoClient, EchoServer
from scapy_mpa.live.rping import RpingClient, RpingServer
from scapy_mpa.probe.aim import Live
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.choice import all_cases, chosen
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.judge import BAD
from scapy_mpa.probe.run import RunSettings, peers
from scapy_mpa.rules.table import GROUPS
from tests.probe.peers import BUFFER, Upper, our_initiator, our_responder, run_of

#: Nothing that is waited for comes later than this: what is found is that nothing comes.
SETTINGS = RunSettings(Terms(0.3, live=Live(*BUFFER)))
#: On each connection the memory is there anew, as rping's is.
PASSING = RunSettings(Terms(0.3, live=Live(*BUFFER, is_kept=False)))

_BESIDE = ("past", "over-the-end-of", "far-past", "before", "over-the-start-of")
WRITES = [f"write-{where}-the-buffer" for where in _BESIDE]
READS = [f"read-{where}-the-buffer" for where in _BESIDE]


def anywhere(buffer: RegisteredBuffer, to: int, length: int) -> int:
    """A place in the buffer, wherever it should be."""
    return max(0, min(to - buffer.to, len(buffer.octets) - length))


def any_buffer(endpoint: rdmap.RDMAPEndpoint, *_: object) -> RegisteredBuffer:
    """A buffer, whatever the STag."""
    return next(iter(endpoint.buffers.values()))


def any_atomic(endpoint: rdmap.RDMAPEndpoint, body: bytes) -> rdmap.RequestTaken:
    """An answer, whatever is asked for."""
    asked = ulpdus.read_atomic_request(body)
    assert asked is not None
    answer = ulpdus.atomic_response_body(asked.request_id, 0)
    endpoint._answers.append(Message(ulpdus.ATOMIC_RESPONSE, answer))
    return rdmap.RequestTaken("Atomic Request", asked.stag, asked.to, 8)


#: What is switched off: what of, its name, what is in its place.
Switch: TypeAlias = "tuple[Any, str, Any]"
NO_BOUNDS: Switch = (RegisteredBuffer, "place_of", anywhere)
OFF: dict[str, tuple[list[Switch], list[str]]] = {
    "bounds": ([NO_BOUNDS], [*WRITES, *READS, "to-wraps", "read-source-wraps"]),
    "STags": (
        [NO_BOUNDS, (rdmap.RDMAPEndpoint, "_buffer", any_buffer)], ["write-to-unknown-stag", "read-from-unknown-stag"],
    ),
    "invalidation": (
        [(rdmap.RDMAPEndpoint, "_invalidate", lambda *_: None)], ["write-to-invalidated", "read-from-invalidated"],
    ),
    "atomics": (
        [(rdmap.RDMAPEndpoint, "_answer_atomic", any_atomic)],
        ["atomic-misaligned", "atomic-opcode-1", "atomic-opcode-3", "atomic-opcode-15"],
    ),
    "immediate data": ([(rdmap, "_IMMEDIATE_OCTETS", ANY)], ["immediate-data-of-7", "immediate-data-of-9"]),
    "queues": (
        [(UntaggedQueue, "place", lambda *_: [])],
        ["mo-passes-2-32", "mo-passes-2-32-in-a-message", "mo-in-host-order", "msn-twice", "msn-0"],
    ),
}  # fmt: skip
#: These deliver nothing any more, so that no Read that follows is answered: a close is only a SHOULD.
SILENT = {"queues"}

UPPER: dict[tuple[str, Role], Upper] = {
    ("rping", "responder"): RpingServer,
    ("rping", "initiator"): RpingClient,
    ("echo", "responder"): EchoServer,
    ("echo", "initiator"): lambda rdmap: EchoClient(rdmap, None, 64),
}
TARGETS: dict[Role, tuple[str, Callable[..., Any]]] = {
    "responder": ("", our_responder),
    "initiator": ("-of-the-responder", our_initiator),
}


@pytest.mark.parametrize("role", TARGETS)
@pytest.mark.parametrize("name", OFF)
def test_a_check_that_is_switched_off_is_found(name: str, role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    switches, broken = OFF[name]
    suffix, target_of = TARGETS[role]
    cases = [all_cases()[f"{case}{suffix}"] for case in broken]
    with target_of() as target:
        assert {one.judgement.verdict for one in run_of(target, cases, PASSING)} <= {"pass", "allowed"}
    for of, attribute, instead in switches:
        monkeypatch.setattr(of, attribute, instead)
    with target_of() as target:
        found = run_of(target, cases, replace(PASSING, strict=name in SILENT))
    for one in found:
        assert one.judgement.verdict == ("no answer" if name in SILENT else "fail"), (one.case.name, one.judgement)


def about_memory(role: Role) -> list[ProbeCase]:
    """The cases for a peer in this role that break, or test for, rules of DDP, RDMAP and memory."""
    rules = {rule.id for name in ("DDP and RDMAP", "RDMAP messages", "Memory") for rule in GROUPS.get(name, ())}
    found = [case for case in peers(chosen(areas=["ddp"]), role) if rules & set(case.case.rules)]
    return [*found, *peers(chosen(["valid-m0-c0", "valid-*memory*", "valid-*read*"]), role)]


@pytest.mark.parametrize("role", TARGETS)
@pytest.mark.parametrize(
    "settings", [{"m": 1}, {"m": 1, "c": 0}, {"m": 0, "c": 0}], ids=["markers", "markers-no-crc", "no-crc"]
)
def test_a_conforming_receiver_is_not_accused(role: Role, settings: dict[str, int]) -> None:
    _, target_of = TARGETS[role]
    with target_of(**settings) as target:
        found = run_of(target, about_memory(role), PASSING)
    assert not [(one.case.name, one.judgement) for one in found if one.judgement.verdict in BAD]
    assert sum(one.judgement.verdict == "pass" for one in found) > 30


@pytest.mark.parametrize("role", TARGETS)
@pytest.mark.parametrize("name", ["rping", "echo"])
def test_an_upper_layer_is_not_accused(role: Role, name: str) -> None:
    """rping names its memory on each connection, echo names none."""
    _, target_of = TARGETS[role]
    terms = Terms(0.5, rping=name == "rping")
    with target_of(upper=UPPER[name, role]) as target:
        found = run_of(target, about_memory(role), RunSettings(terms))
    assert not [(one.case.name, one.judgement) for one in found if one.judgement.verdict in BAD]
    reached = {one.case.name.removesuffix("-of-the-responder") for one in found if one.judgement.verdict == "pass"}
    named = {"write-far-past-the-buffer", "read-before-the-buffer"}
    # rping's client compares what came back at the second Send, which invalidates, and may close before it reads on.
    named |= {"write-to-invalidated", "read-from-invalidated"} if role == "responder" else set()
    assert reached & named == (named if name == "rping" else set())


def test_memory_that_is_needed_again_is_not_invalidated() -> None:
    with our_responder() as target:
        (one,) = run_of(target, [all_cases()["write-to-invalidated"]], SETTINGS)
    assert one.judgement.verdict == "unsupported"
    assert "invalidated" in one.judgement.reason


@pytest.mark.parametrize(
    ("role", "names", "size"),
    [
        ("responder", ("valid-read-of-4000-with-markers", "valid-read-of-4000"), 4014),
        ("responder", ("valid-read-of-1", "valid-read-of-3"), 15),
        ("initiator", ("valid-responder-reads-4000-with-markers",), 4014),
    ],
)
def test_the_buffers_of_rping_make_its_fpdus_long(role: Role, names: tuple[str, ...], size: int) -> None:
    """So several Markers lie in one FPDU of the peer, and PAD, where no memory is named on the command line."""
    upper: Upper = RpingServer if role == "responder" else lambda rdmap: RpingClient(rdmap, 1, 4000)
    with TARGETS[role][1](upper=upper) as target:
        found = run_of(target, [all_cases()[name] for name in names], RunSettings(Terms(0.5, rping=True)))
    assert {one.judgement.verdict for one in found} == {"pass"}
    assert all(size in [fpdu.ulpdu_length for fpdu in one.seen.fpdus] for one in found[:1])
