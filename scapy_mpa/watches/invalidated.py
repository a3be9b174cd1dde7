"""STags of the peer that one direction's Sends invalidated, and what it sends to them (RFC 5040 §5.3, RFC 5041 §7.1).

In: Sends with Invalidate, tagged segments, and how much of the peer's stream is known.  Out: breaches.
The peer may give an STag to other memory, and names it again in a message of its own.  How upper layers do that is not
examined: as soon as the peer has said anything, its STags may all be valid again.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.receiver.values import Breach, Moment
from scapy_mpa.watches.ddp import Invalidation

#: STags that are remembered between two messages of the peer: a bound of memory; beyond it the first ones are kept.
MOST_STAGS: Final = 1 << 10


class InvalidationWatch:
    """The STags that one direction invalidated since the peer's last message.

    Attributes:
        stags: how each was invalidated.
    """

    __slots__ = ("_peer_end", "_used", "stags")

    def __init__(self) -> None:
        self.stags: dict[int, Invalidation] = {}
        self._peer_end = 0
        #: The offsets of FPDUs that used one.
        self._used: set[int] = set()

    def invalidate(self, one: Invalidation, peer_end: int) -> None:
        """Note an STag; all messages of the peer before an offset of its stream are known."""
        if peer_end != self._peer_end:
            self.stags.clear()
            self._peer_end = peer_end
        if len(self.stags) < MOST_STAGS:
            self.stags.setdefault(one.stag, one)

    def invalidation_of(self, stag: int, peer_end: int, received: int) -> Invalidation | None:
        """Return how an STag was invalidated that is used; None if it may be valid.

        Args:
            stag: the STag.
            peer_end: as :meth:`invalidate` has it.
            received: the offset up to which the sender had acknowledged the peer's stream, or a higher one.
        """
        if peer_end != self._peer_end:
            self.stags.clear()
        if received > peer_end:
            return None  # it had got something that is not known here
        return self.stags.get(stag)

    def is_used(self, offset: int) -> bool:
        """Return True if the FPDU at an offset used an STag that was invalidated, or too many did to tell."""
        return offset in self._used or len(self._used) == MOST_STAGS

    def used(self, one: Invalidation, opcode: int, offset: int, moment: Moment) -> Breach:
        """Report a tagged segment to an STag that was invalidated."""
        if len(self._used) < MOST_STAGS:
            self._used.add(offset)
        detail = f"frame {moment[0]} sends an {OPCODE_NAMES[opcode]} to STag {one.stag:#010x}"
        return Breach("stag-invalidated", offset, *moment, f"{detail}, which frame {one.frame} invalidated")
