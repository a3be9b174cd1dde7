"""The forms in which messages come: JSON lines by their schema, CSV, Parquet for DuckDB and pandas, summaries."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import statistics
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.craft.bulk import BulkConnection, BulkPlan
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.messages.lines import CSV_COLUMNS, json_line
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.rdmap.spread import Spread
from tests.conftest import PCAPS, REPO, captures, is_sampled

RPING = PCAPS / "siw-rping.pcap"
ALL = captures()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], standalone_mode=False, catch_exceptions=False)


def invoke(*arguments: object) -> str:
    return run(*arguments).stdout


def rows(capture: Path, *options: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in invoke("messages", capture, "--format", "jsonl", *options).splitlines()]


def closed(path: Path) -> Draft202012Validator:
    text = path.read_text().replace('"additionalProperties": true', '"additionalProperties": false')
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_json_lines_are_the_rows_and_follow_the_schema(path: Path) -> None:
    validator = closed(REPO / "scapy_mpa" / "messages" / "messages.schema.json")
    with CapturedMessages(str(path), payload=True) as found:
        for row in found:
            assert row.payload is not None
            values = json.loads(json_line(row, row.payload.hex()))
            assert values == row.as_dict() and list(values) == list(row.as_dict())
            validator.validate(values)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_rows_come_in_the_order_of_delivery(path: Path) -> None:
    with CapturedMessages(str(path)) as found:
        keys = [
            (0, row.delivered_frame, 0) if row.delivered_frame else (1, row.connection, row.last_frame) for row in found
        ]
        segments = sum(row.segments for row in found)
        placed = sum(half.counts.placed for one in found.report.connections for half in (one.initiator, one.responder))
    assert keys == sorted(keys)
    assert segments == placed


def test_csv_has_the_same_values() -> None:
    lines = list(csv.DictReader(io.StringIO(invoke("messages", RPING, "--format", "csv", "--payload"))))
    assert lines and tuple(lines[0]) == CSV_COLUMNS
    for line, row in zip(lines, rows(RPING, "--payload"), strict=True):
        answer = row["answer"] or {}
        for key in ("connection", "direction", "message", "stag", "to", "msn", "octets", "last_frame", "named_by"):
            assert line[key] == ("" if row[key] is None else str(row[key]))
        assert line["complete"] == str(row["complete"]).lower() and float(line["time"]) == row["time"]
        assert line["answer_frame"] == str(answer.get("frame", ""))
        assert line["ulp"] == (row["ulp"] or {"protocol": ""})["protocol"]
        assert line["payload"] == row["payload"]


def test_what_does_not_go_together() -> None:
    for options in (
        ("--summary", "--format", "csv"),
        ("--summary", "--payload"),
        ("--held", "5"),
        ("--payload", "--directory", "x"),
        ("-o", str(RPING)),
        ("--summary", "--slowest", "3"),
        ("--slowest", "3", "--sort", "time"),
    ):
        with pytest.raises(UsageError):
            invoke("messages", RPING, *options)


def test_selections(pcap: Callable[[str], Path]) -> None:
    assert rows(RPING, "--ulp", "rping") == rows(RPING) and not rows(RPING, "--ulp", "NVMe-oF")
    assert {row["direction"] for row in rows(RPING, "--direction", "responder")} == {"responder"}
    # An answer is there though its own rows are not shown.
    assert all(row["answer"] for row in rows(RPING, "--direction", "responder") if "Request" in row["message"])


def test_messages_are_chosen_by_opcode_stag_and_time() -> None:
    every = rows(RPING)
    writes = [row for row in every if row["message"] == "RDMA Write"]
    assert rows(RPING, "--opcode", "rdma write") == writes
    stag = writes[0]["stag"]
    assert rows(RPING, "--stag", hex(stag)) == [row for row in every if row["stag"] == stag]
    # Of a time are those of which something was captured then.
    middle = every[len(every) // 2]["time"]
    assert rows(RPING, "--since", middle) == [row for row in every if row["time"] >= middle]
    assert rows(RPING, "--until", middle) == [row for row in every if row["first_time"] <= middle]
    (summary,) = (
        json.loads(line)
        for line in invoke("messages", RPING, "--summary", "--format", "jsonl", "--until", middle).splitlines()
    )
    assert sum(one["count"] for one in summary["messages"]) == len(rows(RPING, "--until", middle))


def test_a_choice_that_leaves_no_message_says_so() -> None:
    words = ["messages", str(RPING), "--stag", "1", "--ulp", "rping"]
    result = CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    assert result.stderr == "scapy-mpa: no message matches --ulp, --stag\n"


def test_output_goes_into_a_file(tmp_path: Path) -> None:
    for command in ("messages", "fpdus"):
        for form in ("text", "jsonl", "csv"):
            out = tmp_path / f"{command}.{form}"
            assert invoke(command, RPING, "--format", form, "-o", out) == ""
            assert out.read_text() == invoke(command, RPING, "--format", form)


# --- Parquet ---


def test_parquet_is_read_by_duckdb_and_pandas(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "messages.parquet"
    invoke("messages", RPING, "--format", "parquet", "--payload", "-o", path)
    want = rows(RPING, "--payload")
    query = f"select message, count(*), sum(octets), min(answer_latency_ns) from '{path}' group by message order by 1"
    found = {name: (count, octets, least) for name, count, octets, least in duckdb.sql(query).fetchall()}
    for name in {row["message"] for row in want}:
        some = [row for row in want if row["message"] == name]
        latencies = [round(row["answer"]["latency"] * 1e9) for row in some if row["answer"]]
        assert found[name] == (len(some), sum(row["octets"] for row in some), min(latencies, default=None))
    types = {name: kind for name, kind, *_ in duckdb.sql(f"describe select * from '{path}'").fetchall()}
    assert (types["stag"], types["to"], types["time"]) == ("UINTEGER", "UBIGINT", "TIMESTAMP_NS")
    frame = pandas.read_parquet(path)
    assert [*frame["payload"]] == [bytes.fromhex(row["payload"]) for row in want]
    assert [*frame["first_frame"]] == [row["first_frame"] for row in want]
    assert frame["time"].astype("int64").iloc[0] == round(want[0]["time"] * 1e6) * 1000
    assert str(frame.dtypes["octets"]) == "UInt64"
    # TOs need all of 64 bits, and some are null: the plain line keeps them as they are.
    assert [None if value is pandas.NA else int(value) for value in frame["to"]] == [row["to"] for row in want]
    assert max(row["to"] or 0 for row in want) > 1 << 46 and frame["to"].isna().any()


def test_fpdus_as_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for capture in (RPING, PCAPS / "markers-reordered.pcap"):
        for order in ("stream", "placed"):
            path = tmp_path / f"{capture.stem}-{order}.parquet"
            invoke("fpdus", capture, "--format", "parquet", "--order", order, "-o", path)
            want = [
                json.loads(line)
                for line in invoke("fpdus", capture, "--format", "jsonl", "--order", order).splitlines()
            ]
            frame = pandas.read_parquet(path)
            for key in ("seq", "wire_length", "crc", "located_by", "opcode", "markers"):
                assert [*frame[key]] == [row[key] for row in want]
            assert [[*frames] for frames in frame["frames"]] == [row["frames"] for row in want]
            delivered = [None if value is pandas.NA else int(value) for value in frame["delivered_frame"]]
            assert delivered == [row["delivered_frame"] for row in want]


def test_many_rows(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """More rows than a chunk, a row group or the memory of answers holds; with --all as many as 100 MB have."""
    duckdb = pytest.importorskip("duckdb")
    capture, out = tmp_path / "a.pcap", tmp_path / "a.parquet"
    rounds = 120 if is_sampled(request.config) else 954
    plan = BulkPlan(segmentation="packed", write_octets=38, write_spread=16)
    bulk = BulkConnection(plan, clock=iter(range(10**18, 1 << 62, 12000)), seed=1)
    with open(capture, "wb") as file:
        PcapWriter(file).write(bulk.packets(rounds))
    invoke("messages", capture, "--format", "parquet", "-o", out)
    query = f"select direction, count(*), sum(octets) from '{out}' group by direction order by 1"
    (_, sent, octets), (_, answered, _) = duckdb.sql(query).fetchall()
    assert (sent, answered) == (bulk.fpdus["initiator"], bulk.fpdus["responder"])
    halves = analyze(capture, fpdus=False).connections[0].initiator.counts
    assert octets == halves.ulpdu_octets - 14 * (sent - rounds) - 18 * rounds


# --- summaries ---


def test_summary_counts_what_is_listed(pcap: Callable[[str], Path]) -> None:
    for name in ("siw-rping", "siw-nfs4", "markers-reordered"):
        capture = pcap(name)
        listed = rows(capture)
        for line in invoke("messages", capture, "--summary", "--format", "jsonl").splitlines():
            summary = json.loads(line)
            for kind in summary["messages"]:
                some = [
                    row
                    for row in listed
                    if (row["connection"], row["direction"], row["message"])
                    == (summary["connection"], kind["direction"], kind["message"])
                ]
                assert (kind["count"], kind["octets"]) == (len(some), sum(row["octets"] for row in some))
                latencies = sorted(row["answer"]["latency"] for row in some if row["answer"])
                assert kind["answered"] == len(latencies)
                if latencies:
                    high = latencies[math.ceil(len(latencies) * 0.99) - 1]
                    want = latencies[0], statistics.median(latencies), high, latencies[-1]
                    found = kind["latency"]
                    assert [found[key] for key in ("least", "median", "percentile_99", "most")] == pytest.approx(want)
                    assert found["mean"] == pytest.approx(sum(latencies) / len(latencies))
                    slow = [row for row in some if row["answer"] and row["answer"]["latency"] == latencies[-1]]
                    assert found["most_frame"] in [row["first_frame"] for row in slow]


def test_calls_are_summed_up_by_what_they_ask_for(pcap: Callable[[str], Path]) -> None:
    for name in ("siw-nfs4", "siw-nvme"):
        listed = [row for row in rows(pcap(name)) if row["call"] is not None]
        for line in invoke("messages", pcap(name), "--summary", "--format", "jsonl").splitlines():
            summary = json.loads(line)
            mine = [row for row in listed if row["connection"] == summary["connection"]]
            for one in summary["ulp"]["procedures"]:
                some = [row for row in mine if (row["direction"], row["call"]) == (one["direction"], one["call"])]
                latencies = [row["call_latency"] for row in some if row["call_latency"] is not None]
                assert (one["calls"], one["replies"]) == (len(some), len(latencies))
                if latencies:
                    assert one["latency"]["most"] == pytest.approx(max(latencies))
                    (slow,) = (row for row in some if row["first_frame"] == one["latency"]["most_frame"])
                    assert slow["call_latency"] == max(latencies)
            assert sum(one["calls"] for one in summary["ulp"]["procedures"]) == summary["ulp"]["calls"] == len(mine)
            assert [one["frame"] for one in summary["ulp"]["unanswered"]] == [
                row["first_frame"] for row in mine if row["call_latency"] is None
            ]


def test_the_call_without_a_reply_is_named_and_said_to_be_normal(pcap: Callable[[str], Path]) -> None:
    text = invoke("messages", pcap("siw-nvme"), "--summary", "--connection", 0)
    assert "without a reply: frame 97, Asynchronous Event Request: normal" in text
    (row,) = rows(pcap("siw-nvme"), "--unanswered")
    assert (row["first_frame"], row["call"], row["reply_frame"]) == (97, "Asynchronous Event Request", None)
    # No line of the tables is torn by a terminal of 80 columns, but where the name of a call is long.
    assert max(len(line) for line in text.splitlines() if line.startswith("   ") and "answer of" in line) <= 80


def test_calls_and_their_replies_agree(pcap: Callable[[str], Path]) -> None:
    """The row of a call has the latency that the header of its reply says, and the reply's frame."""
    for name in ("siw-nfs4", "siw-nvme"):
        listed = rows(pcap(name))
        replies = [row for row in listed if row["ulp"] and "call_frame" in row["ulp"]]
        calls = {(row["connection"], row["reply_frame"]): row for row in listed if row["reply_frame"] is not None}
        assert len(calls) == len(replies) > 10
        for reply in replies:
            call = calls[reply["connection"], reply["last_frame"]]
            assert call["first_frame"] == reply["ulp"]["call_frame"] and call["direction"] != reply["direction"]
            assert call["call_latency"] == pytest.approx(reply["ulp"]["latency"])


