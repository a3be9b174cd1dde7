"""What each side sent while MPA was started, and when: as values, in sentences, in JSON and on the page."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.report.beginning import event_line, remarkable_beginning
from scapy_mpa.report.text import report_lines
from tests.receive.conversing import ACK, FIN, RST, SYN, Captured, Plan, Seg, lay_fpdu, pcap_of, send_message

REQUEST = b"MPA ID Req Frame" + bytes((0x40, 1, 0, 0))
REPLY = b"MPA ID Rep Frame" + bytes((0x40, 1, 0, 0))
REJECTS = b"MPA ID Rep Frame" + bytes((0x60, 1, 0, 0))
FPDU = lay_fpdu(send_message(1, 60, random.Random(1)), 0, False, True)[0]


class Sent(NamedTuple):
    """A segment: seconds after the one before it, its side, its payload and flags."""

    after: float
    side: int
    payload: bytes = b""
    flags: int = ACK


def capture(*segments: Sent) -> bytes:
    """Return the capture of a connection that begins with a handshake."""
    captured, now, following = [], 0.0, [0, 0]
    for one in (Sent(0, 0, flags=SYN), Sent(0, 1, flags=SYN | ACK), Sent(0, 0), *segments):
        now += one.after
        seg = Seg(one.side, following[one.side], following[1 - one.side], one.flags, 65535, one.payload)
        following[one.side] = seg.end
        captured.append(Captured(now, seg))
    return pcap_of(captured, Plan(timestamps=False))


class Case(NamedTuple):
    """Segments, the line of time, and the sentences about it."""

    segments: tuple[Sent, ...]
    line: str
    sentences: tuple[str, ...] = ()


OPERATES = Sent(0.001, 0, FPDU), Sent(0, 1), Sent(0.001, 1, FPDU), Sent(0, 0)
CASES = {
    "as usual": Case(
        (Sent(0, 0, REQUEST), Sent(0, 1), Sent(0.5, 1, REPLY), Sent(0, 0), *OPERATES),
        "Request 0.000 s (frame 4), Reply 0.500 s (frame 6), Initiator's first FPDU 0.501 s (frame 8), "
        "Responder's first FPDU 0.502 s (frame 10)",
    ),
    "late": Case(
        (Sent(0, 0, REQUEST), Sent(0, 1), Sent(70.2, 1, REPLY), Sent(0, 0), *OPERATES),
        "Request 0.000 s (frame 4), Reply 70.200 s (frame 6), Initiator's first FPDU 70.201 s (frame 8), "
        "Responder's first FPDU 70.202 s (frame 10)",
        ("the Responder replied 70.200 s after the Request",),
    ),
    "gave up by FIN": Case(
        (Sent(0, 0, REQUEST), Sent(0, 1), Sent(5, 0, flags=FIN | ACK), Sent(0.1, 1), Sent(0.1, 1, flags=FIN | ACK)),
        "Request 0.000 s (frame 4), Initiator's FIN 5.000 s (frame 6), Responder's FIN 5.200 s (frame 8)",
        ("the Initiator gave up before any Reply (FIN, frame 6, 5.000 s after the Request)",),
    ),
    "gave up by RST": Case(
        (Sent(0, 0, REQUEST), Sent(0, 1), Sent(30, 0, flags=RST | ACK)),
        "Request 0.000 s (frame 4), Initiator's RST 30.000 s (frame 6)",
        ("the Initiator gave up before any Reply (RST, frame 6, 30.000 s after the Request)",),
    ),
    "refused": Case(
        (Sent(0, 0, REQUEST), Sent(0.2, 1, flags=RST | ACK)),
        "Request 0.000 s (frame 4), Responder's RST 0.200 s (frame 5)",
        ("the Responder closed before any Reply (RST, frame 5, 0.200 s after the Request)",),
    ),
    "two Requests": Case(
        (Sent(0, 0, REQUEST), Sent(0, 1), Sent(30, 0, REQUEST), Sent(0, 1), Sent(1, 0, flags=FIN | ACK)),
        "Request 0.000 s (frame 4), second Request 30.000 s (frame 6), Initiator's FIN 31.000 s (frame 8)",
        (
            "two Requests: frame 4, and frame 6 30.000 s after",
            "the Initiator gave up before any Reply (FIN, frame 8, 31.000 s after the Request)",
        ),
    ),
    "rejected": Case(
        (Sent(0, 0, REQUEST), Sent(0, 1), Sent(0.1, 1, REJECTS), Sent(0, 0), Sent(0.1, 0, flags=FIN | ACK)),
        "Request 0.000 s (frame 4), Reply that rejects 0.100 s (frame 6), Initiator's FIN 0.200 s (frame 8)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_sent_and_when(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "x.pcap"
    path.write_bytes(capture(*case.segments))
    report = analyze(path)
    (connection,) = report.connections
    events = connection.startup_events
    assert event_line(events) == case.line
    assert tuple(remarkable_beginning(events)) == case.sentences
    text = "\n".join(report_lines(report))
    assert (case.line in text) == bool(case.sentences)
    assert all(one in text for one in case.sentences)
    shown = CliRunner().invoke(cli, ["startup", str(path)])
    assert all(one in shown.output for one in case.sentences)
    assert all(f"frame {one.frame:<7} {one.side.capitalize():9}  {one.what}\n" in shown.output for one in events)
    for command, keys in (("startup", ("events",)), ("analyze", ("lifecycle", "startup"))):
        found = json.loads(CliRunner().invoke(cli, [command, "--format", "json", str(path)]).output)["connections"][0]
        for key in keys:
            found = found[key]
        assert [(one["frame"], one["side"], one["event"]) for one in found] == [
            (one.frame, one.side, one.what) for one in events
        ]


def test_the_page_has_it(tmp_path: Path) -> None:
    path, page = tmp_path / "x.pcap", tmp_path / "x.html"
    path.write_bytes(capture(*CASES["late"].segments))
    done = CliRunner().invoke(cli, ["report", str(path), "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "the Responder replied 70.200 s after the Request" in text
    assert "<td>70.200000</td><td>6</td><td>Responder</td><td>Reply</td>" in text
