"""Two crashes behind a valid exchange are found by default, and are two bugs; changes of one kind alone come first."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner

from scapy_mpa.catalogue.table import named
from scapy_mpa.cli import cli
from scapy_mpa.craft.changes.boundary import MESSAGE_FIELDS, STARTUP_FIELDS, extremes, powers
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.framing.ddp import opcode_of
from scapy_mpa.framing.role import Role
from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.fuzz.single import single_changes
from scapy_mpa.live.rping import RpingClient, RpingServer
from scapy_mpa.probe.carrier import Connector
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.fuzzing import WireFuzzer, message_areas, wire_case
from scapy_mpa.probe.target import Responder
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.ulp.tools import rping_header
from tests.probe.foreign import Kind, foreign_responder
from tests.probe.peers import our_initiator, our_responder
from tests.probe.test_fuzzing import Mortal

SEEDS = range(10)
#: A crash, and the fields that lead to it.
CRASHES = {
    "crashes-at-mo-wrap": {f"boundary {name} MO" for name, field in MESSAGE_FIELDS if field == "MO"},
    "crashes-at-half-size": {"boundary read-request Size"},
}

#: What is found of a message that nobody asked for, that stays unanswered, or is a Terminate without a cause.
UNASKED = {
    "read-request": {"request-unanswered"},
    "read-response": {"read-response-unasked"},
    "terminate": {"terminate"},
    "atomic-request": {"request-unanswered"},
    "atomic-response": {"atomic-response"},
}


def fuzzer_of(seed: int) -> Fuzzer:
    """As `fuzz --to` makes it."""
    begin = baselines()._replace(with_catalogue=False)
    return Fuzzer(seed, begin, areas=message_areas(), by_message=True)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("crash", CRASHES)
def test_a_planted_crash_is_found(crash: str, seed: int) -> None:
    """By the cases that `fuzz --to` gives by default, in at most 500."""
    with foreign_responder(Kind(says_why=False, faults=frozenset({crash}))) as port:
        run = WireFuzzer(Responder(Connector("127.0.0.1", port, 1.0)), fuzzer_of(seed), Terms(0.02))
        run.begin()
        found = next((result for result in map(run.give, map(run.case, range(500))) if result.is_gone), None)
    assert found is not None
    print(f"{crash}, seed {seed}: case {found.case.number}")
    assert found.hit.removeprefix("gone: ") in CRASHES[crash]


def test_hits_with_one_cause_are_one() -> None:
    with foreign_responder(Kind(faults=frozenset({"crashes-at-half-size"}))) as port:
        where = f"127.0.0.1:{port}"
        made = ("--change", "boundary", "--mutations", "1", "--timeout", "0.02", "--count", "500")
        result = CliRunner().invoke(cli, ["fuzz", "--to", where, *made], standalone_mode=False)
    assert result.return_value == 3
    last = json.loads(result.stdout.splitlines()[-1])
    assert (last["verdict"], last["hit"]) == ("peer gone", "gone: boundary read-request Size")
    assert "1 hit: gone: boundary read-request Size" in result.stderr


def test_a_hit_is_named_by_the_changes_that_are_left() -> None:
    """Of a case with several changes, after it was minimized."""
    peer = Mortal()
    try:
        run = WireFuzzer(peer, fuzzer_of(1), Terms(0.02))  # type: ignore[arg-type]
        run.begin()
        mutations = (
            ("boundary", "message=send,field=MO,value=1"),
            ("flags", "mask=1"),
            ("frame-followed", "octets=hex:00"),
        )
        recipe = fuzzer_of(1).recipe(0)._replace(mutations=mutations)
        result = run.give(wire_case(recipe, "initiator", markers=False))
        assert result.hit == "gone: boundary send MO + flags + frame-followed"
        assert run.come_back()
        smaller, again = run.smaller(result.case)
        assert again
        assert replace(result, case=smaller).hit == "gone: flags"
    finally:
        peer.close()


def test_the_command_counts_a_hit_by_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Mortal()
    monkeypatch.setattr("scapy_mpa.cli.probe.target_of", lambda *_, **__: (peer, 0))
    where = ("--to", "127.0.0.1:9", "--restart", "true", "--minimize", "--timeout", "0.02", "--recovery", "0")
    made = ("--seed", "1", "--area", "startup", "--area", "ddp", "--area", "negotiation", "--first", "5000")
    try:
        result = CliRunner().invoke(cli, ["fuzz", *where, *made, "--count", "40"], standalone_mode=False)
    finally:
        peer.close()
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    left = [*dict.fromkeys(one["hit"] for one in lines if "minimized" in one)]
    before = {one["hit"] for one in lines if "minimized" not in one and one["hit"]}
    assert 1 <= len(left) < len(before)
    assert result.stderr.splitlines()[-1].endswith(f"{len(left)} hit{'s' * (len(left) > 1)}: {', '.join(left)}")


def test_rounds() -> None:
    """One value of each field a round, the extremes first; each seed has its own order, and each value comes once."""
    names = ["boundary", "startup-boundary", "pad", "frame-twice"]
    made = single_changes(3, names)
    fields = [*MESSAGE_FIELDS.values(), *STARTUP_FIELDS.values()]
    assert made == single_changes(3, names) != single_changes(4, names)
    assert len(set(made)) == len(made) == sum(len(extremes(most) + powers(most)) for most in fields) + 2
    first, second = made[: len(fields) + 2], made[len(fields) + 2 : 2 * len(fields) + 2]
    assert Counter(name for name, _ in first) == {
        "boundary": len(MESSAGE_FIELDS), "startup-boundary": len(STARTUP_FIELDS), "pad": 1, "frame-twice": 1,
    }  # fmt: skip
    for of_round in (first, second):
        where = [text.rpartition(",value=")[0] for _, text in of_round if isinstance(text, str)]
        assert len(set(where)) == len(where) == len(fields)
    early = [text for _, text in made[: 4 * len(fields) + 2] if isinstance(text, str)]
    late = [text for _, text in made[4 * len(fields) + 2 :] if isinstance(text, str)]
    assert Counter(int(text.rpartition("=")[2]) in (0, 1) for text in early) == {
        True: 2 * len(fields),
        False: 2 * len(fields),
    }
    assert not any(int(text.rpartition("=")[2]) in (0, 1) for text in late)


def test_values_reach_as_far_as_the_field() -> None:
    most = MESSAGE_FIELDS["read-request", "Size"]
    values = extremes(most) + powers(most)
    assert {0, 1, most, most - 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1} <= set(values)
    assert max(values) == most == 0xFFFFFFFF
    assert len(values) == len(set(values))
    assert (1 << 63) + 1 in powers(MESSAGE_FIELDS["rdma-write", "TO"])


@pytest.mark.parametrize("by", ["initiator", "responder"])
def test_one_message_behind_a_valid_exchange(by: str) -> None:
    fuzzer = fuzzer_of(1)
    valid = fuzzer.recipe(0)._replace(mutations=())
    before = wire_case(valid, by, markers=True).messages  # type: ignore[arg-type]
    for text in ("message=send,field=MO,value=4294967295", "message=read-request,field=ULPDU_Length,value=7"):
        made = wire_case(valid._replace(mutations=(("boundary", text),)), by, markers=True)  # type: ignore[arg-type]
        assert made.messages[:-1] == before
        assert [one.cause for one in made.done] == [
            " ".join(part.partition("=")[2] for part in ("=boundary", *text.split(",")[:2]))
        ]


@pytest.mark.parametrize("message", [*dict(MESSAGE_FIELDS.keys())])
def test_the_message_is_valid_but_for_the_field(message: str) -> None:
    """With a value that is right no rule is broken but by a message that nobody asked for."""
    field = "TO" if (message, "TO") in MESSAGE_FIELDS else "RsvdULP"
    right = 0x1000 if "invalidate" in message else 0
    case = named(f"boundary:message={message},field={field},value={right}")
    report = analyze(io.BytesIO(capture_of(case.plan())))
    found = {one.rule.id for connection in report.connections for one in connection.findings}
    assert found == UNASKED.get(message, set())


def capture_of(exchange: Exchange) -> bytes:
    file = io.BytesIO()
    exchange.captured().write(file)
    return file.getvalue()


def test_rping_is_opened_as_its_client_does() -> None:
    recipe = fuzzer_of(1).recipe(0)
    opening = wire_case(recipe, "initiator", markers=False, rping=True).messages[1].octets
    (named,) = rping_header(opening[20:36], 16).named  # type: ignore[union-attr]
    assert (named.stag, named.to, named.length) == (0x5EED0100, 0x1000, 64)
    assert wire_case(recipe, "initiator", markers=False).messages[1].octets != opening


def test_an_rping_server_takes_it_for_its_client() -> None:
    """It reads what our opening names, where it closes on any other message."""
    found = []
    for rping in (True, False):
        with our_responder(upper=RpingServer) as target:
            run = WireFuzzer(target, fuzzer_of(1), Terms(0.3, rping=rping))
            run.begin()
            valid = fuzzer_of(1).recipe(0)._replace(mutations=())
            seen = run.give(wire_case(valid, run.by, markers=False, rping=rping)).seen
        found.append([opcode_of(one.ulpdu) for one in seen.fpdus])
    assert found == [[1], []]


#: What a server's, and a client's, memory is asked for, and layer, type and code of the Terminate: with the peer's own
#: STag the octets are out of bounds, with any other the STag names nothing.
_OF_MEMORY = {
    "initiator": ("message=rdma-write,field=TO,value=1", (1, 1, 1)),
    "responder": ("message=read-request,field=Size,value=4294967295", (0, 1, 1)),
}


@pytest.mark.parametrize("by", _OF_MEMORY)
def test_the_buffer_that_rping_names_is_learned(by: Role) -> None:
    change, out_of_bounds = _OF_MEMORY[by]
    with our_responder(upper=RpingServer) if by == "initiator" else our_initiator(upper=RpingClient) as target:
        run = WireFuzzer(target, fuzzer_of(1), Terms(4.0, rping=True))
        run.begin()
        recipe = fuzzer_of(1).recipe(0)._replace(mutations=(("boundary", change),))
        case = wire_case(recipe, by, markers=False, rping=True)
        result = run.give(case)
    said = result.seen.terminate
    assert said is not None
    assert (said.layer, said.etype, said.code) == out_of_bounds
    # What was said is what is reported: another STag, and nothing else.
    assert [len(one.octets) for one in result.case.messages] == [len(one.octets) for one in case.messages]
    assert result.case.messages[-1] != case.messages[-1]
