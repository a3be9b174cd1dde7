"""Two crashes behind a valid exchange are found by default, and are two bugs; changes of one kind alone come first."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from click.testing import CliRunner

from scapy_mpa.cli import cli
from scapy_mpa.craft.changes.boundary import MESSAGE_FIELDS, STARTUP_FIELDS, extremes, powers
from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.fuzz.single import single_changes
from scapy_mpa.probe.carrier import Connector
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.fuzzing import WireFuzzer, message_areas, wire_case
from scapy_mpa.probe.target import Responder
from scapy_mpa.ulp.tools import rping_header
from tests.probe.foreign import Kind, foreign_responder

SEEDS = range(10)
#: A crash, and the fields that lead to it.
CRASHES = {
    "crashes-at-mo-wrap": {f"boundary {name} MO" for name, field in MESSAGE_FIELDS if field == "MO"},
    "crashes-at-half-size": {"boundary read-request Size"},
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


def test_rounds() -> None:
    """One value of each field a round, the extremes first; each seed has its own order, and each value comes once."""
    names = ["boundary", "startup-boundary", "pad", "frame-twice"]
    made = single_changes(3, names)
    fields = {**MESSAGE_FIELDS, **STARTUP_FIELDS}
    assert made == single_changes(3, names) != single_changes(4, names)
    assert len(set(made)) == len(made) == sum(len(extremes(most) + powers(most)) for most in fields.values()) + 2
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


def test_rping_is_opened_as_its_client_does() -> None:
    recipe = fuzzer_of(1).recipe(0)
    opening = wire_case(recipe, "initiator", markers=False, rping=True).messages[1].octets
    (named,) = rping_header(opening[20:36], 16).named  # type: ignore[union-attr]
    assert (named.stag, named.to, named.length) == (0x5EED0100, 0x1000, 64)
    plain = wire_case(recipe, "initiator", markers=False).messages[1].octets
    assert plain != opening
