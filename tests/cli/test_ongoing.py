"""``--follow`` and ``-i``: what is read while it is written is reported as it comes, and let go when it is over."""

from __future__ import annotations

import gzip
import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture.files import Captures
from scapy_mpa.messages.ongoing import OngoingMessages
from scapy_mpa.reading.analysis import analyze
from tests.cli.test_command import invoke
from tests.conftest import PCAPS
from tests.live.relay import Host, Network, needs_network
from tests.receive.cases import PlacedRows

RPING, REORDERED, MANY = PCAPS / "siw-rping.pcap", PCAPS / "markers-reordered.pcap", PCAPS / "siw-three-in-a-row.pcap"
#: Seconds that anything may take.
PATIENCE = 60
HEADER, RECORD = 24, 16
#: What a verdict says of connections that ended within a short time.
ALSO = "; also of these hosts: "


def records(octets: bytes) -> Iterator[bytes]:
    """The records of a little-endian pcap file."""
    at = HEADER
    while at < len(octets):
        end = at + RECORD + int.from_bytes(octets[at + 8 : at + 12], "little")
        yield octets[at:end]
        at = end


class Running:
    """The command while it runs, with what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def line(self) -> str:
        """The next line; fails if there is none within a while."""
        out = self.process.stdout
        assert out is not None
        assert select.select([out], [], [], PATIENCE)[0], "nothing is printed"
        return out.readline().decode()

    def end(self, number: int = signal.SIGINT) -> tuple[int, list[str], str]:
        """Have a signal end it: its status, the other lines, what is on stderr."""
        self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode().splitlines(), errors.decode()


@contextmanager
def running(*arguments: str, **options: Any) -> Iterator[Running]:
    """The command, killed in the end."""
    command = [sys.executable, "-m", "scapy_mpa", *arguments]
    # Without buffers, so that what select() sees is all that there is.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **options)
    try:
        yield Running(process)
    finally:
        process.kill()
        process.wait(PATIENCE)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def without_answers(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found | {"answer": None}


# --- a pipe ---


@pytest.mark.parametrize("what", ["fpdus", "messages"])
def test_everything_is_printed_before_the_next_packet_comes(what: str) -> None:
    """A writer that is slow: it writes the next packet when all that the last one brought was read."""
    octets = REORDERED.read_bytes()
    due: dict[int, int] = {}
    told: list[int | None] = []
    messages = OngoingMessages(lambda row, _connection: told.append(row.delivered_frame))
    placed = PlacedRows()
    analyzer = Analyzer(listener=placed if what == "fpdus" else messages)
    with Captures(REORDERED) as captures:
        for seg in (seg for segments in captures.batches() for seg in segments):
            before = len(told)
            messages.see((seg,))
            analyzer.feed((seg,))
            told += [row.placed for _, row, _ in placed.rows[len(told) :]]
            told[before:] = sorted(told[before:], key=lambda frame: frame or 0)
            due[seg.frame] = len(told) - before
    messages.times.close()
    # Copies that their receiver may have dropped wait until it acknowledges them.
    assert sum(one != 0 for one in due.values()) > 100
    key = "placed_frame" if what == "fpdus" else "delivered_frame"
    with running(what, "--follow", "-", "--format", "jsonl", stdin=subprocess.PIPE) as command:
        into = command.process.stdin
        assert into is not None
        into.write(octets[:HEADER])
        for frame, packet in enumerate(records(octets), 1):
            into.write(packet)
            for _ in range(due.pop(frame, 0)):
                assert json.loads(command.line())[key] == told.pop(0)
        into.close()
        assert command.line() == ""
    assert not due


def test_a_connection_is_printed_when_it_is_over_and_the_pipe_goes_on() -> None:
    octets = MANY.read_bytes()
    report = analyze(MANY, fpdus=False).as_dict()
    last = report["connections"][0]["lifecycle"]["last_frame"]
    with running("analyze", "--follow", "-", "--format", "jsonl", stdin=subprocess.PIPE) as command:
        into = command.process.stdin
        assert into is not None
        into.write(octets[:HEADER])
        for frame, one in enumerate(records(octets), 1):
            into.write(one)
            if frame == last:
                break
        # Nothing more comes, and it has been over for a while.
        assert json.loads(command.line()) == told_alone(report["connections"][0])
        into.close()
        end = json.loads(command.line())
    assert (end["packets"], end["summary"]["connections"]) == (last, 1)


def told_alone(one: dict[str, Any]) -> dict[str, Any]:
    """A connection that is reported before others: it does not name those that ended within a short time."""
    life = one["lifecycle"]
    verdict, also, _ = life["verdict"].partition(ALSO)
    assert also
    return {**one, "lifecycle": {**life, "verdict": verdict}}


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcap")), ids=lambda path: path.stem)
def test_what_is_said_is_what_is_said_of_the_whole_file(path: Path) -> None:
    report = analyze(path, fpdus=False).as_dict()
    with open(path, "rb") as file, running("analyze", "--format", "jsonl", "--follow", "-", stdin=file) as command:
        out, errors = command.process.communicate(timeout=PATIENCE)
    *connections, rest = map(json.loads, out.splitlines())
    assert errors == b""
    assert rest["packets"] == report["packets"]
    assert rest["findings"] == report["findings"]
    assert rest["summary"] == report["summary"]
    # They are numbered as they are found. Reported together, they also name each other.
    order = "initiator", "lifecycle"
    told, expected = ([one | {"connection": 0} for one in some] for some in (connections, report["connections"]))
    assert sorted(told, key=lambda one: [str(one[key]) for key in order]) == sorted(
        expected, key=lambda one: [str(one[key]) for key in order]
    )


@pytest.mark.parametrize("what", ["fpdus", "messages"])
def test_numbers_stay_what_they_were(what: str, tmp_path: Path) -> None:
    """Three connections are over and let go when one begins that is open at the end, and ends amid a message."""
    path = tmp_path / "more.pcap"
    path.write_bytes(MANY.read_bytes())
    with running("analyze", "--follow", str(path), "--poll", "0.05", "--format", "jsonl") as command:
        found = [json.loads(command.line())["connection"] for _ in range(3)]
        with open(path, "ab") as file:
            file.write(RPING.read_bytes()[HEADER:4000])
        _, lines, _ = command.end()
    assert [*found, json.loads(lines[0])["connection"]] == [0, 1, 2, 3]
    with running(what, "--follow", str(path), "--poll", "0.05", "--format", "jsonl") as command:
        numbers = [json.loads(command.line())["connection"] for _ in range(len(truth_of(MANY)))]
        _, lines, errors = command.end()
    assert errors == ""
    assert {*numbers, *(json.loads(line)["connection"] for line in lines)} == {0, 1, 2, 3}


# --- files that grow ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_file_that_grows_until_a_signal(number: int, tmp_path: Path) -> None:
    octets = RPING.read_bytes()
    path = tmp_path / "grows.pcap"
    path.write_bytes(octets[:30])
    with running("fpdus", "--follow", str(path), "--format", "jsonl", "--poll", "0.05") as command:
        with open(path, "ab", buffering=0) as file:
            # Cut anywhere, also in the header of a record.
            for at in range(30, len(octets) - 77, 333):
                file.write(octets[at : min(at + 333, len(octets) - 77)])
                time.sleep(0.005)
        lines = [command.line() for _ in range(30)]
        status, more, errors = command.end(number)
    # The last record is not whole: somebody writes it. That is no damage.
    assert (status, errors) == (0, "")
    expected = [json.dumps(one) for one in truth_of(RPING)]
    assert [json.dumps(json.loads(line)) for line in [*lines, *more]] == expected


def truth_of(path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in invoke("fpdus", "--order", "placed", "--format", "jsonl", str(path)).stdout.splitlines()
    ]


def test_text_ends_with_the_summary(tmp_path: Path) -> None:
    path = tmp_path / "whole.pcap"
    path.write_bytes(MANY.read_bytes())
    text = invoke("analyze", str(MANY)).stdout.splitlines()
    with running("analyze", "--follow", str(path), "--poll", "0.05") as command:
        first = next(at for at, line in enumerate(text) if line.startswith("#0 "))
        lines = [command.line().rstrip("\n") for _ in text[first:]]
        # Which of them are reported at the same time is a matter of luck.
        assert [line.partition(ALSO)[0] for line in lines] == [line.partition(ALSO)[0] for line in text[first:]]
        assert command.end() == (0, text[:first], "")


def test_a_file_of_nothing_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "later.pcap"
    path.touch()
    with running("fpdus", "--follow", str(path), "--format", "jsonl", "--poll", "0.05") as command:
        time.sleep(0.3)
        path.write_bytes(RPING.read_bytes())
        assert json.loads(command.line())["connection"] == 0
        assert command.end()[0] == 0


def test_a_file_that_another_one_replaces(tmp_path: Path) -> None:
    """As logrotate does: the name stands for another file, which is read next."""
    path, new = tmp_path / "capture.pcap", tmp_path / "new"
    path.write_bytes(RPING.read_bytes())
    with running("analyze", "--follow", str(path), "--poll", "0.05", "--format", "jsonl") as command:
        assert json.loads(command.line())["connection"] == 0
        new.write_bytes(MANY.read_bytes())
        new.replace(path)
        assert [json.loads(command.line())["connection"] for _ in range(3)] == [1, 2, 3]
        status, (rest,), _ = command.end()
    assert status == 0
    assert json.loads(rest)["summary"]["connections"] == 4


# --- folders ---


def cut(path: Path, files: int) -> list[bytes]:
    """A capture in so many files."""
    octets = path.read_bytes()
    every = list(records(octets))
    size = -(-len(every) // files)
    return [octets[:HEADER] + b"".join(every[at : at + size]) for at in range(0, len(every), size)]


def test_a_folder_into_which_a_rotation_goes(tmp_path: Path) -> None:
    parts = cut(REORDERED, 12)
    whole = truth_of(REORDERED)
    (tmp_path / "cut.pcap").write_bytes(parts[0])
    with running("fpdus", "--follow", str(tmp_path), "--format", "jsonl", "--poll", "0.02") as command:
        lines: list[Any] = []
        for number, octets in enumerate(parts[1:], 1):
            # As tcpdump -C names them: with ten, sorting by letters would not do. One is compressed when it is over.
            path = tmp_path / f"cut.pcap{number}"
            path.write_bytes(octets[:50])
            with open(path, "ab") as file:
                file.write(octets[50:])
            while len(lines) < sum(one["placed_frame"] <= number * len(list(records(parts[0]))) for one in whole):
                lines.append(json.loads(command.line()))
            if number == 3:
                (tmp_path / "cut.pcap2.gz").write_bytes(gzip.compress((tmp_path / "cut.pcap2").read_bytes()))
                (tmp_path / "cut.pcap2").unlink()
        while len(lines) < len(whole):
            lines.append(json.loads(command.line()))
        status, more, errors = command.end()
    assert (status, more, errors) == (0, [], "")
    assert lines == whole


def test_a_ring_of_files(tmp_path: Path) -> None:
    """tcpdump -W writes the oldest one anew, under its old name: in the same file, or in another one."""
    parts = cut(REORDERED, 6)
    # What takes the place of a file is written elsewhere: in the folder it would be a capture of its own.
    folder, other = tmp_path / "ring", tmp_path / "other"
    folder.mkdir()
    names = [folder / f"ring.pcap{number}" for number in range(3)]
    whole = truth_of(REORDERED)
    names[0].write_bytes(parts[0])
    with running("fpdus", "--follow", str(folder), "--format", "jsonl", "--poll", "0.02") as command:
        size = len(list(records(parts[0])))
        lines: list[Any] = []
        for number, octets in enumerate(parts):
            if number:
                path = names[number % 3]
                if number % 2:
                    path.write_bytes(octets)
                else:
                    other.write_bytes(octets)
                    other.replace(path)
            due = sum(one["placed_frame"] <= (number + 1) * size for one in whole)
            while len(lines) < due:
                lines.append(json.loads(command.line()))
        status, more, errors = command.end()
    assert (status, more, errors) == (0, [], "")
    # Copies that their receiver may have dropped wait until it acknowledges them; a Marker locates what comes then.
    by_place = [
        sorted(({**one, "located_by": "", "delivered_frame": None} for one in ones), key=str) for ones in (lines, whole)
    ]
    assert by_place[0] == by_place[1]


def test_a_file_of_a_folder_that_is_no_capture_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"no capture at all")
    (tmp_path / "b.pcap").write_bytes(RPING.read_bytes())
    (tmp_path / "c.pcap").write_bytes(RPING.read_bytes()[:1001])
    (tmp_path / "d.pcap").write_bytes(MANY.read_bytes())
    with running("analyze", "--follow", str(tmp_path), "--poll", "0.02") as command:
        lines = [command.line() for _ in range(4)]
        time.sleep(1)
        status, more, errors = command.end()
    assert status in (0, 1)
    assert lines[0].startswith("#0 ")
    assert f"({tmp_path / 'b.pcap'}, frame " in lines[0]
    damaged, left_out = errors.splitlines()
    assert left_out == f"scapy-mpa: {tmp_path}: 1 file is not a capture: a.pcap"
    assert damaged.startswith(f"scapy-mpa: {tmp_path / 'c.pcap'}: damaged after frame ")
    assert any(line.startswith("  ended: ") for line in more)


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("analyze", "--follow"), "Missing argument 'CAPTURE...'."),
        (("analyze", "--follow", str(RPING), str(MANY)), "--follow reads one file, folder or pipe"),
        (("analyze", "-i", "lo", str(RPING)), "-i reads an interface instead of captures: leave CAPTURE out"),
        (("analyze", "--follow", str(RPING), "--format", "json"), "use --format jsonl here"),
        (("analyze", "--follow", str(RPING), "--jobs", "2"), "--jobs cannot be used with it"),
        (("analyze", "--follow", str(RPING), "--buffers"), "--buffers cannot be used with it"),
        (("fpdus", "--follow", str(RPING), "--order", "stream"), "--order cannot be used with it"),
        (("fpdus", "--follow", str(RPING), "--stag", "1"), "--stag cannot be used with it"),
        (("messages", "--follow", str(RPING), "--summary"), "--summary cannot be used with it"),
        (("messages", "-i", "lo", "--stream", "initiator=x"), "--stream cannot be used with it"),
        (("analyze", str(RPING), "--poll", "1"), "--follow is missing"),
        (("analyze", "--follow", "no-such-file.pcap"), "no-such-file.pcap: No such file or directory"),
        (("analyze", "-i", "no-such-interface"), "interface no-such-interface: "),
    ],
)
def test_what_does_not_go_together(arguments: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scapy_mpa", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "octets", [b"", b"x", b"not a capture, but longer than a magic number", bytes(range(256)) * 16]
)
def test_what_is_no_capture(octets: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scapy_mpa", "analyze", "--follow", "-"],
        input=octets,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"scapy-mpa: -: ")
    assert done.stderr.count(b"\n") == 1


# --- an interface ---


@needs_network()
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("interface", ["lo", "tun"])
def test_an_interface_while_two_talk(interface: str, version: int, tmp_path: Path) -> None:
    with Network() as network:
        command = [sys.executable, "-m", "scapy_mpa"]
        to = "::1" if version == 6 else "127.0.0.1"
        if interface == "tun":
            to = network.address("b", version)
        name = "lo" if interface == "lo" else network.device("a")
        host: Host = "a" if interface == "lo" else "b"
        reading = network.popen(
            "a",
            [*command, "fpdus", "-i", name, "--format", "jsonl", "--poll", "0.05"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_for(lambda: "\n" in network.run("a", ["cat", "/proc/net/packet"]).stdout.strip())
        log = tmp_path / "log"
        with open(log, "wb") as file:
            listening = network.popen(host, [*command, "listen", to, "7471", "--ulp", "echo"], stdout=file, stderr=file)
            wait_for(lambda: b"7471" in log.read_bytes())
            network.run("a", [*command, "connect", to, "7471", "--ulp", "echo", "--count", "20", "--size", "3000"])
            listening.terminate()
        time.sleep(0.5)
        reading.send_signal(signal.SIGINT)
        out, errors = reading.communicate(timeout=PATIENCE)
    assert (reading.returncode, errors) == (0, b"")
    found = [json.loads(line) for line in out.splitlines()]
    for direction in ("initiator", "responder"):
        octets = sum(one["ulpdu_length"] - 18 for one in found if one["direction"] == direction)
        assert octets == 20 * 3000
    assert {one["crc"] for one in found} == {"good"}


#: What runs a command as root without the right to read packets.
LESS = ("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw")


@needs_network()
def test_an_interface_takes_rights() -> None:
    done = subprocess.run(
        [*LESS, sys.executable, "-m", "scapy_mpa", "analyze", "-i", "lo"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == ("scapy-mpa: interface lo: reading its packets needs root or the capability CAP_NET_RAW\n")


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until it is so."""
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)
