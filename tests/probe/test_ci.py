"""A run in CI: a time limit, a sample, a monitor, areas that must be tested, answers that are asked for twice."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner
from junitparser import JUnitXml

from scapy_mpa.cli import cli
from scapy_mpa.cli.types import TimeType
from scapy_mpa.craft.ulpdus import terminate_body, untagged
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.probe.carrier import Connector
from scapy_mpa.probe.choice import chosen, sampled
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.monitor import Monitor
from scapy_mpa.probe.run import ProbeRun, RunSettings, peers
from scapy_mpa.probe.target import Responder
from tests.probe.foreign import Kind, foreign_responder
from tests.probe.peers import HOST, TERMS, our_responder, plain_server, run_of
from tests.probe.test_run import replies

RESPONDERS = peers(chosen(), "responder")


def test_a_sample_begins_and_ends_with_a_sane_case() -> None:
    drawn = [sampled(RESPONDERS, 20, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for cases in drawn:
        assert len(cases) == len({case.name for case in cases}) == 20
        assert cases[0].is_conformant
        assert cases[-1].is_conformant
        assert any(not case.is_conformant for case in cases)
    assert len(sampled(RESPONDERS, 10_000, 0)) == len(RESPONDERS)
    (only,) = sampled(RESPONDERS, 1, 0)
    assert only.is_conformant


def test_no_case_begins_after_the_time() -> None:
    with our_responder() as target:
        until = time.monotonic() + 1.0
        results = run_of(target, RESPONDERS, RunSettings(TERMS, until=until))
    assert 0 < len(results) < len(RESPONDERS)


@pytest.mark.parametrize(("word", "seconds"), [("60s", 60), ("5m", 300), ("1.5h", 5400), ("7", 7)])
def test_times(word: str, seconds: float) -> None:
    assert TimeType().convert(word, None, None) == seconds


def test_a_peer_that_logs_a_fault_and_lives_is_found(tmp_path: Path) -> None:
    """The case after which something new is logged fails, and no other; nor does what was logged before."""
    log = tmp_path / "log"
    log.write_text("BUG: of long ago\n")

    def serve(sock: socket.socket, _number: int) -> bool:
        replies(sock)
        octets = b""
        while more := sock.recv(65536):
            octets += more
            if b"\xff\xff\xff\xff" in octets:
                with log.open("a") as file:
                    file.write("BUG: KASAN: out of bounds\n")
                return True
        return True

    with plain_server(serve) as port:
        monitor = Monitor(f"sh -c '! cat {log}'", 10)
        settings = RunSettings(Terms(0.3), monitor=monitor)
        target = Responder(Connector(HOST, port, 0.3))
        results = run_of(target, chosen(["crc-reversed", "crc-ones", "crc-inverted"]), settings)
    said = {one.case.name: one.judgement for one in results}
    assert "KASAN: out of bounds" in said["crc-ones"].reason
    assert said["crc-ones"].counted == ("monitor:crc-ones",)
    assert not any("monitor" in one.reason for name, one in said.items() if name != "crc-ones")


def test_a_monitor_says_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(MPAError, match="no-such-program"):
        Monitor("no-such-program", 1)
    script = f"{sys.executable} -c 'import sys; print(sys.argv[1]); sys.exit(sys.argv[1] == sys.argv[2])' {{case}} bad"
    monitor = Monitor(script, 10)
    assert monitor.trouble("good") == ""
    assert monitor.trouble("bad") == "the monitor ended with status 1: bad"
    slow = Monitor(f"{sys.executable} -c 'import sys, time; time.sleep(9 * (sys.argv[1] > \"\"))' {{case}}", 0.3)
    assert slow.trouble("x") == "the monitor did not end in 0.3 s"


@pytest.mark.parametrize(("silences", "verdict"), [(1, "pass"), (9, "no answer")])
def test_no_answer_is_asked_for_once_more(silences: int, verdict: str) -> None:
    """A peer that answers an error only sometimes has answered it."""
    seen: list[int] = []

    def serve(sock: socket.socket, number: int) -> bool:
        replies(sock)
        octets = b""
        while more := sock.recv(65536):
            octets += more
            if bytes(4) == octets[-4:] and len(octets) > 60:
                seen.append(number)
                if len(seen) > silences:
                    sock.sendall(encode_fpdu(untagged(7, 2, 1, terminate_body(2, 0, 2))))
                    return True
        return True

    with plain_server(serve) as port:
        target = Responder(Connector(HOST, port, 0.3))
        (result,) = run_of(target, chosen(["crc-zero"]), RunSettings(Terms(0.3), strict=True))
    assert result.judgement.verdict == verdict, result.judgement


def test_a_peer_that_floods_costs_a_case_its_limit() -> None:
    """And what is unsupported for one cause is not waited for again and again."""

    def serve(sock: socket.socket, _number: int) -> bool:
        replies(sock)
        flood = encode_fpdu(untagged(3, 0, 1, bytes(1000))) * 64
        until = time.monotonic() + 20
        while time.monotonic() < until:
            sock.sendall(flood)
        return True

    cases = chosen(["crc-zero", "pad-0040"])
    with plain_server(serve) as port:
        start = time.monotonic()
        run_of(Responder(Connector(HOST, port, 0.3)), cases, RunSettings(Terms(0.3)))
    # A clean connection first, two to compare with, the cases, and a clean one after each.
    assert time.monotonic() - start < 25


def fuzz(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["fuzz", *arguments], standalone_mode=False)


def test_a_fuzzer_has_a_monitor_and_known_hits_too(tmp_path: Path) -> None:
    """The same trouble in several cases is one hit, and a known one is none."""
    count, xml, known = tmp_path / "count", tmp_path / "junit.xml", tmp_path / "known"
    command = f"sh -c 'echo x >> {count}; test $(wc -l < {count}) -lt 4 || (wc -l < {count}; exit 1)'"
    options = ("--seed", "1", "--count", "4", "--timeout", "0.2", "--monitor", command, "--junit", str(xml))
    with our_responder() as target:
        where = ("--to", HOST, str(target._connector).rpartition(":")[2])
        result = fuzz(*where, *options)
        assert result.return_value == 1, result.output
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        hits = [line["hit"] for line in lines if line["hit"]]
        assert [line["verdict"] for line in lines].count("fail") == len(hits) == 2
        assert hits[0] == "the monitor ended with status 1: 4"
        assert JUnitXml.fromfile(str(xml)).failures == 2
        known.write_text("\n".join(hits))
        count.unlink()
        result = fuzz(*where, *options, "--expected", str(known))
    assert result.return_value == 0, result.output
    suites = JUnitXml.fromfile(str(xml))
    assert (suites.failures, suites.skipped) == (0, 2)
    assert isinstance(fuzz("--monitor", "true", "-o", str(tmp_path / "x")).exception, UsageError)


def test_what_one_cause_leaves_out_is_not_sent() -> None:
    kind = Kind()
    with foreign_responder(kind) as port:
        run = ProbeRun(Responder(Connector(HOST, port, 0.3)), RunSettings(Terms(0.3)))
        start = time.monotonic()
        results = [*run.results(peers(chosen(["marker-*", "fpduptr-*"]), "responder"))]
    assert {one.judgement.reason for one in results} <= {
        "the peer asks for no Markers (M)", "the peer does not speak Rev 0",
    }  # fmt: skip
    assert sum(bool(one.seen.total) for one in results) <= 3
    assert time.monotonic() - start < 10
