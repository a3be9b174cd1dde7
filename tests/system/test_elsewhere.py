"""Reading and crafting where there is neither Linux nor POSIX, as far as one machine shows it.

A process is started from which modules and names are taken away that Python has on POSIX alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
PCAPS = REPO / "pcaps"

WITHOUT_POSIX = """
import importlib.abc, os, signal, socket, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in {"fcntl", "termios", "resource", "pwd", "grp", "pty", "tty", "syslog", "posixshmem"}:
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
for module, names in (
    (os, "fork pread pwrite O_NONBLOCK getuid geteuid mkfifo fchmod set_blocking sendfile killpg setsid"),
    (signal, "SIGHUP SIGKILL SIGPIPE SIGUSR1 SIGUSR2 pthread_sigmask set_wakeup_fd SIGCHLD SIGALRM setitimer"),
    (socket, "AF_PACKET AF_UNIX AF_NETLINK SOL_PACKET"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
sys.argv[0] = "scapy-mpa"
from scapy_mpa.cli import main
sys.exit(main())
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_POSIX, *map(str, arguments)]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("analyze", PCAPS / "markers-reordered.pcap"), "400+300 FPDUs"),
        (("analyze", "--format", "json", PCAPS / "markers-aligned.pcap"), '"connections"'),
        (("analyze", PCAPS / "siw-deviations"), "MPA connections"),
        (("fpdus", "--format", "csv", PCAPS / "siw-terminate.pcap"), "Terminate"),
        (("messages", PCAPS / "siw-terminate.pcap"), "Terminate"),
        (("startup", PCAPS / "siw-terminate.pcap"), "Request"),
        (("show", PCAPS / "markers-packed.pcap", "--fpdu", "0/initiator/3"), "ULPDU_Length 34"),
        (("lines", PCAPS / "siw-terminate.pcap"), "Terminate"),
        (("compare", PCAPS / "markers-packed.pcap", PCAPS / "markers-packed.pcap"), ""),
        (("rules", "crc"), "CRC"),
    ],
    ids=lambda one: str(one[0]) if isinstance(one, tuple) else "",
)
def test_reading_needs_nothing_of_posix(arguments: tuple[str | Path, ...], printed: str) -> None:
    done = run(*arguments)
    assert done.returncode in (0, 1), done.stderr
    assert printed in done.stdout
    assert "Traceback" not in done.stderr


def test_crafting_needs_nothing_of_posix(tmp_path: Path) -> None:
    made = run("craft", "--say", "initiator write 5000", "-o", tmp_path / "made.pcap")
    assert made.returncode == 0, made.stderr
    assert run("malform", "pad-of-4", "-o", tmp_path / "wrong.pcap").returncode == 0
    read = run("analyze", tmp_path / "made.pcap")
    assert read.returncode == 0 and "nothing to report" in read.stdout
