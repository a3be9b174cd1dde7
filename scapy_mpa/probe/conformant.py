"""Connections in which nothing is wrong: they show what a peer must do, and whatever it does wrong is its own.

They are cases as those of the catalogue are, with nothing broken: negotiation of each M, C and Rev, Private Data of
many sizes, each type of RTR message, Markers at every place, FPDUs cut anywhere, startup frames in pieces, and messages
that are answered.
"""

from __future__ import annotations

from collections.abc import Iterator

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.named import NAMES
from scapy_mpa.catalogue.peer import ACCEPT, WAIT, Peer, peer
from scapy_mpa.craft.changes.change import NamedChange
from scapy_mpa.craft.changes.fpdu import fpdu_cut
from scapy_mpa.craft.changes.packets import recut, reversed_order
from scapy_mpa.craft.changes.said import answers, ends, says
from scapy_mpa.craft.changes.startup import setup
from scapy_mpa.craft.impairments import impaired
from scapy_mpa.craft.ulpdus import rdma_write, send
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import NOT_NEGOTIATED, STARTUP_HEADER_LENGTH
from scapy_mpa.probe.aim import SOURCE
from scapy_mpa.probe.case import CONFORMANT, ProbeCase

_FIRST, _SAID = "initiator send 30", "responder send 30"
#: An RDMA Write of nothing, which no upper layer sees, and octets of its FPDU; with a Marker it has four more.
_SMALL, _SMALL_SIZE = rdma_write(0, 0, b""), 2 + 14 + 4
_MARKER = 4
#: The first FPDU is so long that the Marker at 512 stands in the second one.
_BEFORE_MARKER = 512 - 12 - 4 - 6 - 18
#: FPDUs of a connection whose segments are impaired, how they are cut, and what is drawn.
_MANY, _ANYWHERE, _SEED = 120, {"kind": "random", "shortest": 100, "longest": 400}, 1
_READ = "{by} read-request 0 sink=0,0 source=0,0"
#: This many Responses of no octets reach beyond the second Marker.
_PAST_A_MARKER = 60
_ITS_ULP_KNOWS = peer("accept", "It accepts the message; its upper layer may end the connection.")
_NOTHING = (says("start"), answers(None))


def _case(
    name: str, purpose: str, *changes: NamedChange, baseline: str = "plain", clause: str = "RFC 5044 §7.1.2"
) -> Case:
    return Case(name, purpose, baseline, changes, (), ACCEPT, clause=clause)


def _negotiation() -> Iterator[Case]:
    for m in (0, 1):
        for c in (0, 1):
            yield _case(
                f"valid-m{m}-c{c}", f"A valid Request with M={m} and C={c}, and messages", setup(m=(m, 0), c=(c, 1)),
                says(_FIRST, _SAID, "initiator send 60"), clause="RFC 5044 §4.3" if m else "RFC 5044 §7.1.1",
            )  # fmt: skip
    yield _case("valid-startup", "A valid Request, and nothing after it", *_NOTHING)
    yield _case(
        "valid-rev-0", "A valid Request of Rev 0, as an RDMA Consortium RNIC sends it", *_NOTHING,
        baseline="rddp-01", clause="RFC 5044 §7.1.1",
    )  # fmt: skip
    yield _case(
        "valid-rev-2-plain", "A valid Request of Rev 2 without the data of RFC 6581", setup(rev=(2, 2)), *_NOTHING,
        clause="RFC 6581 §10",
    )  # fmt: skip
    for size in (0, 1, 4, 16, 64, 256, 508, 512):
        yield _case(
            f"valid-private-data-{size}", f"A valid Request with {size} octets of Private Data",
            setup(private_data=(bytes(n * 31 + 7 & 0xFF for n in range(size)), b"")), *_NOTHING,
            clause="RFC 5044 §7.1.1",
        )  # fmt: skip


def _enhanced() -> Iterator[Case]:
    for ird, order in ((0, 0), (1, 1), (8, 8), (NOT_NEGOTIATED - 1, NOT_NEGOTIATED - 1), (8, NOT_NEGOTIATED)):
        yield _case(
            f"valid-ird-{ird}-ord-{order}", f"A valid enhanced Request with an IRD of {ird} and an ORD of {order}",
            setup(enhanced=({"ird": ird, "ord": order}, None)), *_NOTHING, baseline="enhanced", clause="RFC 6581 §9.1",
        )  # fmt: skip
    for flags in ("b", "c", "d", "bcd"):
        types = dict.fromkeys(flags, 1)
        yield _case(
            f"valid-rtr-{flags}", f"A valid Request of the peer-to-peer model that offers {_types(flags)}",
            setup(enhanced=({"a": 1, "ird": 8, "ord": 8, **types}, None)), *_NOTHING, baseline="peer-to-peer",
            clause="RFC 6581 §9.2",
        )  # fmt: skip


