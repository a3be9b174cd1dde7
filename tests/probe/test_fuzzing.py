"""The fuzzer on the wire: what is given, new answers, a peer that goes, and what is left of the case that killed it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa.cli import cli
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.startup import KEY_LENGTH, startup_frame
from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.probe.carrier import Carrier, Connector
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.fuzzing import WireFuzzer, answer_of, message_areas, wire_case
from scapy_mpa.probe.seen import SeenPeer
from tests.probe.peers import HOST, our_initiator, our_responder
from tests.probe.test_commands import port_of

TERMS = Terms(0.2)
REPLY = startup_frame("reply", c=1).encode()


class Mortal:
    """A Responder that dies of Requests with a reserved bit, and can be started anew."""

    role = "responder"

    def __init__(self) -> None:
        self.starts = 0
        self._thread: threading.Thread | None = None
        self._port = 0
        self._listener: socket.socket | None = None
        self.restart()

    def _serve(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    sock = listener.accept()[0]
                except OSError:
                    return
                sock.settimeout(2)
                with sock, suppress(OSError):
                    request = sock.recv(4096)
                    if len(request) > KEY_LENGTH and request[KEY_LENGTH] & 0x0F:
                        return
                    sock.sendall(REPLY)
                    while sock.recv(65536):
                        pass

    def connection(self, _case: object = None) -> Carrier:
        return Connector(HOST, self._port, 0.2).connect()

    def restart(self) -> bool:
        self.close()
        self.starts += 1
        self._listener = socket.create_server((HOST, self._port))
        self._port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(self._listener,))
        self._thread.start()
        return True

    def is_back(self, works: Callable[[], bool]) -> bool:
        return works()

    def done(self) -> None:
        pass

    def close(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        if self._thread is not None:
            self._thread.join(10)


def fuzzer(seed: int = 1) -> Fuzzer:
    return Fuzzer(seed, baselines()._replace(with_catalogue=False), areas=message_areas())


def test_what_kills_is_made_smaller() -> None:
    peer = Mortal()
    try:
        run = WireFuzzer(peer, fuzzer(), TERMS)  # type: ignore[arg-type]
        assert run.begin() == ""
        cases = (run.case(number) for number in range(1000))
        deadly = next(
            one
            for one in cases
            if len(one.messages) > 2
            and len(one.recipe.mutations) > 1
            and len(one.messages[0].octets) > KEY_LENGTH
            and one.messages[0].octets[KEY_LENGTH] & 0x0F
        )
        result = run.give(deadly)
        assert result.is_gone
        assert result.as_dict()["verdict"] == "peer gone"
        assert run.come_back()
        smaller, again = run.smaller(deadly)
        assert again
        assert len(smaller.messages) == 1
        assert len(smaller.recipe.mutations) == 1
        assert smaller.messages[0].octets[KEY_LENGTH] & 0x0F
        assert peer.starts > 3
        # What does not kill is left as it is.
        harmless = next(one for one in map(run.case, range(100)) if not run.give(one).is_gone)
        assert run.smaller(harmless) == (harmless, False)
    finally:
        peer.close()


def test_the_same_number_gives_the_same_octets() -> None:
    peer = Mortal()
    try:
        first, second = (WireFuzzer(peer, fuzzer(7), TERMS) for _ in range(2))  # type: ignore[arg-type]
        first.begin(), second.begin()
        assert first.case(5).messages == second.case(5).messages
        assert any(first.case(5).messages != first.case(number).messages for number in range(6, 10))
    finally:
        peer.close()


def test_our_endpoints_survive() -> None:
    """New answers are told once; cases are laid with the Markers that the peer asks for."""
    with our_responder(m=1) as target:
        run = WireFuzzer(target, fuzzer(3), TERMS)
        run.begin()
        results = [run.give(run.case(number)) for number in range(12)]
    assert not any(one.is_gone for one in results)
    answers = [answer_of(one.seen) for one in results]
    assert [one.is_new for one in results] == [answer not in answers[:n] for n, answer in enumerate(answers)]
    with our_initiator() as initiator:
        run = WireFuzzer(initiator, fuzzer(3), TERMS)
        run.begin()
        results = [run.give(run.case(number)) for number in range(6)]
    assert not any(one.is_gone for one in results)
    assert all(one.seen.frame is not None for one in results)


def test_answers() -> None:
    assert answer_of(SeenPeer()) == ("none", (), (), "")
    rejected = SeenPeer(frame=startup_frame("reply", r=1), end="fin")
    assert answer_of(rejected) == ("rejected", (), (), "fin")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["fuzz", *arguments], standalone_mode=False)


def test_the_command(tmp_path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "new"
    with our_responder() as target:
        where = f"{HOST}:{port_of(target)}"
        result = invoke("--to", where, "--seed", "1", "--count", "6", "--timeout", "0.2", "-o", str(folder))
        again = invoke("--to", where, "--seed", "1", "--replay", "3", "--timeout", "0.2")
        valid = invoke("--to", where, "--changes", "0", "--count", "2", "--timeout", "0.2")
    assert (result.return_value, again.return_value, valid.return_value) == (0, 0, 0)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == 6
    left_out = lines[-1]["case"] + 1 - len(lines)
    assert all(one["mutations"] for one in lines)
    assert left_out > 0
    assert [json.loads(line)["mutations"] for line in valid.stdout.splitlines()] == [[], []]
    assert f"; {left_out} case{'s' * (left_out != 1)} left out" in result.stderr
    assert len([*folder.iterdir()]) == sum(one["new"] for one in lines) >= 1
    (one,) = map(json.loads, again.stdout.splitlines())
    assert (one["case"], one["mutations"]) == (3, next(it["mutations"] for it in lines if it["case"] == 3))


def test_one_case_in_which_nothing_is_changed_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """It is named by who asks for it, so that nothing and exit status 0 would say that the peer has survived it."""
    program = tmp_path / "program.py"
    ran = Fuzzer(1, baselines()._replace(with_catalogue=False), areas=message_areas(), by_message=True)
    # A change of an FPDU that this side does not say.
    number = next(one for one in range(5000) if not wire_case(ran.recipe(one), "initiator", markers=False).done)
    arguments = "--seed", "1", "--replay", str(number), "--script", str(program), "--timeout", "0.2"
    with our_responder() as target:
        for where in (("--to", f"{HOST}:{port_of(target)}"), ()):
            result = invoke(*arguments, *where)
            assert isinstance(result.exception, MPAError)
            assert f"case {number} changes nothing in what the Initiator sends" in str(result.exception)
            assert not program.exists()
            # Valid messages are what is asked for here.
            assert invoke(*arguments, *where, "--changes", "0").return_value == 0
            assert program.read_text()
            program.unlink()


def test_what_does_not_go_together() -> None:
    for arguments in (
        ("--run", "true", "-o", "x"),
        ("--minimize", "-o", "x"),
        ("--ulp", "rping", "-o", "x"),
        ("--replay", "3"),
        ("--to", "a:1", "--listen", "2"),
        ("--to", "a:1", "--minimize"),
        ("--to", "a:1", "--case", "1"),
        ("--to", "a:1", "--split", "x"),
        ("--to", "a:1", "--area", "attack"),
        ("--to", "a"),
    ):
        result = invoke(*arguments)
        assert isinstance(result.exception, (UsageError, MPAError)), arguments


@pytest.mark.parametrize("area", message_areas())
def test_areas_of_messages_change_messages(area: str) -> None:
    """Each area that is left has cases whose messages are other than those of the connection that they begin from."""
    run = Fuzzer(0, baselines()._replace(with_catalogue=False), areas=(area,))
    assert any(run.case(number).done for number in range(5))
