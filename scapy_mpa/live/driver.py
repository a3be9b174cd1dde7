"""Carries an MPA endpoint, RDMAP and an upper layer over the kernel's TCP: one connection, or a listener of several.

Each FPDU is one write that ends a record (``MSG_EOR``), with TCP_NODELAY, so that a segment begins with an FPDU (RFC
5044 §5.1): Nagle's algorithm would keep small FPDUs, and without MSG_EOR the kernel joins what waits. MULPDU follows
TCP_MAXSEG as that changes (B.2.2). A ULPDU is made when there is room to write it, and no more is read while answers
pile up, so memory follows neither what is sent nor what a peer sends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from scapy_mpa.craft.messages import Message
from scapy_mpa.errors import FramingError, MPAError
from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import MARKER_INTERVAL
from scapy_mpa.framing.role import Role
from scapy_mpa.live.endpoint import MPAEndpoint
from scapy_mpa.live.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from scapy_mpa.live.events import Established, Event, Rejected, RequestReceived, StreamEnded, ULPDUReceived
from scapy_mpa.live.rdmap import (
    RDMAPEndpoint,
    RDMAPError,
    RDMAPEvent,
    RDMAPSettings,
    SendDelivered,
    TerminateReceived,
    ULPDUTaken,
)
from scapy_mpa.live.recording import Recording
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.live.speaker import NOT_THE_SAME, PeerGivesUp, Speaker, UpperLayerError
from scapy_mpa.live.telling import Telling, ToldConnection
from scapy_mpa.tuples import NamedTuple

#: Octets read at a time, FPDUs handed to the socket between two examines what came, messages that wait to be sent
#: above which nothing more is read.
_AT_ONCE, _FPDUS_AT_ONCE, _MOST_WAITING = 1 << 18, 32, 64
#: Connections whose summary is kept.
_SUMMARIES = 16
#: What TCP takes where the system does not say it.
_USUAL_MSS = 1460
_MSG_EOR = getattr(socket, "MSG_EOR", 0)
#: Exit statuses: nothing is wrong, the peer broke a rule, it cannot be talked to.
FINE, BROKEN, USELESS = 0, 1, 2

#: After this many seconds without an octet, a peer that closes may have waited for us in vain.
_LONG_SILENCE = 0.9

#: Makes the upper layer of a connection.
MakeSpeaker: TypeAlias = Callable[[RDMAPEndpoint], Speaker]


@dataclass(frozen=True)
class TalkSettings:
    """How connections are driven; times are seconds.

    Attributes:
        endpoint: MPA's.
        rdmap: RDMAP's; None: ULPDUs are sent and reported as they are, and nothing is placed or answered.
        buffers: (STag, TO, octets) of memory that is registered on each connection.
        timeout: how long nothing may arrive while something is awaited; the TCP connection has to stand by then.
        linger: how long the peer may take to close after we did.
        reject: a Responder rejects what it is asked.
        emss: octets that a segment is taken to have at most; None: as TCP says.
        settle: how long an Initiator waits after the Reply before its first FPDU.
    """

    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    rdmap: RDMAPSettings | None = field(default_factory=RDMAPSettings)
    buffers: tuple[tuple[int, int, int], ...] = ()
    timeout: float = 10.0
    linger: float = 2.0
    reject: bool = False
    emss: int | None = None
    settle: float = 0.0


class TransparentRDMAP(RDMAPEndpoint):
    """Says messages, and takes ULPDUs without looking at them."""

    def receive(self, ulpdu: bytes) -> list[RDMAPEvent]:
        """Take it, whatever it is."""
        return [ULPDUTaken(ulpdu)]

    @property
    def under_way(self) -> int:
        """Zero: it waits for no answer."""
        return 0

    def _may_say(self, message: Message) -> bool:
        return True

    def _note(self, message: Message) -> None:
        """Do nothing: it waits for no answer."""


class LiveConnection:
    """One connection, from the TCP handshake on.

    Args:
        sock: connected; it is made non-blocking, and closed at the end.
        role: ours.
        settings: see there.
        make_speaker: the upper layer.
        told: receives what happens.

    Attributes:
        status: what the command's exit status is for it.
        summary: in a sentence.
        failure: what it failed by, as it was reported; "" if it did not.
        is_terminated: whether the peer ended it by a Terminate.
    """

    def __init__(
        self, sock: socket.socket, role: Role, settings: TalkSettings, make_speaker: MakeSpeaker, told: ToldConnection
    ) -> None:
        self._sock = sock
        self._role: Role = role
        self._settings = settings
        self._make_speaker = make_speaker
        self._told = told
        self._endpoint = MPAEndpoint(role, settings.endpoint)
        self._rdmap: RDMAPEndpoint | None = None
        self._speaker: Speaker | None = None
        self._changed = asyncio.Event()
        self._last_activity = 0.0
        self._wake_at: float | None = None
        self._is_startup_due = settings.endpoint.has_startup_frames
        self._has_to_settle = role == "initiator" and settings.settle > 0
        self._sent_offset = 0
        self._told_frames = 0
        self._peer_ended = self._is_reset = self._failed = False
        self._silence = 0.0
        self.status = FINE
        self.summary = self.failure = ""
        self.is_terminated = False

    # --- the whole ---

    @property
    def fallback(self) -> EndpointSettings | None:
        """Settings to try again with on another connection, None if there is no reason to (RFC 6581 §10)."""
        return self._endpoint.fallback

    async def run(self) -> None:
        """Talk until the conversation is over; never raises for what the peer does."""
        sock = self._sock
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last_activity = time.monotonic()
        self._endpoint.emss = self._mss()
        reader: asyncio.Task[None] | None = None
        try:
            try:
                self._handle(self._endpoint.start(time.monotonic()))
            except LocalProtocolError as error:
                self._fail(error)
            reader = asyncio.ensure_future(self._read())
            await self._write()
            await self._close(reader)
        except asyncio.CancelledError:
            self._conclude("interrupted")
        finally:
            if reader is not None:
                reader.cancel()
                with suppress(asyncio.CancelledError):
                    await reader
            sock.close()
            self._conclude(self.done or "no Full Operation")
            self._told.finished(self.status, self.summary, time.time())

    @property
    def done(self) -> str:
        """What the upper layer did, in a phrase; "" if there was none."""
        return self._speaker.summary if self._speaker is not None else ""

    def _conclude(self, summary: str) -> None:
        """Set the conclusion, unless there already is one."""
        if not self.summary:
            said = self.done
            self.summary = summary if not said or said == summary else f"{summary}; {said}"

    def _fail(self, error: MPAError, status: int = USELESS) -> None:
        """End the connection with an error."""
        if self._failed:
            return
        self._failed = True
        self.status = status
        self.failure = str(error)
        values: dict[str, object] = {}
        if isinstance(error, (RDMAPError, ProtocolError)):
            values = {"rule": error.rule, "clause": error.clause}
        if isinstance(error, ProtocolError):
            values["code"] = error.code
        self._told.failed(error, time.time(), **values)
        self._conclude(str(error))
        self._changed.set()

    # --- reading ---

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._peer_ended:
            while self._rdmap is not None and self._rdmap.waits > _MOST_WAITING and not self._failed:
                await asyncio.sleep(0.01)
            try:
                octets = await loop.sock_recv(self._sock, _AT_ONCE)
            except OSError as error:
                self._reset(error)
                return
            now = time.monotonic()
            self._silence, self._last_activity = now - self._last_activity, now
            if octets:
                self._take(octets)
            else:
                self._end()
            self._changed.set()
            # A busy reader lets others write.
            await asyncio.sleep(0)

    def _take(self, octets: bytes) -> None:
        frame = self._told.data(self._peer_role, octets, time.time())
        if self._failed:
            return
        try:
            events = self._endpoint.receive(octets, time.monotonic())
        except RemoteProtocolError as error:
            self._handle(list(error.events), frame)
            self._fail(error, BROKEN)
            return
        except LocalProtocolError as error:  # what the settings have us answer cannot be said
            self._handle(list(error.events), frame)
            self._fail(error)
            return
        self._handle(events, frame)

    def _end(self) -> None:
        """The peer's FIN."""
        self._peer_ended = True
        self._told.ended(self._peer_role, "fin", time.time())
        try:
            self._handle(self._endpoint.receive_eof(time.monotonic()))
        except RemoteProtocolError as error:
            self._handle(list(error.events))
            # Inside an FPDU; before a Reply it may be that the two cannot work together.
            self._fail(error, BROKEN if self._rdmap is not None else USELESS)

    def _reset(self, cause: OSError) -> None:
        """The connection is lost."""
        was_over = self._is_over()
        self._peer_ended = self._is_reset = True
        self._told.ended(self._peer_role, "rst", time.time())
        try:
            self._endpoint.receive_reset(time.monotonic())
        except RemoteProtocolError as error:
            self._fail(error)
        self._changed.set()
        if not was_over:
            self._fail(MPAError(f"the connection is lost: {_why(cause)}"))

    def _handle(self, events: list[Event], frame: int = 0) -> None:
        for event in events:
            self._tell_frames()
            self._told.happened(event, time.time())
            if isinstance(event, RequestReceived):
                if self._settings.reject:
                    self._handle(self._endpoint.reject())
            elif isinstance(event, Established):
                self._establish(event)
            elif isinstance(event, Rejected):
                self._reject()
            elif isinstance(event, ULPDUReceived):
                self._told.fpdu(self._peer_role, event.ulpdu, event.wire_length, frame, time.time())
                self._take_ulpdu(event)
            elif isinstance(event, StreamEnded) and event.how == "rst":
                self._is_reset = True

    def _establish(self, event: Established) -> None:
        settings = self._settings.rdmap or RDMAPSettings()
        depths = event.agreement.depths
        ours = None
        orders: tuple[int | None, int | None] = (None, None)
        if depths is not None:
            orders = depths.initiator_ord, depths.responder_ord
            ours = depths[:2] if self._role == "initiator" else depths[2:]
        if ours is not None:
            ird, order = ours
            settings = replace(
                settings,
                ird=settings.ird if ird is None else ird,
                ord=settings.ord if order is None else order,
            )
        settings = replace(settings, version=event.version)
        kind = RDMAPEndpoint if self._settings.rdmap is not None else TransparentRDMAP
        self._rdmap = kind(lambda: self._endpoint.mulpdu, settings)
        for stag, to, octets in self._settings.buffers:
            self._rdmap.register(bytearray(octets), stag=stag, to=to)
        self._told.begin(event.request, event.reply, orders)
        if event.rtr is not None:
            self._rdmap.sent_ready(event.rtr)
        self._speaker = self._make_speaker(self._rdmap)
        self._speaker.begin()

    def _reject(self) -> None:
        if self._role == "initiator":
            self._fail(MPAError("the peer rejects the connection (R in its Reply)"))
        else:
            self._conclude("rejected")
            self._failed = True

    def _take_ulpdu(self, event: ULPDUReceived) -> None:
        assert self._rdmap is not None
        assert self._speaker is not None
        try:
            for one in self._rdmap.receive(event.ulpdu):
                if isinstance(one, TerminateReceived):
                    self._terminated(one)
                elif not (event.rtr is not None and isinstance(one, SendDelivered)):
                    self._speaker.take(one)
        except PeerGivesUp as error:
            self.is_terminated = True
            self._fail(error)
        except (RDMAPError, UpperLayerError) as error:
            self._fail(error, BROKEN)

    def _terminated(self, event: TerminateReceived) -> None:
        self.is_terminated = True
        meaning = event.terminate.meaning if event.terminate is not None else "no control word"
        self._fail(MPAError(f"the peer ends the stream with a Terminate: {meaning}"))

    @property
    def _peer_role(self) -> Role:
        return "responder" if self._role == "initiator" else "initiator"

    # --- writing ---

    async def _write(self) -> None:
        """Write what there is until the conversation is over."""
        while True:
            self._changed.clear()
            if self._has_to_settle and self._rdmap is not None:
                self._has_to_settle = False
                await asyncio.sleep(self._settings.settle)
                self._last_activity = time.monotonic()
            error = self._fill()
            octets = self._endpoint.data_to_send()
            for item in octets:
                if not await self._send(item):
                    return
            if error is not None:  # after what was said before it
                self._fail(error)
            if octets:
                await asyncio.sleep(0)  # who writes much lets others read
                continue
            if self._is_over():
                return
            await self._wait()

    def _fill(self) -> MPAError | None:
        """Hand ULPDUs to the endpoint, as many as are written at a time; returns why there cannot be more."""
        self._wake_at = None
        rdmap, speaker, endpoint = self._rdmap, self._speaker, self._endpoint
        if rdmap is None or speaker is None or not endpoint.may_send or (self._failed and not rdmap.is_ended):
            return None
        endpoint.emss = self._mss()
        try:
            for _ in range(_FPDUS_AT_ONCE):
                ulpdu = rdmap.next_ulpdu()
                if ulpdu is None and not self._failed and not rdmap.is_ended and not rdmap.waits:
                    self._wake_at = speaker.go_on(time.monotonic())
                    ulpdu = rdmap.next_ulpdu()
                if ulpdu is None:
                    return None
                endpoint.send(ulpdu)
        except MPAError as error:
            return error
        return None

    async def _send(self, octets: bytes) -> bool:
        """Write one startup frame or FPDU as one record; False if that cannot be done."""
        loop = asyncio.get_running_loop()
        at, view = 0, memoryview(octets)
        while at < len(octets):
            try:
                at += self._sock.send(view[at:], _MSG_EOR)
            except BlockingIOError:
                if not await self._writable(loop):
                    self._fail(MPAError(f"the peer has accepted no octets for {self._settings.timeout:g} seconds"))
                    return False
            except OSError as error:
                if not self._is_reset:
                    self._reset(error)
                return False
        self._last_activity = time.monotonic()
        frame = self._told.data(self._role, octets, time.time())
        self._tell_sent(octets, frame)
        return True

    async def _writable(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Wait until the socket takes octets; False if that takes too long."""
        future: asyncio.Future[bool] = loop.create_future()
        alarm = loop.call_later(self._settings.timeout, _resolve, future, False)
        loop.add_writer(self._sock, _resolve, future, True)
        try:
            return await future
        finally:
            alarm.cancel()
            loop.remove_writer(self._sock)

    def _tell_frames(self) -> None:
        """Startup frames are reported once, in their order."""
        frames = [frame for frame in (self._endpoint.request, self._endpoint.reply) if frame is not None]
        for frame in frames[self._told_frames :]:
            self._told.frame(frame, time.time())
        self._told_frames = len(frames)

    def _tell_sent(self, octets: bytes, frame: int) -> None:
        """Report what was written, if it is an FPDU."""
        self._tell_frames()
        agreement, is_startup = self._endpoint.agreement, self._is_startup_due
        self._is_startup_due = False
        if agreement is None or is_startup:
            return
        initiator = self._role == "initiator"
        markers = agreement.markers_from_initiator if initiator else agreement.markers_from_responder
        found = None
        with suppress(FramingError):  # of an endpoint that is wrong on purpose
            found = decode_fpdu(octets, self._sent_offset % MARKER_INTERVAL if markers else None, check_crc=False)
        self._sent_offset += len(octets)
        if found is not None:
            self._told.fpdu(self._role, found.ulpdu, len(octets), frame, time.time())

    def _is_over(self) -> bool:
        """Return True if there is nothing more to be written, ever."""
        if self._failed or self._endpoint.must_close or self._is_reset:
            return True
        rdmap, speaker = self._rdmap, self._speaker
        if rdmap is None or speaker is None:
            return self._peer_ended
        if rdmap.is_ended:
            return True
        if self._peer_ended:
            if not speaker.is_done and self._role == "initiator":
                self._fail(MPAError(f"the peer closed the connection before everything was sent{self._doubt()}"))
            return True
        return speaker.is_done and not rdmap.waits and not rdmap.under_way

    def _doubt(self) -> str:
        """Why a peer may have closed before we did."""
        doubt = self._speaker.doubt if self._speaker is not None else NOT_THE_SAME
        if self._silence < _LONG_SILENCE:
            return doubt
        if doubt == NOT_THE_SAME:
            doubt = ": is its --timeout so short, or its --ulp a different one?"
        return f", after {self._silence:.1f} seconds in which neither side sent anything{doubt}"

    async def _wait(self) -> None:
        """Until something changes, or is due."""
        timeout = self._settings.timeout
        due = [max(self._last_activity, self._wake_at or 0.0) + timeout]
        due += [at for at in (self._wake_at, self._endpoint.deadline) if at is not None]
        # Not asyncio.wait_for, which before Python 3.12 may lose that it was cancelled.
        alarm = asyncio.get_running_loop().call_later(max(0.0, min(due) - time.monotonic()), self._changed.set)
        try:
            await self._changed.wait()
        finally:
            alarm.cancel()
        now = time.monotonic()
        try:
            self._endpoint.expire(now)
        except RemoteProtocolError as error:
            self._fail(error)
            return
        if now >= max(self._last_activity, self._wake_at or 0.0) + timeout:
            doubt = self._speaker.doubt if self._speaker is not None else NOT_THE_SAME
            doubt = doubt if self._role == "initiator" else ""
            detail = f"nothing came for {timeout:g} seconds{doubt} (--timeout waits longer)"
            self._fail(MPAError(detail))

    async def _close(self, reader: asyncio.Task[None]) -> None:
        """End our half connection, and hear the peer out for a while."""
        if self._is_reset:
            return
        if self._endpoint.resets:
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._told.ended(self._role, "rst", time.time())
            return
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
            self._told.ended(self._role, "fin", time.time())
        if not self._peer_ended:
            await asyncio.wait((reader,), timeout=self._settings.linger)

    def _mss(self) -> int:
        """Octets that a segment takes now (RFC 5044 B.2.2)."""
        mss = _USUAL_MSS
        with suppress(OSError):
            mss = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) or _USUAL_MSS
        return mss if self._settings.emss is None else min(mss, self._settings.emss)


def _resolve(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)


class Conclusion(NamedTuple):
    """How a connection ended: its number, and what :class:`LiveConnection` says about it."""

    number: int
    summary: str
    failure: str
    done: str


class NobodyListens(MPAError):
    """A TCP connection was refused."""


class LiveSession:
    """The connections of one command: made, numbered from 0, reported and recorded.

    Args:
        settings: of every connection.
        make_speaker: the upper layer of each.
        telling: takes what happens.
        recording: takes the packets.

    Attributes:
        counts: connections by their status.
        terminated: of those that could not be finished, how many the peer ended by a Terminate.
        last: those that ended last.
    """

    def __init__(
        self, settings: TalkSettings, make_speaker: MakeSpeaker, telling: Telling, recording: Recording
    ) -> None:
        self._settings = settings
        self._make_speaker = make_speaker
        self._telling = telling
        self._recording = recording
        self.counts = {FINE: 0, BROKEN: 0, USELESS: 0}
        self.terminated = 0
        self.last: deque[Conclusion] = deque(maxlen=_SUMMARIES)
        self._number = 0

    async def connect(self, host: str, port: int, *, retry: float = 0.0) -> LiveConnection:
        """Talk to a peer as Initiator, to the end.

        Raises MPAError if there is no TCP connection, not within ``retry`` seconds of trying; NobodyListens if that
        was refused.
        """
        until = time.monotonic() + retry
        while True:
            try:
                connection = await self._connect(host, port)
            except MPAError:
                if time.monotonic() >= until:
                    raise
                await asyncio.sleep(0.1)
                continue
            if connection.fallback is None:
                return connection
            # What counts is how the next one ends.
            self.counts[connection.status] -= 1
            self._settings = replace(self._settings, endpoint=connection.fallback)

    async def _connect(self, host: str, port: int) -> LiveConnection:
        loop = asyncio.get_running_loop()
        where = f"{host}:{port}"
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise MPAError(f"{where}: {_why(error)}") from None
        reason = "no address"
        kind_of_error: type[MPAError] = MPAError
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            connecting = asyncio.ensure_future(loop.sock_connect(sock, address))
            try:
                await asyncio.wait((connecting,), timeout=self._settings.timeout)
                if connecting.done():
                    connecting.result()
                    connection = await self._talk(sock, "initiator")
                    if connection is not None:
                        return connection
                    reason = "the connection was lost immediately"
                else:
                    reason = f"no answer to SYN for {self._settings.timeout:g} seconds"
            except OSError as error:
                reason = _why(error)
                kind_of_error = NobodyListens if isinstance(error, ConnectionRefusedError) else MPAError
            finally:
                connecting.cancel()
                sock.close()
        raise kind_of_error(f"{where}: {reason}")

    async def listen(
        self,
        host: str,
        port: int,
        *,
        count: int | None = None,
        most: int = 256,
        ready: Callable[[str, int], None] | None = None,
    ) -> None:
        """Talk to ``count`` peers as Responder (None: until it is cancelled), to ``most`` of them at a time.

        ``ready`` is called with the address and the port as soon as peers can connect. Raises MPAError if that cannot
        be.
        """
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            listener = socket.create_server(found[0][4][:2], family=found[0][0], backlog=most)
        except OSError as error:
            raise MPAError(f"{host}:{port}: {_why(error)}") from None
        talks: set[asyncio.Task[LiveConnection | None]] = set()
        try:
            listener.setblocking(False)
            if ready is not None:
                ready(*listener.getsockname()[:2])
            while count is None or self._number < count:
                if len(talks) >= most:
                    await asyncio.wait(talks, return_when=asyncio.FIRST_COMPLETED)
                    continue
                sock = await self._accept(listener)
                talk = asyncio.ensure_future(self._talk(sock, "responder"))
                talks.add(talk)
                talk.add_done_callback(talks.discard)
                await asyncio.sleep(0)  # it takes its number
            if talks:
                await asyncio.wait(talks)
        finally:
            listener.close()
            for talk in talks:
                talk.cancel()
            await asyncio.gather(*talks, return_exceptions=True)

    @staticmethod
    async def _accept(listener: socket.socket) -> socket.socket:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return (await loop.sock_accept(listener))[0]
            except OSError:
                await asyncio.sleep(0.05)  # it was reset before, or there are too many open files

    async def _talk(self, sock: socket.socket, role: Role) -> LiveConnection | None:
        number, self._number = self._number, self._number + 1
        try:
            ours, theirs = sock.getsockname()[:2], sock.getpeername()[:2]
            mss = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        except OSError:
            # It was reset before anybody looked.
            sock.close()
            self.counts[USELESS] += 1
            self.last.append(Conclusion(number, "the connection was lost immediately", "", ""))
            self._telling.event(number, time.time(), "finished", status=USELESS, summary=self.last[-1].summary)
            return None
        initiator, responder = (ours, theirs) if role == "initiator" else (theirs, ours)
        recorded = self._recording.connection(initiator, responder, mss)
        told = ToldConnection(self._telling, recorded, number, role, responder[1])
        told.opened({"initiator": _end(initiator), "responder": _end(responder)}, time.time())
        connection = LiveConnection(sock, role, self._settings, self._make_speaker, told)
        try:
            await connection.run()
        finally:
            self.counts[connection.status] += 1
            self.terminated += connection.is_terminated
            self.last.append(Conclusion(number, connection.summary, connection.failure, connection.done))
            self._recording.flush()
        return connection


def _why(error: OSError) -> str:
    """Return the system's words for an error; asyncio uses different ones for some."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _end(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
