"""scripts/dev/siw_probe.py with a guest that is none: our own ``listen`` and ``connect`` in place of a machine."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scripts.dev.siw_probe import main

_SCAPY_MPA = shlex.join((sys.executable, "-m", "scapy_mpa"))
#: What the folder of a guest has: the machine is a peer that sets a reserved bit in its Reply.
_PROGRAM = f"""#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >> words
case $1 in
start) {_SCAPY_MPA} listen 127.0.0.1 $HOSTPORT -q --break reply-reserved-bit-0x08 > listen.txt 2>&1 &
  echo $! > pid; sleep 2 ;;
cmd) port=$(echo "$2" | sed 's/.*-p \\([0-9]*\\).*/\\1/'); exec {_SCAPY_MPA} connect 127.0.0.1 $port --ulp rping -q ;;
stop) test -f pid && kill $(cat pid); rm -f pid ;;
esac
"""


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    """Return a folder of a guest."""
    folder = tmp_path / "guest"
    folder.mkdir()
    program = folder / "run_vm.sh"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    return folder


def siw_probe(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_both_roles_are_run_to_their_end(tmp_path: Path, guest: Path) -> None:
    keep = tmp_path / "keep"
    options = "--timeout 1 --case valid-m0-c? --case crc-zero --case reply-key-last-octet"
    result = siw_probe(guest, "--keep", keep, "--options", options)
    words = [line.split()[0] for line in (guest / "words").read_text().splitlines()]
    assert (words[:2], words[-1], words.count("start")) == (["stop", "start"], "stop", 2)
    assert "cmd" in words
    # Not all cases were given.
    assert result.exit_code == 1
    for role, names in (
        ("Responder", ["valid-m0-c0", "valid-m0-c1", "crc-zero"]),
        ("Initiator", ["reply-key-last-octet"]),
    ):
        lines = (keep / f"stock-{role}.jsonl").read_text().splitlines()
        assert [json.loads(line)["case"] for line in lines] == names
    tables = siw_probe(guest, "--keep", keep, "--tables")
    assert tables.exit_code == 0
    assert tables.stdout in result.stdout
    assert "RFC 5044 §7.1.1" in tables.stdout and "`valid-m0-c0`" in tables.stdout
    withheld = tmp_path / "withheld"
    withheld.write_text("startup-reserved-bits\n")
    private = siw_probe(guest, "--keep", keep, "--tables", "--withhold", withheld).stdout
    assert "§7.1.1" not in private and "valid-m0-c0" not in private
    assert "Not named: 1 deviation" in private


def test_a_role_is_learned(tmp_path: Path, guest: Path) -> None:
    pytest.importorskip("aalpy")
    options = "--timeout 0.3 --learn-connections 20"
    result = siw_probe(guest, "--keep", tmp_path / "keep", "--role", "Responder", "--learn", "--options", options)
    found = json.loads((tmp_path / "keep" / "stock-Responder.json").read_text())
    # Not all was learned.
    assert result.exit_code == 1
    assert (found["role"], found["connections"], found["differences"]) == ("responder", 20, [])


def test_a_folder_without_a_guest_is_refused(tmp_path: Path) -> None:
    result = siw_probe(tmp_path, "--keep", tmp_path / "keep")
    assert result.exit_code == 2
    assert "run_vm.sh is no program: it has to take start, cmd and stop" in result.output
