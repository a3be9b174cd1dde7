"""``connect`` and ``listen`` as commands: statuses, what they print and write, Ctrl-C, memory, and a real peer."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from scapy_mpa import analyze
from scapy_mpa.cli import cli, main
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.startup import decode_startup_frame, startup_frame
from tests.live.loopback import HOST, command, finished, interrupted, listening, peak, read_to_end, server
from tests.live.pairs import said
from tests.live.test_driver import initiator_of

REPLY = startup_frame("reply", c=1, rev=1).encode()
#: A real peer: HOST:PORT of an rping -s over Linux siw.
SIW = os.environ.get("SCAPY_MPA_SIW", "")


def connect(port: int, *arguments: str, timeout: float = 60) -> tuple[int, str, str]:
    return finished(command("connect", HOST, str(port), *arguments), timeout)


def test_rping_as_both_sides() -> None:
    with listening("--ulp", "rping", "--count", "1") as (process, port):
        status, out, err = connect(port, "--ulp", "rping", "--count", "3", "-m")
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "#0 established: rfc6581, CRC, Markers from responder, ORD 1 and 1, IRD 1 and 1"
        assert lines[-2:] == ["#0 rping: 3 iterations of 64 octets", "1 connection"]
        assert len(lines) == 1 + 3 * 7 + 2
        status, out, _ = finished(process)
        assert (status, out.splitlines()[-2:]) == (0, ["#0 rping: 3 iterations as the server", "1 connection"])


def test_lines_are_those_of_messages(tmp_path: Path) -> None:
    """What is printed while it happens is what ``messages`` prints of the recording, but for answers to come."""
    capture = tmp_path / "a.pcapng"
    with listening("--ulp", "rping", "--count", "1") as (_, port):
        status, out, _ = connect(port, "--ulp", "rping", "--count", "2", "--write", str(capture))
    assert status == 0
    printed = CliRunner().invoke(cli, ["messages", str(capture)]).output.splitlines()
    live = [line for line in out.splitlines() if " frame " in line]
    assert [re.sub(r", answered at frame .*? by \d+ octets", "", line) for line in printed] == live


def test_steps_are_said_and_answers_printed(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    steps = ["send hello", "write hex:0102 stag=0x1000 to=3", "read 5 source=0x1000,0", "atomic data=7", "pause 0.01"]
    said_steps = [word for step in steps for word in ("--say", step)]
    with listening("--count", "1") as (_, port):
        status, out, _ = connect(port, *said_steps, "--payload", "--log", str(log))
    assert status == 0
    assert re.search(r"initiator frame \d+ Send QN 0 MSN 1: 5 octets 68656c6c6f$", out, re.MULTILINE)
    assert re.search(
        r"responder frame \d+ RDMA Read Response .* 5 octets, named at frame \d+ 0000000102$", out, re.MULTILINE
    )
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events[:4]] == ["connected", "request", "reply", "established"]
    assert events[-1]["event"] == "finished"
    assert {event["message"] for event in events if event["event"] == "message"} >= {
        "Atomic Request",
        "Atomic Response",
    }


def test_a_scenario_and_a_file_of_ulpdus(tmp_path: Path) -> None:
    scenario, ulpdus = tmp_path / "a.toml", tmp_path / "ulpdus"
    scenario.write_text('[[connection]]\nsay = ["initiator send 10", "initiator send 20"]\n')
    ulpdus.write_text(f"# three\n{send(1, b'x').hex()}\n\n{send(2, b'').hex()}\nsend 30\n")
    for option, expected in ((("--scenario", str(scenario)), [10, 20]), (("--ulpdus", str(ulpdus)), [1, 0])):
        with listening("--count", "1") as (_, port):
            _, out, _ = connect(port, *option)
        assert [int(octets) for octets in re.findall(r"Send QN 0 MSN \d: (\d+) octets", out)][:2] == expected


def test_each_connection_of_a_scenario_is_made(tmp_path: Path) -> None:
    """One after the other; who listens says the next one's steps on each, and begins again behind the last."""
    scenario = tmp_path / "a.toml"
    says = ('"initiator send 1", "responder send 3"', '"initiator send 2"', '"initiator send 4"')
    scenario.write_text("".join(f"[[connection]]\nsay = [{steps}]\n" for steps in says))
    with listening("--count", "4", "--scenario", str(scenario)) as (process, port):
        status, out, _ = connect(port, "--scenario", str(scenario))
        assert status == 0
        assert re.findall(r"^#(\d) (.*) frame \d+ Send .* (\d+) octets?$", out, re.MULTILINE) == [
            ("0", "initiator", "1"),
            ("0", "responder", "3"),
            ("1", "initiator", "2"),
            ("2", "initiator", "4"),
        ]
        assert "3 connections" in out
        # The fourth is served as the first was.
        status, out, _ = connect(port, "--say", "send 1", "--say", "responder send")
        assert re.findall(r"responder .* (\d+) octets?$", out, re.MULTILINE) == ["3"]
        assert finished(process)[0] == 0


