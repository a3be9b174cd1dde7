"""Collects the octets of one startup frame, and reports a fault as soon as it shows (RFC 5044 §7.1.1).

What is wrong is what :mod:`scapy_mpa.framing.deviations` says about a captured frame: rules of severity ``error`` are
raised, the others become events.
"""

from __future__ import annotations

from collections.abc import Iterable

from scapy_mpa.framing.deviations import Deviation, frame_remarks, frame_violations
from scapy_mpa.framing.markers import Octets
from scapy_mpa.framing.profiles import profile_of_revision
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    REPLY_KEY,
    REQUEST_KEY,
    STARTUP_HEADER_LENGTH,
    Kind,
    StartupFrame,
    decode_startup_frame,
)
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import PeerDeviated
from scapy_mpa.rules.table import RULES

_KEYS: dict[Kind, bytes] = {"request": REQUEST_KEY, "reply": REPLY_KEY}
_NAMES: dict[Kind, str] = {"request": "Request", "reply": "Reply"}


def is_error(deviation: Deviation) -> bool:
    """Return True if a conforming peer stops there."""
    return RULES[deviation.id].severity == "error"


def error_of(deviation: Deviation, profile: str, code: int | None = None) -> RemoteProtocolError:
    """Return the error to raise for a deviation; ``code`` is used where its rule has none."""
    found = RULES[deviation.id].code
    return RemoteProtocolError(deviation.text, deviation.id, profile=profile, code=code if found is None else found)


def tolerated(deviations: Iterable[Deviation], profile: str) -> list[PeerDeviated]:
    """The events for what a receiver tolerates."""
    return [
        PeerDeviated(one.id, RULES[one.id].clause_in(profile) or "", one.text, one.by)
        for one in deviations
    ]  # fmt: skip


class FrameReader:
    """One startup frame of the peer, in however many pieces it arrives.

    Args:
        kind: which it has to be.
        own: the startup frame of this side, if it was sent: the newer of both says what is valid (rule 9 of §7.1.2).

    Attributes:
        frame: the frame, None until it is complete.
        length: octets of it that have come.
    """

    def __init__(self, kind: Kind, own: StartupFrame | None = None) -> None:
        self._kind: Kind = kind
        self._own = own
        self._by: Role = "initiator" if kind == "request" else "responder"
        self._octets = bytearray()
        self._end = 0
        self.frame: StartupFrame | None = None

    @property
    def length(self) -> int:
        """Octets of it that have come."""
        return len(self._octets)

    @property
    def missing(self) -> int:
        """The fewest octets that it still needs; 0 if it is complete."""
        return max(STARTUP_HEADER_LENGTH, self._end) - self.length

    @property
    def profile(self) -> str:
        """The name of the profile that its Rev names, as far as it has arrived."""
        return profile_of_revision(self._octets[KEY_LENGTH + 1]).name if self.length > KEY_LENGTH + 1 else "rfc5044"

    def take(self, octets: Octets) -> Octets | None:
        """Take octets; None as long as the frame needs more, else those that follow it.

        Raises RemoteProtocolError at the first octet of a wrong Key, at the last of a header that says what is invalid
        before any Private Data of it is waited for, and at the last of a frame whose Private Data is invalid.
        """
        used = 0
        if self.length < STARTUP_HEADER_LENGTH:
            used = STARTUP_HEADER_LENGTH - self.length
            self._octets += octets[:used]
            self._check_key()
            if self.length < STARTUP_HEADER_LENGTH:
                return None
            self._check_header()
        more = self._end - self.length
        self._octets += octets[used : used + more]
        if self.length < self._end:
            return None
        self.frame = decode_startup_frame(self._octets)
        assert self.frame is not None
        self._raise_first(frame_violations(self.frame, self._by, self._own))
        return octets[used + more :]

    def remarks(self) -> list[PeerDeviated]:
        """Return what the complete frame breaks that a receiver does not check, and what is worth a remark."""
        found = [*frame_violations(self.frame, self._by, self._own), *frame_remarks(self.frame, self._by)]
        return tolerated(found, self.profile)

    def _check_key(self) -> None:
        key, wanted = bytes(self._octets[:KEY_LENGTH]), _KEYS[self._kind]
        if wanted.startswith(key):
            return
        if any(other.startswith(key) for other in _KEYS.values()):
            text = f"the Key is that of a {_NAMES['reply' if self._kind == 'request' else 'request']}"
            raise RemoteProtocolError(f"{text} where a {_NAMES[self._kind]} is expected", "startup-role")
        text = f"the Key is {key!r}, where a {_NAMES[self._kind]} is expected: does the peer speak MPA?"
        raise RemoteProtocolError(text, "startup-key")

    def _check_header(self) -> None:
        """Check what does not depend on the Private Data to come."""
        pd_length = int.from_bytes(self._octets[STARTUP_HEADER_LENGTH - 2 :], "big")
        self._end = STARTUP_HEADER_LENGTH + pd_length
        frame = decode_startup_frame(bytes(self._octets) + bytes(pd_length))
        self._raise_first(frame_violations(frame, self._by, self._own))

    def _raise_first(self, deviations: list[Deviation]) -> None:
        for one in deviations:
            if is_error(one):
                raise error_of(one, self.profile)

    def end(self, how: str) -> RemoteProtocolError:
        """Return the error if the connection ends here; ``how`` says how it ends, in words."""
        name = _NAMES[self._kind]
        if self.length >= STARTUP_HEADER_LENGTH:
            came = self.length - STARTUP_HEADER_LENGTH
            detail = f"{how} after {came} of the {self._end - STARTUP_HEADER_LENGTH} octets of Private Data of a {name}"
            return RemoteProtocolError(detail, "startup-pd-length", profile=self.profile)
        if self.length:
            return RemoteProtocolError(f"{how} after {self.length} octets of a {name}", "startup-frame")
        rule = "startup-unanswered" if self._kind == "reply" else ""
        return RemoteProtocolError(f"{how} before a {name}", rule, code=1, topic="" if rule else "errors")