def test_slowest_and_sorted(pcap: Callable[[str], Path]) -> None:
    def latency(row: dict[str, Any]) -> float:
        return float(row["answer"]["latency"] if row["answer"] else row["call_latency"] or -1)

    for name in ("siw-nfs4", "siw-rping", "markers-reordered"):
        listed = rows(pcap(name))
        waited = sorted((row for row in listed if row["answer"] or row["call_latency"] is not None), key=latency)
        assert rows(pcap(name), "--slowest", 3) == waited[::-1][:3]
        for key, value in (("latency", latency), ("octets", lambda row: row["octets"])):
            assert rows(pcap(name), "--sort", key) == sorted(listed, key=value, reverse=True)
        assert rows(pcap(name), "--sort", "time") == sorted(listed, key=lambda row: row["first_time"])
        durations = [row["duration"] for row in rows(pcap(name), "--sort", "duration", "--payload")]
        assert durations == sorted(durations, reverse=True) and len(durations) == len(listed)


def test_where_nothing_is_answered_it_says_why_latency_sorts_nothing(pcap: Callable[[str], Path]) -> None:
    lossy = pcap("markers-lossy")
    sorted_by_latency = run("messages", lossy, "--sort", "latency")
    assert sorted_by_latency.stdout == invoke("messages", lossy)
    (said,) = sorted_by_latency.stderr.splitlines()
    assert said.startswith("scapy-mpa: none of these messages has a latency")
    for arguments in ((lossy, "--sort", "duration"), (RPING, "--sort", "latency")):
        assert not run("messages", *arguments).stderr
    assert "matches --stag" in run("messages", lossy, "--sort", "latency", "--stag", "7").stderr


