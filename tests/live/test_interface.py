"""An interface on which much goes on for long: every FPDU is listed, and memory does not follow the time."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from pathlib import Path

from tests.capture.convert import recorded
from tests.cli.test_command import invoke
from tests.live.relay import Network, needs_network

#: Connections, and how many may be under way between the sender and what is listed.
CONNECTIONS, AHEAD = 50_000, 200
#: The one that all are copies of: packets, and FPDUs.
PACKETS, FPDUS = 40, 31
PATIENCE = 900

SENDER = """
import socket, struct, sys

path, device = sys.argv[1:]
frames, at = [], 0
octets = open(path, "rb").read()
while at < len(octets):
    length = int.from_bytes(octets[at : at + 4], "little")
    frames.append((octets[at + 4], bytearray(octets[at + 5 : at + 5 + length])))
    at += 5 + length
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((device, 0))
for line in sys.stdin:
    for number in range(*map(int, line.split())):
        # The client's address is 10.x.y.z; a checksum changes by what its words change by (RFC 1624).
        words = 0x0A00 | number >> 16, number & 0xFFFF
        for at, frame in frames:
            for place in (24, 50):
                (sum_,) = struct.unpack_from("!H", frame, place)
                old = struct.unpack_from("!HH", frame, at)
                sum_ = ~sum_ & 0xFFFF
                for one, other in zip(words, old):
                    sum_ += (~other & 0xFFFF) + one
                while sum_ >> 16:
                    sum_ = (sum_ & 0xFFFF) + (sum_ >> 16)
                struct.pack_into("!H", frame, place, ~sum_ & 0xFFFF)
            struct.pack_into("!HH", frame, at, *words)
            out.send(frame)
    print("sent", flush=True)
"""


def template(tmp_path: Path) -> Path:
    """The frames of one connection, each with its length before it, and the place of the client's address in it."""
    path, out = tmp_path / "one.pcap", tmp_path / "frames"
    says = [word for turn in ("initiator", "responder") * 15 for word in ("--say", f"{turn} send 100")]
    assert invoke("craft", *says, "--say", "initiator send 200", "-o", str(path)).return_value == 0
    frames = [frame for _, frame, _ in recorded(path).records]
    assert len(frames) == PACKETS, len(frames)
    client = frames[0][26:30]
    with open(out, "wb") as file:
        for frame in frames:
            file.write(struct.pack("<IB", len(frame), 26 if frame[26:30] == client else 30) + frame)
    return out


def resident(process: subprocess.Popen[bytes]) -> int:
    """KiB of memory that a process has at most taken."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


@needs_network()
def test_two_million_packets(tmp_path: Path) -> None:
    frames = template(tmp_path)
    errors = tmp_path / "errors"
    with Network() as network, open(errors, "wb") as to:
        command = [sys.executable, "-m", "scapy_mpa", "fpdus", "-i", "lo", "--format", "csv", "--poll", "0.05"]
        reading = network.popen("a", command, stdout=subprocess.PIPE, stderr=to)
        sending = network.popen(
            "a", [sys.executable, "-c", SENDER, str(frames), "lo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert reading.stdout is not None
        assert sending.stdin is not None
        assert sending.stdout is not None
        # The heading is there when it reads.
        assert reading.stdout.readline().startswith(b"connection,")
        listed, after, wrong = 0, {}, 0
        for first in range(0, CONNECTIONS, AHEAD):
            sending.stdin.write(b"%d %d\n" % (first + 1, first + 1 + AHEAD))
            sending.stdin.flush()
            for _ in range(AHEAD * FPDUS):
                wrong += b",good," not in reading.stdout.readline()
            listed += AHEAD * FPDUS
            after[first + AHEAD] = resident(reading)
        reading.send_signal(signal.SIGINT)
        rest = reading.stdout.read()
        assert reading.wait(PATIENCE) == 0
    assert (wrong, rest, errors.read_bytes()) == (0, b"", b"")
    assert listed == CONNECTIONS * FPDUS
    # What is over for two seconds is let go: from the first tenth on there is as much as ever.
    assert after[CONNECTIONS] < 1.1 * after[CONNECTIONS // 10] + 8192
