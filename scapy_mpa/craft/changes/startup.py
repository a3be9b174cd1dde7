"""Changes to startup frames, and to parameters of the connection (RFC 5044 §7.1, RFC 6581 §9)."""

from __future__ import annotations

import random
from typing import Any

from scapy_mpa.craft.changes.change import change, check_names
from scapy_mpa.craft.changes.draws import among, edge, perhaps, pick, some_octets, up_to
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.segmentation import SEGMENTATIONS
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.setup import SETUP_NAMES, SMALLEST_MTU
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.senders import BY_NAME
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import (
    ENHANCED_DATA_LENGTH,
    KEY_LENGTH,
    NOT_NEGOTIATED,
    REPLY_KEY,
    REQUEST_KEY,
    EnhancedData,
    StartupFrame,
)

_PD_LENGTHS = (0, 1, 3, 4, 5, 255, 256, 257, 511, 512, 513, 514, 1024, 65535)
_SIZES = (SMALLEST_MTU, 168, 256, 296, 552, 576, 1500, 8988)
_WAYS = tuple(one for one in SEGMENTATIONS if one not in ("dynamic", "window", "tiny"))
_ISNS = (0, 1, 2, 3, 4, 16, 20, 21, 22, 24, 60, 500, 1500)


# --- parameters, and the frames ---


def _for_one(exchange: Exchange, rng: random.Random, name: str, value: Any) -> dict[str, Any]:
    """A pair in which one side has this value, and the other keeps its own."""
    before = exchange.setup.get(name) or (None, None)
    return {name: (value, before[1]) if rng.random() < 0.5 else (before[0], value)}


def _a_parameter(exchange: Exchange, rng: random.Random) -> dict[str, Any]:
    """Draw how a side formats FPDUs, whatever was agreed on, how it segments its stream, and how long segments are."""
    kind = below(rng, 6)
    if kind == 4:
        return {"mtu": pick(rng, _SIZES)}
    if kind == 5:
        return _for_one(exchange, rng, "segmentation", pick(rng, _WAYS))
    if kind == 0:
        return _for_one(exchange, rng, "markers", rng.random() < 0.5)
    if kind == 1:
        return {"c": pick(rng, ((0, 0), (1, 1)))}
    if kind == 2:  # by which FPDUPTR is counted
        return {"rev": (None, pick(rng, (0, 1)))}
    names = dict.fromkeys(pick(rng, tuple(BY_NAME)) for _ in range(pick(rng, (1, 1, 2))))
    return {"deviation": ("+".join(names), "") if rng.random() < 0.5 else ("", "+".join(names))}


@change("startup", "negotiation", _=_a_parameter)
def setup(exchange: Exchange, /, **parameters: Any) -> None:
    """Parameters of the connection are these, as for ``craft --set``."""
    check_names(parameters, SETUP_NAMES, "parameter")
    exchange.setup.update(parameters)


@change("startup", "tcp", distance=among(*_ISNS))
def wraps(exchange: Exchange, distance: int) -> None:
    """Sequence numbers of the side wrap this many octets from the first."""
    isn = [*exchange.setup.get("isn", (None, None))]
    isn[ROLES.index(exchange.by)] = -1 - distance & SEQ_MASK
    exchange.setup["isn"] = tuple(isn)


def _some_fields(_: Exchange, rng: random.Random) -> dict[str, Any]:
    """Rev, PD_Length, a rejection, or S with less than the data that it announces."""
    size = below(rng, ENHANCED_DATA_LENGTH)
    cut = {"s": 1, "rev": 2, "private_data": bytes(size), "pd_length": size}
    return pick(rng, ({"rev": edge(rng, 8, 1)}, {"pd_length": edge(rng, 16)}, {"r": 1}, cut))


@change("startup", "startup", _=_some_fields)
def fields(exchange: Exchange, /, **values: Any) -> None:
    """Fields of the startup frame are these, whatever was agreed on."""
    check_names(values, StartupFrame._fields, "field")
    exchange.startup.append((exchange.by, lambda frame: frame._replace(**values)))


@change("startup", "negotiation", name=among(*EnhancedData._fields), value=perhaps(among(0, 1), 0.6, NOT_NEGOTIATED))
def enhanced(exchange: Exchange, name: str, value: int) -> None:
    """A field of the RFC 6581 data has this value; a frame without that data gets it."""
    check_names((name,), EnhancedData._fields, "field")

    def alter(frame: StartupFrame) -> StartupFrame:
        data = frame.enhanced
        rest = frame.private_data if data is None else frame.private_data[ENHANCED_DATA_LENGTH:]
        most = NOT_NEGOTIATED if name in ("ird", "ord") else 1
        made = (data or EnhancedData(ird=8, ord=8))._replace(**{name: min(value, most)}).encode() + rest
        return frame._replace(s=1, rev=max(frame.rev, 2), private_data=made, pd_length=len(made) & 0xFFFF)

    exchange.startup.append((exchange.by, alter))


@change("startup", "startup", octets=among(REQUEST_KEY, REPLY_KEY, REQUEST_KEY[:-1], REPLY_KEY[:-1] + b"f"))
def key(exchange: Exchange, octets: bytes) -> None:
    """The Key is this one."""
    exchange.octets.append((exchange.by, lambda frame: octets + frame[KEY_LENGTH:]))


@change("startup", "negotiation", mask=among(0x80, 0x40, 0x20, 0x20, 0x10, 0x10, 0x01, 0x08, 0x0F, 0x1F, 0xFF))
def flags(exchange: Exchange, mask: int) -> None:
    """Bits in the octet with M, C, R, S and Res are flipped, whatever was agreed on."""

    def alter(frame: bytes) -> bytes:
        return bytes(octet ^ mask if at == KEY_LENGTH else octet for at, octet in enumerate(frame))

    exchange.octets.append((exchange.by, alter))


@change("startup", "startup", "PD_Length", size=perhaps(among(*_PD_LENGTHS), 0.6, 40), first=some_octets(8))
def private_data(exchange: Exchange, size: int, first: bytes = b"") -> None:
    """Private Data has this many octets, beginning with these; PD_Length says so unless lengths are left."""
    octets = first[:size] + bytes((n * 31 + 7) & 0x7F for n in range(size - len(first)))
    left = exchange.left == "lengths"
    exchange.startup.append(
        (exchange.by, lambda frame: frame._replace(private_data=octets, pd_length=frame.pd_length if left else size))
    )


@change("startup", "startup", keep=up_to(19))
def frame_cut(exchange: Exchange, keep: int) -> None:
    """Only this many octets of the startup frame are sent."""
    exchange.octets.append((exchange.by, lambda frame: frame[:keep]))


@change("startup", "startup", octets=some_octets(40, 1))
def frame_followed(exchange: Exchange, octets: bytes) -> None:
    """More octets follow the startup frame in the same segment."""
    exchange.octets.append((exchange.by, lambda frame: frame + octets))


@change("startup", "startup", octets=some_octets(40, 1))
def frame_preceded(exchange: Exchange, octets: bytes) -> None:
    """Other octets come before the startup frame in the same segment."""
    exchange.octets.append((exchange.by, lambda frame: octets + frame))


@change("startup", "startup")
def frame_twice(exchange: Exchange) -> None:
    """The startup frame is sent twice."""
    exchange.octets.append((exchange.by, lambda frame: frame + frame))


@change("startup", "startup", octets=perhaps(some_octets(40), 0.5, b""))
def instead(exchange: Exchange, octets: bytes) -> None:
    """These octets are sent instead of the startup frame."""
    exchange.begin(exchange.by, octets)
