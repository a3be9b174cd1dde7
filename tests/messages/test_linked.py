"""Messages and what they have to do with each other, against what tshark finds and what was sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scapy_mpa.cli import cli
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.messages import RAW
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.turns import Say
from scapy_mpa.framing.ddp import OPCODE_NAMES, UNTAGGED_HEADER_LENGTH, UntaggedHeader, decode_ddp
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.watches.ddp import Response
from scapy_mpa.watches.outstanding import _answer
from tests.conftest import captures
from tests.wireshark.tshark import fields, needs_tshark

UNTAGGED = ("Send", "Immediate", "RDMA Read Request", "Atomic", "Terminate")


def run(*arguments: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, [*map(str, arguments)], standalone_mode=False, catch_exceptions=False)
    return [json.loads(line) for line in result.output.splitlines()]


def rows_of(capture: Path, **options: Any) -> list[MessageRow]:
    with CapturedMessages(str(capture), **options) as found:
        return list(found)


# --- against what judges answers ---


@pytest.mark.parametrize(
    ("name", "count", "judged"),
    [
        ("crc-only", 10, 10),
        ("siw-nfs4", 1, 1),
        ("siw-nvme", 7, 7),
        ("siw-peer-to-peer", 3, 3),
        ("siw-read-64", 400, 400),
        ("siw-rping", 5, 5),
        ("siw-three-in-a-row", 3, 3),
        # Where octets are missing nobody is accused, and what belongs together is found.
        ("siw-snaplen128", 5, 0),
    ],
)
def test_answers_are_paired_as_the_analysis_does(
    name: str, count: int, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs: list[tuple[int, int]] = []

    def answer(queue: Any, response: Response, acknowledged: int) -> Any:
        before = queue.last
        found = _answer(queue, response, acknowledged)
        if queue.last is not before:
            pairs.append((queue.last[0].frame, response.frame))
        return found

    monkeypatch.setattr("scapy_mpa.watches.outstanding._answer", answer)
    (capture,) = (path for path in captures() if path.stem == name)
    linked = [(row.last_frame, row.answer.frame) for row in rows_of(capture) if row.answer is not None]
    assert len(linked) == count and len(pairs) == judged
    assert sorted(pairs) == (sorted(linked) if judged else [])


# --- against tshark ---


@needs_tshark
def test_every_call_has_its_reply_and_its_rdma(pcap: Callable[[str], Path], tmp_path: Path) -> None:
    capture = pcap("siw-nfs4")
    rows = run("messages", capture, "--format", "jsonl")
    exported = tmp_path / "exported.pcapng"
    CliRunner().invoke(cli, ["export", str(capture), str(exported)], catch_exceptions=False)
    theirs = [
        (int(xid, 0), int(procedure))
        for xid, procedure in fields(exported, "rpcordma.xid", "rpcordma.msg_type", arguments=("-Y", "rpcordma"))
        if xid
    ]
    numbers = {"RDMA_MSG": 0, "RDMA_NOMSG": 1}
    headers = [row["ulp"] for row in rows if row["ulp"] is not None]
    assert Counter((one["xid"], numbers[one["procedure"]]) for one in headers) == Counter(theirs)
    calls = [row for row in rows if row["ulp"] and row["ulp"]["rpc"] == "call"]
    replies = [row for row in rows if row["ulp"] and row["ulp"]["rpc"] == "reply"]
    assert len(calls) == len(replies) == 175
    by_frame = {row["first_frame"]: row for row in calls}
    for reply in replies:
        call = by_frame[reply["ulp"]["call_frame"]]
        assert call["ulp"]["xid"] == reply["ulp"]["xid"] and call["direction"] != reply["direction"]
        assert reply["ulp"]["latency"] == pytest.approx(reply["time"] - call["time"], abs=1e-6)
    # Every RDMA Write and Read goes to memory that a chunk of a call names, and lies in it.
    used: Counter[int] = Counter()
    sources = {row["first_frame"]: source for row, source in zip(*reads_of(rows, capture), strict=True)}
    for row in rows:
        if row["message"] not in ("RDMA Write", "RDMA Read Request"):
            continue
        call = by_frame[row["named_by"]]
        used[row["named_by"]] += 1
        header = call["ulp"]
        chunks = [*header["reads"], *chain.from_iterable(header["writes"]), *(header["reply_chunk"] or [])]
        stag, to, size = sources.get(row["first_frame"], (row["stag"], row["to"], row["octets"]))
        assert any(one["stag"] == stag and one["to"] <= to and to + size <= one["to"] + one["length"] for one in chunks)
    done = {reply["ulp"]["call_frame"]: reply["ulp"]["rdma_writes"] + reply["ulp"]["rdma_reads"] for reply in replies}
    assert used == {frame: count for frame, count in done.items() if count}
    assert used.total() == sum(row["message"] in ("RDMA Write", "RDMA Read Request") for row in rows) == 78


def reads_of(rows: list[dict[str, Any]], capture: Path) -> tuple[list[Any], list[tuple[int, int, int]]]:
    """Read Requests, and source STag, TO and size as tshark has them."""
    names = ("iwarp_rdma.srcstag", "iwarp_rdma.srcto", "iwarp_rdma.rdmardsz")
    found = fields(capture, *names, arguments=("-Y", "iwarp_rdma.srcstag"))
    asked = [row for row in rows if row["message"] == "RDMA Read Request"]
    return asked, [(int(stag, 0), int(to, 0), int(size, 0)) for stag, to, size in found]


@needs_tshark
@pytest.mark.parametrize("name", ["siw-rping", "siw-crc-rping", "siw-rping-ipv6", "siw-read-64"])
def test_latencies_of_reads(name: str, pcap: Callable[[str], Path]) -> None:
    """Responses come in the order of Requests; a Response is there with the segment that has L."""
    wanted = (
        "tcp.stream",
        "tcp.srcport",
        "frame.number",
        "frame.time_epoch",
        "iwarp_rdma.opcode",
        "iwarp_ddp.last_flag",
    )
    options = ("-o", "tcp.reassemble_out_of_order:TRUE", "-o", "tcp.try_heuristic_first:TRUE")
    asked: dict[tuple[str, bool], list[tuple[int, float]]] = {}
    answered: dict[tuple[str, bool], list[tuple[int, float]]] = {}
    first: dict[str, str] = {}
    for stream, source, frame, time, opcodes, lasts in fields(
        pcap(name), *wanted, arguments=(*options, "-Y", "iwarp_rdma"), upper_layers=False
    ):
        initiator = first.setdefault(stream, source)
        for opcode, last in zip(opcodes.split(","), lasts.split(","), strict=True):
            if int(opcode, 0) == 1:
                asked.setdefault((stream, source == initiator), []).append((int(frame), float(time)))
            elif int(opcode, 0) == 2 and last in ("1", "True"):
                answered.setdefault((stream, source != initiator), []).append((int(frame), float(time)))
    theirs = sorted(
        (frame, answer, round(until - since, 6))
        for side, requests in asked.items()
        for (frame, since), (answer, until) in zip(requests, answered[side], strict=True)
    )
    rows = [row for row in rows_of(pcap(name)) if row.message == "RDMA Read Request"]
    ours = sorted(
        (row.last_frame, row.answer.frame, round(row.answer.latency_ns / 1e9, 6)) for row in rows if row.answer
    )
    assert len(ours) == len(rows) >= 5
    assert ours == theirs


# --- against what was sent ---


def sent(conversation: Conversation) -> Counter[tuple[str, str, bytes]]:
    """The untagged messages of a conversation: who said them, which they are, and their octets."""
    said: Counter[tuple[str, str, bytes]] = Counter()
    for step in conversation.steps:
        if isinstance(step, Say):
            name, payload = step.message.name, step.message.payload[:]
            header = decode_ddp(payload) if step.message.opcode == RAW else None
            if isinstance(header, UntaggedHeader):
                name, payload = str(OPCODE_NAMES[header.opcode]), payload[UNTAGGED_HEADER_LENGTH:]
            if name.startswith(UNTAGGED):
                said[step.role, name, payload] += 1
    return said


@pytest.mark.parametrize("name", shipped())
def test_untagged_messages_are_those_that_were_sent(name: str, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    result = CliRunner().invoke(cli, ["craft", name, "-o", str(capture)], catch_exceptions=False)
    assert result.exit_code == 0
    want: Counter[tuple[str, str, bytes]] = Counter()
    for conversation in load(name).conversations:
        want += sent(conversation)
    rows = rows_of(capture, payload=True)
    found: Counter[tuple[str, str, bytes]] = Counter(
        (row.direction, str(row.message), row.payload or b"") for row in rows if row.complete and row.qn is not None
    )
    if name in LACKING:
        assert not found - want and found
    else:
        assert found == want
        assert all(row.complete for row in rows)


#: What their captures do not hold whole.
LACKING = ("begins-in-the-middle", "holes-in-the-capture", "corrupted-by-a-middlebox", "injected-segments")


def test_a_terminate_says_what_it_says(pcap: Callable[[str], Path]) -> None:
    for name, meaning in (
        ("siw-terminate", "DDP untagged buffer error: invalid MSN, no buffer available"),
        ("siw-three-in-a-row", "DDP tagged buffer error: base or bounds violation"),
    ):
        notes = {row.note for row in rows_of(pcap(name)) if row.message == "Terminate"}
        assert notes == {meaning}
