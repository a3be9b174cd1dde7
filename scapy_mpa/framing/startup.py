"""The startup frames: MPA Request Frame and MPA Reply Frame (RFC 5044 §7.1.1, RFC 6581 §6 and §9).

``StartupFrame`` holds a frame as it is on the wire and encodes exactly what it is given, right or wrong; the
builder ``startup_frame`` computes what it is not given. ``decode_startup_frame`` reads one;
``startup_frame_problems`` says what makes it one that a receiver must refuse (error code 4).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Literal

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.markers import Octets
from scapy_mpa.framing.profiles import Profile, profile_of_revision
from scapy_mpa.tuples import NamedTuple

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
#: What the two Keys begin with.
KEY_PREFIX = b"MPA ID Re"
KEY_LENGTH = 16
#: Octets before the Private Data (RFC 5044 §7.1.1).
STARTUP_HEADER_LENGTH = 20

#: In the flags octet: the sender requires Markers in what it receives.
M = 0x80
#: The sender prefers CRCs.
C = 0x40
#: In a Reply: rejected.
R = 0x20
#: Private Data begins with enhanced data (RFC 6581 §6); reserved before Rev 2.
S = 0x10
#: Reserved, with S taken out of it.
RES = 0x0F
#: Of these, what Linux siw sets if it may send FPDUs longer than a segment, which TCP segmentation offload cuts; or, in
#: a proposal for siw and cxgb4 (linux-rdma, 2020), the longest FPDU.
_LONG_FPDUS = 0x0C
_SIW_GSO = "siw's experimental GSO flag: TSO, intended"
_MAXIMUM_FPDU = {0x04: "16 KiB", 0x08: "32 KiB", 0x0C: "64 KiB"}
#: What Alibaba's erdma sends as Rev, and the octets after its header that PD_Length does not count: a cookie, and what
#: congestion control it wants. Its first drivers had a Key of 12 octets, after which the number of a queue pair stood.
ERDMA_REVISION, ERDMA_EXTENSION_LENGTH = 129, 8
ERDMA_KEY_LENGTH = 12

#: Octets of the enhanced data at the beginning of the Private Data (RFC 6581 §9).
ENHANCED_DATA_LENGTH = 4
#: An IRD or ORD with this value is left to the ULP (RFC 6581 §9.1).
NOT_NEGOTIATED = 0x3FFF

Kind = Literal["request", "reply"]

_HEADER = Struct(">16sBBH")
_ENHANCED = Struct(">HH")
_HIGH, _SECOND, _DEPTH = 0x8000, 0x4000, 0x3FFF


class EnhancedData(NamedTuple):
    """Enhanced RDMA connection establishment data: four Control Flags and two queue depths (RFC 6581 §9)."""

    #: Peer-to-peer connection model.
    a: int = 0
    #: RTR message: a zero-length Send.
    b: int = 0
    #: RTR message: a zero-length RDMA Write.
    c: int = 0
    #: RTR message: a zero-length RDMA Read.
    d: int = 0
    #: Inbound RDMA Read Queue Depth, 14 bits.
    ird: int = 0
    #: Outbound RDMA Read Queue Depth, 14 bits.
    ord: int = 0

    def encode(self) -> bytes:
        """The 4 octets. Raises FramingError if IRD or ORD does not fit 14 bits."""
        if not (0 <= self.ird <= _DEPTH and 0 <= self.ord <= _DEPTH):
            raise FramingError(f"IRD {self.ird} and ORD {self.ord} must each fit 14 bits")
        return _ENHANCED.pack(
            (_HIGH if self.a else 0) | (_SECOND if self.b else 0) | self.ird,
            (_HIGH if self.c else 0) | (_SECOND if self.d else 0) | self.ord,
        )

    @classmethod
    def decode(cls, octets: Octets) -> EnhancedData:
        """Read the first 4 octets. Raises FramingError if there are fewer."""
        if len(octets) < ENHANCED_DATA_LENGTH:
            raise FramingError(f"enhanced data has {ENHANCED_DATA_LENGTH} octets, not {len(octets)}")
        first, second = _ENHANCED.unpack_from(octets)
        return cls(first >> 15, first >> 14 & 1, second >> 15, second >> 14 & 1, first & _DEPTH, second & _DEPTH)


class StartupFrame(NamedTuple):
    """A Request or Reply as it is on the wire: flags 0 or 1, ``res`` the low four bits, lengths in octets.

    ``cut`` are the last octets of Private Data that a capture lacks, because a snapshot length cut them off;
    ``extension`` is what erdma sends between the header and the Private Data.
    """

    kind: Kind
    m: int
    c: int
    r: int
    s: int
    res: int
    rev: int
    #: What the PD_Length field says.
    pd_length: int
    private_data: bytes
    cut: int = 0
    extension: bytes = b""

    @property
    def enhanced(self) -> EnhancedData | None:
        """The enhanced data, if S says there is some, Rev knows S, and it is there (RFC 6581 §6, §9)."""
        expected = self.s and profile_of_revision(self.rev).enhanced
        if not expected or len(self.private_data) < ENHANCED_DATA_LENGTH:
            return None
        return EnhancedData.decode(self.private_data)

    @property
    def res_name(self) -> str:
        """What is known about the bits that Res should not have, "" if nothing is."""
        longest = self.res & _LONG_FPDUS
        if not longest:
            return ""
        said = f"FPDUs of up to {_MAXIMUM_FPDU[longest]}, as siw and cxgb4 may announce"
        return f"{_SIW_GSO}; or {said}" if longest == 0x08 else said

    @property
    def ulp_data(self) -> bytes:
        """The Private Data of the ULP: what follows the enhanced data, if there is some."""
        return self.private_data if self.enhanced is None else self.private_data[ENHANCED_DATA_LENGTH:]

    @property
    def wire_length(self) -> int:
        """Octets of the frame as it was sent; ``encode`` gives those that are available."""
        return STARTUP_HEADER_LENGTH + len(self.extension) + len(self.private_data) + self.cut

    def encode(self) -> bytes:
        """Return the octets of the fields as they are. Raises FramingError if one does not fit. RFC 5044 §7.1.1."""
        limits = ("Res", self.res, RES), ("Rev", self.rev, 0xFF), ("PD_Length", self.pd_length, 0xFFFF)
        for name, value, top in limits:
            if not 0 <= value <= top:
                raise FramingError(f"{name} {value} is not within 0 to {top}")
        flags = self.res
        for bit, value in ((M, self.m), (C, self.c), (R, self.r), (S, self.s)):
            flags |= bit if value else 0
        key = REQUEST_KEY if self.kind == "request" else REPLY_KEY
        return _HEADER.pack(key, flags, self.rev, self.pd_length) + self.extension + self.private_data


def startup_frame(
    kind: Kind,
    *,
    m: int = 0,
    c: int = 0,
    r: int = 0,
    s: int | None = None,
    res: int = 0,
    rev: int | None = None,
    private_data: bytes = b"",
    enhanced: EnhancedData | None = None,
    pd_length: int | None = None,
) -> StartupFrame:
    """Build a frame; what is None is computed, what is given is kept.

    ``enhanced`` is put before ``private_data``, the ULP's own; S then becomes 1 and Rev 2, otherwise 0 and
    1. PD_Length becomes the length of both, and if that passes 65535 FramingError is raised by ``encode``.
    """
    data = private_data if enhanced is None else enhanced.encode() + private_data
    if s is None:
        s = 0 if enhanced is None else 1
    if rev is None:
        rev = 2 if s else 1
    return StartupFrame(kind, m, c, r, s, res, rev, len(data) if pd_length is None else pd_length, data)


def extension_length(rev: int) -> int:
    """Octets between the header and the Private Data, which PD_Length does not count."""
    return ERDMA_EXTENSION_LENGTH if rev == ERDMA_REVISION else 0


def decode_startup_frame(octets: Octets) -> StartupFrame | None:
    """The startup frame at the beginning of ``octets``; None if more octets are needed.

    Private Data is as many octets as PD_Length says; what follows is not examined. Raises FramingError as
    soon as the octets can be neither Key (RFC 5044 §7.1.1).
    """
    key = bytes(octets[:KEY_LENGTH])
    if not (REQUEST_KEY.startswith(key) or REPLY_KEY.startswith(key)):
        raise FramingError(f"neither an MPA Request nor an MPA Reply: the Key is {key!r}")
    if len(octets) < STARTUP_HEADER_LENGTH:
        return None
    _, flags, rev, pd_length = _HEADER.unpack_from(octets)
    end = STARTUP_HEADER_LENGTH + pd_length
    if len(octets) < end:
        return None
    kind: Kind = "request" if key == REQUEST_KEY else "reply"
    private_data = bytes(octets[STARTUP_HEADER_LENGTH:end])
    decode = _decoded if pd_length <= SHORT else _decoded.__wrapped__
    return decode(kind, flags, rev, private_data)


#: Octets of Private Data with which a frame may be one of many that are the same.
SHORT = 256


# Those of a thousand connections mostly say the same.
@lru_cache(maxsize=256)
def _decoded(kind: Kind, flags: int, rev: int, private_data: bytes) -> StartupFrame:
    m, c, r, s = flags >> 7, flags >> 6 & 1, flags >> 5 & 1, flags >> 4 & 1
    return StartupFrame(kind, m, c, r, s, flags & RES, rev, len(private_data), private_data)


class Problem(NamedTuple):
    """The fault of an invalid startup frame: the id of the rule it breaks (``scapy_mpa.rules``), and a short phrase."""

    rule: str
    text: str


def startup_frame_problems(frame: StartupFrame, profile: Profile | None = None) -> tuple[Problem, ...]:
    """Return what makes ``frame`` invalid to a receiver that follows ``profile`` (None: the one its own Rev names).

    Any of them is error code 4 (RFC 5044 §8). Reserved bits, and R in a Request,
    are not checked on reception and no problem here (RFC 5044 §7.1.1).
    """
    if profile is None or not profile.startup_frames:
        profile = profile_of_revision(frame.rev)
    problems = []
    limit = profile.private_data_limit
    if limit is not None and frame.pd_length > limit:
        problems.append(Problem("startup-private-data-limit", f"PD_Length {frame.pd_length} is above {limit}"))
    if frame.pd_length != len(frame.private_data) + frame.cut:
        text = f"PD_Length {frame.pd_length} with {len(frame.private_data)} octets of Private Data"
        problems.append(Problem("startup-pd-length", text))
    if profile.enhanced and frame.rev >= 2 and frame.s and frame.pd_length < ENHANCED_DATA_LENGTH:
        text = f"S is set but PD_Length {frame.pd_length} leaves no room for enhanced data"
        problems.append(Problem("startup-enhanced-data", text))
    if profile.foreign_revision == "close" and frame.rev != profile.revision:
        problems.append(Problem("startup-frame", f"Rev {frame.rev} where only {profile.revision} is accepted"))
    return tuple(problems)