def test_a_message_that_two_frames_carried_says_how_long_it_took(pcap: Callable[[str], Path]) -> None:
    """Even if it has one DDP Segment, whose FPDU lies in two TCP segments."""
    lossy = pcap("markers-lossy")
    lines = invoke("messages", lossy, "--sort", "duration").splitlines()
    assert lines[0] == "#0 initiator frames 745-762 Send QN 0 MSN 52: 200 octets in 5.712 ms"
    for line, row in zip(lines, rows(lossy, "--sort", "duration"), strict=True):
        is_in_two = row["first_frame"] != row["last_frame"]
        assert (f" in {row['duration'] * 1e3:.3f} ms" in line) is (is_in_two or row["segments"] > 1)


def test_payload_follows_a_message_that_is_sorted(pcap: Callable[[str], Path]) -> None:
    plain = {(row["direction"], row["first_frame"], row["to"]): row for row in rows(RPING, "--payload")}
    found = rows(RPING, "--payload", "--sort", "octets")
    assert len(found) == len(plain)
    assert all(plain[row["direction"], row["first_frame"], row["to"]] == row for row in found)


def test_reads_under_way_reach_the_limit(pcap: Callable[[str], Path]) -> None:
    (summary,) = (json.loads(line) for line in invoke("messages", RPING, "--summary", "--format", "jsonl").splitlines())
    reads = summary["reads_under_way"]["responder"]
    # rping reads once at a time, and has an ORD of 1.
    asked = [row["answer"]["latency"] for row in rows(RPING) if row["message"] == "RDMA Read Request"]
    assert (reads["ord"], reads["peer_ird"], reads["most"], reads["times_at_limit"]) == (1, 1, 1, len(asked))
    assert reads["seconds_at_limit"] == reads["seconds_by_number"]["1"] == pytest.approx(sum(asked))
    text = invoke("messages", RPING, "--summary")
    assert "at most 1 outstanding of 1 (its ORD), the initiator's IRD is 1" in text and "at the limit 5 times" in text


