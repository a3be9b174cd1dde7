"""What two sides of a conversation are before the first of them speaks: addresses, MPA's parameters, TCP's habits.

`Setup` is what may be chosen, with defaults; its properties are what follows of it by the specifications: the
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

from ..errors import MPAError
from ..framing.markers import Origin
from ..framing.mulpdu import MAX_MULPDU, MIN_MULPDU
from ..framing.profiles import PROFILES, Profile, profile_of_revision
from ..framing.startup import EnhancedData, Kind, StartupFrame, startup_frame
from .packets import Endpoint, FrameMaker
from .segmentation import Segmentation, segmentation
from .stream import Alter
from .tcppacket import ROLES, Role

Close = Literal["fin", "rst", "none"]
CLOSES: tuple[Close, ...] = ("fin", "rst", "none")
RTR = Literal["write", "read", "send"]
RTRS: dict[RTR, str] = {"write": "c", "read": "d", "send": "b"}
"""Ready-to-receive messages and their Control Flags (RFC 6581 §9.2); where several will do, the first is sent."""

SMALLEST_MTU = 128
_MICROSECOND = 1000
_FIRST_PORT, _RESPONDER_PORT, _PORTS = 40000, 7471, 20000


class ConversationError(MPAError, ValueError):
    """A conversation that the specifications do not allow, or that cannot be laid out."""


@dataclass(frozen=True)
class Setup:
    """The parameters of a conversation; pairs are (the Initiator's, the Responder's).

    `initiator`, `responder`: IPv4 or IPv6 addresses; `ports` (None: 40000 and the number of the connection,
    7471); `macs`, as text; `vlan`. `profile` names the specification (see `framing.profiles`); `m` and `c` are
    the flags of Request and Reply, `rev` their Rev (None: the profile's), `private_data` the ULP's own, which
    follows the `enhanced` data of RFC 6581 (None: IRD and ORD 8 where the profile has it, none elsewhere).
    `reject`: the Reply rejects. `rtr`: which ready-to-receive message the Initiator sends if both sides have A
    (None: the first that both offer).

    What follows of these may be told otherwise: `markers` of the direction each side sends in, `version` of DDP
    and RDMAP. `alter` may change the octets of each side's FPDUs before they are cut in segments.

    `opens` is who sends the SYN; `segmentation` how each side cuts its stream (one for both, or a pair); `mtu`
    of the path, in octets; `mulpdu` the longest ULPDU of each side (None: as EMSS has it, §4.5); `timestamps`:
    the TCP option; `isn` the initial sequence numbers (None: by the seed); `time` the seconds since the epoch at
    which it begins, `gap` those between two packets, `delay` those it takes an answer to come. `close` and
    `closes`: how it ends and by whom.

    `seed` decides about all that is random. `allow` names rules that may be broken (see `conversation.RULES`).
    """

    initiator: str = "10.0.0.1"
    responder: str = "10.0.0.2"
    ports: tuple[int | None, int | None] = (None, None)
    macs: tuple[str, str] = ("02:00:00:00:00:01", "02:00:00:00:00:02")
    vlan: int | None = None
    profile: str = "rfc5044"
    m: tuple[int, int] = (0, 0)
    c: tuple[int, int] = (1, 1)
    rev: tuple[int | None, int | None] = (None, None)
    private_data: tuple[bytes, bytes] = (b"", b"")
    enhanced: tuple[Any, Any] = (None, None)
    reject: bool = False
    rtr: RTR | None = None
    markers: tuple[bool | None, bool | None] = (None, None)
    version: int | None = None
    alter: tuple[Alter | None, Alter | None] = (None, None)
    opens: Role = "initiator"
    segmentation: Any = "aligned"
    mtu: int = 1500
    mulpdu: tuple[int | None, int | None] = (None, None)
    timestamps: bool = True
    isn: tuple[int | None, int | None] = (None, None)
    time: float = 1_700_000_000.0
    gap: float = 12e-6
    delay: float = 50e-6
    close: Close = "fin"
    closes: Role = "initiator"
    seed: int = 0
    allow: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ConversationError for what cannot be."""
        for name in ("ports", "macs", "m", "c", "rev", "private_data", "enhanced", "markers", "alter", "isn", "mulpdu"):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise ConversationError(f"{name} is {value!r}: a pair is wanted, the Initiator's and the Responder's")
            object.__setattr__(self, name, tuple(value))
        if isinstance(self.allow, str):
            object.__setattr__(self, "allow", (self.allow,))
        choices: tuple[tuple[str, object, tuple[object, ...]], ...] = (
            ("profile", self.profile, tuple(PROFILES)),
            ("opens", self.opens, ROLES),
            ("closes", self.closes, ROLES),
            ("close", self.close, CLOSES),
            ("rtr", self.rtr, (None, *RTRS)),
            ("version", self.version, (None, 0, 1)),
        )
        for name, value, known in choices:
            if value not in known:
                listed = ", ".join(str(one) for one in known if one is not None)
                raise ConversationError(f"{name} is {value!r}; it may be {listed}")
        if not isinstance(self.mtu, int) or not SMALLEST_MTU <= self.mtu <= 65535:
            raise ConversationError(f"an MTU of {self.mtu!r} octets: {SMALLEST_MTU} to 65535")
        for limit in self.mulpdu:
            if limit is not None and not MIN_MULPDU <= limit <= MAX_MULPDU:
                raise ConversationError(f"a MULPDU of {limit} octets: {MIN_MULPDU} to {MAX_MULPDU}")
        if self.time < 0 or self.gap < 0 or self.delay < 0:
            raise ConversationError("time, gap and delay are seconds, and not negative")
        try:
            versions = {ipaddress.ip_address(address).version for address in (self.initiator, self.responder)}
            for role in ROLES:
                self.endpoint(role, 0)
        except ValueError as error:
            raise ConversationError(str(error)) from None
        if len(versions) > 1:
            raise ConversationError(f"{self.initiator} and {self.responder} are not of one IP version")
        for name, number in (("isn", self.isn[0]), ("isn", self.isn[1]), ("seed", self.seed)):
            if not isinstance(number, int) and (number is not None or name == "seed"):
                raise ConversationError(f"{name} is {number!r}: a number is wanted")
        for role in ROLES:
            self.segmentation_of(role)
            try:
                FrameMaker(self.endpoint(role, 0), self.endpoint(role, 0), self.vlan)
                self.startup(role).encode()
            except ValueError as error:
                raise ConversationError(str(error)) from None

    @property
    def specification(self) -> Profile:
        """The row of the table of profiles."""
        return PROFILES[self.profile]

    @property
    def ip_version(self) -> int:
        """4 or 6."""
        return ipaddress.ip_address(self.initiator).version

    def endpoint(self, role: Role, number: int) -> Endpoint:
        """Address, port and MAC of one side in the connection with this number. Raises ValueError."""
        side = ROLES.index(role)
        port = self.ports[side]
        if port is None:
            port = _RESPONDER_PORT if side else _FIRST_PORT + number % _PORTS
        if not 0 <= port <= 0xFFFF:
            raise ValueError(f"there is no port {port}")
        mac = bytes.fromhex(self.macs[side].replace(":", "").replace("-", ""))
        if len(mac) != 6:
            raise ValueError(f"{self.macs[side]!r} is no MAC address")
        return Endpoint((self.initiator, self.responder)[side], port, mac)

    def segmentation_of(self, role: Role) -> Segmentation:
        """How this side cuts its stream."""
        value = self.segmentation
        if isinstance(value, (list, tuple)) and not isinstance(value, Segmentation):
            if len(value) != 2:
                raise ConversationError(f"{value!r}: one segmentation, or the Initiator's and the Responder's")
            value = value[ROLES.index(role)]
        return segmentation(value)

    def sequence_number(self, role: Role, rng: random.Random) -> int:
        """The initial sequence number of this side."""
        chosen, given = rng.getrandbits(32), self.isn[ROLES.index(role)]
        return chosen if given is None else given & 0xFFFFFFFF

    # --- what follows of the parameters ---

    def enhanced_of(self, role: Role) -> EnhancedData | None:
        """RFC 6581's data in the frame of this side; None if there is none."""
        given = self.enhanced[ROLES.index(role)]
        if given is None:
            return EnhancedData(ird=8, ord=8) if self.specification.enhanced else None
        if given is False:
            return None
        if isinstance(given, EnhancedData):
            return given
        if isinstance(given, Mapping) and given.keys() <= set(EnhancedData._fields):
            return EnhancedData(**given)
        raise ConversationError(f"enhanced is {given!r}: {', '.join(EnhancedData._fields)} are wanted, or false")

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
            private_data=self.private_data[side],
            enhanced=self.enhanced_of(role),
        )

    def has_markers(self, role: Role) -> bool:
        """Whether what this side sends has Markers: its peer asks for them by M (RFC 5044 §7.1.1)."""
        side = ROLES.index(role)
        told = self.markers[side]
        if told is not None:
            return bool(told)
        return not self.specification.markers_negotiated or bool(self.m[1 - side])

    @property
    def crc(self) -> bool:
        """Whether CRCs are in use: either side asks by C (RFC 5044 §7.1.1)."""
        return not self.specification.crc_negotiated or any(self.c)

    @property
    def origin(self) -> Origin:
        """What FPDUPTR counts from; the Reply's Rev decides."""
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
        """Whether both sides offer the ready-to-receive message that is asked for."""
        return self.rtr in self._offered()

    def _offered(self) -> list[RTR]:
        """The ready-to-receive messages that both sides offer."""
        request, reply = (self.enhanced_of(role) for role in ROLES)
        if request is None or reply is None:
            return []
        return [rtr for rtr, flag in RTRS.items() if getattr(request, flag) and getattr(reply, flag)]

    @property
    def is_peer_to_peer(self) -> bool:
        """Whether both sides set A, and nothing was rejected."""
        sides = [self.enhanced_of(role) for role in ROLES]
        return not self.reject and all(data is not None and data.a for data in sides)


SETUP_NAMES = tuple(field.name for field in fields(Setup))
"""The parameters by name."""


def nanoseconds(seconds: float) -> int:
    """Seconds as nanoseconds, in whole microseconds, which every format of capture can hold."""
    return round(seconds * 1_000_000) * _MICROSECOND