def test_a_scenario_that_cannot_be_said_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    scenario = tmp_path / "a.toml"
    scenario.write_text('[[connection]]\nsay = ["initiator send 10"]\n[[connection]]\nsay = ["initiator stream x"]\n')
    status, out, err = connect(9, "--scenario", str(scenario))
    assert (status, out) == (2, "")
    assert "streaming data cannot be sent here" in err


@pytest.mark.parametrize(
    ("options", "depths"),
    [
        ((), (1, 1)),
        (("--ird", "4"), (4, 1)),
        (("--ord", "3", "--profile", "rfc6581"), (1, 3)),
        (("--rev", "1"), None),
        (("--profile", "rfc5044"), None),
        (("--kind", "ietf-permissive", "--rev", "1"), None),
    ],
)
def test_rping_asks_for_an_rdma_read(options: tuple[str, ...], depths: tuple[int, int] | None) -> None:
    requests = []

    def serve(sock: socket.socket) -> None:
        requests.append(decode_startup_frame(sock.recv(100)))

    with server(serve) as port:
        connect(port, "--ulp", "rping", *options)
    (request,) = requests
    assert request is not None
    enhanced = request.enhanced
    assert (None if enhanced is None else (enhanced.ird, enhanced.ord)) == depths
    assert enhanced is None or not enhanced.a


@pytest.mark.parametrize("settle", [0.0, 0.4])
def test_connect_settles_behind_the_reply(settle: float) -> None:
    waited = []

    def serve(sock: socket.socket) -> None:
        sock.recv(100)
        sock.sendall(REPLY)
        replied = time.monotonic()
        assert sock.recv(100)
        waited.append(time.monotonic() - replied)

    with server(serve) as port:
        connect(port, "--ulp", "echo", "--count", "1", "--settle", str(settle))
    assert settle <= waited[0] < settle + 0.4


def test_standard_input_is_said_as_it_comes() -> None:
    with listening("--count", "1", "--ulp", "echo") as (_, port):
        process = command("connect", HOST, str(port), "--ulpdus", "-", stdin=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write("send one\n")
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(2)]
        assert ["Send" in line for line in lines] == [True, True]
        process.stdin.close()
        process.stdin = None
        status, _, err = finished(process)
        assert (status, err) == (0, "")


def test_who_types_may_try_again() -> None:
    """At a terminal a line that means nothing is complained about, and the next one is read."""
    ours, theirs = pty.openpty()
    with listening("--count", "1", "--ulp", "echo") as (_, port):
        process = command("connect", HOST, str(port), "--ulpdus", "-", stdin=theirs)
        os.close(theirs)
        os.write(ours, b"sned x\nsend one\n\x04")
        status, out, err = finished(process)
        os.close(ours)
    assert (status, len(re.findall(r"Send .* 3 octets", out))) == (0, 2)
    assert "step 'sned x': did you mean send?" in err