def test_percentiles() -> None:
    rng = random.Random(4)
    for count in (1, 2, 99, 100, 40_000):
        values = [int(10 ** (9 * rng.random())) for _ in range(count)]
        spread = Spread()
        for value in values:
            spread.add(value)
        values.sort()
        assert (spread.least, spread.most, spread.count, spread.total) == (values[0], values[-1], count, sum(values))
        for percent in (1, 50, 99, 100):
            want = values[math.ceil(count * percent / 100) - 1]
            assert want * (1 - 1 / 1024) <= spread.percentile(percent) <= want
            assert count > 1 << 15 or spread.percentile(percent) == want
        median = statistics.median(values)
        assert median * (1 - 1 / 1024) <= spread.median() <= median
        assert count > 1 << 15 or spread.median() == median
    assert Spread().percentile(50) == Spread().median() == 0


def test_request_of_a_host_that_does_not_swap() -> None:
    from scapy_mpa.framing.requests import ReadRequest, read_requests

    want = ReadRequest(0x11223344, 0x55, 64, 0x66778899, 0xAA)
    assert want in read_requests(struct.pack("<IQIIQ", *want))
    assert want in read_requests(struct.pack(">IQIIQ", *want))
    assert read_requests(struct.pack("<I4xQIIQ", *want)) == [want]
    assert read_requests(b"short") == []
