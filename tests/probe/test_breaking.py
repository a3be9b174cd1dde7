"""Endpoints that are wrong on purpose: exactly what is wrong with them is found, and nothing else."""

from __future__ import annotations

import fnmatch

import pytest

from scapy_mpa.catalogue.case import AREAS
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role
from scapy_mpa.probe.breaking import Breaking, breakable, refusal
from scapy_mpa.probe.choice import chosen
from scapy_mpa.probe.reach import reach_of
from scapy_mpa.probe.run import RunSettings, peers
from tests.probe.peers import TERMS, our_initiator, our_responder, run_of

#: What is committed: by whom, and which cases of the probe fail, each by the rule, or why it fails beside it.
#: What a peer does wrong by itself is held against it in the first case in which it shows.
TABLE: dict[str, tuple[str, dict[str, str]]] = {
    # --- startup ---
    "reply-reserved-bit-0x08": ("responder", {"valid-m0-c0": "startup-reserved-bits"}),
    "request-reserved-bit-0x08": ("initiator", {"valid-reply-m0-c0": "startup-reserved-bits"}),
    # --- negotiation ---
    # Only in the peer-to-peer model there is an RTR message to be offered.
    "rtr-none": ("responder", {"valid-rtr-b": "rtr-none"}),
    "ord-above-ird": ("responder", {"valid-ird-0-ord-0": "ird-ord-responder-ord"}),
    "rtr-left-out": (
        "initiator",
        {
            "valid-reply-m0-c0": "rtr",
            "rtr-no-match": "the endpoint believes to have offered every type, so that one of the Reply is its own",
        },
    ),
    # --- FPDUs ---
    # It is the second FPDU, and has to be long enough: Responders speak twice where they are read from.
    "crc-of-the-responder": ("responder", {"valid-read-of-64": "crc"}),
    "crc-ulpdu-octet": ("initiator", {"valid-reply-m0-c0": "crc"}),
    "pad-0040": ("initiator", {"valid-reply-m0-c0": "pad"}),
    # --- Markers: where the Reply asks for them ---
    "markers-both-ways-asked-one-way": ("responder", {"valid-m0-c0": "marker-unasked"}),
    "fpduptr-4-more-at-12": ("initiator", {"valid-reply-m1-c0": "marker-length"}),
    # --- alignment: no receiver looks at segments ---
    "alignment-of-one-octet-segments": ("initiator", {}),
    # --- the end ---
    # It speaks by itself, after it has answered or before: that shows in one of the first cases.
    "fin-of-the-responder-in-fpdu": ("responder", {"valid-*": "connection-lost"}),
    "fin-in-ulpdu": ("initiator", {"valid-reply-m0-c0": "connection-lost"}),
    # --- DDP and RDMAP ---
    "msn-twice": ("initiator", {"valid-reply-m0-c0": "ddp-msn"}),
    "ddp-version-2": ("initiator", {"valid-reply-m0-c0": "ddp-version"}),
}
#: The same of who answers, or uses memory, wrongly: that shows in cases that ask for it.
ANSWERS = ("valid-m0-c0", "valid-reply-m0-c0", "valid-read*", "valid-responder*", "valid-*memory*")
BY_ASKING: dict[str, str] = {
    **dict.fromkeys(
        [f"{what}-{where}-the-buffer" for what in ("write", "read")
         for where in ("past", "over-the-end-of", "far-past", "before", "over-the-start-of")],
        "memory-bounds",
    ),
    "read-from-invalidated": "memory-life",
    "write-to-invalidated": "stag-invalidated",
    "read-response-twice": "read-response-unasked",
    **dict.fromkeys(
        ["read-response-other-stag", "read-response-other-to", "read-response-too-long", "read-response-too-short",
         "read-responses-out-of-order"],
        "read-response-differs",
    ),
    "read-unanswered": "",
    "mo-passes-2-32": "ddp-mo",
    "msn-twice": "ddp-msn",
    "to-wraps": "ddp-to-wraps",
    "opcode-changes": "rdmap-message-changes",
    "immediate-data-of-9": "immediate-length",
    "atomic-response-unasked": "atomic-response",
    "atomic-misaligned": "atomic-alignment",
    "atomic-opcode-1": "atomic-opcode",
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_exactly_these_fail(name: str) -> None:
    role, expected = TABLE[name]
    with our_responder(name) if role == "responder" else our_initiator(name) as target:
        results = run_of(target, peers(chosen(), role))
    failed = {one.case.name: one.judgement.rule for one in results if one.counts_against}
    assert len(failed) == len(expected)
    for pattern, rule in expected.items():
        (found,) = fnmatch.filter(failed, pattern)
        assert failed[found] == rule or " " in rule


@pytest.mark.parametrize("role", ["initiator", "responder"])
@pytest.mark.parametrize("name", BY_ASKING)
def test_what_is_done_with_memory_and_answers_is_found(name: str, role: Role) -> None:
    broken = name if role == "initiator" else f"{name}-of-the-responder"
    with our_initiator(broken) if role == "initiator" else our_responder(broken) as target:
        results = run_of(target, peers(chosen(ANSWERS), role), RunSettings(TERMS._replace(timeout=0.4)))
    failed = [one.judgement for one in results if one.counts_against]
    assert failed
    assert {one.rule for one in failed} == {BY_ASKING[name]}
    assert BY_ASKING[name] or all("no longer answers an RDMA Read" in one.reason for one in failed)


@pytest.mark.parametrize(("change", "rule"), [("crc:number=1,value=reversed", "crc"), ("flags:mask=0x0f", "startup-")])
def test_a_change_is_committed_like_a_case(change: str, rule: str) -> None:
    assert Breaking(change, "initiator").case.name == change
    with our_initiator(change) as target:
        results = run_of(target, peers(chosen(["valid-reply-m0-c0"]), "initiator"))
    assert [one for one in results if one.counts_against and one.judgement.rule.startswith(rule)]


@pytest.mark.parametrize("name", ["send-unfinished", "write-unfinished-of-the-responder"])
def test_who_ends_within_a_message_is_found(name: str) -> None:
    """Its end shows where it is waited for, or by itself: no upper layer of its own ends the connection."""
    role = CASES[name].by
    with our_initiator(name) if role == "initiator" else our_responder(name) as target:
        results = run_of(target, peers(chosen(ANSWERS), role))
    failed = {one.judgement.rule or one.judgement.reason for one in results if one.counts_against}
    assert failed <= {"ddp-unfinished", "the peer closes"}
    assert failed


def test_the_table_has_each_area_that_an_endpoint_can_break() -> None:
    areas = {CASES[name].area for role in ("initiator", "responder") for name in breakable(role)}
    assert {CASES[name].area for name in TABLE} == areas
    # Segments of one's own, and what is about captures, are not for who sits above TCP.
    assert {*AREAS} - areas == {"tcp", "attack", "capture"}
    assert all(CASES[name].by == role for name, (role, _) in TABLE.items())


@pytest.mark.parametrize("role", ["initiator", "responder"])
def test_every_case_that_can_be_committed_changes_what_is_sent(role: str) -> None:
    """Each is made without a peer: a startup frame and FPDUs, of which the endpoint sends others than it means to."""
    from scapy_mpa.framing.startup import startup_frame
    from scapy_mpa.live.script import Item

    names = breakable(role)  # type: ignore[arg-type]
    assert len(names) > (250 if role == "initiator" else 40)
    for name in names:
        breaking = Breaking(name, role)  # type: ignore[arg-type]
        items: list[Item] | None = breaking.items()
        assert items is None or isinstance(items, list)
        broken = breaking()
        own = startup_frame("request" if role == "initiator" else "reply", m=breaking.settings["m"], c=1)
        peer = None if role == "initiator" else startup_frame("request", c=1)
        octets = broken.startup(own.encode(), peer)
        assert isinstance(octets, bytes)
        assert b"".join(broken.pieces(octets)) == octets
        stream = broken.stream(markers=bool(breaking.settings["m"]), crc=True, origin="header")
        for ulpdu in (bytes(60), bytes(100), bytes(700)):
            laid, _ = stream.lay((ulpdu,))
            assert b"".join(broken.pieces(laid)) == laid
            if stream.offset % 4:
                break


def test_what_cannot_be_committed_is_refused() -> None:
    for name, role, word in (
        ("crc-zero", "responder", "is a mistake of the Initiator"),
        ("wrap-in-marker", "initiator", "sequence numbers"),
        ("octets-before-reply", "responder", "order"),
        ("streaming-data-acknowledged", "initiator", "streaming"),
        ("no-such-case", "initiator", "no case"),
    ):
        with pytest.raises(MPAError, match=word):
            Breaking(name, role)  # type: ignore[arg-type]
    for name, case in CASES.items():
        if reach_of(case).carriage != "tcp":
            assert refusal(case), name