def test_what_was_said_is_printed_before_what_cannot_be_said() -> None:
    with listening("--count", "1") as (_, port):
        process = command("connect", HOST, str(port), "--ulpdus", "-", stdin=subprocess.PIPE)
        out, err = process.communicate("# a remark\nsend one\nsned x\nsend two\n", timeout=60)
    assert (process.returncode, err) == (2, "")
    lines = out.splitlines()
    assert re.search(r"Send .* 3 octets$", lines[1])
    assert lines[2].startswith("#0 standard input, line 3: step 'sned x': did you mean send?")
    assert lines[3:] == ["#0 sent 1 message", "1 connection, 1 not completed"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("send 1\n\nsned 2\n", "a, line 3: step 'sned 2': did you mean send?"),
        ("4143\nstream 3\n", "a, line 2: streaming data cannot be sent here"),
        (b"send 1\n\xff\n", "a: 'utf-8' codec"),
        (None, "a: No such file"),
    ],
)
@pytest.mark.parametrize("side", ["connect", "listen"])
def test_a_file_is_read_before_anybody_connects(
    side: str, text: str | bytes | None, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("a").write_bytes(text if isinstance(text, bytes) else text.encode())
    words = [HOST, "9"] if side == "connect" else ["0"]
    result = CliRunner().invoke(cli, [side, *words, "--ulpdus", "a"])
    assert isinstance(result.exception, MPAError)
    assert complaint in str(result.exception)
    assert result.output == ""


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with listening("--count", "1") as (_, port):
        process = command("connect", HOST, str(port), "--ulpdus", str(pipe))
        pipe.write_text("send 5\n")
        status, out, _ = finished(process)
    assert status == 0
    assert "#0 sent 1 message" in out


def test_what_a_capture_said_is_said_again(pcap: object, tmp_path: Path) -> None:
    capture, recording = pcap("siw-rping"), tmp_path / "again.pcapng"  # type: ignore[operator]
    with listening("--count", "1", "--no-rdmap", "--write", str(recording)) as (process, port):
        status, _, err = connect(port, "--from", str(capture), "--verbatim")
        assert (status, err) == (0, "")
        status, out, _ = finished(process)
        assert status == 0
        assert "#0 received 15 ULPDUs" in out
    initiators = [[ulpdu for side, ulpdu in said(path) if side == "initiator"] for path in (capture, recording)]
    assert initiators[0] == initiators[1]
    requests = [analyze(str(path)).connections[0].request for path in (capture, recording)]
    assert requests[0] is not None
    assert requests[1] is not None
    assert (requests[0].m, requests[0].c) == (requests[1].m, requests[1].c) == (0, 0)
    times = [
        [one.time_ns for one in analyze(str(path)).connections[0].half("initiator").fpdus]
        for path in (capture, recording)
    ]
    pauses = [max(all_of) - min(all_of) for all_of in times]
    assert abs(pauses[0] - pauses[1]) < 300_000_000


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--connection", "7"], "no connection 7"),
        (["--say", "send"], "--from decides"),
        (["--ulp", "rping"], "--from decides"),
    ],
)
def test_what_cannot_be_said_again(arguments: list[str], complaint: str, pcap: object) -> None:
    capture = pcap("siw-rping")  # type: ignore[operator]
    status, _, err = connect(9, "--from", str(capture), *arguments)
    assert status == 2
    assert complaint in err


# --- statuses ---


def test_nobody_listens() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    status, out, err = connect(port, "--ulp", "rping")
    assert (status, out) == (2, "0 connections\n")
    assert "refused: nobody is listening there; --retry" in err
    assert "loopback" not in err


def test_a_peer_that_does_not_answer() -> None:
    with server(read_to_end) as port:  # type: ignore[arg-type]
        status, out, err = connect(port, "--ulp", "rping", "--timeout", "0.3")
    assert (status, err) == (2, "")
    assert "no Reply within 0.3 s: 0 octets of it arrived: does the peer speak MPA, as Responder?" in out
    assert out.count("no Reply") == 1


def test_a_failure_is_in_the_summary_of_who_is_quiet() -> None:
    with server(read_to_end) as port:  # type: ignore[arg-type]
        _, out, _ = connect(port, "--ulp", "rping", "--timeout", "0.3", "-q")
    assert out.startswith("#0 startup-timeout: no Reply")


def test_a_peer_that_speaks_no_mpa() -> None:
    with server(lambda sock: sock.sendall(b"220 mail.example.org ESMTP")) as port:
        status, out, _ = connect(port, "--ulp", "rping")
    assert (status, "does the peer speak MPA?" in out) == (1, True)


def test_a_peer_whose_upper_layer_is_another() -> None:
    with listening("--ulp", "rping", "--count", "1") as (process, port):
        status, out, _ = connect(port, "--say", "send hi", "--say", "responder send")
        assert status == 2
        assert "before everything was sent: is --ulp the same on both sides?" in out
        status, out, _ = finished(process)
        assert (status, "2 octets, which name no buffer: is --ulp the same" in out) == (1, True)


def test_a_peer_that_closes_on_what_break_makes_wrong() -> None:
    with listening("--count", "1") as (process, port):
        status, out, _ = connect(port, "--break", "pad:number=1,octets=hex:01")
        finished(process)
    assert status == 2
    assert "before everything was sent: that may be its answer to what --break does" in out


def test_a_peer_that_waits_less_long() -> None:
    with listening("--timeout", "1", "--count", "1") as (process, port):
        status, out, _ = connect(port, "--say", "send hi", "--say", "pause 4", "--say", "send hi")
        assert status == 2
        assert re.search(r"after 1\.\d seconds in which neither side sent anything: is its --timeout so short", out)
        assert "nothing came for 1 seconds (--timeout waits longer)" in finished(process)[1]


