"""What annotate says while the capture goes on: as of a file, but for what showed when the packet had been written."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scapy_mpa.capture.ongoing import OngoingCaptures, Polling, origin_of
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.ongoing import OngoingAnalysis
from scapy_mpa.reading.query import query_of
from scapy_mpa.wireshark.ongoingcomments import OngoingComments
from tests.capture.convert import COMPRESSED, FORMATS, recorded
from tests.cli.test_command import invoke
from tests.cli.test_ongoing import HEADER, records, running, wait_for
from tests.conftest import PCAPS
from tests.hostile.files import LAYOUTS, Case
from tests.live.relay import Network, needs_network
from tests.wireshark.test_annotate import without_our_comments
from tests.wireshark.test_ongoing import CAPTURES, PATIENCE
from tests.wireshark.tshark import needs_tshark

COMMAND = (sys.executable, "-m", "scapy_mpa", "annotate", "--follow", "-", "-")
REORDERED = PCAPS / "markers-reordered.pcap"
#: What is said of how a connection began: of one that goes on no more than who it is.
BEGINS = re.compile(r"(: begins here: ).*")
#: What is said of a frame that had been written.
LATE = re.compile(r" \[frame (\d+)\]$")


def followed(octets: bytes, *options: str) -> bytes:
    done = subprocess.run([*COMMAND, *options], input=octets, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def said(path: Path) -> dict[int, list[str]]:
    """The lines of each frame, sorted; late ones at the frame that they are about."""
    found: dict[int, list[str]] = {}
    for frame, text in without_our_comments(path)[1].items():
        for line in text.splitlines():
            late = LATE.search(line)
            about = int(late[1]) if late else frame
            found.setdefault(about, []).append(BEGINS.sub(r"\1", LATE.sub("", line)))
    return {frame: sorted(lines) for frame, lines in found.items()}


def of_a_file(path: Path, folder: Path, *options: str) -> dict[int, list[str]]:
    out = folder / "file.pcapng"
    assert invoke("annotate", *options, str(path), str(out)).exit_code == 0
    return said(out)


@pytest.mark.parametrize("name", [*CAPTURES, "markers-lossy.pcap.zst", "markers-draft-origin.pcap"])
def test_it_says_what_is_said_of_the_whole_file(name: str, tmp_path: Path) -> None:
    """Connections are numbered as they are found, and name others that ended with them only if told together."""
    path, out = PCAPS / name, tmp_path / "out.pcapng"
    out.write_bytes(followed(path.read_bytes()))
    one, other = said(out), of_a_file(path, tmp_path)
    for found in (one, other):
        for lines in found.values():
            lines[:] = sorted(line.partition("; also of these hosts")[0] for line in lines)
    assert one == other


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_all_but_the_comments_stays(form: str, compression: str | None, tmp_path: Path) -> None:
    octets = FORMATS[form](recorded(REORDERED))
    out, whole = tmp_path / "out.pcapng", tmp_path / "whole.pcapng"
    out.write_bytes(followed(octets if compression is None else COMPRESSED[compression](octets)))
    capture = tmp_path / "capture"
    capture.write_bytes(octets)
    assert invoke("annotate", str(capture), str(whole)).exit_code == 0
    before, comments = without_our_comments(out)
    assert before == without_our_comments(whole)[0]
    assert len(comments) == 476
    if "pcapng" in form:
        assert before == octets


def test_what_shows_later_is_said_on_the_next_packet(tmp_path: Path) -> None:
    """Where nothing is held back, what an FPDU of two segments is shows when the first of them has been written."""
    octets, out = REORDERED.read_bytes(), tmp_path / "out.pcapng"
    command = "import scapy_mpa.wireshark.ongoingcomments as o; o.HELD = -1; from scapy_mpa.cli import main; main()"
    # One packet at a time: each is written before the next one comes.
    arguments = [sys.executable, "-c", command, *COMMAND[3:]]
    with (
        open(out, "wb") as file,
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.PIPE, bufsize=0) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(octets[:HEADER])
        # It reads now.
        wait_for(lambda: out.stat().st_size > 0)
        for record in [*records(octets)][:400]:
            process.stdin.write(record)
            time.sleep(0.004)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    comments = without_our_comments(out)[1]
    late = [line for text in comments.values() for line in text.splitlines() if LATE.search(line)]
    assert any("FPDU seq " in line for line in late)
    frames = [(frame, int(found[1])) for frame, text in comments.items() for found in LATE.finditer(text)]
    assert all(about < frame for frame, about in frames)
    # Nothing is lost of what is said of FPDUs that were placed.
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(octets[:HEADER] + b"".join([*records(octets)][:400]))
    assert fpdus(said(out)) == fpdus(of_a_file(cut, tmp_path))


def fpdus(comments: dict[int, list[str]]) -> set[tuple[int, str]]:
    """The frames that placed FPDUs, and the sequence numbers of these."""
    found = [(frame, line) for frame, lines in comments.items() for line in lines]
    return {
        (frame, line.partition(" (")[0])
        for frame, line in found
        if "FPDU seq" in line and " placed " in line and " here" in line
    }


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    three, out = PCAPS / "siw-three-in-a-row.pcap", tmp_path / "out.pcapng"
    out.write_bytes(followed(three.read_bytes(), "--connection", "1"))
    comments = without_our_comments(out)[1]
    lines = [line for text in comments.values() for line in text.splitlines()]
    assert any(line.startswith("mpa #1 ") for line in lines)
    assert not any(line.startswith(("mpa #0", "mpa #2")) for line in lines)


@pytest.mark.parametrize(
    ("options", "why"), [(("--ulp", "nfs"), "--ulp"), (("--direction", "initiator"), "both directions")]
)
def test_what_cannot_be(options: tuple[str, ...], why: str) -> None:
    done = subprocess.run([*COMMAND, *options], input=b"", capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert why.encode() in done.stderr


def test_a_packet_waits_for_a_second_and_no_longer(tmp_path: Path) -> None:
    octets = (PCAPS / "markers-aligned.pcap").read_bytes()
    with subprocess.Popen([*COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(octets[:HEADER])
        # A section header and an interface come before any packet.
        assert (process.stdout.read(28) or b"")[:4] == b"\x0a\x0d\x0d\x0a"
        began = time.monotonic()
        for record in [*records(octets)][:20]:
            process.stdin.write(record)
        seen = b""
        # Nothing more comes, and it is written all the same.
        while b"MPA Reply complete" not in seen:
            more = process.stdout.read(65536)
            assert more
            seen += more
        assert 0.5 < time.monotonic() - began < 30
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@needs_tshark
@needs_network()
def test_tshark_reads_the_pipe_while_two_talk(tmp_path: Path) -> None:
    with Network() as network:
        shown, log = tmp_path / "shown", tmp_path / "log"
        program = f"{sys.executable} -m scapy_mpa annotate -i lo --poll 0.05 -"
        filters = "-l -Y 'frame.comment contains \"FPDU seq\"' -T fields -e frame.number -e frame.comment"
        with open(shown, "wb") as file, open(tmp_path / "errors", "wb") as errors:
            pipe = network.popen("a", ["sh", "-c", f"{program} | tshark -r - {filters}"], stdout=file, stderr=errors)
        wait_for(lambda: network.run("a", ["cat", "/proc/net/packet"]).stdout.count("\n") > 1)
        with open(log, "wb") as file:
            listen = [*COMMAND[:3], "listen", "127.0.0.1", "7471", "--ulp", "echo", "--markers"]
            network.popen("a", listen, stdout=file, stderr=file)
        wait_for(lambda: b"7471" in log.read_bytes())
        talk = ("connect", "127.0.0.1", "7471", "--ulp", "echo", "--count", "3", "--size", "1200", "--markers")
        network.run("a", [*COMMAND[:3], *talk])
        # It is shown while the capture goes on.
        wait_for(lambda: shown.read_text().count("placed and delivered here") >= 6)
        assert pipe.poll() is None
        text = shown.read_text()
        pipe.terminate()
        pipe.wait(PATIENCE)
    assert text.count("(Send, ULPDU 1218") == 6
    assert text.count("placed and delivered here") == 6


@needs_network()
def test_a_signal_ends_it_with_a_whole_file(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    path = tmp_path / "grows.pcap"
    path.write_bytes(REORDERED.read_bytes())
    with running("annotate", "--follow", str(path), str(out), "--poll", "0.05") as command:
        time.sleep(3)
        status, lines, errors = command.end(signal.SIGTERM)
    # What became of the connection shows two seconds after its end, when its packets may have been written.
    assert (status, lines[0].partition(", ")[0]) == (0, f"{out}: 945 packets")
    told = said(out)
    for line in errors.splitlines():
        late = LATE.search(line)
        assert late is not None
        told.setdefault(int(late[1]), []).append(LATE.sub("", line).removeprefix("scapy-mpa: "))
    assert {frame: sorted(lines) for frame, lines in told.items()} == of_a_file(path, tmp_path)


def test_any_mutations(tmp_path: Path) -> None:
    path, out = tmp_path / "capture", tmp_path / "out.pcapng"
    for number in range(60):
        name = ("markers-packed", "markers-before-crc", "siw-rping")[number % 3]
        mutations = (("flip", number), ("forge_ulpdu_length", number), ("forge_marker", number), ("shuffle", number))
        octets = Case(name, number, mutations, LAYOUTS[number % len(LAYOUTS)]).made().octets
        path.write_bytes(octets[: len(octets) * (number % 7 + 1) // 7])
        polling = Polling()
        polling.end()
        captures = OngoingCaptures(origin_of(str(path), polling), polling)
        comments = OngoingComments(captures, lambda _: True, lambda *_: True)
        analysis = OngoingAnalysis(
            captures, query_of(str(path)), comments.over, listener=comments, make_findings=comments.make_findings
        )
        written = [octets for _ in analysis.batches() for octets in comments.take()]
        out.write_bytes(b"".join([*written, *comments.take(is_over=True)]))
        assert comments.packets == captures.packets == analyze(out).packets
