"""Which TCP connections give way beyond the limit: what is over, unanswered or idle, never what is in use."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.analyzer.followed import Followed
from scapy_mpa.craft.packets import ACK, FIN, RST, SYN, Endpoint
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.stream.connection import TCPConnection
from scapy_mpa.values.limits import Limits
from scripts.dev.benchmark_floods import connections, write
from tests.receive.cases import REQUEST, Talk, Tap
from tests.work import lines_run

MOST = 20


def talks(tap: Tap, count: int, port: int = 1000) -> list[Talk]:
    return [Talk(tap, a=Endpoint("10.0.0.1", port + n, bytes(6))) for n in range(count)]


def running(tap: Tap, count: int, port: int = 1000) -> list[Talk]:
    """Connections with MPA, of each of which one FPDU was captured."""
    made = talks(tap, count, port)
    for talk in made:
        talk.open().startup_phase()
        talk.say("a", talk.lay("a", 30))
    return made


def plain(tap: Tap, count: int, port: int = 20000) -> list[Talk]:
    """Connections without MPA."""
    made = talks(tap, count, port)
    for talk in made:
        talk.open().say("a", b"GET / HTTP/1.1\r\n")
    return made


def received(tap: Tap, at_a_time: int = 7, most: int = MOST) -> Analyzer:
    receiver = Analyzer(records=True, limits=Limits(connections=most))
    for first in range(0, len(tap.segments), at_a_time):
        receiver.feed(tap.segments[first : first + at_a_time])
        receiver.release()
    receiver.finish()
    return receiver


def fpdus(receiver: Analyzer) -> list[int]:
    """How many FPDUs each MPA connection has."""
    return [sum(one.counts.fpdus for one in mpa.operations.values()) for mpa in receiver.connections]


@pytest.mark.parametrize("at_once", [1, 5, MOST // 4])
def test_connections_that_take_turns(at_once: int) -> None:
    """None of them is closed; those that take turns are in use, and the idle ones give way."""
    tap = Tap()
    for first in range(0, 60, at_once):
        group = talks(tap, at_once, 1000 + first)
        for flags, side in ((SYN, "a"), (SYN | ACK, "b"), (ACK, "a")):
            for talk in group:
                talk.say(side, flags=flags, ack=0 if flags == SYN else None)  # type: ignore[arg-type]
        for talk in group:
            talk.startup_phase()
        for _ in range(3):
            for talk in group:
                talk.say("a", talk.lay("a", 30))
    receiver = received(tap)
    assert receiver.tcp_connections == 60
    assert fpdus(receiver) == [3] * 60
    assert [(found.rule.id, found.count) for found in receiver.findings.sorted()] == [("limit", 60 - MOST)]


def goes_on(others: str) -> Analyzer:
    """Four connections with MPA go on while many others come."""
    tap = Tap()
    used = running(tap, 4)
    for round_ in range(25):
        port = 20000 + 40 * round_
        if others == "SYNs":
            for talk in talks(tap, 8, port):
                talk.say("a", flags=SYN, ack=0)
        elif others == "refused":
            for talk in talks(tap, 4, port):
                talk.say("a", flags=SYN, ack=0)
                talk.say("b", flags=RST | ACK)
        elif others == "closed":
            for talk in running(tap, 4, port):
                talk.close()
        elif others == "MPA":
            running(tap, 4, port)
        else:
            plain(tap, 4, port)
        for talk in used:
            talk.say("a", talk.lay("a", 30))
    return received(tap)


@pytest.mark.parametrize("others", ["SYNs", "refused", "closed", "MPA", "plain"])
def test_what_is_in_use_never_gives_way(others: str) -> None:
    receiver = goes_on(others)
    assert fpdus(receiver)[:4] == [26] * 4
    assert receiver.tcp_connections == 4 + 25 * (8 if others == "SYNs" else 4)
    assert any(found.rule.id == "limit" for found in receiver.findings.sorted())


@pytest.mark.parametrize("others", ["SYNs", "plain", "closed"])
def test_idle_connections_with_mpa_outlast(others: str) -> None:
    """SYNs that nobody answers, connections without MPA and those that are over make one another give way."""
    tap = Tap()
    idle = running(tap, 4)
    for n in range(100):
        (other,) = talks(tap, 1, 20000 + n)
        if others == "SYNs":
            other.say("a", flags=SYN, ack=0)
        else:
            other.open().say("a", b"GET / HTTP/1.1\r\n")
            if others == "closed":
                other.close()
    for talk in idle:
        talk.say("a", talk.lay("a", 30))
    assert fpdus(received(tap)) == [2] * 4


def test_who_has_been_idle_for_longest_gives_way() -> None:
    tap = Tap()
    made = running(tap, MOST)
    for talk in (*made[5:], *made[:4]):
        talk.say("a", talk.lay("a", 30))  # made[4] is the idle one now
    running(tap, 1, 20000)
    for talk in (*made[:4], *made[5:]):
        talk.say("a", talk.lay("a", 30))
    made[4].say("a", made[4].lay("a", 30))
    receiver = received(tap)
    by_port = {mpa.initiator: sum(one.counts.fpdus for one in mpa.operations.values()) for mpa in receiver.connections}
    assert by_port.pop("10.0.0.1:20000") == 1
    assert by_port.pop("10.0.0.1:1004") == 1
    assert set(by_port.values()) == {3}


def test_how_many_are_finished_at_a_time_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path := tmp_path / "many.pcap", connections(120))

    def report(at_a_time: int) -> dict[str, Any]:
        monkeypatch.setattr("scapy_mpa.analyzer.analyzer.MOST_LEAVING", at_a_time)
        return analyze(path, limits=Limits(connections=60)).as_dict()

    one_by_one = report(1)
    assert (len(one_by_one["connections"]), one_by_one["findings"][0]["count"]) == (120, 60)
    assert report(7) == report(512) == one_by_one


# --- SYNs ---


@pytest.mark.parametrize("copies", [1, 2, 5, 40])
def test_a_syn_is_no_connection_until_more_comes(copies: int) -> None:
    tap = Tap()
    (talk,) = talks(tap, 1)
    for _ in range(copies):
        talk.put("a", 1000, flags=SYN, ack=0)
    talk.next["a"] = 1001
    talk.say("b", flags=SYN | ACK)
    talk.say("a")
    talk.startup_phase()
    talk.say("a", talk.lay("a", 30, 40))
    receiver = received(tap)
    assert (receiver.tcp_connections, fpdus(receiver)) == (1, [2])
    (mpa,) = receiver.connections
    assert mpa.lifecycle is not None
    assert mpa.lifecycle.first[0] == 1
    assert receiver.findings.sorted() == []


def test_a_syn_alone_is_counted() -> None:
    tap = Tap()
    for talk in talks(tap, 5):
        talk.say("a", flags=SYN, ack=0)
    receiver = received(tap)
    assert (receiver.tcp_connections, receiver.connections, receiver.findings.sorted()) == (5, [], [])


def test_a_syn_and_its_rst() -> None:
    tap = Tap()
    (talk,) = talks(tap, 1)
    talk.say("a", flags=SYN, ack=0)
    talk.say("b", flags=RST | ACK)
    assert [found.rule.id for found in received(tap).findings.sorted()] == ["tcp-refused"]


@pytest.mark.parametrize("flags", [SYN, SYN | FIN])
def test_a_syn_with_more_in_it_is_looked_into(flags: int) -> None:
    tap = Tap()
    (talk,) = talks(tap, 1)
    talk.say("a", REQUEST[:10], flags=flags, ack=0)
    (mpa,) = received(tap).connections
    assert mpa.part is not None


# --- what it costs ---


def used(frame: int) -> TCPConnection:
    """A connection of which nothing is known but when it was used last."""
    connection = TCPConnection()
    connection.last_frame = frame
    return connection


def test_in_any_order_the_idle_one_gives_way() -> None:
    followed = Followed(50)
    made = [used(frame) for frame in range(50)]
    for one in made:
        followed.add(one)
    for number, one in enumerate(made[::3]):
        one.last_frame = 100 + (7 * number) % 17
    for one in sorted(made, key=lambda one: one.last_frame):
        found = followed.give_way()
        assert found.last_frame == one.last_frame
        followed.remove(found)
    assert list(followed) == []


def test_what_is_gone_is_not_kept() -> None:
    followed = Followed(MOST)
    followed.add(used(0))
    followed.remove(followed.give_way())  # from now on it is known which one is idle
    for frame in range(10_000):
        one = used(frame)
        followed.add(one)
        followed.remove(one)
        assert len(followed._groups[0]._heap or ()) < 100


@pytest.mark.uncompiled
def test_the_last_costs_what_the_first_did() -> None:
    """Lines that a SYN, and a connection, takes beyond the limit do not depend on how many came, or are followed."""

    def of(kind: str, count: int, most: int) -> float:
        tap = Tap()
        if kind == "SYNs":
            for talk in talks(tap, count, 1):
                talk.say("a", flags=SYN, ack=0)
        else:
            plain(tap, count, 1)
        return lines_run(lambda: received(tap, 100, most)) / count

    # A connection has all its parts, half of these lines, from its SYN on.
    for kind, most_lines in (("SYNs", 700), ("plain", 2100)):
        few, many, larger = of(kind, 200, MOST), of(kind, 800, MOST), of(kind, 800, 10 * MOST)
        assert many < 1.1 * few
        assert larger < 1.1 * few
        assert many < most_lines


def test_nothing_is_left_of_what_gave_way() -> None:
    """No circle of references keeps it until somebody looks for such."""
    tap = Tap()
    plain(tap, 200)
    receiver = Analyzer(limits=Limits(connections=MOST))
    gc.collect()
    gc.disable()
    try:
        receiver.feed(tap.segments)
        receiver.release()
        assert sum(isinstance(one, TCPConnection) for one in gc.get_objects()) == MOST
    finally:
        gc.enable()
