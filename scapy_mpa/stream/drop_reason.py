"""Why the receiver of a segment may have dropped it, and the numbers by which that is judged.

A reason decides nothing by itself: octets that nothing else brings are the connection's.  Where copies of the same
octets compete, the one with the weaker reason counts (:func:`scapy_mpa.stream.copies.choose`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

#: Linux's TCP_PAWS_WINDOW, ticks: a timestamp that is older by no more is accepted (RFC 7323 §5.3 would drop it).
PAWS_WINDOW: Final = 1
#: Nanoseconds: no timestamp clock is faster (RFC 7323 §5.4 has 1 ms; Linux 6.7 and later 1 us).  A timestamp that is
#: newer than the time since TS.Recent allows comes from another clock, that of an earlier connection or of a forger.
SHORTEST_TICK: Final = 1000
#: Ticks that are allowed besides: one second of the fastest clock, for what a capture has out of order.
TICK_SLACK: Final = 1_000_000
#: Octets.  A sequence or acknowledgement number within this distance of one that is known belongs to the same place of
#: the stream.  No window captured is larger: 100 Gbit/s for 5 ms.  One that was advertised larger counts instead.
NEAR: Final = 1 << 26
#: Octets within which one number speaks for a connection although the other one is far, and the stream goes on where
#: it was before a stray: a hole lies between.  A number of another connection is that near by chance once in 2^11 times
#: (within NEAR, once in 2^5).
CLOSE: Final = 1 << 20
#: The largest window, octets (RFC 7323 §2.3): no valid segment lies further behind the highest octet sent.
LARGEST_WINDOW: Final = 1 << 30


class DropReason(IntEnum):
    """Why a receiver may have dropped a segment, the weakest reason first; named as Linux's ``skb_drop_reason``."""

    NONE = 0
    #: It begins beyond RCV.NXT + RCV.WND, as far as ACKs were captured (RFC 9293 §3.10.7.4).
    OVERWINDOW = 1
    #: SEG.ACK is nowhere near what its receiver sent (RFC 9293 §3.10.7.4, RFC 5961 §5).
    INVALID_ACK = 2
    #: SEG.TSval is older than TS.Recent by more than PAWS_WINDOW ticks (RFC 7323 §5.3), or newer than any clock allows.
    PAWS = 3
    #: It has octets at or beyond a FIN that its receiver acknowledged (RFC 9293 §3.10.7.4, eighth step).
    AFTER_FIN = 4
    #: Its TCP checksum is wrong, and a copy of the same octets has a right one (RFC 9293 §3.1).
    CHECKSUM = 5


#: What nearly every segment has: a member of an enumeration takes longer to look up.
NO_REASON = DropReason.NONE
