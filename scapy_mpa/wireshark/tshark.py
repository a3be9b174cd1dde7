"""Which tshark is installed, and what it supports: asked, never assumed."""

from __future__ import annotations

import re
import shutil
from functools import cache
from subprocess import DEVNULL, PIPE, TimeoutExpired

from scapy_mpa.errors import MPAError
from scapy_mpa.system.programs import started
from scapy_mpa.tuples import NamedTuple

#: What one line says of how to come by them.
HOW_TO_INSTALL = "apt-get install tshark; pip install 'scapy-mpa[wireshark]'"
#: Preferences under which it finds most: heuristics before ports, late segments put in order, Sends as they come.
PREFERENCES = {
    "tcp.reassemble_out_of_order": "TRUE",
    "tcp.try_heuristic_first": "TRUE",
    "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send": "FALSE",
}
#: Dissectors that take the payload of any Send for their own.
DISABLED = ("rpcordma", "smb_direct")
_SECONDS = 60


class ToolMissing(MPAError):
    """Comparing with Wireshark needs a program or a package that is not installed."""


class Tshark(NamedTuple):
    """A tshark: where it is, its version, and the names of the fields of MPA, DDP and RDMAP that it has."""

    path: str
    version: tuple[int, ...]
    fields: frozenset[str]

    @property
    def version_text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))


@cache
def find_tshark() -> Tshark:
    """The tshark on this machine; raises :class:`ToolMissing` if there is none, or one that cannot be used."""
    path = shutil.which("tshark")
    if path is None:
        raise ToolMissing(f"tshark is not installed: {HOW_TO_INSTALL}")
    found = re.search(r"(\d+(?:\.\d+)+)", _run(path, "--version"))
    if found is None:
        raise ToolMissing(f"{path} does not report its version")
    lines = (line.split("\t", 3) for line in _run(path, "-G", "fields").splitlines() if "iwarp_" in line)
    fields = frozenset(line[2] for line in lines if line[0] == "F")
    return Tshark(path, tuple(map(int, found[1].split("."))), fields)


def _run(path: str, *arguments: str) -> str:
    try:
        with started([path, *arguments], stdout=PIPE, stderr=DEVNULL) as process:
            said, _ = process.communicate(timeout=_SECONDS)
    except (OSError, TimeoutExpired) as error:
        raise ToolMissing(f"{path} cannot be run: {error}") from error
    return said.decode(errors="replace")
