"""The two sides of a conversation before either sends: addresses, MPA's parameters, TCP's habits.

``Setup`` is what may be chosen, with defaults; its properties are what follows of it by the specifications: the
startup frames (RFC 5044 §7.1.1, RFC 6581 §9), in which direction there are Markers, whether CRCs are in use,
what FPDUPTR counts from, and the version of DDP and RDMAP (RFC 5044 §C.1).

Where a value is a pair the first is the Initiator's, the second the Responder's.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from scapy_mpa.craft.encapsulation import ENCAPSULATION
from scapy_mpa.craft.packets import Endpoint, FrameMaker
from scapy_mpa.craft.sealing import WAY, Sealing, way_of
from scapy_mpa.craft.segmentation import Segmentation, segmentation
from scapy_mpa.craft.stream import Alter
from scapy_mpa.craft.wanted import FLAG, SECONDS, TEXT, Wanted, is_number, one_of, up_to, whole
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.agreement import MINIMUM_ENHANCED_REVISION
from scapy_mpa.framing.legacy import LegacyDepths
from scapy_mpa.framing.markers import Origin
from scapy_mpa.framing.mulpdu import MAX_MULPDU, MIN_MULPDU
from scapy_mpa.framing.profiles import PROFILES, Profile, profile_of_revision
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.senders import BY_NAME
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData, Kind, StartupFrame, startup_frame

Close = Literal["fin", "rst", "none"]
CLOSES: tuple[Close, ...] = ("fin", "rst", "none")
RTR = Literal["write", "read", "send"]
#: Ready-to-receive messages and their Control Flags (RFC 6581 §9.2); where several will do, the first is sent.
RTRS: dict[RTR, str] = {"write": "c", "read": "d", "send": "b"}

SMALLEST_MTU = 128
_MICROSECOND = 1000
_FIRST_PORT, _RESPONDER_PORT, _PORTS = 40000, 7471, 20000


class ConversationError(MPAError, ValueError):
    """A conversation that the specifications do not allow, or that cannot be laid out."""


@dataclass(frozen=True)
class Setup:
    """The parameters of a conversation; pairs are (the Initiator's, the Responder's)."""

    #: IPv4 or IPv6 addresses.
    initiator: str = "10.0.0.1"
    responder: str = "10.0.0.2"
    #: None: 40000 and the number of the connection, 7471.
    ports: tuple[int | None, int | None] = (None, None)
    #: As text.
    macs: tuple[str, str] = ("02:00:00:00:00:01", "02:00:00:00:00:02")
    vlan: int | None = None
    #: The specification, by its name in ``framing.profiles``.
    profile: str = "rfc5044"
    #: The flags of Request and Reply.
    m: tuple[int, int] = (0, 0)
    c: tuple[int, int] = (1, 1)
    #: Rev of Request and Reply; None: the profile's.
    rev: tuple[int | None, int | None] = (None, None)
    #: The ULP's own, which follows the enhanced data.
    private_data: tuple[bytes, bytes] = (b"", b"")
    #: RFC 6581's, one mapping for both or a pair. None: in the Request, IRD and ORD 8 where the profile has it; in the
    #: Reply, what fits the Request. False: none.
    enhanced: Any = (None, None)
    #: IRD and ORD as SMB Direct stated them before RFC 6581, before private_data: {ird, ord, byte_order}.
    legacy: Any = (None, None)
    #: The Reply rejects.
    reject: bool = False
    #: Which ready-to-receive message the Initiator sends if both sides have A; None: the first that both offer.
    rtr: RTR | None = None
    #: Of the direction each side sends in; None: as M has it.
    markers: tuple[bool | None, bool | None] = (None, None)
    #: Of DDP and RDMAP; None: 0 with an RNIC of the RDMA Consortium, else 1.
    version: int | None = None
    #: The octets that are sent in place of Request and Reply; b"": none.
    frames: tuple[bytes | None, bytes | None] = (None, None)
    #: May change the octets of each side's FPDUs before they are cut in segments.
    alter: tuple[Alter | None, Alter | None] = (None, None)
    #: What each side does wrong, by its name in ``framing.senders``, two of them joined by +.
    deviation: tuple[str, str] = ("", "")
    #: The sender of the SYN.
    opens: Role = "initiator"
    #: How each side cuts its stream, one for both or a pair.
    segmentation: Any = "aligned"
    #: Of the path, in octets.
    mtu: int = 1500
    #: The longest ULPDU of each side; None: as EMSS has it (RFC 5044 §4.5).
    mulpdu: tuple[int | None, int | None] = (None, None)
    #: The TCP option is in use.
    timestamps: bool = True
    #: The initial sequence numbers; None: by the seed.
    isn: tuple[int | None, int | None] = (None, None)
    #: Seconds since the epoch at which it begins.
    time: float = 1_700_000_000.0
    #: Seconds between two packets.
    gap: float = 12e-6
    #: Seconds that it takes an answer to come.
    delay: float = 50e-6
    #: How it ends.
    close: Close = "fin"
    #: Who ends it.
    closes: Role = "initiator"
    #: Decides about all that is random.
    seed: int = 0
    #: How packets travel under IPsec's ESP, as in ``aes-gcm,transport,udp``; empty: they do not.
    esp: str = ""
    #: What each frame travels in, by its name in ``encapsulation.ENCAPSULATIONS``; empty: nothing.
    encapsulation: str = ""
    #: Rules that may be broken, by their names in ``conversation.RULES``.
    allow: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ConversationError for what cannot be."""
        if isinstance(self.enhanced, (Mapping, EnhancedData)):
            object.__setattr__(self, "enhanced", (self.enhanced, None))
        if isinstance(self.legacy, (Mapping, LegacyDepths)):
            object.__setattr__(self, "legacy", (self.legacy, self.legacy))
        for name in (*_PAIRS, "enhanced", "legacy"):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise ConversationError(
                    f"{name} is {value!r}, but must be a pair such as [1, 1]: the Initiator's and the Responder's"
                )
            object.__setattr__(self, name, tuple(value))
        if isinstance(self.allow, str):
            object.__setattr__(self, "allow", (self.allow,))
        if not isinstance(self.allow, (tuple, list, set, frozenset)) or not all(map(TEXT.fits, self.allow)):
            raise ConversationError(f"allow is {self.allow!r}, but must be names of rules")
        found = [(name, wanted, value) for name, wanted in _PAIRS.items() for value in getattr(self, name)]
        for name, wanted, value in (*found, *((name, wanted, getattr(self, name)) for name, wanted in _SINGLE.items())):
            if complaint := wanted.complaint(name, value):
                raise ConversationError(complaint)
        if not self.specification.startup_frames:
            nothing_told = {
                "private_data": (b"", b""),
                "enhanced": (None, None),
                "legacy": (None, None),
                "reject": False,
                "frames": (None, None),
            }
            for name, nothing in nothing_told.items():
                if getattr(self, name) != nothing:
                    raise ConversationError(f"{self.profile} has no startup frames, and so no {name}")
        try:
            ends = [self.endpoint(role, 0) for role in ROLES]
            for role in ROLES:
                self.segmentation_of(role)
                FrameMaker(ends[0], ends[1], self.vlan)
                self.startup(role).encode()
        except ValueError as error:
            raise ConversationError(str(error)) from None
        if (ends[0].address, ends[0].port) == (ends[1].address, ends[1].port):
            raise ConversationError(
                f"{ends[0].address}, port {ends[0].port}, is given for both ends, but they must differ"
            )

    @property
    def specification(self) -> Profile:
        """The row of the table of profiles."""
        return PROFILES[self.profile]

    @property
    def ip_version(self) -> int:
        """4 or 6."""
        return ipaddress.ip_address(self.initiator).version

    def endpoint(self, role: Role, number: int) -> Endpoint:
        """Address, port and MAC of one side in the connection with this number."""
        side = ROLES.index(role)
        port = self.ports[side]
        if port is None:
            port = _RESPONDER_PORT if side else _FIRST_PORT + number % _PORTS
        return Endpoint((self.initiator, self.responder)[side], port, _mac(self.macs[side]))

    def segmentation_of(self, role: Role) -> Segmentation:
        """Return how this side segments its stream."""
        value = self.segmentation
        if isinstance(value, (list, tuple)) and not isinstance(value, Segmentation):
            if len(value) != 2:
                raise ConversationError(f"{value!r}: give one segmentation, or the Initiator's and the Responder's")
            value = value[ROLES.index(role)]
        return segmentation(value)

    def sequence_number(self, role: Role, rng: random.Random) -> int:
        """The initial sequence number of this side."""
        chosen, given = rng.getrandbits(32), self.isn[ROLES.index(role)]
        return chosen if given is None else given

    def sealing(self, role: Role, number: int) -> Sealing | None:
        """Return what puts this side's packets of connection ``number`` into ESP; None if nothing does."""
        way, side = way_of(self.esp), ROLES.index(role)
        if way is None:
            return None
        addresses = self.initiator, self.responder
        return Sealing(way, addresses[::-1] if side else addresses, self.seed, number, side)

    # --- what follows of the parameters ---

    def enhanced_of(self, role: Role) -> EnhancedData | None:
        """RFC 6581's data in the frame of this side; None if there is none.

        Where the Responder's is not given its flags are the Initiator's, and either has the depths that the other asks
        for (§9.1).
        """
        given = self.enhanced[ROLES.index(role)]
        if given is None and role == "responder":
            request = self.enhanced_of("initiator")
            return request and request._replace(ird=request.ord, ord=request.ird)
        if given is None:
            has_data = self.specification.enhanced and self.revision_of(role) >= MINIMUM_ENHANCED_REVISION
            return EnhancedData(ird=8, ord=8) if has_data else None
        if given is False:
            return None
        if isinstance(given, EnhancedData):
            given = given._asdict()
        if not isinstance(given, Mapping) or not given.keys() <= set(EnhancedData._fields):
            raise ConversationError(
                f"enhanced is {given!r}, but must have {', '.join(EnhancedData._fields)}, or be false"
            )
        for name, value in given.items():
            if complaint := (_DEPTH if name in ("ird", "ord") else FLAG).complaint(f"enhanced: {name}", value):
                raise ConversationError(complaint)
        return EnhancedData(**given)

    def legacy_of(self, role: Role) -> bytes:
        """IRD and ORD in the frame of this side as SMB Direct stated them before RFC 6581; empty if there are none."""
        given = self.legacy[ROLES.index(role)]
        if given is None:
            return b""
        if isinstance(given, LegacyDepths):
            given = given._asdict()
        if not isinstance(given, Mapping) or not given.keys() <= set(LegacyDepths._fields):
            raise ConversationError(f"legacy is {given!r}, but must have {', '.join(LegacyDepths._fields)}")
        for name, value in given.items():
            if complaint := (_BYTE_ORDER if name == "byte_order" else _WORD).complaint(f"legacy: {name}", value):
                raise ConversationError(complaint)
        return LegacyDepths(**{"ird": 0, "ord": 0, **given}).encode()

    def revision_of(self, role: Role) -> int:
        """The Rev that this side sends."""
        given = self.rev[ROLES.index(role)]
        return given if given is not None else self.specification.revision or 0

    def startup(self, role: Role) -> StartupFrame:
        """The Request of the Initiator, or the Reply of the Responder."""
        side = ROLES.index(role)
        kind: Kind = "reply" if side else "request"
        return startup_frame(
            kind,
            m=self.m[side],
            c=self.c[side],
            r=int(self.reject and kind == "reply"),
            rev=self.revision_of(role),
            private_data=self.legacy_of(role) + self.private_data[side],
            enhanced=self.enhanced_of(role),
        )

    def startup_octets(self, role: Role) -> bytes:
        """Return the octets that this side sends as its startup frame."""
        told = self.frames[ROLES.index(role)]
        return self.startup(role).encode() if told is None else told

    def has_markers(self, role: Role) -> bool:
        """Return True if what this side sends has Markers: its peer asks for them by M (RFC 5044 §7.1.1)."""
        side = ROLES.index(role)
        told = self.markers[side]
        if told is not None:
            return bool(told)
        return not self.specification.markers_negotiated or bool(self.m[1 - side])

    @property
    def crc(self) -> bool:
        """True if CRCs are in use: either side asks by C (RFC 5044 §7.1.1)."""
        return not self.specification.crc_negotiated or any(self.c)

    @property
    def origin(self) -> Origin:
        """What FPDUPTR counts from; the Rev of the Reply decides."""
        startup = self.specification.startup_frames
        profile = profile_of_revision(self.revision_of("responder")) if startup else self.specification
        return profile.fpduptr_origin

    @property
    def ddp_version(self) -> int:
        """The version of DDP and RDMAP: 0 with an RNIC of the RDMA Consortium, else 1 (RFC 5044 §C.1)."""
        if self.version is not None:
            return self.version
        return int(self.specification.startup_frames and self.revision_of("responder") > 0)

    @property
    def rtr_message(self) -> RTR | None:
        """The ready-to-receive message that is sent; None if none is, or none is offered by both (RFC 6581 §9.2)."""
        if not self.is_peer_to_peer:
            return None
        return self.rtr or next(iter(self._offered()), None)

    @property
    def rtr_is_offered(self) -> bool:
        """True if both sides offer the ready-to-receive message that is asked for."""
        return self.rtr in self._offered()

    def _offered(self) -> list[RTR]:
        """The ready-to-receive messages that both sides offer."""
        request, reply = (self.enhanced_of(role) for role in ROLES)
        if request is None or reply is None:
            return []
        return [rtr for rtr, flag in RTRS.items() if getattr(request, flag) and getattr(reply, flag)]

    @property
    def is_peer_to_peer(self) -> bool:
        """True if both sides set A, and nothing was rejected."""
        sides = [self.enhanced_of(role) for role in ROLES]
        return not self.reject and all(data is not None and data.a for data in sides)


