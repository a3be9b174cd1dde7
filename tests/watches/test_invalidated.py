"""STags between the Send that invalidates them and what the peer says next."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.ulpdus import SEND_INVALIDATE, rdma_write, send, untagged
from scapy_mpa.layers.connection import MPAConnection
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.rules.findings import Finding
from scapy_mpa.watches.ddp import Invalidation
from scapy_mpa.watches.invalidated import MOST_STAGS, InvalidationWatch
from tests.receive.cases import feed
from tests.rules.talks import begun, findings, put


def test_the_peer_may_name_it_anew() -> None:
    watch = InvalidationWatch()
    one = Invalidation(5, 100, 140, 3)
    watch.invalidate(one, 40)
    assert watch.invalidation_of(5, 40, 40) == one
    assert watch.invalidation_of(6, 40, 40) is None
    assert watch.invalidation_of(5, 40, 60) is None  # something of the peer came that was not captured
    assert watch.invalidation_of(5, 80, 80) is None
    assert not watch.stags


def test_stags_are_bounded() -> None:
    watch = InvalidationWatch()
    for stag in range(2 * MOST_STAGS):
        watch.invalidate(Invalidation(stag, 0, 1, 1), 0)
    assert len(watch.stags) == MOST_STAGS


@pytest.mark.parametrize("records", [False, True])
def test_writes_that_are_read_together(records: bool) -> None:
    """Those of a PlainRun are looked at one by one as long as an STag is invalid."""
    talk = begun()
    for _ in range(3):
        put(talk, "a", *(rdma_write(6, to, bytes(200)) for to in range(0, 2000, 200)))
        talk.say("b")
    put(talk, "a", untagged(SEND_INVALIDATE, 0, 2, b"", invalidate=5))
    talk.say("b")
    first = put(talk, "a", *(rdma_write(stag, 0, bytes(200)) for stag in (6, 6, 5, 6, 5)))

    def found() -> list[Finding]:
        return findings(feed([talk.segments], records=records))

    (one,) = found()
    assert (one.rule.id, one.frame, one.count) == ("stag-invalidated", first, 2)
    put(talk, "b", send(2, b"named anew"))
    put(talk, "a", rdma_write(5, 0, bytes(200)))
    assert found()[0].count == 2


def test_what_names_it_anew_may_be_missing() -> None:
    """Without startup frames both directions are read late: the owner's, beyond octets that are missing, first."""
    for is_missing in (False, True):
        talk = MPAConnection(ports=(40000, 7471), m=(1, 1)).send("initiator", 40)
        talk.send("responder", 600).send("responder", 600).send("responder", 30, invalidate=5).pause(0.001)
        if is_missing:
            talk.send("initiator", 40).pause(0.001)
        talk.write("responder", 64, stag=5).pause(0.001).write("initiator", 1000)
        syn, *others = (one for one in talk if one["TCP"].payload or one["TCP"].flags == "S")
        before = () if is_missing else others[2:3]
        kept = [syn, *before, *(one for one in others[3:] if one["TCP"].sport == 7471), others[-1]]
        found = [one.rule.id for one in analyze(kept).all_findings()]
        assert ("stag-invalidated" in found) != is_missing