def test_a_terminate_of_the_peer_is_summed_up_as_that() -> None:
    with listening("--buffer", "0x1000,0,64", "--count", "1") as (_, port):
        status, out, _ = connect(port, "--say", "write 100 stag=0x1000")
    assert status == 2
    assert out.splitlines()[-3:] == [
        "#0 the peer ends the stream with a Terminate: DDP tagged buffer error: base or bounds violation",
        "#0 sent 1 message",
        "1 connection, 1 that the peer ended with a Terminate",
    ]


@pytest.mark.parametrize("where", ["{0}:{1}", "[{0}]:{1}", "{0} {1}"])
def test_an_address_may_be_one_word(where: str) -> None:
    with listening("--count", "1") as (_, port):
        process = command("connect", *where.format(HOST, port).split(), "--wait", "0")
        status, out, err = finished(process)
    assert (status, out.splitlines()[1:]) == (0, ["#0 sent 0 messages", "1 connection"])
    assert err == "only the Request was sent: use --say, --ulp or other options to send messages\n"


def test_a_refusal_of_another_host_tells_of_loopback() -> None:
    result = CliRunner().invoke(cli, ["connect", "0.0.0.0:9", "--ulp", "echo"])
    assert "listens only on loopback" in str(result.exception)


def test_a_recording_by_its_name(tmp_path: Path) -> None:
    magics = {}
    for name in ("a.pcap", "a.pcapng"):
        with listening("--count", "1") as (_, port):
            connect(port, "--say", "send 5", "--write", str(tmp_path / name))
        magics[name] = (tmp_path / name).read_bytes()[:4].hex()
        assert len(analyze(str(tmp_path / name)).connections) == 1
    assert magics == {"a.pcap": "4d3cb2a1", "a.pcapng": "0a0d0d0a"}


def test_a_peer_that_breaks_a_rule() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(20)
        sock.sendall(REPLY)
        sock.recv(36)
        octets = bytearray(HalfStream(Dialect(False, True)).lay((send(1, b"\x1b[31mred"),))[0])
        octets[-1] ^= 1
        sock.sendall(octets)
        read_to_end(sock)

    with server(serve) as port:
        status, out, _ = connect(port, "--ulp", "echo", "--count", "1", "--size", "8")
    assert status == 1
    assert "code 2" in out
    assert "RFC 5044 §4.4" in out
    assert "Terminate" in out


