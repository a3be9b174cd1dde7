"""The valid connections that cases change, by name: their parameters, and what is said on them.

In each both sides say something first; then the side that a case is about says two things more, of which the first is
what most cases change, and the peer answers.
"""

from __future__ import annotations

from typing import Any

from scapy_mpa.tuples import NamedTuple

#: What both sides say first.
OPENING = ("initiator send 30", "responder send 30")
#: The same after a ready-to-receive message (RFC 6581 §9.2).
RTR = ("initiator write '' stag=0", *OPENING)
#: What the side says then that the case is about: its second FPDU and its third.
MIDDLE = ("{by} send 60", "{by} write 100")
#: What its peer says to that.
ANSWER = "{peer} send 40"

_BOTH, _NONE = (1, 1), (0, 0)
_PEERS = {"a": 1, "b": 1, "c": 1, "ird": 8, "ord": 8}


class Baseline(NamedTuple):
    """A valid connection: parameters of ``craft.setup.Setup``, what it is, and what both sides say first."""

    setup: dict[str, Any]
    what: str
    opening: tuple[str, ...] = OPENING


#: All of them.
BASELINES: dict[str, Baseline] = {
    "plain": Baseline({"m": _NONE, "c": _BOTH}, "CRC in use, no Markers"),
    "markers": Baseline({"m": _BOTH, "c": _BOTH}, "CRC in use, Markers in both directions"),
    "no-crc": Baseline({"m": _NONE, "c": _NONE}, "neither CRC nor Markers"),
    "markers-no-crc": Baseline({"m": _BOTH, "c": _NONE}, "Markers in both directions, no CRC"),
    "enhanced": Baseline({"profile": "rfc6581", "m": _NONE, "c": _BOTH}, "RFC 6581, client-server, CRC in use"),
    "peer-to-peer": Baseline(
        {"profile": "rfc6581", "m": _NONE, "c": _BOTH, "enhanced": (_PEERS, _PEERS)},
        "RFC 6581, peer to peer: an RTR message (RDMA Write) comes first",
        RTR,
    ),
    "rddp-01": Baseline(
        {"profile": "rddp-01", "m": _BOTH, "c": _BOTH}, "Rev 0 with Markers and CRC, as RDMAC RNICs send it"
    ),
    "culley-02": Baseline({"profile": "culley-02"}, "no startup frames: Markers and CRC from the first octet"),
}
