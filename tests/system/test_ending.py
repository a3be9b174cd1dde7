"""A signal leaves nothing behind, between whichever two steps it comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scapy_mpa.system.ending import ENDING, ends_orderly, undisturbed, usual_signals
from tests.conftest import REPO
from tests.system.every_step import AFTER, BEFORE, WORK

OLD, NEW = len(BEFORE), len(AFTER)
#: What may be in the folder, by the work that was ended.
ALLOWED = {
    "write_new": ({"old": OLD}, {"old": OLD, "new": NEW}),
    "replace": ({"old": OLD}, {"old": NEW}),
}


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
@pytest.mark.parametrize("work", WORK)
def test_at_every_step(work: str, number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.system.every_step", str(tmp_path), work, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=False, timeout=300)
    assert not done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) > 20 and told[-1]["status"] == 0
    for one in told:
        assert one["status"] == (128 + number if one is not told[-1] else 0), one
        assert one["left"] in ALLOWED.get(work, ({"old": OLD},)), one
        # A process that was killed may take a moment to go.
        assert one["alone"] or work == "program", one
    if work in ALLOWED:
        assert [one["left"] for one in (told[0], told[-1])] == [*ALLOWED[work]]


def test_signals_wait_as_long_as_they_must() -> None:
    program = (
        "import os, signal; from scapy_mpa.system.ending import ends_orderly, undisturbed\n"
        "with ends_orderly():\n"
        "    with undisturbed():\n"
        "        with undisturbed():\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "        print('undisturbed', flush=True)\n"
        "    print('not any more', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "undisturbed\n", "")


def test_ctrl_c_writes_what_was_printed() -> None:
    program = "import os; from scapy_mpa.system.ending import ends_orderly\nwith ends_orderly():\n    print('found'); "
    for number, printed in ((signal.SIGINT, b"found\n"), (signal.SIGTERM, b"")):
        ended = f"os.kill(os.getpid(), {int(number)})"
        command = [sys.executable, "-c", program + ended]
        environment = {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        assert (done.returncode, done.stdout) == (128 + number, printed)


def test_signals_that_others_see_to_stay_theirs() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    mine = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ends_orderly():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with ends_orderly():
                taken = signal.getsignal(signal.SIGTERM)
                assert taken is not signal.SIG_DFL
            assert signal.getsignal(signal.SIGTERM) == taken
            with usual_signals():
                assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            assert signal.getsignal(signal.SIGTERM) == taken
    finally:
        signal.signal(signal.SIGHUP, mine)
    assert [signal.getsignal(number) for number in ENDING] == before


def test_another_thread_takes_no_signals() -> None:
    found = []

    def work() -> None:
        with ends_orderly(), undisturbed():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


def test_a_process_that_was_forked_off_removes_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from scapy_mpa.system.ending import ends_orderly\n"
        "from scapy_mpa.system.whole import whole_file\n"
        "with ends_orderly(), whole_file(sys.argv[1]) as file:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *os.listdir())\n"
    )
    command = [sys.executable, "-c", program, "out"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True)
    status, name = done.stdout.split()
    assert int(status) == -signal.SIGTERM and name.endswith(".part")
    assert os.listdir(tmp_path) == ["out"]