@pytest.mark.parametrize("side", ["initiator", "responder"])
def test_private_data_that_does_not_fit(side: str) -> None:
    """Its sender says so, and sends nothing of it."""
    large = ["--private-data", "x" * 513]
    with listening("--count", "1", *(large if side == "responder" else [])) as (process, port):
        status, out, err = connect(port, *(large if side == "initiator" else []))
        ours = (status, out, err) if side == "initiator" else finished(process)
    assert ours[0] == 2
    assert "512" in ours[1] + ours[2]
    assert "Traceback" not in err + ours[2]
    assert status == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["connect", HOST, "0"],
        ["connect", HOST],
        ["connect", "7471"],
        ["connect", "::1:7471"],
        ["connect", f"{HOST}:7471", "7471"],
        ["connect", HOST, "7\u0661"],
        ["listen", ":7471"],
        ["listen", f"{HOST}:65536"],
        ["connect", HOST, "7", "--say", "fly"],
        ["connect", HOST, "7", "--say", "send 1", "--ulp", "rping"],
        ["connect", HOST, "7", "--private-data", "hex:0"],
        ["connect", HOST, "7", "--private-data", "@/nowhere"],
        ["connect", HOST, "7", "--buffer", "1,2"],
        ["connect", HOST, "7", "--buffer", "1,0,4", "--buffer", "1,0,8"],
        ["connect", HOST, "7", "--rev", "1", "--peer-to-peer"],
        ["connect", HOST, "7", "--write", "x", "--log", "x"],
        ["listen"],
        ["listen", "a", "b", "c"],
        ["listen", "99999"],
        ["listen", "0", "--ulpdus", "-"],
        ["listen", "203.0.113.1", "0"],
    ],
)
def test_arguments_that_cannot_be_used(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scapy-mpa", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out in ("", "0 connections\n")
    assert len(err.splitlines()) == 1
    assert err.startswith("scapy-mpa: ")


def test_listen_is_on_loopback_unless_told() -> None:
    with listening() as (process, port):
        with socket.create_connection((HOST, port)):
            pass
        status, out, _ = interrupted(process)
    assert "connection" in out
    assert status in (1, 2)


# --- Ctrl-C ---


def test_ctrl_c_ends_listen_with_a_summary_and_whole_files(tmp_path: Path) -> None:
    capture, log = tmp_path / "a.pcapng", tmp_path / "a.jsonl"
    with listening("--ulp", "rping", "--write", str(capture), "--log", str(log)) as (process, port):
        for _ in range(2):
            assert connect(port, "--ulp", "rping", "--count", "2", "-q")[0] == 0
        with socket.create_connection((HOST, port)) as sock:
            sock.sendall(startup_frame("request", c=1, rev=1).encode())
            sock.recv(20)
            status, out, err = interrupted(process)
    assert status == 0
    assert "Traceback" not in err
    lines = out.splitlines()
    assert "3 connections" in lines
    assert "#2 interrupted; rping: 0 iterations as the server" in lines
    assert len(analyze(str(capture)).connections) == 3
    finished_ones = [line for line in log.read_text().splitlines() if json.loads(line)["event"] == "finished"]
    assert len(finished_ones) == 3


def test_ctrl_c_ends_connect_with_a_summary() -> None:
    with listening("--ulp", "rping", "-q") as (_, port):
        process = command("connect", HOST, str(port), "--ulp", "rping")
        assert process.stdout is not None
        for _ in range(20):
            process.stdout.readline()
        status, out, err = interrupted(process)
    assert status == 0
    assert re.search(r"interrupted; rping: \d+ iterations of 64 octets", out)
    assert "Traceback" not in err


# --- memory ---


def transfer(megabytes: int) -> tuple[int, int]:
    """Peak memory of both sides for so many Sends of a million octets."""
    with listening("-q") as (process, port):
        talk = subprocess.Popen(
            [*command_line("connect", HOST, str(port), "-q", "--say", f"send 1000000 times={megabytes}")],
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(talk.pid, 0)
        talk.returncode = os.waitstatus_to_exitcode(status)
        assert talk.returncode == 0
        listener = peak(process)
        status, out, _ = interrupted(process)
        assert (status, f"#0 received {megabytes} messages" in out) == (0, True)
    return usage.ru_maxrss * 1024, listener


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scapy_mpa", *arguments]


def flat(megabytes: int) -> None:
    before, after = transfer(10), transfer(megabytes)
    for few, many in zip(before, after, strict=True):
        assert many < few + (16 << 20), (before, after)


def test_a_hundred_megabytes_take_no_memory() -> None:
    flat(100)


def test_a_gigabyte_takes_no_memory() -> None:
    flat(1000)


def fuzzed(port: int, cases: range) -> None:
    for case in cases:
        with socket.create_connection((HOST, port), timeout=20) as sock:
            try:
                sock.sendall(initiator_of(case))
                sock.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                continue
            except OSError as error:
                if error.errno != errno.ENOTCONN:
                    raise
            read_to_end(sock)


def test_listen_takes_no_memory_for_fuzzed_clients() -> None:
    with listening("-q", "--ulp", "echo", "--timeout", "2") as (process, port):
        fuzzed(port, range(300))
        before = peak(process)
        fuzzed(port, range(300, 1200))
        # 9 MB, were there nobody who looks for cycles.
        assert peak(process) < before + (4 << 20)
        status, out, err = interrupted(process)
    assert (status, err) == (1, "\n")
    assert "1200 connections, " in out


def test_connect_waits_for_somebody_to_listen() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    process = command("connect", HOST, str(port), "--retry", "30", "--ulp", "rping", "--count", "1", "-q")
    time.sleep(1.5)
    server_side = command("listen", str(port), "--ulp", "rping", "--count", "1", "-q")
    assert finished(process)[0] == 0
    assert finished(server_side)[0] == 0


# --- a real peer ---


@pytest.mark.skipif(not SIW, reason="SCAPY_MPA_SIW=HOST:PORT names no rping -s over siw")
@pytest.mark.parametrize("size", [64, 65535])
def test_rping_with_a_real_siw(size: int) -> None:
    host, _, port = SIW.rpartition(":")
    arguments = ["--ulp", "rping", "--count", "100", "--size", str(size), "--settle", "0.5", "--no-crc", "-q"]
    status, out, err = finished(command("connect", host, port, *arguments), 120)
    assert (status, err) == (0, "")
    assert f"rping: 100 iterations of {size} octets" in out
