"""How connections ended: against an independent list of FIN and RST, sentence by sentence, and in craft's scenarios."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.craft.scenario import load
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.report.circumstances import StatedLimit
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.report.tally import Summary
from scapy_mpa.report.text import ended_words, ending, report_lines
from scapy_mpa.report.verdict import CAUSES, verdict
from scapy_mpa.values.lifecycle import Ended, HalfEnd, Lifecycle, Side
from tests.conftest import PCAPS, captures

CAPTURES = {path.stem: path for path in captures()}

#: FIN and RST of each TCP stream as tshark sees them.
ENDINGS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).with_name("endings.jsonl")).read_text(encoding="utf-8").splitlines()
]


def crafted(name: str) -> Report:
    file = io.BytesIO()
    load(name).traffic(()).write(file)
    file.seek(0)
    return analyze(file, fpdus=False)


def sides(connection: Connection) -> dict[str, str]:
    return {"initiator": connection.initiator.endpoint, "responder": connection.responder.endpoint}


# --- FIN and RST ---


@pytest.mark.parametrize("name", sorted({ending["capture"] for ending in ENDINGS}))
def test_fin_and_rst_are_those_of_tshark(name: str) -> None:
    told = []
    for connection in analyze(CAPTURES[name.removesuffix(".pcap")], fpdus=False).connections:
        life = connection.as_dict()["lifecycle"]
        fins = [
            (life["closed_frame"][side], who)
            for side, who in sides(connection).items()
            if life["closed"][side] == "fin"
        ]
        frame, by = min(fins, default=(None, None))
        told.append(
            {
                "first_fin": None if frame is None else {"frame": frame, "by": by},
                "first_rst": None
                if life["reset_by"] is None
                else {"frame": life["reset_frame"], "by": sides(connection)[life["reset_by"]]},
                "fins": len(fins),
                "rsts": sum(life["resets"].values()),
            }
        )
    expected = [
        {key: ending[key] for key in ("first_fin", "first_rst", "fins", "rsts")}
        for ending in ENDINGS
        if ending["capture"] == name and not is_no_mpa(ending)
    ]
    assert sorted(told, key=str) == sorted(expected, key=str)


def is_no_mpa(ending: dict[str, Any]) -> bool:
    """The other connections to the same port that speak something else, and the SYN that nobody took."""
    capture, stream = ending["capture"], ending["tcp_stream"]
    others = {"faulty-pad.pcap": 1, "second-connection-not-mpa.pcap": 1, "siw-no-listener.pcap": 0}
    return bool(others.get(capture) == stream)


# --- sentences ---

#: Read beside the README of the captures.
SENTENCES = {
    "siw-client-killed": [
        "the Initiator closed (FIN, frame 1400), then the Responder (FIN, frame 1414)",
        (
            "the Responder closed (FIN, frame 1430) while the Initiator was still sending: 2 messages of the Initiator "
            "not fully acknowledged (117,136 octets of TCP payload, headers included); the Responder answered with "
            "82 RSTs, the first in frame 1433; 0.039 s earlier #0 of the same hosts had been closed by its Initiator "
            "(FIN, frame 1400)"
        ),
    ],
    "siw-rejected": [
        "the Responder closed (FIN, frame 19) before any FPDU was sent, then the Initiator (FIN, frame 20)",
        (
            "rejected by the Responder (Reply, frame 13), without Private Data from the upper layer; "
            "the Responder closed (FIN, frame 15)"
        ),
    ],
    "siw-no-listener": [],
    "siw-terminate": [
        (
            "the Responder terminated it at frame 17: the Send (MSN 1, 2,848 octets of its payload captured, frames "
            "16-19) found no buffer; who is to blame cannot be known from this capture, only from the receive buffers "
            "that the Responder had posted; then FIN by the Responder at frame 18, RST by the Responder at frame 20, "
            "1 message of the Initiator not fully acknowledged (1,448 octets of TCP payload, headers included)"
        )
    ],
    "siw-three-in-a-row": [
        f"the Responder terminated it at frame {frame}: the RDMA Read Response of {octets} octets (STag {stag}, "
        f"TO 0x7f0ef8000e00, frame {frame - 1}) went beyond the bounds of its buffer; who is to blame cannot be known "
        "from this capture, only from the memory that the Responder had registered; then FIN by the Responder at frame "
        f"{frame + 1}, FIN by the Initiator at frame {frame + 2}; also of these hosts: {others}"
        for frame, octets, stag, others in (
            (13, "1,001", "0xf1bed700", "#1 was terminated 0.167 s later, #2 was terminated 0.325 s later"),
            (27, "1,002", "0x3ee5d700", "#2 was terminated 0.158 s later, #0 was terminated 0.167 s earlier"),
            (41, "1,003", "0x5715e300", "#1 was terminated 0.158 s earlier, #0 was terminated 0.325 s earlier"),
        )
    ],
    "suiw-two-hosts": [
        (
            "the Responder closed (FIN, frame 11) while the Initiator was still sending: 2 messages of the Initiator "
            "not fully acknowledged (80 octets of TCP payload, headers included); the Responder answered with 2 RSTs, "
            "the first in frame 14"
        )
    ],
    "faulty-pad": [
        "the Responder closed (FIN, frame 37), then the Initiator (FIN, frame 38); error before: deviating-sender"
    ],
    "siw-midstream": [
        (
            "still open when the capture ends (last frame 600), 29 messages of the Initiator not fully acknowledged "
            "(6,496 octets of TCP payload, headers included)"
        ),
        "still open when the capture ends (last frame 590)",
    ],
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_capture_says_what_happened(name: str) -> None:
    report = analyze(CAPTURES[name], fpdus=False)
    assert [connection.verdict for connection in report.connections] == SENTENCES[name]


@pytest.mark.parametrize("name", [name for name in CAPTURES if name not in SENTENCES])
def test_all_others_were_closed_in_order(name: str) -> None:
    """Both sides sent FIN, one after the other, and everything was acknowledged."""
    for connection in analyze(CAPTURES[name], fpdus=False).connections:
        life = connection.as_dict()["lifecycle"]
        if name == "siw-midstream-crc":
            assert life["ended"] == "open"
            continue
        assert (life["ended"], life["closed"]) == ("fin", {"initiator": "fin", "responder": "fin"})
        assert life["unacknowledged_octets"] == life["unacknowledged_messages"] == {"initiator": 0, "responder": 0}
        first, second = sorted(life["closed_frame"].items(), key=lambda one: one[1])
        assert life["verdict"].startswith(
            f"the {first[0].capitalize()} closed (FIN, frame {first[1]}), "
            f"then the {second[0].capitalize()} (FIN, frame {second[1]})"
        )


def test_the_scenarios_say_how_they_end() -> None:
    found = {
        name: [connection.verdict for connection in crafted(name).connections]
        for name in ("ended-by-nothing", "ended-by-terminate", "startup-rejected")
    }
    assert found["ended-by-nothing"] == ["still open when the capture ends (last frame 25)"]
    said = (
        "the Responder terminated it at frame 7: LLP MPA error: CRC does not match; the only FPDU of the Initiator was"
    )
    said += " captured good here: damaged after this tap, or computed differently by its receiver; a capture at the"
    said += " Responder shows which"
    assert found["ended-by-terminate"] == [f"{said}; then RST by the Responder at frame 9"]
    reason = 'its Private Data says "no such service"; the Initiator closed (FIN, frame 9)'
    assert found["startup-rejected"] == [f"rejected by the Responder (Reply, frame 5): {reason}"]


#: By a case of the catalogue: what the sentence begins with.
BEGINS = {
    "crc-zero": "CRC error in frame 8, then a Terminate from the receiver at frame 11, as RFC 5044 §8 specifies",
    "rst-in-answer": "the Responder reset it (RST, frame 9), 1 message of the Initiator not fully acknowledged (84 ",
    "peer-gone": "the Responder no longer answered: the Initiator sent the same octets again 6 times without an answer",
    "sent-again-twice": "still open when the capture ends",
    "fin-in-ulpdu": "the Initiator closed (FIN, frame ",
    "requests-never-finished": "only 10 of 20 or more octets of an MPA Request: the ",
    "unanswered-closed": "the Responder did not answer the Request of frame 4; the Responder closed before any Reply (",
    "unanswered-silent": "the Responder did not answer the Request of frame 4; the capture ends at frame ",
    "private-data-rejected": "rejected by the Responder (Reply, frame 5), without Private Data from the upper layer",
    "no-end": "still open when the capture ends (last frame ",
}


@pytest.mark.parametrize("name", BEGINS)
def test_a_case_says_what_happened(name: str) -> None:
    connection = Malformed(name).analyze().connections[0]
    assert connection.verdict.startswith(BEGINS[name])


def test_each_cause_is_one_of_a_table() -> None:
    assert len({cause.name for cause in CAUSES}) == len(CAUSES)
    assert CAUSES[-1].name == "open"


def test_a_stated_limit_is_named() -> None:
    """What an upper layer agreed on is handed in: the receiver of the Send takes 1,364 octets."""
    (connection,) = analyze(PCAPS / "siw-terminate.pcap", fpdus=False).connections
    said = verdict(connection, {"responder": StatedLimit("SMB Direct", 1364)})
    assert "found no buffer; SMB Direct had agreed on at most 1,364; then FIN" in said
    assert "SMB" not in verdict(connection, {"responder": StatedLimit("SMB Direct", 4096)})
    assert "SMB" not in verdict(connection, {"initiator": StatedLimit("SMB Direct", 1364)})


# --- what was not acknowledged, and in vain ---


def test_retransmissions_in_vain_are_code_1() -> None:
    report = Malformed("peer-gone").analyze()
    (connection,) = report.connections
    life = connection.as_dict()["lifecycle"]
    assert (life["ended"], life["ended_by"]) == ("lost", None)
    assert life["ended_frame"] == life["last_frame"] == report.packets
    assert life["unacknowledged_messages"] == {"initiator": 1, "responder": 0}
    assert life["retransmissions"] == {"initiator": 6, "responder": 0}
    assert [(found.rule.id, found.code) for found in connection.findings] == [("connection-lost", 1)]


@pytest.mark.parametrize("again", [1, 2, 3, 4])
def test_what_was_sent_first_is_no_retransmission(again: int, tmp_path: Path) -> None:
    """Of a Reply whose SYN was not captured, too."""
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw
    from scapy.utils import wrpcap

    request, reply = startup_frame("request").encode(), startup_frame("reply").encode()
    ask = Ether() / IP(src="10.0.0.1", dst="10.0.0.2")
    ask = ask / TCP(sport=40000, dport=7471, seq=1, ack=1, flags="A") / Raw(request)
    answer = Ether() / IP(src="10.0.0.2", dst="10.0.0.1")
    answer = answer / TCP(sport=7471, dport=40000, seq=1, ack=21, flags="A") / Raw(reply)
    file = tmp_path / "again.pcap"
    packets = [Ether(bytes(one)) for one in (ask, *[answer] * (1 + again))]
    for second, packet in enumerate(packets):
        packet.time = second
    wrpcap(str(file), packets)
    (connection,) = analyze(file, fpdus=False).connections
    assert connection.as_dict()["lifecycle"]["ended"] == ("lost" if again >= 3 else "open")


def test_an_fpdu_that_only_a_rst_answers() -> None:
    (connection,) = Malformed("rst-in-answer").analyze().connections
    life = connection.as_dict()["lifecycle"]
    assert (life["ended"], life["ended_by"], life["reset_by"]) == ("rst", "responder", "responder")
    assert life["closed"] == {"initiator": "rst", "responder": "rst"}
    assert {found.rule.id for found in connection.findings} == {"teardown-reset", "teardown-unacknowledged"}


def test_where_nobody_acknowledges_nothing_is_unacknowledged(tmp_path: Path) -> None:
    """A capture of one direction shows no acknowledgement of its octets: nothing is said of them."""
    report = analyze(PCAPS / "siw-rping.pcap", fpdus=False)
    (connection,) = report.connections
    one_way = tmp_path / "one.pcap"
    kept_of(PCAPS / "siw-rping.pcap", connection.initiator.endpoint.rpartition(":")[2], one_way)
    for found in analyze(one_way, fpdus=False).connections:
        life = found.as_dict()["lifecycle"]
        assert life["unacknowledged_octets"] == {"initiator": 0, "responder": 0}


def kept_of(capture: Path, port: str, out: Path) -> None:
    """The packets from one port only."""
    from scapy.layers.inet import TCP
    from scapy.utils import rdpcap, wrpcap

    wrpcap(str(out), [packet for packet in rdpcap(str(capture)) if TCP in packet and packet[TCP].sport == int(port)])


# --- the summary ---


def test_ends_are_counted() -> None:
    report = analyze([PCAPS / "siw-terminate.pcap", PCAPS / "siw-rejected.pcap"], fpdus=False)
    summary = report.as_dict()["summary"]
    assert summary["connections"] == 3
    assert summary["ended"] == {"terminate": 1, "rejected": 1, "fin": 1}
    assert {one["severity"] for one in summary["rules"]} == {"warning"}
    lines = [*report_lines(report)]
    assert lines[1] == "  ended: 1 by Terminate (1 reset after that), 1 rejected, 1 by FIN"
    assert "  warning terminate: 1 time, 1 connection" in lines
    assert "  2 files, one after the other" in lines
    assert [*report_lines(report, summary_only=True)] == lines[: 3 + len(summary["rules"])]
    assert summary["unfinished"] == 2
    assert [one.lifecycle.is_unfinished for one in report.connections] == [
        one.lifecycle.ended in ("terminate", "rejected") for one in report.connections
    ]


def test_a_fin_with_octets_unacknowledged_is_not_counted_as_clean() -> None:
    """FIN of one side, the other sends on, RST: that aborts it; by what came first, as JSON counts, it is a FIN."""
    report = analyze([PCAPS / "suiw-two-hosts.pcap", PCAPS / "siw-rping.pcap"], fpdus=False)
    said = "  ended: 1 reset after a FIN (before everything was acknowledged), 1 by FIN"
    assert [*report_lines(report)][1] == said
    assert report.as_dict()["summary"]["ended"] == {"fin": 2}
    assert sorted(ending(one.lifecycle) for one in report.connections) == ["by FIN", "reset after a FIN"]
    unfinished = {one["lifecycle"]["unfinished"]: one["initiator"] for one in report.as_dict()["connections"]}
    assert sorted(unfinished) == [False, True]
    assert report.as_dict()["summary"]["unfinished"] == 1


def test_ends_in_words() -> None:
    """A FIN that a RST follows once everything was acknowledged and both sides had closed was no abortion."""
    ended: dict[Ended, int] = {"terminate": 1, "rst": 3, "fin": 9}
    summary = Summary(13, ended, {"terminate": 1, "rst": 2, "fin": 3}, {"terminate": 1, "fin": 6}, 5, [])
    assert [*ended_words(summary)] == [
        "1 by Terminate (1 reset after that)",
        "3 by RST (2 before everything was acknowledged)",
        "5 reset after a FIN (3 before everything was acknowledged)",
        "4 by FIN (1 reset after that)",
    ]
    summary = Summary(3, {"fin": 3}, {"fin": 3}, {"fin": 3}, 3, [])
    assert [*ended_words(summary)] == ["3 reset after a FIN (before everything was acknowledged)"]


@pytest.mark.parametrize(
    ("reset_by", "closed", "left", "is_aborted"),
    [
        (None, ("fin", "fin"), 0, False),
        ("responder", ("fin", "fin"), 0, False),
        ("responder", ("fin", "fin"), 1, True),
        ("responder", ("fin", "rst"), 0, True),
        (None, ("fin", None), 1, False),
    ],
)
def test_a_rst_aborts_what_a_fin_of_one_side_has_not_closed(
    reset_by: Side | None, closed: tuple[Any, Any], left: int, is_aborted: bool
) -> None:
    ends = (HalfEnd(closed[0], 8), HalfEnd(closed[1], 9, 0, left))
    life = Lifecycle((1, 0), (9, 0), "fin", "initiator", 8, reset_by, 9 if reset_by else None, *ends)
    assert life.is_aborted is is_aborted
    assert ending(life) == ("reset after a FIN" if is_aborted else "by FIN")


def test_the_worst_connection_is_listed_first() -> None:
    report = analyze(CAPTURES["siw-client-killed"], fpdus=False)
    lines = [*report_lines(report)]
    assert [line[:2] for line in lines if line.startswith("#")] == ["#1", "#0"]
    assert lines[2:4] == [
        "  warning teardown-unacknowledged: 1 time, 1 connection",
        "  warning pad: 2 times, 1 connection",
    ]
    assert lines[4].startswith("  the worst connections first: ")
    assert [one.number for one in report.connections] == [0, 1]
    # Where that is the order of numbers, nothing is said of it.
    report = analyze(CAPTURES["siw-three-in-a-row"], fpdus=False)
    lines = [*report_lines(report)]
    assert [line[:2] for line in lines if line.startswith("#")] == ["#0", "#1", "#2"]
    assert not any("worst" in line for line in lines)


def test_files_are_named() -> None:
    paths = [PCAPS / "siw-terminate.pcap", PCAPS / "siw-rejected.pcap"]
    told = analyze(paths, fpdus=False).as_dict()
    for connection in told["connections"]:
        name = connection["capture"]
        alone = analyze(name, fpdus=False).as_dict()
        like = next(one for one in alone["connections"] if one["initiator"] == connection["initiator"])
        assert connection["capture_frame"] == like["lifecycle"]["first_frame"]
        assert [found["capture_frame"] for found in connection["findings"]] == [
            found["frame"] for found in like["findings"]
        ]
        assert {found["capture"] for found in connection["findings"]} <= {name}
    assert "capture" not in analyze(paths[0], fpdus=False).as_dict()["connections"][0]
