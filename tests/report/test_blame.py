"""What the verdict makes of a Terminate: evidence for it, against it, or none in the capture.

The captures in `terminates/` were made by hand, octet by octet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.utils import rdpcap, wrpcap

from scapy_mpa import analyze
from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.report.model import Report
from scapy_mpa.report.together import MOST_NAMED, SHORT_TIME
from tests.conftest import PCAPS, named

TERMINATES = Path(__file__).with_name("terminates")
GOES_ON = Path(__file__).parents[1] / "receive" / "accepted" / "one-bad-crc-traffic-goes-on.pcap"
CRC = TERMINATES / "D-term-crc-but-all-good.pcap"


def rules_of(report: Report) -> set[tuple[str, str | None]]:
    return {(one.rule.id, one.direction) for one in report.all_findings()}


#: By capture: its findings, and a part of its sentence.
CAPTURED = {
    "D-term-atomic-quoted": (
        {("terminate", "responder"), ("terminate-headers", "responder")},
        (
            "the Atomic Request of 52 octets (MSN 1, frame 6): RDMAP remote operation error: catastrophic error, "
            "localized to RDMAP Stream; the Initiator broke RFC 7306 §8.2: TO 0x34 of its Atomic Request is not 64-bit "
            "aligned; then FIN"
        ),
    ),
    "D-term-crc-but-all-good": (
        {("terminate", "responder")},
        (
            "CRC does not match; the only FPDU of the Initiator was captured good here: damaged after this tap, or "
            "computed differently by its receiver; a capture at the Responder shows which; then FIN"
        ),
    ),
    "T-res-0x0400": (
        {("terminate", "responder"), ("terminate-reserved", "responder")},
        "the Responder terminated it at frame 8: RDMAP local catastrophic error; then FIN",
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_a_terminate_is_weighed(name: str) -> None:
    rules, said = CAPTURED[name]
    report = analyze(TERMINATES / f"{name}.pcap")
    assert {one for one in rules_of(report) if one[0].startswith("terminate")} == rules
    assert said in report.connections[0].verdict


def test_reserved_bits_are_named() -> None:
    (found,) = (one for one in analyze(TERMINATES / "T-res-0x0400.pcap").all_findings() if "reserved" in one.rule.id)
    assert (found.detail, found.severity) == ("reserved bits 0x0400 of the control word are set", "warning")


def test_a_quoted_atomic_is_shown_as_one() -> None:
    from scapy_mpa.report.messages import message_fields

    report = analyze(TERMINATES / "D-term-atomic-quoted.pcap")
    (said,) = (one for one in report.connections[0].said() if one.role == "responder")
    fields = {field.name.removeprefix("terminated "): field for field in message_fields(said.ulpdu)}
    assert "Sink STag" not in fields and fields["Request ID"].value == 17
    assert (fields["Remote TO"].value, fields["Remote TO"].note) == (0x34, "not 64-bit aligned (RFC 7306 §8.2)")


#: By a case of the catalogue: a part of its sentence.
SAID = {
    "crc-zero": "CRC error in frame 8, then a Terminate from the receiver at frame 11, as RFC 5044 §8 specifies",
    "queue-send-1": "the Initiator broke RFC 5040 §4.1, as captured: Send in queue 1 (frame 8)",
    "msn-twice": "the Initiator broke RFC 5041 §4.3, as captured: MSN 2 of queue 0 after 2 (frame 9)",
    "terminate-1-2-01": "DDP untagged buffer error: invalid QN; no captured FPDU of the Responder shows that",
    "terminate-1-1-00": (
        "DDP tagged buffer error: invalid STag; who is to blame cannot be known from this capture, only from the "
        "memory that the Initiator had registered"
    ),
    "terminate-quotes-another-msn": "the Initiator broke RFC 5040 §4.8: the Responder never sent what it quotes",
    "terminate-quotes-what-was-sent": (
        "who is to blame cannot be known from this capture, only from the receive buffers that the Initiator had posted"
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_a_case_says_who_broke_what(name: str) -> None:
    assert SAID[name] in Malformed(name).analyze().connections[0].verdict


def test_a_message_never_sent_is_named_as_that() -> None:
    said = Malformed("terminate-quotes-another-msn").analyze().connections[0].verdict
    assert "the Send (MSN 9, which was never sent) had an MSN out of range" in said


def test_who_goes_on_after_a_bad_crc_is_not_accused_of_the_fin() -> None:
    report = Malformed("error-went-on").analyze()
    said = report.connections[0].verdict
    assert said.startswith("the Responder went on after a bad CRC in frame 7, which RFC 5044 §8 forbids: ")
    (found,) = (one for one in report.all_findings() if one.rule.id == "error-went-on")
    assert (found.frame, found.time_ns) == (10, Malformed("error-went-on").captured.packets[9][0])


def test_traffic_goes_on() -> None:
    (connection,) = analyze(GOES_ON).connections
    assert connection.verdict == (
        "the Responder went on after a bad CRC in frame 14, which RFC 5044 §8 forbids: 4,536 octets in frames 17 to "
        "123, after the error of frame 14 was acknowledged; the Initiator closed (FIN, frame 124), then the Responder "
        "(FIN, frame 125)"
    )
    assert [(one.rule.id, one.frame) for one in connection.findings] == [("crc", 14), ("error-went-on", 17)]


def test_a_marker_error_where_no_markers_are_in_use() -> None:
    """Linux siw finds one in an FPDU with a wrong length."""
    (connection,) = analyze(PCAPS / "siw-deviations" / "length-0-of-78.pcapng", fpdus=False).connections
    assert connection.verdict.startswith(
        "CRC error in frame 8, then a Terminate from the receiver at frame 11, which says LLP MPA error: Marker and "
        "ULPDU_Length disagree; no Markers are in use in what the Initiator sends (M 0, RFC 5044 §7.1.1); then FIN"
    )


@pytest.mark.parametrize("name", ["crc-split-over-segments", "valid-fpdu-cut-18"])
def test_a_crc_that_its_receiver_computes_otherwise(name: str) -> None:
    """Linux siw, of a CRC that comes in two segments."""
    (connection,) = analyze(PCAPS / "siw-deviations" / f"{name}.pcapng", fpdus=False).connections
    said = "all 4 FPDUs of the Initiator were captured good here: damaged after this tap, or computed differently by"
    assert said in connection.verdict


# --- what is not captured accuses nobody ---


def kept(capture: Path, out: Path, is_kept: Callable[[int, Any], bool]) -> Report:
    """The report of a capture of which some packets are kept, by number from 1."""
    packets = [packet for number, packet in enumerate(rdpcap(str(capture)), 1) if is_kept(number, packet)]
    wrpcap(str(out), packets)
    return analyze(out)


def made(name: str, out: Path) -> Path:
    with out.open("wb") as file:
        Malformed(name).captured.write(file)
    return out


def test_where_octets_are_missing_a_bad_crc_may_be_among_them(tmp_path: Path) -> None:
    (found,) = (one for one in analyze(CRC).connections[0].initiator.fpdus)
    report = kept(CRC, tmp_path / "lacks.pcap", lambda number, _: number not in found.frames)
    said = report.connections[0].verdict
    lack = "no FPDU of the Initiator was captured; a capture that has them would show it"
    assert f"whose fault it is cannot be known from this capture: {lack}; then" in said
    assert "captured good" not in said


QUOTES = "terminate-quotes-another-stag"


def test_a_quote_is_compared_with_all_that_was_sent(tmp_path: Path) -> None:
    capture = made(QUOTES, tmp_path / "all.pcap")
    report = analyze(capture)
    (connection,) = report.connections
    assert ("terminate-quote", "initiator") in rules_of(report)
    frame = connection.lifecycle.ended_frame
    assert frame is not None
    (lost,) = (one for one in connection.responder.fpdus if one.opcode == "RDMA Write")
    # The message may be what is missing, or follow what was captured.
    for name, is_kept in (
        ("missing", lambda number, _: number not in lost.frames),
        ("one-way", lambda _, packet: packet[TCP].sport != 7471 or not packet[TCP].payload),
        ("cut-short", lambda number, _: number <= frame),
        ("begins-late", lambda number, _: number > 6),
    ):
        found = rules_of(kept(capture, tmp_path / f"{name}.pcap", is_kept))
        assert ("terminate-quote", "initiator") not in found, name


# --- connections of the same hosts ---


def twice(capture: Path, out: Path, later: Iterable[float]) -> Report:
    """The report of a connection and of copies of it, from other ports, so many seconds later."""
    packets: list[Any] = list(rdpcap(str(capture)))
    made = list(packets)
    for number, seconds in enumerate(later, 1):
        for packet in packets:
            copy = packet.copy()
            copy.time = packet.time + seconds
            for name in ("sport", "dport"):
                if getattr(copy[TCP], name) == 40000:
                    setattr(copy[TCP], name, 40000 + number)
            del copy[TCP].chksum, copy[IP].chksum
            made.append(copy)
    wrpcap(str(out), sorted(made, key=lambda one: one.time))
    return analyze(out, fpdus=False)


def test_connections_that_end_together_name_each_other(tmp_path: Path) -> None:
    first, second, third = twice(CRC, tmp_path / "three.pcap", (0.25, 2.5)).connections
    assert first.verdict.endswith("; also of these hosts: #1 was terminated 0.250 s later")
    assert second.verdict.endswith("; also of these hosts: #0 was terminated 0.250 s earlier")
    assert "these hosts" not in third.verdict
    assert SHORT_TIME == 1_000_000_000


def test_the_nearest_are_named(tmp_path: Path) -> None:
    connections = twice(CRC, tmp_path / "six.pcap", (0.1, 0.2, 0.3, 0.4, 0.5)).connections
    names = [f"#{number} was terminated 0.{number}00 s later" for number in range(1, MOST_NAMED + 1)]
    assert connections[0].verdict.endswith(f"; also of these hosts: {', '.join(names)}, and 2 more")


def test_an_end_by_fin_is_not_named(tmp_path: Path) -> None:
    connections = twice(GOES_ON, tmp_path / "two.pcap", (0.2,)).connections
    assert [one.lifecycle.ended for one in connections] == ["fin", "fin"]
    assert not [one for one in connections if "these hosts" in one.verdict]


@pytest.mark.parametrize(("shift", "is_named"), [(0.0, True), (0.9, True), (1.1, False), (-0.1, False)])
def test_one_that_was_reset_names_one_that_was_closed_before(shift: float, is_named: bool, tmp_path: Path) -> None:
    """The host whose program was killed closed #0 shortly before: not afterwards, and not long before."""
    out = tmp_path / "shifted.pcap"
    packets: list[Any] = list(rdpcap(str(named("siw-client-killed"))))
    for packet in packets:
        if TCP in packet and 38347 in (packet[TCP].sport, packet[TCP].dport):
            packet.time += Decimal(str(shift))
    wrpcap(str(out), sorted(packets, key=lambda one: one.time))
    (reset,) = (one for one in analyze(out, fpdus=False).connections if one.lifecycle.reset_by)
    said = f"; {shift + 0.039:.3f} s earlier #0 of the same hosts had been closed by its Initiator (FIN, frame "
    assert (said in reset.verdict) is is_named
    assert ("#0" in reset.verdict) is is_named
    assert reset.verdict.startswith(reset.own_verdict)


def test_a_buffer_error_is_an_attack_only_where_most_connections_of_a_host_end_so() -> None:
    assert "attack-buffer" not in {rule for rule, _ in rules_of(analyze(PCAPS / "siw-three-in-a-row.pcap"))}
    (found,) = (one for one in Malformed("buffers-not-offered").analyze().findings if one.rule.id == "attack-buffer")
    detail = "20 connections of 10.0.0.1, each ended by a Terminate about a buffer it named"
    assert (found.detail, found.count, found.severity) == (detail, 20, "note")
