"""Two hosts with a bad network between them: network namespaces, joined over TUN devices by a relay of ours.

    with Network(Weather(loss=0.02, reorder=0.1), seed=7) as network:
        capture = network.capture("b", path)
        server = network.popen("b", [sys.executable, "server.py", network.address("b")])
        client = network.run("a", [sys.executable, "client.py", network.address("b")])
        stop(capture)
        network.relay.tally["a"].lost

Each IP packet that one host sends to the other passes the relay, which loses, delays, reorders and repeats it as its
seed has it: what becomes of the n-th packet of a direction depends on nothing else. It takes root, ``ip`` and
/dev/net/tun, tcpdump for a capture; ``what_is_missing`` says what is not there. All that is made here goes when the
block ends.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

import pytest

Host = Literal["a", "b"]
HOSTS: tuple[Host, Host] = ("a", "b")
TUN = "/dev/net/tun"

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_ADDRESSES = {"a": ("10.77.0.1", "fd77::1"), "b": ("10.77.0.2", "fd77::2")}
_LONGEST_PACKET = 1 << 16
#: Seconds that a command of the system may take.
_PATIENCE = 20
#: tcpdump's buffer in KiB, and seconds after which the kernel hands it what has come.
_BUFFER, _HANDED_ON = "16384", 1.2
_numbers = count()


# --- what becomes of packets ---


@dataclass(frozen=True)
class Weather:
    """What the network does: probabilities of each packet's fate, and seconds.

    Attributes:
        loss: how likely a packet is lost.
        reorder: how likely it comes later than those behind it.
        later: seconds by which it does.
        repeat: how likely it comes twice, the second time as late.
        delay: seconds that every packet takes.
        spared: packets at the beginning of each direction that nothing happens to but delay.
    """

    loss: float = 0.0
    reorder: float = 0.0
    later: float = 0.01
    repeat: float = 0.0
    delay: float = 0.0
    spared: int = 0


class Fate(NamedTuple):
    """After how many seconds copies of a packet come; none, if it is lost."""

    delays: tuple[float, ...]
    is_reordered: bool = False


def fates(weather: Weather, seed: int, host: Host) -> Iterator[Fate]:
    """Yield the fates of the packets that a host sends, one after the other."""
    rng = random.Random(f"{seed} {host}")
    for number in count():
        # Three draws for each, whatever comes of it.
        lost, reordered, repeated = (rng.random() for _ in range(3))
        if number < weather.spared:
            yield Fate((weather.delay,))
        elif lost < weather.loss:
            yield Fate(())
        else:
            is_reordered = reordered < weather.reorder
            first = weather.delay + (weather.later if is_reordered else 0.0)
            again = (weather.delay + weather.later,) if repeated < weather.repeat else ()
            yield Fate((first, *again), is_reordered)


@dataclass
class Tally:
    """How many packets a host sent, and what became of them."""

    sent: int = 0
    lost: int = 0
    reordered: int = 0
    repeated: int = 0


class Relay:
    """Carries IP packets between two file descriptors, in a thread of its own.

    ``tally`` counts what each host sent; after ``close`` it is final.
    """

    def __init__(self, ends: dict[Host, int], weather: Weather, seed: int) -> None:
        self._ends = ends
        self._fates = {host: fates(weather, seed, host) for host in HOSTS}
        self.tally = {host: Tally() for host in HOSTS}
        #: When each is due, a number that keeps equal times in order, where to, the packet.
        self._due: list[tuple[float, int, int, bytes]] = []
        self._numbers = count()
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what is under way is lost."""
        os.write(self._stopped, b"x")
        self._thread.join(_PATIENCE)
        os.close(self._stop)
        os.close(self._stopped)

    def _run(self) -> None:
        by_end = {end: host for host, end in self._ends.items()}
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            ready, _, _ = select.select([*by_end, self._stop], [], [], wait)
            if self._stop in ready:
                return
            for end in ready:
                self._take(by_end[end], os.read(end, _LONGEST_PACKET))
            while self._due and self._due[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(self._due)
                with suppress(OSError):  # the device may be on its way down
                    os.write(end, packet)

    def _take(self, host: Host, packet: bytes) -> None:
        tally, fate, now = self.tally[host], next(self._fates[host]), time.monotonic()
        tally.sent += 1
        tally.lost += not fate.delays
        tally.reordered += fate.is_reordered
        tally.repeated += len(fate.delays) > 1
        to = self._ends["b" if host == "a" else "a"]
        for delay in fate.delays:
            heapq.heappush(self._due, (now + delay, next(self._numbers), to, packet))


# --- namespaces ---


@cache
def what_is_missing(*programs: str) -> str:
    """Why there can be no such network, in a sentence; "" if there can. ``programs`` are wanted beside ``ip``."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    for program in ("ip", *programs):
        if shutil.which(program) is None:
            return f"{program} is missing (apt-get install {'iproute2' if program == 'ip' else program})"
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as error:
        return f"{TUN} cannot be opened: {error.strerror}"
    name = _name("x")
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return ""


def needs_network(*programs: str) -> pytest.MarkDecorator:
    """Skip a test, saying why, where there can be no such network."""
    missing = what_is_missing(*programs)
    return pytest.mark.skipif(bool(missing), reason=missing or "there is everything")


def _name(end: str) -> str:
    """A name that no other test has, of namespaces and devices (15 octets at most)."""
    return f"mpa{os.getpid() % 1_000_000}.{next(_numbers) % 1000}{end}"


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Capturing:
    """tcpdump in a namespace."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def stop(self) -> None:
        """End it, with what it was handed until now. Raises OSError if it missed a packet."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode()
        self._process.wait(_PATIENCE)
        if "\n0 packets dropped by kernel" not in said:
            raise OSError(f"tcpdump missed packets: {' '.join(said.split())}")


def stop(*captures: Capturing) -> None:
    """End captures when all that has passed until now is in them. Raises OSError if one missed a packet."""
    time.sleep(_HANDED_ON)
    for capture in captures:
        capture.stop()


class Network:
    """Two namespaces and the relay between them, as a context manager. Raises OSError if they cannot be made.

    Args:
        weather: what happens to packets.
        seed: decides of each.
        mtu: of both devices, in octets.
    """

    def __init__(self, weather: Weather | None = None, *, seed: int = 0, mtu: int = 1500) -> None:
        self._weather = weather or Weather()
        self._seed = seed
        self._mtu = mtu
        self._names = {host: _name(host) for host in HOSTS}
        self._stack = ExitStack()
        self.relay: Relay

    def __enter__(self) -> Network:
        with ExitStack() as stack:
            ends: dict[Host, int] = {host: self._host(host, stack) for host in HOSTS}
            self.relay = Relay(ends, self._weather, self._seed)
            stack.callback(self.relay.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _host(self, host: Host, stack: ExitStack) -> int:
        """A namespace with a TUN device; returns the device's other end."""
        name = self._names[host]
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "delete", name)
        end = os.open(TUN, os.O_RDWR)
        stack.callback(os.close, end)
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
        # It is made in the namespace of this process, and moves before it is up.
        _ip("link", "set", name, "netns", name)
        within = "-n", name
        for address, length, flags in zip(_ADDRESSES[host], (24, 64), ((), ("nodad",)), strict=True):
            _ip(*within, "address", "add", f"{address}/{length}", "dev", name, *flags)
        _ip(*within, "link", "set", "lo", "up")
        _ip(*within, "link", "set", name, "mtu", str(self._mtu), "up")
        return end

    def address(self, host: Host, version: int = 4) -> str:
        """The IP address of a host."""
        return _ADDRESSES[host][version == 6]

    def device(self, host: Host) -> str:
        """The network interface of a host."""
        return self._names[host]

    def popen(self, host: Host, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on a host; it is killed when the block ends."""
        process = subprocess.Popen(["ip", "netns", "exec", self._names[host], *command], **options)
        self._stack.callback(_end, process)
        return process

    def run(self, host: Host, command: Sequence[str], *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a program on a host to its end; raises CalledProcessError if it fails."""
        return subprocess.run(
            ["ip", "netns", "exec", self._names[host], *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=True,
        )

    def capture(self, host: Host, path: Path) -> Capturing:
        """Begin to capture what a host sends and receives; :func:`stop` ends it."""
        # Handed on packet by packet ("immediate mode"), some would be missed.
        command = ["tcpdump", "-i", self._names[host], "-w", str(path), "-B", _BUFFER, "-Z", "root"]
        process = self.popen(host, command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        for line in process.stderr:
            if b"listening on" in line:
                return Capturing(process)
        raise OSError("tcpdump does not capture")


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(_PATIENCE)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
