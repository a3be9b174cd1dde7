"""Runs: our own endpoints, peers that die, restarts, repeats, known failures, and how cases are given."""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from scapy_mpa import analyze
from scapy_mpa.craft.ulpdus import terminate_body, untagged
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.probe.carrier import Acceptor, Connector, KernelTCP, NotReached
from scapy_mpa.probe.choice import all_cases, chosen, known_failures
from scapy_mpa.probe.exchange import CaseExchange, Terms
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.probe.run import CannotStart, PeerGone, ProbeRun, Result, RunSettings, peers
from scapy_mpa.probe.script import BareOctets, Finish, Send
from scapy_mpa.probe.seen import SeenPeer
from scapy_mpa.probe.target import Initiator, Responder, brings_back, closing, words
from tests.probe.peers import HOST, TERMS, TIMEOUT, our_initiator, our_responder, plain_server, run_of
from tests.sampling import sample

GOOD = {"pass", "allowed", "unsupported"}
REPLY = startup_frame("reply", c=1).encode()
RESPONDERS = peers(chosen(), "responder")
#: Four parts of all cases for a Responder, each as mixed as the whole.
PARTS = 4


def bad(results: list) -> list[tuple[str, str, str]]:  # type: ignore[type-arg]
    found = [one for one in results if one.judgement.verdict not in GOOD]
    return [(one.case.name, one.judgement.verdict, one.judgement.reason) for one in found]


# --- our own endpoints ---


@pytest.mark.parametrize("part", range(PARTS))
def test_our_responder_passes(part: int) -> None:
    with our_responder() as target:
        results = run_of(target, RESPONDERS[part::PARTS])
    assert not bad(results)
    count = Counter(one.judgement.verdict for one in results)
    assert count["pass"] > 50
    assert count["unsupported"] < 35


@pytest.mark.parametrize(("m", "c"), [(1, 1), (0, 0), (1, 0)])
def test_our_responder_with_markers_and_without_crc(m: int, c: int) -> None:
    """Each area that needs them, and some of the others laid so."""
    cases = [case for case in RESPONDERS if case.area == "markers" or case.case.baseline != "plain"]
    with our_responder(m=m, c=c) as target:
        results = run_of(target, [*cases, *RESPONDERS[::9]])
    assert not bad(results)
    markers = [one for one in results if one.case.case.baseline == ("markers" if c else "markers-no-crc")]
    given = [one for one in markers if one.judgement.verdict != "unsupported"]
    assert len(given) == (len(markers) if m else 0)


@pytest.mark.parametrize("enhanced", [False, True])
def test_our_initiator_passes(enhanced: bool) -> None:
    from scapy_mpa.framing.startup import EnhancedData

    wanted = EnhancedData(a=1, c=1, d=1, ird=8, ord=8) if enhanced else None
    with our_initiator(enhanced=wanted) as target:
        results = run_of(target, peers(chosen(), "initiator"))
    assert not bad(results)
    assert Counter(one.judgement.verdict for one in results)["pass"] > 50


def test_a_draft_s_implementation_takes_its_own() -> None:
    with our_responder(profile="rddp-01", m=1, c=1, enhanced=None) as target:
        results = run_of(target, chosen(["rev-0-*", "fpduptr-rfc-origin-with-rev-0", "ddp-version-1-with-rev-0"]))
    assert {one.judgement.verdict for one in results} <= {"pass", "allowed", "unsupported"}
    assert Counter(one.judgement.verdict for one in results)["pass"] >= 3


def test_a_peer_that_rejects_everything() -> None:
    with our_responder(automatic=False) as target:  # nobody accepts: no Reply comes
        run = ProbeRun(target, RunSettings(TERMS))
        results = [*run.results(chosen(["valid-startup", "crc-zero"]))]
    assert run.remark
    assert [one.judgement.verdict for one in results] == ["no answer", "unsupported"]


# --- peers of plain sockets ---


def replies(sock: socket.socket, octets: bytes = REPLY) -> bytes:
    request = sock.recv(4096)
    if request:
        sock.sendall(octets)
    return request


