"""``MPAConnection.from_capture``: what was said in a capture, said again, changed, and written."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import TCP
from scapy.utils import wrpcap

from scapy_mpa import analyze
from scapy_mpa.craft.setup import ConversationError
from scapy_mpa.craft.turns import Pause, Say
from scapy_mpa.errors import MPAError
from scapy_mpa.layers import MPAConnection
from scapy_mpa.report.connection import Connection
from tests.conftest import PCAPS, captures

RPING = PCAPS / "siw-rping.pcap"
#: Not all of it was captured, or not from the beginning: what follows from that is not said again.
PARTIAL = ("siw-snaplen128", "siw-midstream", "siw-midstream-crc")
#: Findings about TCP's segments and acknowledgements, which are others.
OF_SEGMENTS = {"alignment", "fpdu-above-emss", "fpduptr-origin", "teardown-unacknowledged"}
#: And about what never came: where one side reset the connection, both close it here.
OF_SEGMENTS |= {"request-unanswered", "ddp-unfinished"}


def written(connection: MPAConnection, path: Path) -> Connection:
    wrpcap(str(path), connection.packets())
    (found,) = analyze(path).connections
    return found


def said(connection: Connection) -> list[tuple[Any, ...]]:
    return [one[:4] for one in connection.said()]


@pytest.mark.parametrize("as_messages", [False, True])
@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_what_was_said_is_said_again(path: Path, as_messages: bool, tmp_path: Path) -> None:
    """The same startup frames, and the same ULPDUs in the same FPDUs; ends and how it ended too."""
    for connection in analyze(path).connections:
        again = MPAConnection.from_capture(path, connection.number, as_messages=as_messages)
        found = written(again, tmp_path / "again.pcap")
        if as_messages:
            # A message counts where its last segment is, one that is not whole behind all others.
            assert Counter(said(found)) == Counter(said(connection))
        else:
            assert said(found) == said(connection)
        assert (found.request, found.reply, found.rejected) == (
            connection.request,
            connection.reply,
            connection.rejected,
        )
        for side in ("initiator", "responder"):
            ours, theirs = found.half(side), connection.half(side)
            assert (ours.endpoint, bool(ours.markers)) == (theirs.endpoint, bool(theirs.markers))
        assert found.lifecycle.ended == connection.lifecycle.ended
        if path.stem not in PARTIAL:
            rules = [{one.rule.id for one in one.findings} - OF_SEGMENTS for one in (found, connection)]
            assert rules[0] == rules[1]


def test_sequence_numbers_and_time_are_those_of_the_capture(tmp_path: Path) -> None:
    (connection,) = analyze(RPING).connections
    found = written(MPAConnection.from_capture(RPING), tmp_path / "again.pcap")
    assert (found.request_seq, found.reply_seq) == (connection.request_seq, connection.reply_seq)
    assert [one.seq for one in found.initiator.fpdus] == [one.seq for one in connection.initiator.fpdus]
    assert abs(found.lifecycle.first[1] - connection.lifecycle.first[1]) < 1000


def test_a_step_is_changed(tmp_path: Path) -> None:
    """Message 7's octets, and the CRC of an FPDU."""
    again = MPAConnection.from_capture(RPING, as_messages=True)
    told = list(again.told())
    number = next(n for n, line in enumerate(told) if "RDMA Write" in line)
    assert told[number] == f"{number} responder RDMA Write, 64 octets"
    again.change(number, b"other octets").change(-1, crc=0xDEADBEEF)
    assert list(again.told())[number] == f"{number} responder RDMA Write, 12 octets"
    assert list(again.told())[-1].endswith("CRC 0xdeadbeef")
    found = written(again, tmp_path / "changed.pcap")
    before, after = [*MPAConnection.from_capture(RPING, as_messages=True).steps], [*again.steps]
    assert sum(one != two for one, two in zip(before, after, strict=True)) == 2
    octets = [one.ulpdu for one in found.said()]
    assert octets[number - 1][14:] == b"other octets"
    last = [*found.said()][-1]
    assert last.crc is None  # the Request and the Reply do without CRCs: the field means nothing
    with_crc = MPAConnection.from_capture(RPING, c=(1, 1)).change(-1, crc=0xDEADBEEF)
    (bad,) = (one for one in written(with_crc, tmp_path / "crc.pcap").said() if one.crc is not None)
    assert bad.crc == 0xDEADBEEF


