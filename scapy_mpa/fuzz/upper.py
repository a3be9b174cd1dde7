"""Changes of what runs above RDMAP: a field of a header at a boundary value, in a message of its own or in one that
was said.

They are drawn where what cases begin from has an upper layer, or where somebody asks for them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from scapy_mpa.craft.changes.boundary import extremes, powers
from scapy_mpa.craft.changes.change import KINDS, ChangeKind, change
from scapy_mpa.craft.changes.draws import NothingToChange, pick
from scapy_mpa.craft.changes.table import CHANGES as OF_MPA
from scapy_mpa.craft.changes.table import named as named_of_mpa
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.turns import Say
from scapy_mpa.errors import FramingError
from scapy_mpa.framing.ddp import SEND_OPCODES, UNTAGGED_HEADER_LENGTH, UntaggedHeader, decode_ddp

#: The area of these changes, which the catalogue has no cases of.
UPPER: Final = "upper"
_SEND: Final = 3


def values(most: int) -> list[int]:
    """The boundary values of a field with this largest value, ascending."""
    return sorted({value for value in (*extremes(most), *powers(most)) if 0 <= value <= most})


def carried(protocols: Iterable[str | None]) -> set[str]:
    """Those of the protocols whose headers there are layers for."""
    from scapy_mpa.packet import fieldvalues

    return {protocol for protocol in protocols if protocol is not None and fieldvalues.messages(protocol)}


def fields_of(protocols: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """Yield message, field and largest value of all messages of some protocols; of all protocols, if these are none."""
    from scapy_mpa.packet import fieldvalues

    found = [name for protocol in sorted(protocols) for name in fieldvalues.messages(protocol)]
    for message in found or fieldvalues.messages():
        for field, most in fieldvalues.fields_of(message).items():
            yield message, field, most


def _drawn(exchange: Exchange, rng: random.Random) -> dict[str, Any]:
    """A message of the upper layer that the side sends, a field of it, and one of its values."""
    from scapy_mpa.packet import fieldvalues

    message = pick(rng, fieldvalues.messages(exchange.upper, exchange.by) or fieldvalues.messages(role=exchange.by))
    field, most = pick(rng, [*fieldvalues.fields_of(message).items()])
    return {"message": message, "field": field, "value": pick(rng, values(most))}


@change("ulpdu", UPPER, "lengths, FPDU", _=_drawn)
def upper_boundary(
    exchange: Exchange, message: str = "RPCRDMA", field: str = "credits", value: int = 0xFFFFFFFF
) -> None:
    """The side sends this message of an upper layer last, with this value in one field.

    Raises NothingToChange where the message has no such field, or the field no such value.
    """
    from scapy_mpa.packet import fieldvalues

    if not 0 <= value <= fieldvalues.fields_of(message).get(field, -1):
        raise NothingToChange(f"no {message} has a {field} of {value}")
    exchange.steps.append(Say(exchange.by, Message(_SEND, fieldvalues.message_with(message, field, value))))


def _drawn_header(exchange: Exchange, rng: random.Random) -> dict[str, Any]:
    """A Send of the side, a field of its header, and one of its values."""
    from scapy_mpa.packet import fieldvalues

    headers = []
    for number, index in enumerate(exchange.said(exchange.by), 1):
        send = _send(exchange, index)
        if send is not None and (found := fieldvalues.header_fields(exchange.upper, send[1], exchange.by)):
            headers.append((number, found))
    if not headers:
        raise NothingToChange
    number, fields = pick(rng, headers)
    field, most = pick(rng, [*fields.items()])
    return {"number": number, "field": field, "value": pick(rng, values(most))}


@change("ulpdu", UPPER, "FPDU", _=_drawn_header)
def upper_field(exchange: Exchange, number: int = 1, field: str = "credits", value: int = 0) -> None:
    """A field of the upper layer's header in the Send that begins with this FPDU of the side has this value.

    Raises NothingToChange where no header of the exchange's upper layer is there, or it has no such field or value.
    """
    from scapy_mpa.packet import fieldvalues

    said = exchange.said(exchange.by)
    send = _send(exchange, said[number - 1]) if 0 < number <= len(said) else None
    if send is None:
        raise NothingToChange(f"FPDU {number} does not begin a Send")
    header, octets = send
    try:
        changed = fieldvalues.header_with(exchange.upper, octets, exchange.by, field, value)
    except FramingError as error:
        raise NothingToChange(str(error)) from None
    step = exchange.steps[said[number - 1]]
    assert isinstance(step, Say)
    exchange.steps[said[number - 1]] = Say(step.role, step.message._replace(payload=header + changed))


def _send(exchange: Exchange, index: int) -> tuple[bytes, bytes] | None:
    """The first DDP Segment of a Send that a step says: its DDP header, b"" if it is laid later, and its payload."""
    step = exchange.steps[index]
    if not isinstance(step, Say):
        return None
    message = step.message
    if message.opcode in SEND_OPCODES:
        return b"", message.payload[:]
    if message.opcode != RAW:
        return None
    ulpdu = message.payload[:]
    header = decode_ddp(ulpdu)
    if not isinstance(header, UntaggedHeader) or header.opcode not in SEND_OPCODES or header.mo:
        return None
    return ulpdu[:UNTAGGED_HEADER_LENGTH], ulpdu[UNTAGGED_HEADER_LENGTH:]


#: All kinds of changes that cases are made of, by name.
CHANGES: dict[str, ChangeKind] = {**OF_MPA, **{one.name: one for one in KINDS.values() if one.area == UPPER}}


def named(name: str) -> ChangeKind:
    """The kind of change with this name; raises MPAError for none, and for one whose parameters nothing draws."""
    return CHANGES[name] if name in CHANGES and CHANGES[name].area == UPPER else named_of_mpa(name)