def test_hostile_octets_are_escaped(tmp_path: Path) -> None:
    """Whatever a peer sends: nothing of it reaches a terminal, a line or a file as it is."""
    import json

    from junitparser import JUnitXml
    from rich.console import Console

    from scapy_mpa.page.probed import page_of_probe
    from scapy_mpa.probe.told import json_line, junit, print_table

    evil = b"MPA ID Rep\x1b[2J\x00<&]]>\xff\r\n"

    def serve(sock: socket.socket, _number: int) -> bool:
        replies(sock, evil)
        return True

    with plain_server(serve) as port:
        target = Responder(Connector(HOST, port, TIMEOUT))
        results = run_of(target, chosen(["valid-startup", "crc-zero", "request-private-data-513"]))
    assert results[0].judgement.verdict == "fail"
    lines = "".join(json_line(one) for one in results)
    console = Console(highlight=False, markup=False, width=200)
    with console.capture() as printed:
        print_table(results, console, everything=True)
    xml = junit(results, f"{HOST}:{port}")
    judged = replace(results[0], judgement=replace(results[0].judgement, reason="<img src=x onerror=alert(1)>"))
    page = page_of_probe([judged, *results[1:]], "<script>a</script>", {"crc-zero": '"onload="'}, ["</style>"])
    assert "&lt;img src=x" in page
    assert "&lt;script&gt;a" in page
    assert "&lt;/style&gt;" in page
    assert page.count("<script>") == page.count("</style>") == 1
    assert evil[:16].hex(" ") in page
    for text in (lines, printed.get(), xml.decode(), page):
        assert not any(ord(letter) < 32 and letter not in "\n" for letter in text)
    assert json.loads(json_line(results[0]))["seen"]["octets"] == evil.hex()
    assert sum(suite.tests for suite in JUnitXml.fromstring(xml)) == 3


def test_a_peer_that_resets_or_closes_or_says_nothing() -> None:
    def serve(sock: socket.socket, number: int) -> bool:
        if number % 3 == 0:
            sock.recv(4096)
        elif number % 3 == 1:
            pass
        else:
            sock.recv(1)
            time.sleep(0.05)
        return True

    with plain_server(serve) as port:
        target = Responder(Connector(HOST, port, TIMEOUT))
        results = run_of(target, RESPONDERS[::40])
    assert {one.judgement.verdict for one in results} <= {"pass", "fail", "no answer", "allowed", "unsupported"}


def test_a_peer_that_never_stops_talking() -> None:
    """What is kept of it is bounded, and the case ends."""
    from scapy_mpa.craft.ulpdus import rdma_write
    from scapy_mpa.framing.fpdu import encode_fpdu

    flood = encode_fpdu(rdma_write(1, 0, bytes(60_000))) * 16

    def serve(sock: socket.socket, _number: int) -> bool:
        replies(sock)
        for _ in range(40):
            sock.sendall(flood)
        return True

    with plain_server(serve) as port:
        carrier = Connector(HOST, port, 5.0).connect()
        start = time.monotonic()
        seen = CaseExchange(carrier, all_cases()["pad-0"], Terms(20.0)).run()
        carrier.close()
    assert time.monotonic() - start < 15
    assert seen.error is not None
    assert "without an end" in seen.error.detail
    assert len(seen.octets) <= 1 << 16
    assert len(seen.fpdus) <= 1 << 12


def test_a_peer_that_misses_what_comes_at_once_behind_its_reply() -> None:
    """siw does that on a slow host."""

    def serve(sock: socket.socket, _number: int) -> bool:
        replies(sock)
        sock.settimeout(0.2)
        with suppress(TimeoutError):
            while sock.recv(65536):
                pass
        sock.settimeout(5)
        while sock.recv(65536):
            # Of what it has not missed, anything shows that the peer is there.
            sock.sendall(encode_fpdu(rdma_write(1, 0, b"")))
        return True

    from scapy_mpa.craft.ulpdus import rdma_write
    from scapy_mpa.framing.fpdu import encode_fpdu

    spoke = []
    for settle in (0.0, 0.4):
        with plain_server(serve) as port:
            carrier = Connector(HOST, port, 5.0).connect()
            seen = CaseExchange(carrier, all_cases()["pad-0"], Terms(0.4, settle=settle)).run()
            spoke.append(len(seen.fpdus))
            carrier.close()
    assert spoke[0] == 0 < spoke[1]


