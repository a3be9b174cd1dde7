"""Memory that the peer of a case names, by a message of rping; what the case does is said beside, or with, this range.

A live peer has other memory: ``probe.aim`` moves what is said to the same place beside that.
"""

from __future__ import annotations

from scapy_mpa.framing.requests import ReadRequest
from scapy_mpa.ulp.header import NamedMemory
from scapy_mpa.ulp.tools import RPING_PORT, rping_message

#: As far from both ends of the 64-bit offsets as FAR needs, and aligned for Atomic Operations.
NAMED = NamedMemory(0x5EED0100, 1 << 44, 64, "read or write")
#: What the peer asks for in the cases that are about the answer.
ASKED = ReadRequest(1, 4096, 100, 2, 8192)
#: An access this many octets outside is in no buffer of rping, however much was registered.
FAR = 1 << 40
#: An STag that names nothing.
UNKNOWN_STAG = 0x0BAD0500
#: By rping's port the messages of both sides are known to be its own.
PORTS = (None, RPING_PORT)
#: rping's word to go on, which names nothing, and its message that names this memory.
GO_ON = f"send hex:{rping_message().hex()}"
NAMES = f"send hex:{rping_message(NAMED.stag, NAMED.to, NAMED.length).hex()}"
