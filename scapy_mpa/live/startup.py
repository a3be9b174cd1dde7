"""The Startup Phase of an endpoint: Request and Reply, and what is agreed on by them (RFC 5044 §7.1, RFC 6581).

An Initiator sends its Request, waits for the Reply, and judges it::

    start() -> the Request ;  take() ... the Reply -> Established, or Rejected, or RemoteProtocolError

A Responder waits for the Request, judges it, and lets its ULP decide::

    start() ;  take() ... the Request -> RequestReceived ;  accept() or reject() -> the Reply

What must come of which frames is :mod:`scapy_mpa.framing.negotiation`'s to say.  Both classes are handed octets and
hand back what they make of them; time is in seconds, and whoever calls knows what it is.
"""

from __future__ import annotations

from scapy_mpa.framing.agreement import Close, Operation, agreed
from scapy_mpa.framing.deviations import Deviation, reply_remarks, reply_violations
from scapy_mpa.framing.markers import Octets
from scapy_mpa.framing.negotiation import (
    initiator_closes,
    rejection_by,
    reply_before_close,
    reply_to,
    request_of,
    responder_closes,
    rtr_choice,
)
from scapy_mpa.framing.startup import EnhancedData, StartupFrame, startup_frame_problems
from scapy_mpa.live.errors import LocalProtocolError, RemoteProtocolError
from scapy_mpa.live.events import Established, Event, PeerDeviated, Rejected, RequestReceived
from scapy_mpa.live.frames import FrameReader, error_of, is_error, tolerated
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.watches.fpdus import begins_with_fpdu, begins_with_header

_LONGER = "startup-pd-length"


def _own(frame: StartupFrame) -> StartupFrame:
    """A frame that this side is about to send; LocalProtocolError if it is not valid."""
    for problem in startup_frame_problems(frame):
        raise LocalProtocolError(problem.text, problem.rule)
    return frame


def _closing(close: Close, profile: str) -> RemoteProtocolError:
    """The error of a pair of frames that cannot work, though neither breaks a rule (but Rev, maybe)."""
    if close.topic == "rnic-negotiation":
        return RemoteProtocolError(close.reason, "rnic-foreign-revision", profile=profile, code=close.code)
    if close.topic == "startup-frame":
        return RemoteProtocolError(close.reason, "startup-frame", profile=profile, code=close.code)
    return RemoteProtocolError(close.reason, profile=profile, code=close.code, topic=close.topic)


def _timed_out(reader: FrameReader, what: str, seconds: float | None) -> RemoteProtocolError:
    detail = f"no {what} within {seconds:g} s" if seconds is not None else f"no {what}"
    doubt = "" if reader.length else f": does the peer speak MPA, as {'Responder' if what == 'Reply' else 'Initiator'}?"
    return RemoteProtocolError(f"{detail}: {reader.length} octets of it arrived{doubt}", "startup-timeout")


class InitiatorStartup:
    """The Startup Phase of an Initiator.

    Attributes:
        request: what it sends.
        operation: what was agreed on, None until that is so.
        rejected: whether the Reply has R.
        deadline: the time by which the Reply must be complete, None if there is none.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings
        self._side = settings.side("initiator")
        self.request = _own(request_of(self._side))
        self._reader = FrameReader("reply", self.request)
        self.operation: Operation | None = None
        self.rejected = False
        self.deadline: float | None = None

    @property
    def reply(self) -> StartupFrame | None:
        """The Reply, None until it is complete."""
        return self._reader.frame

    @property
    def held(self) -> int:
        """Octets of a Reply that is not complete."""
        return 0 if self.reply is not None else self._reader.length

    @property
    def missing(self) -> int:
        """The fewest octets that the Reply still needs."""
        return self._reader.missing

    def start(self, now: float) -> bytes:
        """Return the Request, which is sent now (§7.1.2, rule 1)."""
        timeout = self._settings.reply_timeout
        self.deadline = None if timeout is None else now + timeout
        return self.request.encode()

    def take(self, octets: Octets) -> tuple[list[Event], Octets]:
        """Octets of the Responder; returns what happened, and the octets that follow the Reply.

        Raises RemoteProtocolError for a Reply that ends in close (§7.1.2, rule 3).  If its code is 6 or 7,
        ``operation`` is that in which a Terminate is sent first (RFC 6581 §9).
        """
        rest = self._reader.take(octets)
        if rest is None:
            return [], b""
        self.deadline = None
        reply = self._reader.frame
        assert reply is not None
        events: list[Event] = [*self._reader.remarks()]
        if reply.r:
            events += self._remarks(reply_violations(self.request, reply, None))
            self.rejected = True
            return [*events, Rejected(reply.ulp_data, self.request, reply)], rest
        operation = agreed(self.request, reply)
        error = self._judged(reply, operation)
        if error is not None:
            raise error.carrying(events)
        events += self._remarks(reply_violations(self.request, reply, None))
        events += self._remarks(reply_remarks(self.request, reply))
        self.operation = operation
        if rest:
            self._look_behind(rest, operation, events)
        rtr = rtr_choice(operation, self._side)
        version = operation.versions[0]
        return [*events, Established(self.request, reply, operation, version, rtr, reply.ulp_data)], rest

    def _remarks(self, deviations: list[Deviation]) -> list[PeerDeviated]:
        return tolerated(deviations, self._reader.profile)

    def _judged(self, reply: StartupFrame, operation: Operation) -> RemoteProtocolError | None:
        """Return what ends the connection, None if nothing does."""
        profile = operation.profile.name
        close = initiator_closes(self.request, reply, self._side)
        broken = [one for one in reply_violations(self.request, reply, None) if is_error(one) and not self._suits(one)]
        error = None
        if broken:
            error = error_of(broken[0], profile, close.code if close is not None else None)
        elif close is not None:
            error = _closing(close, profile)
        if error is not None and error.code in (6, 7):
            self.operation = operation
        return error

    def _suits(self, deviation: Deviation) -> bool:
        """Return True if a Responder's ORD above what the Request said does no harm here (RFC 6581 §9.1)."""
        return deviation.id == "ird-ord-responder-ord" and self._settings.ird_resources is not None

    def _look_behind(self, rest: Octets, operation: Operation, events: list[Event]) -> None:
        """Octets came with the Reply, before any FPDU of this side: an FPDU too early, or Private Data too long."""
        markers, crc = bool(operation.markers_from_responder), bool(operation.crc)
        if begins_with_header(rest, markers) is False and not begins_with_fpdu(rest, markers, crc):
            detail = f"{len(rest)} octets after the Reply that are not an FPDU"
            raise RemoteProtocolError(detail, _LONGER, profile=operation.profile.name).carrying(events)

    def end(self, how: str) -> RemoteProtocolError:
        """The error if the connection ends before there is a Reply."""
        return self._reader.end(how)

    def expire(self) -> RemoteProtocolError:
        """The error when the deadline has passed (§7.1.2, rule 10)."""
        self.deadline = None
        return _timed_out(self._reader, "Reply", self._settings.reply_timeout)