def dies_of(sock: socket.socket, word: bytes, reply: bytes = REPLY) -> bool:
    """Answer by a Reply, and die of octets that hold this word; whether it lives."""
    octets = b""
    while True:
        more = sock.recv(65536)
        if not more:
            return True
        octets += more
        if word in octets:
            return False
        if len(octets) == len(more):
            sock.sendall(reply)


def test_the_peer_that_goes_is_named() -> None:
    from scapy_mpa.framing.crc import crc_field

    word = crc_field(0xFFFFFFFF)
    with plain_server(lambda sock, _: dies_of(sock, word)) as port:
        target = Responder(Connector(HOST, port, TIMEOUT))
        run = ProbeRun(target, RunSettings(Terms(TIMEOUT)))
        results = run.results(chosen(["pad-0", "crc-ones", "crc-reversed"]))
        found = [next(results)]
        found.append(next(results))
        with pytest.raises(PeerGone, match="after crc-ones"):
            next(results)
    assert [(one.case.name, one.judgement.verdict) for one in found][-1] == ("crc-ones", "peer gone")
    assert run.lost == ["crc-ones"]


@pytest.mark.parametrize(("depth", "verdict"), [(0, "unsupported"), (1, "pass"), (8, "pass")])
def test_a_conformant_case_has_no_more_reads_under_way_than_was_agreed_on(depth: int, verdict: str) -> None:
    from scapy_mpa.framing.startup import EnhancedData

    clean = Clean(b"", EnhancedData(0, 0, 0, 0, 8, depth))
    settings = RunSettings(TERMS._replace(clean=clean), keeps=True)
    with our_responder() as target:
        (result,) = run_of(target, chosen(["valid-reads"]), settings)
    assert result.judgement.verdict == verdict, result.judgement
    report = analyze(io.BytesIO(result.capture), fpdus=False)
    assert "ird-ord-exceeded" not in {one.rule.id for one in report.all_findings()}


def test_the_peer_that_goes_before_the_case_is_not_held_against_the_case() -> None:
    """A Send is what it dies of: the valid one that cases are compared with."""
    with plain_server(lambda sock, _: dies_of(sock, bytes((0x41, 0x43)))) as port:
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), RunSettings(Terms(TIMEOUT)))
        results = run.results(chosen(["crc-ones"]))
        found = next(results)
        with pytest.raises(PeerGone):
            next(results)
    assert (found.judgement.verdict, found.case.name, found.is_control) == ("peer gone", "valid-control-plain", True)
    assert "after a valid connection (plain, with a Send of 30 octets)" in found.judgement.reason


def test_a_send_of_the_peer_to_peer_model_follows_the_message_that_was_agreed_on() -> None:
    """RFC 6581 §9.2: otherwise it is the case that is wrong."""
    with our_responder() as target:
        run = ProbeRun(target, RunSettings(TERMS))
        run.begin()
        assert not [*run.compare(all_cases()["rtr-write"])]
        seen = run.controls_of(all_cases()["rtr-write"])[1]
    assert seen is not None
    assert (seen.terminate, seen.end) == (None, None)


@pytest.mark.parametrize(("boot", "least", "most"), [(0.0, 0.0, 0.3), (0.5, 0.5, 1.0), (20.0, 1.0, 5.0)])
def test_a_peer_that_boots_is_not_tried_before_its_command_has_ended(boot: float, least: float, most: float) -> None:
    target = Responder(Connector(HOST, 9, TIMEOUT), "sleep 1", boot=boot)
    with closing(target):
        start = time.monotonic()
        assert target.restart()
        assert least <= time.monotonic() - start < most


