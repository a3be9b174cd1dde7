"""What a run keeps of a peer that goes, says nothing, stops reading, or is wrong in every connection."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import time
import weakref
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL

import pytest
from click import UsageError

from scapy_mpa.cli.output import check_folder_of
from scapy_mpa.craft.changes.change import OF_MESSAGES
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.craft.ulpdus import rdma_write, terminate_body, untagged
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.crc import crc_field
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.probe.carrier import Carrier, Connector, NotReached, NotTaken
from scapy_mpa.probe.choice import all_cases, chosen
from scapy_mpa.probe.exchange import CaseExchange, Terms
from scapy_mpa.probe.fuzzing import WireFuzzer
from scapy_mpa.probe.judge import seen_words
from scapy_mpa.probe.run import CannotStart, PeerGone, ProbeRun, RunSettings
from scapy_mpa.probe.script import BareOctets
from scapy_mpa.probe.seen import Watcher
from scapy_mpa.probe.target import Responder
from scapy_mpa.system.programs import Program
from tests.live.loopback import command, interrupted
from tests.probe.foreign import Kind, foreign_responder
from tests.probe.peers import HOST, TERMS, TIMEOUT, our_responder, plain_server, run_of
from tests.probe.test_commands import malform, port_of, probe
from tests.probe.test_run import dies_of, replies

_ONES = crc_field(0xFFFFFFFF)


@pytest.mark.parametrize(
    ("options", "words"), [((), "Does the peer speak MPA"), (("--case", "crc-zero"), "no case was tested")]
)
def test_a_peer_that_never_says_anything_does_not_pass(options: tuple[str, ...], words: str) -> None:
    with plain_server(lambda sock, _: bool(sock.recv(4096)) or True) as port:
        result = probe(HOST, str(port), "--timeout", "0.2", *options)
    assert isinstance(result.exception, CannotStart)
    assert words in str(result.exception)


def test_the_repetition_that_kills_is_the_one_that_is_kept() -> None:
    with plain_server(lambda sock, _: dies_of(sock, _ONES)) as port:
        settings = RunSettings(Terms(TIMEOUT), repeat=5, keeps=True)
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), settings)
        results = run.results(chosen(["crc-ones"]))
        found = next(results)
        with pytest.raises(PeerGone):
            next(results)
    assert found.judgement.verdict == "peer gone"
    assert found.seen.frame is not None
    assert _ONES in found.capture


def test_what_is_wrong_each_time_is_counted_each_time_and_known_by_its_rule() -> None:
    with our_responder("reply-reserved-bit-0x08") as target:
        cases = chosen(["valid-m0-c?"])
        first, second = run_of(target, cases, RunSettings(TERMS, repeat=3))
        known = frozenset(("startup-reserved-bits",))
        (other,) = run_of(target, chosen(["valid-m0-c1"]), RunSettings(TERMS, expected=known))
    assert first.judgement.verdict == "fail"
    assert "times)" not in first.judgement.reason
    assert second.judgement.verdict == "pass"
    assert other.judgement.rule == "startup-reserved-bits"
    assert other.is_known
    assert not other.counts_against


def test_a_peer_that_stops_reading_has_not_reset_the_connection() -> None:
    def serve(sock: socket.socket, _number: int) -> bool:
        replies(sock)
        time.sleep(1.5)
        return True

    with plain_server(serve) as port:
        carrier = Connector(HOST, port, 0.3).connect()
        with pytest.raises(NotTaken, match=r"could not be sent in 0\.3 s") as raised:
            carrier.send(BareOctets(bytes(1 << 24)))
        assert raised.value.left > 0
        carrier.close()
        carrier = Connector(HOST, port, 0.3).connect()
        carrier.send = _take_none  # type: ignore[assignment, method-assign]
        seen = CaseExchange(carrier, all_cases()["pad-0"], Terms(0.3)).run()
    assert (seen.end, seen.untaken) == (None, 7)


def _take_none(_step: object) -> None:
    raise NotTaken(7, 0.3)


def test_what_is_kept_of_a_peer_that_says_much() -> None:
    """Neither its FPDUs nor what was known where an error was raised stays in memory."""
    watcher = Watcher("initiator")
    watcher.take(startup_frame("reply").encode(), 0.0)
    watcher.begin(startup_frame("request"), 0.0)
    watcher.take(encode_fpdu(rdma_write(1, 0, bytes(60_000))) * 40, 0.1)
    watcher.take(encode_fpdu(untagged(7, 2, 1, terminate_body(2, 0, 2))), 0.2)
    watcher.take(b"\xff\xff" * 40_000, 0.3)
    assert watcher.seen.error is not None
    here = weakref.ref(watcher)
    short = watcher.seen.shortened()
    assert (short.count, short.fpdus[0].ulpdu_length) == (41, 60_014)
    assert short.shortened() == short
    assert short.terminate is not None
    assert sum(len(one.ulpdu) for one in short.fpdus) < 10_000
    assert "FPDUs" in seen_words(short)
    del watcher
    gc.collect()
    assert here() is None


def test_malform_looks_whether_the_peer_survived(tmp_path: Path) -> None:
    capture = tmp_path / "crash.pcapng"
    with plain_server(lambda sock, _: dies_of(sock, _ONES)) as port:
        result = malform("crc-ones", "--to", f"{HOST}:{port}", "--timeout", "0.3", "-o", str(capture))
    assert result.return_value == 3, result.output
    assert "peer gone" in result.stdout
    assert _ONES in capture.read_bytes()


def test_malform_asks_at_the_end_whether_the_error_was_noticed() -> None:
    """Silence is allowed, but not the answer to an RDMA Read after a bad CRC (RFC 5044 §8)."""
    for faults, status in ((), 0), (("no-crc-check",), 1):
        with foreign_responder(Kind(faults=frozenset(faults))) as port:
            result = malform("crc-zero", "--to", f"{HOST}:{port}", "--timeout", "0.3")
        assert result.return_value == status, result.output


def test_nothing_is_sent_if_the_record_cannot_be_written(tmp_path: Path) -> None:
    came: list[int] = []
    with plain_server(lambda _, number: not came.extend((number,))) as port:  # type: ignore[func-returns-value]
        result = malform("crc-ones", "--to", f"{HOST}:{port}", "-o", str(tmp_path / "no" / "folder.pcapng"))
        assert isinstance(result.exception, UsageError)
    assert not came
    with pytest.raises(UsageError):
        check_folder_of("/proc/page.html")


def test_ctrl_c_prints_what_there_is(tmp_path: Path) -> None:
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    with our_responder() as target:
        arguments = ["probe", HOST, port_of(target), "--format", "jsonl", "--junit", str(junit), "--html", str(page)]
        process = command(*arguments, "--rate", "20")
        assert process.stdout is not None
        line = process.stdout.readline()
        status, _, _ = interrupted(process)
    assert status == 130
    assert json.loads(line)["verdict"]
    assert "not run" in page.read_text()
    assert "testcase" in junit.read_text()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups here")
def test_a_shell_that_is_ended_takes_along_what_it_started(tmp_path: Path) -> None:
    def started(script: str, name: str) -> tuple[Program, int]:
        file = tmp_path / name
        program = Program(["sh", "-c", script.format(file)], stdout=DEVNULL, stderr=DEVNULL)
        while not file.exists() or not file.read_text().strip():
            time.sleep(0.01)
        return program, int(file.read_text())

    running, child = started("sleep 100 & echo $! > {0}; wait; true", "running")
    running.end()
    assert _ends(child)
    # A server that a command has left running is not the command's any more.
    over, server = started("sleep 100 & echo $! > {0}", "over")
    over.wait(5)
    over.end()
    os.kill(server, 0)
    os.kill(server, signal.SIGKILL)


def _ends(pid: int) -> bool:
    for _ in range(200):
        with suppress(FileNotFoundError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            time.sleep(0.02)
            continue
        return True
    return False


def test_a_fuzzer_of_messages_draws_no_changes_of_packets() -> None:
    fuzzer = Fuzzer(3, by_message=True)
    by_message = {name for name, one in CHANGES.items() if one.area and one.level in OF_MESSAGES}
    assert {name for number in range(200) for name, _ in fuzzer.recipe(number).mutations} == by_message
    from_catalogue = [fuzzer.recipe(number) for number in range(2000, 2200)]
    assert any(recipe.malformed for recipe in from_catalogue)
    assert all(recipe.malformed or {*dict(recipe.mutations)} <= by_message for recipe in from_catalogue)


def test_the_fuzzer_waits_for_a_peer_to_settle_and_leaves_out_what_the_peer_would_say() -> None:
    with our_responder() as target:
        run = WireFuzzer(target, Fuzzer(1, by_message=True), Terms(0.2, settle=0.7))
        run.begin()
        cases = [run.case(number) for number in range(12)]
        valid = run._made(run._fuzzer.recipe(0)._replace(mutations=()))
        seen = run.give(replace(valid, messages=valid.messages[:1])).seen
    assert seen.frame is not None
    assert seen.seconds > 0.7
    for case in cases:
        unchanged = run._made(case.recipe._replace(mutations=()))
        assert bool(case.done) == (case.messages != unchanged.messages)


def test_a_peer_that_rejects_everything_is_not_tested() -> None:
    reply = startup_frame("reply", r=1).encode()
    with plain_server(lambda sock, _: bool(replies(sock, reply)) or True) as port:
        target = Responder(Connector(HOST, port, TIMEOUT))
        results = run_of(target, chosen(["request-private-data-1", "crc-zero"]), RunSettings(Terms(0.3)))
        result = probe(HOST, str(port), "--timeout", "0.3", "--case", "crc-zero")
    assert {one.judgement.verdict for one in results} == {"unsupported"}
    assert isinstance(result.exception, CannotStart)
    assert "1 case: the peer rejects the connection" in str(result.exception)


def test_a_known_error_does_not_hide_that_the_peer_goes() -> None:
    """Nor another error in the same connection, or a peer that needs longer than it may to come back."""
    reply = startup_frame("reply", res=8).encode()

    def serve(sock: socket.socket, _number: int) -> bool:
        return dies_of(sock, _ONES, reply)

    known = frozenset(("startup-reserved-bits",))
    for repeat in (1, 3):
        with plain_server(serve) as port:
            run = ProbeRun(
                Responder(Connector(HOST, port, TIMEOUT)), RunSettings(Terms(0.3), expected=known, repeat=repeat)
            )
            results = run.results(chosen(["crc-ones"]))
            found = next(results)
            with pytest.raises(PeerGone):
                next(results)
        assert (found.judgement.verdict, found.is_known, found.judgement.rule) == ("peer gone", False, "")


def test_a_case_without_a_connection_is_not_survived() -> None:
    with plain_server(lambda sock, _: bool(replies(sock)) or True) as port:
        run = WireFuzzer(Responder(Connector(HOST, port, TIMEOUT)), Fuzzer(1, by_message=True), Terms(0.2))
        run.begin()
        run._target.connection = _no_connection  # type: ignore[assignment, method-assign]
        result = run.give(run._made(run._fuzzer.recipe(0)))
    assert (result.is_given, result.is_new, result.as_dict()["verdict"]) == (False, False, "peer gone")


def _no_connection(_case: object = None) -> Carrier:
    raise NotReached("nobody")


def test_endless_octets_do_not_keep_a_lost_connection_open() -> None:
    """As much as comes before it is given up; what comes without an end is not waited for."""
    exchange = CaseExchange(_Endless(), all_cases()["pad-0"], Terms(0.2))
    start = time.monotonic()
    seen = exchange.run()
    assert time.monotonic() - start < 3
    assert seen.end == "rst"


class _Endless:
    """A carrier that takes nothing and never stops talking."""

    addresses = (("192.0.2.1", 1), ("192.0.2.2", 2))
    mss = 1460
    _octets = startup_frame("reply").encode() + encode_fpdu(bytes(40)) * 100

    def send(self, _step: object) -> None:
        raise ConnectionResetError

    def finish(self, _step: object) -> None:
        """Nothing."""

    def receive(self, _seconds: float) -> bytes:
        return self._octets

    def unacknowledged(self) -> None:
        """Nobody knows."""

    def close(self) -> None:
        """Nothing."""


def test_the_first_reply_takes_too_long() -> None:
    def serve(sock: socket.socket, _number: int) -> bool:
        sock.recv(4096)
        time.sleep(0.3)
        sock.sendall(startup_frame("reply").encode())
        sock.recv(4096)
        return True

    with plain_server(serve) as port, pytest.raises(MPAError, match="took longer than --timeout"):
        run_of(Responder(Connector(HOST, port, 0.2)), chosen(["crc-zero"]), RunSettings(Terms(0.2)))
