"""``MPAEndpoint``: MPA's Initiator or Responder on one TCP connection, without a socket and without a clock.

Whoever owns the TCP connection hands over the octets that it reads and writes those that it is given::

    endpoint = MPAEndpoint("initiator", EndpointSettings(m=1, private_data=b"hello"))
    endpoint.start(now)
    for octets in endpoint.data_to_send():
        ...                                     # one startup frame or one FPDU: a segment of its own where TCP can
    events = endpoint.receive(octets, now)      # and receive_eof(now) at the peer's FIN, expire(now) at the deadline

It is in one of six states:

=============  ==========================================================  ================================
state          what octets of the peer are                                 what leads out of it
=============  ==========================================================  ================================
``streaming``  the ULP's: MPA has not begun (delayed startup, §7.1.3)      ``start()``
``waiting``    the peer's startup frame                                    the frame, ``expire()``, FIN
``deciding``   refused: the Responder has a Request, its ULP decides       ``accept()``, ``reject()``
``operating``  FPDUs (Full Operation)                                      an error, both FINs
``rejected``   the ULP's: the Reply had R, MPA was left (§7.1.2)           nothing
``failed``     dropped: an error was raised                                nothing
=============  ==========================================================  ================================

An error of the peer is raised once (``RemoteProtocolError``) and nothing more of it is passed on (§8).  After code 2
and 3 it is for the ULP to close, and to say why; with ``EndpointSettings.rdmap`` a Terminate is queued, where one may
be sent.  To drop a segment with a bad FPDU silently, so that TCP brings it again (§8), is not for who sits above TCP:
it has acknowledged the octets that it hands over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from scapy_mpa.framing.agreement import Operation, no_matching_rtr
from scapy_mpa.framing.deviations import Seen, operation_violations, rtr_type
from scapy_mpa.framing.markers import Octets
from scapy_mpa.framing.mulpdu import mulpdu
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import EnhancedData, StartupFrame
from scapy_mpa.live.errors import LocalProtocolError, RemoteProtocolError
from scapy_mpa.live.events import (
    Established,
    Event,
    PeerDeviated,
    Rejected,
    RequestReceived,
    StreamDataReceived,
    StreamEnded,
    ULPDUReceived,
)
from scapy_mpa.live.frames import error_of, is_error, tolerated
from scapy_mpa.live.incoming import IncomingHalf
from scapy_mpa.live.outgoing import OutgoingHalf
from scapy_mpa.live.settings import EndpointSettings, unnegotiated
from scapy_mpa.live.startup import InitiatorStartup, ResponderStartup
from scapy_mpa.receiver.window import Layout
from scapy_mpa.rules.table import RULES

State: TypeAlias = Literal["streaming", "waiting", "deciding", "operating", "rejected", "failed"]

#: What of the first FPDU is for the endpoint to see: DDP and RDMAP look at its version themselves.
_OF_FIRST_FPDU: Final = frozenset(("rtr", "rtr-not-closed", "terminate-code"))
#: Codes with which an Initiator ends an enhanced startup, and which the Responder MUST learn (RFC 6581 §9).
_ENHANCED_CODES: Final = (6, 7)
#: After these it is the ULP that closes (RFC 5044 §8).
_LEFT_TO_ULP: Final = (2, 3)
#: Layer and error type of MPA in a Terminate (RFC 6581 §8), and what is said about an error that has no code of MPA's:
#: a catastrophic error, localized to the RDMAP Stream (RFC 5040 §4.8).
_MPA_ERROR: Final = (2, 0)
_BROKEN_STREAM: Final = (0, 2, 7)


class MPAEndpoint:
    """MPA on one TCP connection.

    Args:
        role: "initiator" sends the Request, "responder" the Reply.
        settings: what it is, wants and may do.

    Attributes:
        role: as above.
        settings: as above.
        state: one of the six states above.
        agreement: the parameters of Full Operation, None until they are agreed on.
        error: the error that was raised about the peer, None if there was none.
        must_close: True if TCP must be closed as soon as ``data_to_send()`` has been written.
    """

    def __init__(self, role: Role, settings: EndpointSettings | None = None) -> None:
        if role not in ("initiator", "responder"):
            raise LocalProtocolError(f"{role!r} is not a role: initiator or responder")
        self.role: Role = role
        self.settings = settings if settings is not None else EndpointSettings()
        self._startup = InitiatorStartup(self.settings) if role == "initiator" else ResponderStartup(self.settings)
        self._incoming: IncomingHalf | None = None
        self._outgoing: OutgoingHalf | None = None
        self._emss = self.settings.emss
        self._queue: list[bytes] = []
        self._wrong = self.settings.wrong() if self.settings.wrong is not None else None
        #: True if an FPDU of this side was handed out, and one of the peer came.
        self._has_spoken = False
        self._has_heard = False
        self._peer_has_ended = False
        self.state: State = "streaming"
        self.agreement: Operation | None = None
        self.error: RemoteProtocolError | None = None
        self.must_close = False

    # --- what it is ---

    @property
    def peer(self) -> Role:
        """The other role."""
        return "responder" if self.role == "initiator" else "initiator"

    @property
    def request(self) -> StartupFrame | None:
        """The Request, sent or received; None before."""
        return self._startup.request

    @property
    def reply(self) -> StartupFrame | None:
        """The Reply, sent or received; None before."""
        return self._startup.reply

    @property
    def is_established(self) -> bool:
        """True if it is in Full Operation."""
        return self.state == "operating"

    @property
    def emss(self) -> int:
        """The octets that a TCP segment holds now (RFC 5044 §4.5); its owner sets it when it changes."""
        return self._emss

    @emss.setter
    def emss(self, octets: int) -> None:
        if octets < 1:
            raise LocalProtocolError(f"the EMSS cannot be {octets} octets")
        self._emss = octets

    @property
    def mulpdu(self) -> int:
        """The largest ULPDU that can be sent now, in octets (§4.5); before Full Operation as if there were Markers."""
        return self._outgoing.mulpdu(self._emss) if self._outgoing is not None else mulpdu(self._emss, True)

    @property
    def may_send(self) -> bool:
        """True if ``send()`` is allowed now.

        False before Full Operation, for a Responder before it has a valid FPDU from the Initiator (§7.1.2, rule 4), and
        after a Terminate; after an error of code 2 or 3, last messages may be sent (§8).
        """
        if self._outgoing is None or self._outgoing.has_ended or self.must_close or self.agreement is None:
            return False
        return self.role == "initiator" or self._has_heard or not self.agreement.profile.initiator_first

    @property
    def held(self) -> int:
        """The number of octets from the peer that wait for the rest of a startup frame or of an FPDU."""
        return self._startup.held if self._incoming is None else self._incoming.held

    @property
    def missing(self) -> int:
        """The fewest octets that the peer's startup frame still needs; 0 outside the Startup Phase."""
        return self._startup.missing if self.state == "waiting" else 0

    @property
    def sent(self) -> int:
        """Octets of Full Operation that were queued, Markers included."""
        return self._outgoing.offset if self._outgoing is not None else 0

    @property
    def deadline(self) -> float | None:
        """The time to call ``expire()``, on the clock of ``now``; None if nothing is awaited."""
        return self._startup.deadline if self.state == "waiting" else None

    @property
    def fallback(self) -> EndpointSettings | None:
        """Settings for another attempt on a new connection, None if there is no reason for one.

        The Responder silently closed on an enhanced Request: it may know only RFC 5044 (RFC 6581 §10).
        """
        error, request = self.error, self.request
        if not self.settings.falls_back or self.role == "responder" or error is None or request is None:
            return None
        if error.rule != "startup-unanswered" or not request.s:
            return None
        return replace(self.settings, rev=1, profile=None, enhanced=None)

    # --- the ULP's calls ---

    def start(self, now: float) -> list[Event]:
        """Enter the Startup Phase: the Initiator's Request is queued, the Responder waits for one.

        Pass octets that follow the last streaming message to ``receive`` after this. In draft-culley-iwarp-mpa-02, Full
        Operation begins at once, and the event is returned.
        """
        if self.state != "streaming":
            raise LocalProtocolError("MPA has already been started")
        if not self.settings.has_startup_frames:
            operation = unnegotiated()
            self._enter(operation)
            return [Established(None, None, operation, operation.versions[0])]
        octets = self._startup.start(now)
        if octets:
            self._put_frame(octets)
        self.state = "waiting"
        return []

    def accept(self, private_data: bytes | None = None, *, enhanced: EnhancedData | None = None) -> list[Event]:
        """Answer the Request with a Reply without R; None means the value of the settings.

        Returns ``Established``, or ``Rejected`` where the Initiator's IRD is below what the settings require.  Raises
        LocalProtocolError if there is no Request, or the Reply would not be valid.
        """
        return self._answer(private_data, enhanced, rejects=False)

    def reject(self, private_data: bytes | None = None) -> list[Event]:
        """Answer the Request with a Reply with R, and leave MPA (§7.1.2, rule 2); returns ``Rejected``."""
        return self._answer(private_data, None, rejects=True)

    def send(self, ulpdu: bytes) -> None:
        """Queue one FPDU.  Raises LocalProtocolError if it may not be sent now, is empty, or is above MULPDU."""
        self._put(self._sending().lay(ulpdu, self._emss))

    def terminate(self, layer: int, etype: int, code: int) -> None:
        """Queue a Terminate (RFC 5040 §4.8), after which TCP must be closed; raises as ``send`` does."""
        self._put(self._sending().terminate(layer, etype, code))
        self.must_close = True

    def send_streaming(self, octets: bytes) -> None:
        """Queue octets of the ULP itself, before ``start()`` or after a rejection; LocalProtocolError otherwise."""
        if self.state not in ("streaming", "rejected"):
            raise LocalProtocolError(f"streaming data cannot be sent while MPA is {self.state}")
        self._queue.append(bytes(octets))

    def data_to_send(self) -> list[bytes]:
        """Return what was queued since the last call, in order: each item is a startup frame, an FPDU or streaming
        data.
        """
        queue, self._queue = self._queue, []
        if self._outgoing is not None and self._outgoing.offset:
            self._has_spoken = True
        return queue

    # --- TCP's calls ---

    def receive(self, octets: Octets, now: float) -> list[Event]:
        """Receive octets from the peer, in order; return what they mean.

        Raises RemoteProtocolError once; its ``events`` happened before it. Later octets are dropped.
        """
        if self._peer_has_ended:
            raise LocalProtocolError("octets after the end of the peer's stream")
        if not len(octets) or self.state == "failed":
            return []
        if self.state in ("streaming", "rejected"):
            return [StreamDataReceived(bytes(octets))]
        if self.deadline is not None:
            self.expire(now)
        try:
            return self._operate(octets) if self._incoming is not None else self._start_up(octets)
        except RemoteProtocolError as error:
            self._fail(error)
            raise

    def receive_eof(self, now: float) -> list[Event]:
        """Receive the peer's FIN (§7.2). Raises RemoteProtocolError inside an FPDU, or in the Startup Phase."""
        return self._end("fin")

    def receive_reset(self, now: float) -> list[Event]:
        """Receive the peer's RST, or another end of the connection that TCP reports; raises as ``receive_eof`` does."""
        return self._end("rst")

    def expire(self, now: float) -> None:
        """Raise RemoteProtocolError if the deadline has passed by ``now`` (§7.1.2, rules 8 and 10)."""
        if self.deadline is not None and now >= self.deadline:
            error = self._startup.expire()
            self._fail(error)
            raise error

    # --- startup ---

    def _start_up(self, octets: Octets) -> list[Event]:
        events, rest = self._startup.take(octets)
        return [*events, *self._follow(events, rest)]

    def _follow(self, events: list[Event], rest: Octets) -> Iterator[Event] | list[Event]:
        """Return what follows from the last event of the Startup Phase, and from the octets after the frame."""
        last = events[-1] if events else None
        if isinstance(last, RequestReceived):
            self.state = "deciding"
            if not self.settings.automatic:
                return []
            try:
                return self.accept()
            except LocalProtocolError as error:
                raise error.carrying(events) from None
        if isinstance(last, Rejected):
            self.state = "rejected"
            return [StreamDataReceived(bytes(rest))] if len(rest) else []
        if not isinstance(last, Established):
            return []
        self._enter(last.agreement)
        assert self._outgoing is not None
        if last.rtr is not None and (self._wrong is None or self._wrong.readies):
            self._put(self._outgoing.ready(last.rtr))
        try:
            return self._operate(rest) if len(rest) else []
        except RemoteProtocolError as error:
            raise error.carrying([*events, *error.events]) from None

    def _answer(self, private_data: bytes | None, enhanced: EnhancedData | None, *, rejects: bool) -> list[Event]:
        if self.state != "deciding" or not isinstance(self._startup, ResponderStartup):
            raise LocalProtocolError("there is no Request to answer")
        octets, event = self._startup.answer(private_data, enhanced, rejects)
        self._put_frame(octets, self._startup.request)
        if isinstance(event, Established):
            self._enter(event.agreement)
        else:
            self.state = "rejected"
        return [event]

    def _enter(self, operation: Operation) -> None:
        """Enter Full Operation."""
        self._outgoing = self._outgoing_half(operation)
        markers = operation.markers_from_responder if self.role == "initiator" else operation.markers_from_initiator
        self._incoming = IncomingHalf(Layout(bool(markers), bool(operation.crc)), operation.profile, self.peer)
        self.agreement = operation
        self.state = "operating"

    def _outgoing_half(self, operation: Operation) -> OutgoingHalf:
        markers = operation.markers_from_initiator if self.role == "initiator" else operation.markers_from_responder
        profile, crc, version = operation.profile, bool(operation.crc), operation.versions[0]
        stream = None
        if self._wrong is not None:
            stream = self._wrong.stream(markers=bool(markers), crc=crc, origin=profile.fpduptr_origin)
        return OutgoingHalf(bool(markers), crc, profile.fpduptr_origin, profile.name, version, stream)

    # --- what is queued ---

    def _put(self, octets: bytes) -> None:
        """Queue an FPDU."""
        if self._wrong is None:
            self._queue.append(octets)
            return
        self._queue += self._wrong.pieces(octets)
        self.must_close = self.must_close or bool(self._wrong.ends)

    def _put_frame(self, octets: bytes, request: StartupFrame | None = None) -> None:
        """Queue a startup frame."""
        self._put(octets if self._wrong is None else self._wrong.startup(octets, request))

    @property
    def resets(self) -> bool:
        """True if the connection must be reset instead of being closed, which no endpoint does on its own."""
        return self._wrong is not None and self._wrong.ends == "rst"

    # --- Full Operation ---

    def _operate(self, octets: Octets) -> list[Event]:
        assert self._incoming is not None
        if self._has_heard:
            return self._incoming.take(octets)
        error: RemoteProtocolError | None = None
        try:
            events = self._incoming.take(octets)
        except RemoteProtocolError as found:
            error, events = found, [*found.events]
        events = self._begin(events)
        if error is not None:
            raise error.carrying(events)
        return events

    def _begin(self, events: list[Event]) -> list[Event]:
        """The same events, once the first FPDU among them, if there is one, was examined."""
        at = next((index for index, event in enumerate(events) if isinstance(event, ULPDUReceived)), None)
        if at is None:
            return events
        first, operation = events[at], self.agreement
        assert isinstance(first, ULPDUReceived)
        assert operation is not None
        odd: list[PeerDeviated] = []
        if self.role == "initiator":
            if not self._has_spoken and operation.profile.initiator_first:
                rule = RULES["startup-responder-first"]
                clause = rule.clause_in(operation.profile.name) or ""
                odd = [PeerDeviated(rule.id, clause, "an FPDU before the first of the Initiator", self.peer)]
        elif operation.rtr is not None:
            close = None if operation.rtr else no_matching_rtr()
            found = operation_violations(close, False, operation, Seen(initiator=first.ulpdu))
            found = [one for one in found if one.id in _OF_FIRST_FPDU]
            for one in found:
                if is_error(one):
                    raise error_of(one, operation.profile.name).carrying(events[:at])
            odd = tolerated(found, operation.profile.name)
            first = replace(first, rtr=rtr_type(first.ulpdu))
        self._has_heard = True
        return [*events[:at], *odd, first, *events[at + 1 :]]

    def _sending(self) -> OutgoingHalf:
        """The outgoing half connection, if an FPDU may be sent now; else LocalProtocolError says why not."""
        if self.may_send:
            assert self._outgoing is not None
            return self._outgoing
        profile = self.agreement.profile.name if self.agreement is not None else self.settings.specification.name
        if self.state == "rejected":
            raise LocalProtocolError(
                "the Reply had R set: no FPDU may be sent", "startup-fpdu-after-rejection", profile=profile
            )
        if self._outgoing is None:
            raise LocalProtocolError(f"no FPDU before Full Operation: MPA is {self.state}", "startup-frame")
        if self._outgoing.has_ended:
            raise LocalProtocolError("a Terminate is the last FPDU", "terminate-last", profile=profile)
        if self.must_close:
            raise LocalProtocolError("the connection must be closed: nothing more may be sent")
        detail = "the Responder sends no FPDU before it has received one"
        raise LocalProtocolError(detail, "startup-responder-first", profile=profile)

    # --- the end ---

    def _end(self, how: Literal["fin", "rst"]) -> list[Event]:
        if self._peer_has_ended:
            return []
        self._peer_has_ended = True
        if how == "rst":
            self._queue.clear()
        if self.state == "failed":
            return []
        name = how.upper()
        error: RemoteProtocolError | None = None
        if self.state in ("waiting", "deciding"):
            error = self._startup.end(name)
        elif self._incoming is not None and self._incoming.held:
            detail = f"{name} {self._incoming.held} octets into an FPDU"
            error = RemoteProtocolError(detail, "connection-lost", profile=self._profile)
        if error is not None:
            self._fail(error)
            raise error
        if how == "fin":
            return [StreamEnded()]
        self.must_close = True
        clause = RULES["teardown-reset"].clause_in(self._profile) or ""
        return [PeerDeviated("teardown-reset", clause, "RST without a FIN before it", self.peer), StreamEnded("rst")]

    @property
    def _profile(self) -> str:
        return (self.agreement.profile if self.agreement is not None else self.settings.specification).name

    def _fail(self, error: RemoteProtocolError) -> None:
        """An error of the peer was found: nothing from it is passed on (§8)."""
        may_terminate = self.may_send and self.settings.rdmap and not self._peer_has_ended
        startup, outgoing = self._startup, self._outgoing
        if self._incoming is None:
            if error.code in _ENHANCED_CODES and startup.operation is not None:
                outgoing = self._outgoing = self._outgoing_half(startup.operation)
                may_terminate = True
            elif isinstance(startup, ResponderStartup) and startup.reply is not None and self.state == "waiting":
                self._put_frame(startup.reply.encode(), startup.request)
        if may_terminate and outgoing is not None:
            numbers = _BROKEN_STREAM if error.code is None else (*_MPA_ERROR, error.code)
            self._put(outgoing.terminate(*numbers))
        self.state = "failed"
        self.error = error
        self.must_close = self.settings.rdmap or error.code not in _LEFT_TO_ULP