def _types(flags: str) -> str:
    names = {"b": "a Send", "c": "an RDMA Write", "d": "an RDMA Read"}
    return " and ".join(names[flag] for flag in flags) + " as RTR message"


def _pieces() -> Iterator[Case]:
    for at in (1, 8, 15, 16, 17, 18, 19):
        yield _case(
            f"valid-request-cut-{at}", f"A valid Request in two segments, split after {at} octets", recut(0, at)
        )
    yield _case(
        "valid-request-cut-in-private-data", "A valid Request in two segments, split in its Private Data",
        setup(private_data=(bytes(40), b"")), recut(0, STARTUP_HEADER_LENGTH, STARTUP_HEADER_LENGTH + 20),
    )  # fmt: skip
    for at in range(1, _SMALL_SIZE):
        yield _case(
            f"valid-fpdu-cut-{at}", f"An FPDU of {_SMALL_SIZE} octets in two segments, split after {at}",
            says(_FIRST, _SAID, _SMALL, _SMALL), recut(2, at), clause="RFC 5044 §6",
        )  # fmt: skip
    for at in range(1, _SMALL_SIZE + _MARKER):
        yield _case(
            f"valid-marked-fpdu-cut-{at}",
            f"An FPDU of {_SMALL_SIZE + _MARKER} octets with a Marker in two segments, split after {at}",
            says(send(1, bytes(_BEFORE_MARKER)), _SAID, _SMALL, _SMALL), recut(2, at), baseline="markers",
            clause="RFC 5044 §6",
        )  # fmt: skip


def _reads(size: int) -> list[str]:
    """Three RDMA Reads, each with a sink of its own: which one is answered shows."""
    return [f"{{by}} read-request {size} sink={stag:#x},0 {SOURCE}" for stag in (0x2000, 0x2100, 0x2200)]


def _messages() -> Iterator[Case]:
    yield _case(
        "valid-read-of-nothing", "An RDMA Read of no octets, which is answered whatever its STag", says(_READ),
        answers(None), clause="RFC 5040 §5.2",
    )  # fmt: skip
    yield _case(
        "valid-write-of-nothing", "An RDMA Write of no octets, whose STag is not checked",
        says("initiator write '' stag=0"), clause="RFC 5041 §5.1",
    )  # fmt: skip
    yield _case(
        "valid-reads", "RDMA Reads of no octets, one after another, so that the peer sends many answers",
        says(*[_READ] * 4), answers(None), clause="RFC 5040 §5.2",
    )  # fmt: skip
    for size in (1, 2, 3, 64, 1000, 4000):
        yield _case(
            f"valid-read-of-{size}", f"RDMA Reads of {size} octets of memory that the peer has named",
            says(*_reads(size)), answers(None),
            clause="RFC 5040 §5.2",
        )  # fmt: skip
    yield _case(
        "valid-memory-named", "The Initiator names memory of its own, as the rping client does",
        says(f"initiator {NAMES}"), answers(None), clause="RFC 5041 §7.1",
    )  # fmt: skip
    yield _case(
        "valid-reads-with-markers", "RDMA Reads of no octets, with Markers in the peer's many answers",
        says(*[_READ] * _PAST_A_MARKER), answers(None), setup(m=(1, 0)), clause="RFC 5044 §4.3",
    )  # fmt: skip
    yield _case(
        "valid-read-of-4000-with-markers", "RDMA Reads of 4000 octets, with several Markers in each FPDU of the peer",
        says(*_reads(4000)), answers(None), setup(m=(1, 0)), clause="RFC 5044 §4.3",
    )  # fmt: skip
    yield _case(
        "valid-sends-with-markers", "Sends of 1200 octets, with several Markers in each FPDU of a peer that echoes",
        says(*["initiator send 1200"] * 3), answers(None), setup(m=(1, 0)), clause="RFC 5044 §4.3",
    )  # fmt: skip
    yield _case(
        "valid-sends-of-every-pad", "Sends of 1 to 4 octets, which a peer that echoes has to pad in four ways",
        says(*(f"initiator send {size}" for size in (1, 2, 3, 4))), answers(None), clause="RFC 5044 §4.1",
    )  # fmt: skip


#: What an impairment is, in words: by its name in ``craft``.
_IMPAIRED = {
    "reordered": ("in another order", impaired("reorder", probability=0.5, distance=4, seed=_SEED)),
    "reversed": ("in reverse order, so that all but the last lie beyond a hole", reversed_order(2)),
    "lost": (
        "some of which are lost, and retransmitted with other boundaries",
        impaired("lose", probability=0.3, resegment=True, seed=_SEED),
    ),
    "repeated": ("half of which arrive twice", impaired("duplicate", probability=0.5, seed=_SEED)),
    "resegmented": (
        "whose octets are retransmitted with other boundaries", impaired("retransmit", probability=0.5, seed=_SEED),
    ),
    "damaged": (
        "some of which have a wrong TCP checksum, and are retransmitted",
        impaired("corrupt", probability=0.3, seed=_SEED),
    ),
}  # fmt: skip