def test_it_is_restarted_and_goes_on(tmp_path: Path) -> None:
    """The command brings it back; the case is repeated, to be sure; the run goes on."""
    script = tmp_path / "peer.py"
    log = tmp_path / "started"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path.cwd())!r})\n"
        "import socket\n"
        "from tests.probe.test_run import dies_of\n"
        f"open({str(log)!r}, 'a').write('x')\n"
        "listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "goes_on = True\n"
        "while goes_on:\n"
        "    sock = listener.accept()[0]\n"
        "    with sock:\n"
        "        try:\n"
        "            goes_on = dies_of(sock, b'\\xff\\xff\\xff\\xff')\n"
        "        except OSError:\n"
        "            pass\n"
    )
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    target = Responder(Connector(HOST, port, TIMEOUT), f"{sys.executable} {script} {port}", 20.0)
    with closing(target):
        run = ProbeRun(target, RunSettings(Terms(TIMEOUT)))
        results = [*run.results(chosen(["pad-0", "crc-ones", "crc-reversed"]))]
    assert [one.case.name for one in results] == ["pad-0", "crc-ones", "crc-reversed"]
    assert results[1].judgement.verdict == "peer gone"
    assert "the same effect" in results[1].judgement.reason
    assert results[2].judgement.verdict != "peer gone"
    # At first, after the case, and after it was repeated.
    assert log.read_text() == "xxx"


@pytest.mark.parametrize(
    ("outcomes", "comes_back", "starts"),
    [([True], True, 1), ([False, True], True, 2), ([False] * 9, False, 3), ([], False, 0)],
)
def test_a_peer_that_comes_back_badly_is_restarted_again(outcomes: list[bool], comes_back: bool, starts: int) -> None:
    """A machine that crashed may crash again while it boots: three times at most; never without a command."""

    class Machine(Responder):
        started = 0

        def restart(self) -> bool:
            self.started += bool(outcomes)
            return bool(outcomes)

    machine = Machine(Connector(HOST, 1, TIMEOUT), None, 0.0)
    assert brings_back(machine, lambda: outcomes[machine.started - 1]) is comes_back
    assert machine.started == starts


@contextmanager
def restarting_server(seconds: float) -> Iterator[int]:
    """A server that serves one connection after the other, and is away for so long after the octets of crc-ones."""
    listener = socket.create_server((HOST, 0))
    port = listener.getsockname()[1]
    is_over = threading.Event()

    def run() -> None:
        nonlocal listener
        while not is_over.is_set():
            goes_on = True
            with suppress(OSError), listener.accept()[0] as sock:
                sock.settimeout(5)
                goes_on = dies_of(sock, b"\xff\xff\xff\xff")
            if not goes_on:
                listener.close()
                time.sleep(seconds)
                listener = socket.create_server((HOST, port))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield port
    finally:
        is_over.set()
        with suppress(OSError):
            socket.create_connection((HOST, port), 1).close()
        thread.join(20)
        listener.close()


@pytest.mark.parametrize(("recovery", "is_gone"), [(0.0, True), (20.0, False)])
def test_a_peer_may_be_away_for_a_while(recovery: float, is_gone: bool) -> None:
    """A server that is started for each connection is no peer that is gone."""
    found: list[Result] = []
    with restarting_server(0.5) as port:
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), RunSettings(Terms(TIMEOUT), recovery=recovery))
        with suppress(PeerGone):
            found += run.results(chosen(["pad-0", "crc-ones", "crc-reversed"]))
    assert (len(found) < 3) is is_gone
    assert run.lost == (["crc-ones"] if is_gone else [])


def test_it_cannot_start() -> None:
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(CannotStart, match="refused"):
        run_of(Responder(Connector(HOST, port, TIMEOUT)), chosen(["crc-zero"]))