@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
def test_what_is_wrong_is_kept(m: tuple[int, int], tmp_path: Path) -> None:
    """A wrong CRC, a PAD that is not zero: in a capture, and in what is said again of it."""
    first = MPAConnection(m=m).send("initiator", b"one").send("responder", bytes(30)).send("initiator", b"three")
    first.change(1, crc=7).change(2, pad=b"\1\2").change(3, pad=b"\7\7\7")
    wrpcap(str(tmp_path / "first.pcap"), first.packets())
    (connection,) = analyze(tmp_path / "first.pcap").connections
    assert connection.initiator.counts.crc_errors == 1
    rules = {one.rule.id for one in connection.findings}
    assert {"crc", "pad"} <= rules
    again = written(MPAConnection.from_capture(tmp_path / "first.pcap"), tmp_path / "again.pcap")
    assert said(again) == said(connection) and {one.rule.id for one in again.findings} == rules


def test_a_wrong_length_is_sent(tmp_path: Path) -> None:
    made = MPAConnection(c=(0, 0)).send("initiator", bytes(30)).send("initiator", bytes(30)).change(1, ulpdu_length=4)
    (connection,) = analyze(_capture(made), fpdus=False).connections
    assert connection.initiator.counts.unlocated_octets or connection.findings


def _capture(made: MPAConnection) -> io.BytesIO:
    file = io.BytesIO()
    made._traffic().write(file)
    file.seek(0)
    return file


def test_parameters_go_before_what_was_captured(tmp_path: Path) -> None:
    again = MPAConnection.from_capture(RPING, m=(1, 1), c=(1, 1), ports=(1234, 7471), segmentation="packed")
    found = written(again, tmp_path / "again.pcap")
    assert found.initiator.markers and found.responder.markers and found.crc
    assert found.initiator.endpoint.endswith(":1234") and found.responder.endpoint.endswith(":7471")
    (connection,) = analyze(RPING).connections
    assert [one.ulpdu for one in found.said()] == [one.ulpdu for one in connection.said()]


def test_pauses(tmp_path: Path) -> None:
    plain, paused = (MPAConnection.from_capture(RPING, pauses=pauses) for pauses in (None, 0.001))
    pauses = [step for step in paused.steps if isinstance(step, Pause)]
    assert pauses and not any(isinstance(step, Pause) for step in plain.steps)
    assert all(pause.duration >= 1_000_000 for pause in pauses)
    assert [step for step in paused.steps if isinstance(step, Say)] == [
        step for step in plain.steps if isinstance(step, Say)
    ]
    spent = [float(one[-1].time - one[0].time) for one in (plain, paused)]
    assert spent[1] - spent[0] == pytest.approx(sum(pause.duration for pause in pauses) / 1e9, abs=1e-3)


def test_what_cannot_be() -> None:
    with pytest.raises(MPAError, match="there is no connection 1; the capture has only 0"):
        MPAConnection.from_capture(RPING, 1)
    again = MPAConnection.from_capture(RPING)
    with pytest.raises(ConversationError, match="step 0 sends nothing in an FPDU: Request and Reply"):
        again.change(0, b"x")
    with pytest.raises(ConversationError, match="there is no step 36; there are 36, from 0"):
        again.change(36, b"x")
    with pytest.raises(ConversationError, match="not a number that fits in 32 bits"):
        again.change(1, crc=1 << 32)
    deviating = MPAConnection(deviation=("no-crc-field", "")).send("initiator", b"x").change(1, crc=1)
    with pytest.raises(ConversationError, match="if its sender deviates"):
        deviating.packets()


@pytest.mark.parametrize("as_messages", [False, True])
def test_more_can_be_said_behind_it(as_messages: bool, tmp_path: Path) -> None:
    """Each queue of each side goes on counting."""
    again = MPAConnection.from_capture(RPING, as_messages=as_messages)
    again.send("initiator").read("initiator", 10).send("responder").send("responder", b"and one more")
    found = written(again, tmp_path / "again.pcap")
    assert [*found.said()][-1].ulpdu.endswith(b"and one more")
    assert not [one.detail for one in found.findings if one.rule.id == "ddp-msn"]
    assert all(packet[TCP].sport in (60871, 7174) for packet in again.packets())
