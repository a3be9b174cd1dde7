"""What several mutations do: choose a unit or a packet, and decide whether what depends on a part follows it."""

from __future__ import annotations

import random
from collections.abc import Callable

from scapy_mpa.craft.impairments import Impairment, Pipeline
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.fuzz.draft import Draft, Turn
from scapy_mpa.fuzz.draw import pick
from scapy_mpa.fuzz.units import FPDUUnit, Startup

Function = Callable[[Draft, random.Random], "str | None"]


def some_fpdu(draft: Draft, rng: random.Random) -> tuple[Turn, FPDUUnit] | None:
    """One of the FPDUs."""
    fpdus = draft.fpdus()
    return pick(rng, fpdus) if fpdus else None


def some_startup(draft: Draft, rng: random.Random) -> tuple[Turn, Startup] | None:
    """One of the startup frames."""
    startups = draft.startups()
    return pick(rng, startups) if startups else None


def follow(fpdu: FPDUUnit, rng: random.Random, *, length: bool = False) -> str:
    """Draw whether the CRC, and with ``length`` ULPDU_Length, is right for what an FPDU is now, or as it was."""
    said = []
    if length and rng.random() < 0.3:
        fpdu.ulpdu_length = len(fpdu.was)
        said.append("ULPDU_Length as it was")
    drawn = rng.random()
    if drawn < 0.65:
        fpdu.crc = "right"
        said.append("CRC repaired")
    elif drawn < 0.9:
        fpdu.crc = "stale"
        said.append("CRC as it was")
    else:
        fpdu.crc = rng.getrandbits(32)
        said.append("CRC random")
    return ", ".join(said)


def changed(name: str, before: int, after: int) -> str:
    """A number that was changed, in words."""
    return f"{name} {before} -> {after}"


def impaired(draft: Draft, wanted: Impairment, rng: random.Random) -> str | None:
    """Have an impairment fall on the packets."""
    pipeline = Pipeline([wanted], rng.getrandbits(16))
    made = list(pipeline.apply(iter(draft.packets)))
    if made == draft.packets:
        return None
    draft.packets = made
    said = ",".join(f"{name}={value}" for name, value in wanted.parameters.items())
    return f"{wanted.kind}:{said}"


def some_data(draft: Draft, rng: random.Random) -> tuple[int, TcpPacket] | None:
    """One of the packets with octets, and its index."""
    data = draft.data()
    if not data:
        return None
    at = pick(rng, data)
    return at, draft.packets[at]


def near(draft: Draft, at: int, rng: random.Random) -> int:
    """A place near a packet: before it, behind it, or some packets further."""
    return min(len(draft.packets), max(0, at + pick(rng, (0, 1, 1, 2, 4, -1))))
