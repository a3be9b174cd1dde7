"""IRD and ORD as SMB Direct peers stated them before RFC 6581: two 32-bit words at the start of the Private Data.

The first word is IRD, the second ORD, of a frame of Rev 1 on port 5445 (MS-SMBD §6.1). They are big-endian; some peers
write them in the order of their host, which is little-endian.  Nothing in the frame says which is meant, so it is the
order in which both are depths that a peer could have.
"""

from __future__ import annotations

from struct import Struct
from typing import Literal

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.startup import EnhancedData, StartupFrame
from scapy_mpa.tuples import NamedTuple

#: SMB Direct over iWARP (MS-SMBD §2.1).
SMB_DIRECT_PORT = 5445
#: Octets of the two words.
LEGACY_DEPTHS_LENGTH = 8

ByteOrder = Literal["big", "little"]

_REVISION = 1
#: No stack has more RDMA Reads under way than this.
_MOST = 0xFFFF
_WORDS = {"big": Struct(">II"), "little": Struct("<II")}


class LegacyDepths(NamedTuple):
    """IRD and ORD of a startup frame, and the order of their octets."""

    ird: int
    ord: int
    byte_order: ByteOrder = "big"

    def encode(self) -> bytes:
        """The 8 octets. Raises FramingError if IRD or ORD does not fit 32 bits."""
        if not (0 <= self.ird <= 0xFFFFFFFF and 0 <= self.ord <= 0xFFFFFFFF):
            raise FramingError(f"IRD {self.ird} and ORD {self.ord} must each fit 32 bits")
        return _WORDS[self.byte_order].pack(self.ird, self.ord)


def legacy_depths(frame: StartupFrame, responder_port: int) -> LegacyDepths | None:
    """The depths in the Private Data of a frame; None if it is no such frame, or neither order makes depths of it."""
    if responder_port != SMB_DIRECT_PORT or frame.rev != _REVISION or len(frame.private_data) < LEGACY_DEPTHS_LENGTH:
        return None
    orders: tuple[ByteOrder, ...] = ("big", "little")
    for order in orders:
        ird, ord_ = _WORDS[order].unpack_from(frame.private_data)
        if max(ird, ord_) <= _MOST:
            return LegacyDepths(ird, ord_, order)
    return None


def stated_depths(frame: StartupFrame | None, responder_port: int) -> EnhancedData | None:
    """IRD and ORD that a frame states, with RFC 6581's Control Flags, which the older form has not."""
    if frame is None:
        return None
    legacy = legacy_depths(frame, responder_port)
    return frame.enhanced or (EnhancedData(ird=legacy.ird, ord=legacy.ord) if legacy is not None else None)