def _out_of_order() -> Iterator[Case]:
    """FPDUs cut anywhere, with and without Markers, and segments as a bad network brings them."""
    for what, (words, change) in _IMPAIRED.items():
        for baseline in ("plain", "markers"):
            yield _case(
                f"valid-segments-{what}{'-markers' * (baseline == 'markers')}",
                f"{_MANY} FPDUs{' with Markers' * (baseline == 'markers')}, cut anywhere, in segments {words}",
                says(_FIRST, _SAID, *[_SMALL] * _MANY), setup(segmentation=(_ANYWHERE, "aligned")), change,
                baseline=baseline, clause="RFC 5044 §6",
            )  # fmt: skip


def _of_the_probe() -> Iterator[ProbeCase]:
    """Yield the cases that only a live peer can show, of areas of the catalogue."""
    yield ProbeCase(
        Case(
            "read-without-its-last-octet", "An RDMA Read of no octets, without the last octet of its CRC", "plain",
            (says(_FIRST, _SAID, _READ), fpdu_cut(2, -1)), (), WAIT, tests=("receiver-whole-fpdu",),
        ),
        "fpdu",
    )  # fmt: skip


def conformant_cases() -> tuple[ProbeCase, ...]:
    """All of them, for a Responder; and those for an Initiator."""
    cases = (*_negotiation(), *_enhanced(), *_pieces(), *_messages(), *_out_of_order(), *_for_initiators())
    return (*(ProbeCase(case, CONFORMANT) for case in cases), *_of_the_probe())


def _for_initiators() -> Iterator[Case]:
    by: Role = "responder"

    def case(
        name: str, purpose: str, *changes: NamedChange, clause: str = "RFC 5044 §7.1.2", take: Peer = ACCEPT
    ) -> Case:
        return Case(name, purpose, "plain", changes, (), take, by=by, clause=clause)

    for m in (0, 1):
        for c in (0, 1):
            yield case(
                f"valid-reply-m{m}-c{c}", f"A valid Reply with M={m} and C={c}", setup(m=(0, m), c=(1, c)),
                says(_FIRST), clause="RFC 5044 §7.1.1",
            )  # fmt: skip
    for size in (0, 1, 4, 64, 256, 508, 512):
        yield case(
            f"valid-reply-private-data-{size}", f"A valid Reply with {size} octets of Private Data",
            setup(private_data=(b"", bytes(n * 31 + 7 & 0xFF for n in range(size)))), says(_FIRST),
            clause="RFC 5044 §7.1.1",
        )  # fmt: skip
    for at in (1, 8, 15, 16, 17, 18, 19):
        yield case(f"valid-reply-cut-{at}", f"A valid Reply in two segments, split after {at} octets", recut(0, at))
    yield case(
        "valid-responder-answers", "The Responder sends a message after the Initiator's first FPDU",
        says(_FIRST, "responder write '' stag=0"), answers(None), clause="RFC 5041 §5.1",
    )  # fmt: skip
    yield case(
        "valid-responder-reads", "RDMA Reads of no octets by the Responder, which are answered whatever their STag",
        says(_FIRST, *[_READ] * 3), answers(None), ends("fin"), clause="RFC 5040 §5.2",
    )  # fmt: skip
    yield case(
        "valid-responder-reads-with-markers", "RDMA Reads of no octets by the Responder, with Markers in the answers",
        setup(m=(0, 1)), says(_FIRST, *[_READ] * _PAST_A_MARKER), answers(None), ends("none"), clause="RFC 5044 §4.3",
    )  # fmt: skip
    yield case(
        "valid-responder-names-memory", "The Responder names memory of its own, by a message of rping",
        says(_FIRST, f"responder {NAMES}"), answers(None), clause="RFC 5041 §7.1", take=_ITS_ULP_KNOWS,
    )  # fmt: skip
    yield case(
        "valid-responder-reads-4000-with-markers",
        "RDMA Reads of 4000 octets by the Responder, with several Markers in each FPDU of the peer",
        setup(m=(0, 1)), says(_FIRST, *_reads(4000)), answers(None), ends("none"), clause="RFC 5044 §4.3",
    )  # fmt: skip
    yield case(
        "valid-responder-reads-64", "RDMA Reads of 64 octets by the Responder, of memory that the peer has named",
        says(_FIRST, *_reads(64)), answers(None), ends("none"), clause="RFC 5040 §5.2",
    )  # fmt: skip
