"""Changes to the conversation: messages, their order, what the peer answers, and the end of the connection."""

from __future__ import annotations

import random
import struct

from scapy_mpa.craft.changes.change import change
from scapy_mpa.craft.changes.draws import NothingToChange, among, an_fpdu, edge, octets, pick, up_to
from scapy_mpa.craft.exchange import Exchange, Step
from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.setup import CLOSES
from scapy_mpa.craft.turns import Say
from scapy_mpa.craft.ulpdus import atomic_request_body, rdma_write, read_request_body, terminate_body, untagged
from scapy_mpa.framing.ddp import LAST, QUEUE_OF, header_length, is_tagged
from scapy_mpa.framing.role import ROLES

#: Those of RDMAP (RFC 5040 §4.3, RFC 7306 §4) and undefined ones; a Terminate says most.
_OPCODES = (*range(16), 7, 7, 7)


@change("ulpdu")
def says(exchange: Exchange, *steps: Step) -> None:
    """These steps replace the conversation; bare ULPDUs belong to the side that the changes are about."""
    exchange.steps = list(steps)


@change("ulpdu")
def answers(exchange: Exchange, step: Step | None) -> None:
    """The peer answers with this instead of what it must do; None: it does not answer."""
    exchange.answer = step


@change("ulpdu")
def goes_on(exchange: Exchange) -> None:
    """Neither side closes: the connection continues as if nothing had been wrong."""
    exchange.steps, exchange.answer = [*exchange.valid], exchange.valid_answer
    exchange.is_answered = True
    exchange.setup.pop("closes", None)


@change("ulpdu", "teardown", how=among(*CLOSES), by=among(*ROLES))
def ends(exchange: Exchange, how: str, by: str | None = None) -> None:
    """The connection ends by FIN, by RST or not at all; the side of the change ends it unless ``by`` says otherwise."""
    exchange.setup["close"], exchange.setup["closes"] = how, by or exchange.by


def _a_ulpdu(_: Exchange, rng: random.Random) -> bytes:
    """A message with a random opcode, with or without what it must have."""
    opcode, rest = pick(rng, _OPCODES), octets(rng, below(rng, 40))
    bodies = {
        1: read_request_body(*(edge(rng, size) for size in (32, 64, 32, 32, 64))),
        7: pick(rng, (octets(rng, 4), terminate_body(below(rng, 4), below(rng, 4), below(rng, 8)))) + rest[:20],
        8: rest[:8].ljust(8, b"\0"),
        10: atomic_request_body(below(rng, 16), *(edge(rng, size) for size in (32, 32, 64, 64, 64, 64, 64))),
        11: rest[:12].ljust(12, b"\0"),
    }
    if opcode == 0:
        return rdma_write(edge(rng, 32), edge(rng, 64), rest)
    queue = QUEUE_OF.get(opcode, 0) if rng.random() < 0.8 else edge(rng, 32)
    made = untagged(opcode, queue, pick(rng, (1, 2, edge(rng, 32))), bodies.get(opcode, rest), last=rng.random() < 0.8)
    return made[: len(made) - pick(rng, (0, 0, 0, 0, 1, 4))]


@change("ulpdu", "ddp", "FPDU", number=an_fpdu, octets=_a_ulpdu, times=among(1, 1, 1, 1, 2, 40))
def said_before(exchange: Exchange, number: int, octets: bytes, times: int = 1) -> None:
    """Before an FPDU, the side sends this ULPDU, this many times."""
    at = exchange.said(exchange.by)[number - 1]
    exchange.steps[at:at] = [Say(exchange.by, Message(RAW, octets))] * times


@change("ulpdu", "fpdu", "FPDU", number=an_fpdu, other=an_fpdu)
def swapped(exchange: Exchange, number: int, other: int) -> None:
    """Two FPDUs of the side change places."""
    said, steps = exchange.said(exchange.by), exchange.steps
    one, two = said[number - 1], said[other - 1]
    steps[one], steps[two] = steps[two], steps[one]


@change("ulpdu", "negotiation", "FPDU")
def said_first(exchange: Exchange) -> None:
    """The side's first message comes before everything that its peer sends (RFC 5044 §7.1.2)."""
    said = exchange.said(exchange.by)
    if not said or not said[0]:
        raise NothingToChange
    exchange.steps.insert(0, exchange.steps.pop(said[0]))


@change("ulpdu", "ddp", "FPDU", number=an_fpdu, skip=among(0, 0, 0, 1, -1, 4), last=up_to(3))
def split(exchange: Exchange, number: int, *, skip: int = 0, last: int = 2) -> None:
    """A ULPDU becomes two DDP Segments, ``skip`` octets between them; bits of ``last`` are L of the first and second.

    Raises NothingToChange where the step is no ULPDU with octets after its header.
    """
    at = exchange.said(exchange.by)[number - 1]
    step = exchange.steps[at]
    ulpdu = step.message.payload[:] if isinstance(step, Say) else b""
    header = header_length(ulpdu)
    if len(ulpdu) < header + 2:
        raise NothingToChange
    half = (len(ulpdu) - header) // 2
    first, second = bytearray(ulpdu[: header + half]), bytearray(ulpdu[:header] + ulpdu[header + half :])
    layout, place, most = (">Q", 6, 1 << 64) if is_tagged(ulpdu) else (">I", 14, 1 << 32)
    (offset,) = struct.unpack_from(layout, second, place)
    struct.pack_into(layout, second, place, (offset + half + skip) % most)
    for part, bit in ((first, last & 1), (second, last >> 1)):
        part[0] = part[0] & ~LAST | LAST * bit
    exchange.steps[at : at + 1] = [Say(exchange.by, Message(RAW, bytes(part))) for part in (first, second)]