class ResponderStartup:
    """The Startup Phase of a Responder; attributes are as of :class:`InitiatorStartup`.

    Attributes:
        reply: what it sent, None until then.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings
        self._side = settings.side("responder")
        self._reader = FrameReader("request")
        self.reply: StartupFrame | None = None
        self.operation: Operation | None = None
        self.rejected = False
        self.deadline: float | None = None

    @property
    def request(self) -> StartupFrame | None:
        """The Request, None until it is complete."""
        return self._reader.frame

    @property
    def held(self) -> int:
        """Octets of a Request that is not complete."""
        return 0 if self.request is not None else self._reader.length

    @property
    def missing(self) -> int:
        """The fewest octets that the Request still needs."""
        return self._reader.missing

    def start(self, now: float) -> bytes:
        """Start waiting (§7.1.2, rule 8); nothing is sent."""
        timeout = self._settings.request_timeout
        self.deadline = None if timeout is None else now + timeout
        return b""

    def take(self, octets: Octets) -> tuple[list[Event], Octets]:
        """Octets of the Initiator; returns what happened, and no octets: nothing may follow before the Reply.

        Raises RemoteProtocolError for a Request that ends in close (§7.1.2, rule 2); ``reply`` is then what is sent
        before that, if anything is (appendix C.2.1).
        """
        if self.request is not None:
            self._refuse(octets)
            return [], b""
        rest = self._reader.take(octets)
        if rest is None:
            return [], b""
        self.deadline = None
        request = self._reader.frame
        assert request is not None
        events: list[Event] = [*self._reader.remarks()]
        close = responder_closes(request, self._side)
        if close is not None:
            self.reply = reply_before_close(close, self._side)
            raise _closing(close, self._reader.profile).carrying(events)
        if rest:
            self._refuse(rest)
        return [*events, RequestReceived(request)], b""

    def _refuse(self, octets: Octets) -> None:
        """Octets after the Request, before the Reply: Private Data too long, or an FPDU too early (§7.1.2)."""
        if begins_with_header(octets, markers=False) is not False:
            detail = f"{len(octets)} octets after the Request, before the Reply was sent"
            raise RemoteProtocolError(detail, "startup-fpdu-before-reply", profile=self._reader.profile)
        detail = f"{len(octets)} octets after the Request that are not an FPDU"
        raise RemoteProtocolError(detail, _LONGER, profile=self._reader.profile)

    def answer(
        self, private_data: bytes | None, enhanced: EnhancedData | None, rejects: bool
    ) -> tuple[bytes, Established | Rejected]:
        """The Reply, and what follows of it (§7.1.2, rule 2; RFC 6581 §9.1).

        Raises LocalProtocolError if the Reply is not valid.
        """
        request = self._reader.frame
        assert request is not None
        side = self._side._replace(rejects=rejects)
        if private_data is not None:
            side = side._replace(private_data=private_data)
        if enhanced is not None:
            side = side._replace(enhanced=enhanced)
        rejected = rejection_by(request, side)
        reply = _own(reply_to(request, side, rejected))
        self.reply = reply
        if rejected is not None:
            self.rejected = True
            return reply.encode(), Rejected(reply.ulp_data, request, reply, rejected)
        operation = self.operation = agreed(request, reply)
        version = operation.versions[0]
        return reply.encode(), Established(request, reply, operation, version, None, request.ulp_data)

    def end(self, how: str) -> RemoteProtocolError:
        """The error if the connection ends before there is a Request, or before it is answered."""
        if self._reader.frame is not None:
            return RemoteProtocolError(f"{how} before the Reply was sent", code=1, topic="errors")
        return self._reader.end(how)

    def expire(self) -> RemoteProtocolError:
        """The error when the deadline has passed (§7.1.2, rules 8 and 10)."""
        self.deadline = None
        return _timed_out(self._reader, "Request", self._settings.request_timeout)