def test_repeated_and_known() -> None:
    """Of a peer that fails sometimes the worst counts; a known failure is none, and one that passes is."""
    answers = [untagged(7, 2, 1, terminate_body(2, 0, code)) for code in (2, 3)]
    from scapy_mpa.framing.fpdu import encode_fpdu

    def serve(sock: socket.socket, number: int) -> bool:
        replies(sock)
        sock.recv(65536)
        sock.sendall(encode_fpdu(answers[number // 2 % 2]))  # a clean connection lies between two of a case
        return True

    with plain_server(serve) as port:
        target = Responder(Connector(HOST, port, TIMEOUT))
        settings = RunSettings(Terms(TIMEOUT), repeat=4, expected=frozenset(("crc-zero", "request-private-data-0")))
        (first,) = run_of(target, chosen(["crc-zero"]), settings)
    assert first.judgement.verdict == "fail"
    assert " (2 of 4 times)" in first.judgement.reason
    assert first.is_known
    assert not first.counts_against
    with our_responder() as target:
        (second,) = run_of(target, chosen(["request-private-data-0"]), settings)
    assert (second.judgement.verdict, second.counts_against) == ("fail", True)
    assert "expected to fail" in second.judgement.reason


def test_no_more_connections_than_asked_for() -> None:
    with our_responder() as target:
        start = time.monotonic()
        results = run_of(target, chosen(["crc-zero"]), RunSettings(TERMS, interval=0.1))
    assert time.monotonic() - start >= 0.1 * (2 + 2 + 1 - 1)
    assert results[0].judgement.verdict == "pass"


def test_captures_are_what_passed() -> None:
    """The recording of a case is one that the analysis finds the case's rules in."""
    with our_responder() as target:
        results = run_of(target, chosen(["crc-zero", "pad-0040"]), RunSettings(TERMS, keeps=True))
    for one, rules in zip(results, ({"pad"}, {"crc", "terminate"}), strict=True):
        report = analyze(io.BytesIO(one.capture), fpdus=False)
        found = {finding.rule.id for finding in report.all_findings() if finding.rule.severity != "note"}
        assert rules <= found
        assert one.seen.frames
        assert one.seen.frames[-1] <= report.packets


# --- what is given ---


def test_private_data_and_rfc_6581_for_peers_that_want_them() -> None:
    from scapy_mpa.framing.startup import EnhancedData, decode_startup_frame

    requests: list[bytes] = []

    def serve(sock: socket.socket, _number: int) -> bool:
        requests.append(replies(sock))
        return True

    clean = Clean(b"may I?", EnhancedData(ird=1, ord=1))
    with plain_server(serve) as port:
        run_of(Responder(Connector(HOST, port, TIMEOUT)), chosen(["pad-0"]), RunSettings(Terms(TIMEOUT, clean)))
    for octets in requests:
        frame = decode_startup_frame(octets)
        assert frame is not None
        assert (frame.ulp_data, frame.enhanced) == (b"may I?", EnhancedData(ird=1, ord=1))


def test_choosing() -> None:
    assert {case.name for case in chosen(["crc-*"], ["crc-off-*"])} < all_cases().keys()
    assert {case.area for case in chosen(areas=["markers"])} == {"markers"}
    assert all(case.clause.startswith("RFC 5044 §4") for case in chosen(clauses=["RFC 5044 §4"]))
    for wrong in ({"names": ["crc-zer"]}, {"areas": ["sea"]}, {"names": ["crc-zero"], "areas": ["ddp"]}):
        with pytest.raises(MPAError):
            chosen(**wrong)


def test_known_failures_are_read(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text("# ours\ncrc-zero  # they know\n\nmsn-0\n")
    assert known_failures(str(file)) == {"crc-zero", "msn-0"}
    file.write_text("crc-zer\n")
    with pytest.raises(MPAError, match="similar: crc-zero"):
        known_failures(str(file))


def test_commands_of_peers() -> None:
    assert words("x --port {port} 'a b'", 7) == ["x", "--port", "7", "a b"]
    for wrong in ("", "'"):
        with pytest.raises(MPAError):
            words(wrong)


def test_an_initiator_that_does_not_come() -> None:
    with Acceptor(HOST, 0, TIMEOUT) as acceptor:
        for command, word in (
            ("true", "did not connect"),
            ("false", "status 1$"),
            ("sh -c 'echo first >&2; echo why >&2; exit 3'", "status 3: why$"),
            ("sleep 5", "no Initiator"),
            (None, "no Initiator"),
        ):
            target = Initiator(acceptor, command, 0.3)
            with closing(target), pytest.raises(NotReached, match=word):
                target.connection()
        with pytest.raises(MPAError, match="no-such-program"):
            Initiator(acceptor, "no-such-program", 0.3).connection()


def test_what_an_initiator_needs_may_boot_longer_than_it_may_connect(tmp_path: Path) -> None:
    made = tmp_path / "booted"
    with Acceptor(HOST, 0, TIMEOUT) as acceptor:
        for boot, is_made in ((0.0, False), (20.0, True)):
            target = Initiator(acceptor, "true", 0.1, f"sh -c 'sleep 0.5; touch {made}'", boot)
            assert target.restart()
            assert made.exists() == is_made


class Fake:
    """A carrier without a network: what comes is written down."""

    def __init__(self, *coming: bytes | OSError | None) -> None:
        self.coming = [*coming]
        self.sent: list[bytes] = []
        self.ends: list[str] = []
        self.addresses = ((HOST, 1), (HOST, 2))
        self.mss = 1460
        self.is_closed = False

    def send(self, step: Send | BareOctets) -> None:
        self.sent.append(step.octets)

    def finish(self, step: Finish) -> None:
        self.ends.append(step.how)

    def receive(self, seconds: float) -> bytes | None:
        if not self.coming:
            time.sleep(min(seconds, 0.01))
            return None
        found = self.coming.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    def unacknowledged(self) -> int | None:
        return None

    def close(self) -> None:
        self.is_closed = True


def given(name: str, *coming: bytes | OSError | None, echoes: bool = False) -> tuple[Fake, SeenPeer]:
    carrier = Fake(*coming)
    exchange = CaseExchange(carrier, all_cases()[name], Terms(0.05, echoes=echoes))
    return carrier, exchange.run()


def test_nothing_is_sent_before_what_has_to_come() -> None:
    carrier, seen = given("crc-zero")
    assert (len(carrier.sent), seen.is_cut, seen.waits_for) == (1, True, "startup")
    carrier, seen = given("crc-zero", REPLY[:7], REPLY[7:])
    assert (len(carrier.sent), seen.is_cut) == (4, False)
    assert seen.frame is not None
    carrier, seen = given("fpdu-in-segment-of-request")
    assert len(carrier.sent[0]) > 20


def test_markers_and_crc_are_those_that_the_peer_wants() -> None:
    wants = startup_frame("reply", m=1, c=1).encode()
    plain, marked = given("pad-0", REPLY)[0], given("pad-0", wants)[0]
    assert b"".join(marked.sent[1:])[:4] == bytes(4)
    assert len(b"".join(marked.sent)) == len(b"".join(plain.sent)) + 4
    assert given("crc-off-any-value", REPLY)[1].unsupported
    assert not given("crc-off-any-value", startup_frame("reply").encode())[1].unsupported
    assert "Markers" in given("marker-at-4", REPLY)[1].unsupported
    assert given("ord-exceeded", REPLY)[1].unsupported


def test_a_reset_in_the_middle() -> None:
    carrier, seen = given("crc-zero", REPLY, ConnectionResetError())
    assert (seen.end, carrier.is_closed) == ("rst", True)
    carrier, seen = given("crc-zero", ConnectionResetError())
    assert (seen.end, seen.frame, len(carrier.sent)) == ("rst", None, 1)


def test_ends_are_those_of_the_case() -> None:
    assert given("fin-in-ulpdu", REPLY)[0].ends[0] == "fin"
    assert given("rst-in-fpdu", REPLY)[0].ends == ["rst"]
    # What is not about an end is left to the peer first.
    carrier, seen = given("pad-0", REPLY, b"")
    assert (seen.end, carrier.ends) == ("fin", [])


def test_the_kernel_says_what_was_not_acknowledged() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("SIOCOUTQ is Linux's")
    with socket.create_server((HOST, 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        peer = listener.accept()[0]
        carrier = KernelTCP(sock, 1.0)
        with peer:
            case = all_cases()["crc-zero"]
            steps = [packet for packet in case.case.plan().sent() if packet.payload]
            carrier.send(Send(steps[0]))
            time.sleep(0.2)
            assert carrier.unacknowledged() == 0
        carrier.close()


def test_the_sample_is_as_mixed_as_the_whole() -> None:
    assert {case.area for case in RESPONDERS[::PARTS]} == {case.area for case in RESPONDERS}
    assert sample("x", RESPONDERS, 0)