def _mac(text: str) -> bytes:
    """The octets of a MAC address."""
    return bytes.fromhex(text.replace(":", "").replace("-", ""))


def _is_deviation(value: Any) -> bool:
    return isinstance(value, str) and (not value or set(value.split("+")) <= set(BY_NAME))


def _is_mac(value: object) -> bool:
    try:
        return isinstance(value, str) and len(_mac(value)) == 6
    except ValueError:
        return False


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and "%" not in value and bool(ipaddress.ip_address(value))
    except ValueError:
        return False


MTU = whole(SMALLEST_MTU, 0xFFFF)
_ADDRESS = Wanted("an IPv4 or IPv6 address", _is_address)
_DEPTH = whole(0, NOT_NEGOTIATED)
_WORD = whole(0, 0xFFFFFFFF)
_BYTE_ORDER = one_of("big", "little")
_PAIRS = {
    "ports": whole(0, 0xFFFF).or_nothing(),
    "macs": Wanted("a MAC address such as 02:00:00:00:00:01", _is_mac),
    "m": FLAG,
    "c": FLAG,
    "rev": whole(0, 0xFF).or_nothing(),
    "private_data": Wanted("octets", lambda value: isinstance(value, bytes)),
    "markers": FLAG.or_nothing(),
    "frames": Wanted("octets", lambda value: isinstance(value, bytes)).or_nothing(),
    "alter": Wanted("a function", callable).or_nothing(),
    "deviation": Wanted(f"one of {', '.join(BY_NAME)}, or two joined by +,", _is_deviation),
    "isn": whole(0, SEQ_MASK).or_nothing(),
    "mulpdu": whole(MIN_MULPDU, MAX_MULPDU).or_nothing(),
}
_SINGLE = {
    "initiator": _ADDRESS,
    "responder": _ADDRESS,
    "vlan": whole(0, 0xFFF).or_nothing(),
    "profile": one_of(*PROFILES),
    "reject": FLAG,
    "rtr": one_of(*RTRS).or_nothing(),
    "version": whole(0, 1).or_nothing(),
    "opens": one_of(*ROLES),
    "mtu": MTU,
    "timestamps": FLAG,
    "time": up_to(0xFFFFFFFF),
    "gap": SECONDS,
    "delay": SECONDS,
    "close": one_of(*CLOSES),
    "closes": one_of(*ROLES),
    "esp": WAY,
    "encapsulation": ENCAPSULATION,
    "seed": Wanted("a whole number", is_number),
}

#: The parameters by name.
SETUP_NAMES = tuple(field.name for field in fields(Setup))


def nanoseconds(seconds: float) -> int:
    """Seconds as nanoseconds, in whole microseconds, which every format of capture can hold."""
    return round(seconds * 1_000_000) * _MICROSECOND
