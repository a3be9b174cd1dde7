"""What an endpoint is, wants and may do: one value for both roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.agreement import IETF_VERSION, RDMAC_VERSION, RNIC_KINDS, Operation, RnicKind, RtrType
from scapy_mpa.framing.negotiation import Side
from scapy_mpa.framing.profiles import PROFILES, Profile, profile_of_revision
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData
from scapy_mpa.live.errors import LocalProtocolError
from scapy_mpa.live.wrong import Wrong

#: With what a Responder answers an enhanced Request if its settings say nothing: each type of RTR message will do, and
#: IRD and ORD are left to the ULP (RFC 6581 §9).
_ANSWER = EnhancedData(b=1, c=1, d=1, ird=NOT_NEGOTIATED, ord=NOT_NEGOTIATED)
_NEWEST_REVISION: Final = 2


@dataclass(frozen=True)
class EndpointSettings:
    """The parameters of an endpoint; times are in seconds.

    Raises LocalProtocolError for what contradicts itself.
    """

    #: 1: it requires Markers in what it receives.
    m: int = 0
    #: 1: it prefers CRCs, as RFC 5044 §4.4 has it by default.
    c: int = 1
    #: The highest Rev that it speaks, which an Initiator sends; a Responder answers an older one with its own.
    #: None: as ``profile`` says, else 2 in a Responder, and in an Initiator 2 with ``enhanced`` and 1 without.
    rev: int | None = None
    #: A name of ``framing.profiles.PROFILES``.  "culley-02" has no startup frames; "rddp-01" sends Rev 0 and takes no
    #: other; None: as ``rev`` says.
    profile: str | None = None
    #: Of RFC 5044 appendix C.1.  "rdmac" sends Rev 0 with M and C, whatever is given here.
    kind: RnicKind = "ietf"
    #: The ULP's own, in the Request, or in the Reply unless ``accept()`` or ``reject()`` is given another.
    private_data: bytes = b""
    #: RFC 6581's A, RTR types, IRD and ORD.  None: an Initiator sends a plain Request; a Responder of Rev 2 answers an
    #: enhanced one with every RTR type, and leaves IRD and ORD to the ULP.
    enhanced: EnhancedData | None = None
    #: Which of the common RTR types an Initiator sends.
    rtr_preference: tuple[RtrType, ...] = ("write", "read", "send")
    #: The IRD that an Initiator can provide when the Reply arrives; None: what its Request said.
    ird_resources: int | None = None
    #: A Responder rejects if the Initiator's IRD is below its ORD (MAY, RFC 6581 §9.1).
    requires_ord: bool = False
    #: A Responder gives an IRD of 1 for an RTR Read though the Initiator's ORD is 0 (MAY, RFC 6581 §9.1).
    raises_ird: bool = True
    #: A Responder works with a plain Request of a Rev above its own (RFC 5044 §7.1.1).
    accepts_newer: bool = True
    #: A Responder tells an RDMAC RNIC its own Rev before it closes (RFC 5044 appendix C.2.1).
    replies_before_close: bool = True
    #: A Responder accepts each valid Request at once; otherwise ``accept()`` or ``reject()`` is called.
    automatic: bool = True
    #: How long a Responder waits for the whole Request, and an Initiator for the whole Reply (SHOULD, RFC 5044 §7.1.2,
    #: rules 8 and 10); None: for ever.
    request_timeout: float | None = 5.0
    reply_timeout: float | None = 10.0
    #: Octets that a TCP segment takes, from which MULPDU follows (RFC 5044 §4.5), until ``MPAEndpoint.emss`` is set.
    emss: int = 1460
    #: RDMAP is above: an error is answered by a Terminate where one may be sent (RFC 5040 §4.8, RFC 5044 §8), and then
    #: TCP is closed.  Without it, closing after code 2 or 3 is for the ULP.
    rdmap: bool = False
    #: An Initiator whose enhanced Request was answered by a close offers plain settings to try again with
    #: (MAY, RFC 6581 §10; ``MPAEndpoint.fallback``).
    falls_back: bool = False
    #: Makes what is wrong with it on purpose, for each connection; None: nothing is.
    wrong: Callable[[], Wrong] | None = None

    def __post_init__(self) -> None:
        """Raise LocalProtocolError for what contradicts itself."""
        if self.kind not in RNIC_KINDS:
            raise LocalProtocolError(f"kind {self.kind!r} is not one of {', '.join(RNIC_KINDS)}")
        if self.profile is not None and self.profile not in PROFILES:
            raise LocalProtocolError(f"profile {self.profile!r} is not one of {', '.join(PROFILES)}")
        if self.rev is not None and not 0 <= self.rev <= 0xFF:
            raise LocalProtocolError(f"Rev {self.rev} does not fit its octet")
        if self.rev is not None and self.profile not in (None, profile_of_revision(self.rev).name):
            raise LocalProtocolError(f"Rev {self.rev} is not that of profile {self.profile}")
        if self.kind != "ietf" and (self.is_draft or not self.has_startup_frames):
            raise LocalProtocolError(f"profile {self.profile or 'rddp-01'} has no RNIC of kind {self.kind}")
        if self.enhanced is not None:
            if self._revision_of("initiator") < _NEWEST_REVISION:
                raise LocalProtocolError(f"enhanced data needs Rev 2, not {self._revision_of('initiator')}")
            try:
                self.enhanced.encode()
            except FramingError as error:
                raise LocalProtocolError(str(error)) from None

    @property
    def specification(self) -> Profile:
        """The specification whose clauses count before a Reply says which."""
        if self.profile is not None:
            return PROFILES[self.profile]
        return PROFILES["rddp-01"] if self.kind == "rdmac" else profile_of_revision(self._revision_of("initiator"))

    @property
    def has_startup_frames(self) -> bool:
        """True if Full Operation is entered by a Request and a Reply."""
        return self.profile != "culley-02"

    @property
    def is_draft(self) -> bool:
        """True if it is an implementation of draft-ietf-rddp-mpa-01."""
        return self.profile == "rddp-01" or (self.rev == 0 and self.kind == "ietf")

    def _revision_of(self, role: Role) -> int:
        if self.rev is not None:
            return self.rev
        revision = PROFILES[self.profile].revision if self.profile is not None else None
        if revision is not None:
            return revision
        return _NEWEST_REVISION if role == "responder" or self.enhanced is not None else 1

    def side(self, role: Role) -> Side:
        """The same for ``framing.negotiation``."""
        return Side(
            kind=self.kind,
            m=self.m,
            c=self.c,
            revision=self._revision_of(role),
            enhanced=_ANSWER if role == "responder" and self.enhanced is None else self.enhanced,
            private_data=self.private_data,
            rtr_preference=self.rtr_preference,
            ird_resources=self.ird_resources,
            requires_ord=self.requires_ord,
            raises_ird=self.raises_ird,
            accepts_newer=self.accepts_newer,
            replies_before_close=self.replies_before_close,
            is_draft=self.is_draft,
        )


def unnegotiated() -> Operation:
    """Full Operation of draft-culley-iwarp-mpa-02, which negotiates nothing: Markers and CRC always (§7.1, §7.2)."""
    versions = (RDMAC_VERSION, IETF_VERSION)
    return Operation(PROFILES["culley-02"], versions, True, True, True, None, None)
