"""Gives one case on one connection: sends its steps, waits for what has to come before, and watches what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from scapy_mpa.catalogue.peer import Reaction
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.craft.setup import ConversationError, Setup
from scapy_mpa.craft.talk import Side
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.craft.ulpdus import READ_REQUEST
from scapy_mpa.errors import FramingError, MPAError
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.framing.startup import NOT_NEGOTIATED, StartupFrame, decode_startup_frame
from scapy_mpa.live.recording import RecordedConnection
from scapy_mpa.probe.aim import Live, aim, learned, name_our_buffer, names_memory, needs_memory
from scapy_mpa.probe.carrier import Carrier, NotTaken
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.fitting import Clean, Unsupported, fit, plan_of
from scapy_mpa.probe.rawcarrier import RawTCP
from scapy_mpa.probe.rawscript import Forge, RawStep, Shaped, raw_script_of
from scapy_mpa.probe.script import Await, Finish, Send, Step, script_of
from scapy_mpa.probe.seen import ECHO_STAG, SeenPeer, Watcher
from scapy_mpa.tuples import NamedTuple

#: The RDMA Read of nothing by which a peer shows that it is still in step: it MUST be answered, whatever the STag (RFC
#: 5040 §5.2).
_ECHO = f"{{by}} read-request 0 sink={ECHO_STAG:#x},0 source=0,0"
#: Seconds for what follows a Terminate, or our FIN, at most.
_LINGER = 0.1
#: So many times as long as for an answer a peer is waited for that is still sending.
_SLOW = 8
#: Where nothing that follows says anything: the peer may wait for octets, and has to close, or the connection is over.
_NO_ECHO: frozenset[Reaction] = frozenset(("wait", "lose", "close", "reject"))
#: Octets that are recorded behind an error of the peer, and that are read when the connection is lost.
_MOST_AFTER = 1 << 18


class Terms(NamedTuple):
    """How cases are given.

    Attributes:
        timeout: seconds for each answer.
        clean: what a clean connection of ours says.
        echoes: the peer answers an RDMA Read of nothing.
        live: memory of the peer that may be used.
        rping: the peer's upper layer is rping, which names such memory on each connection.
        settle: seconds that an Initiator waits behind the Reply before its first FPDU.
    """

    timeout: float
    clean: Clean = Clean()
    echoes: bool = False
    live: Live | None = None
    rping: bool = False
    settle: float = 0.0


class CaseExchange:
    """One connection.

    Args:
        carrier: which stands.
        case: what is given.
        terms: how.
        recorded: takes what passes; None: nobody does.
        left: what the case leaves as it was.
        clock: seconds.
    """

    def __init__(
        self,
        carrier: Carrier,
        case: ProbeCase,
        terms: Terms,
        recorded: RecordedConnection | None = None,
        left: Repairable | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._carrier = carrier
        self._case = case
        self._terms = terms
        self._recorded = recorded
        self._clock = clock
        self._by: Role = case.case.by
        self._left = left
        self._plan = plan_of(case.case, terms.clean, left)
        has_frames = self._plan.setup.get("profile") != "culley-02"
        self._watcher = Watcher(self._by, has_startup_frames=has_frames)
        self._start = clock()
        self._has_spoken = self._is_fitted = False
        self._is_gone = self._has_finished = False
        #: Octets came while something was waited for the last time.
        self._is_talking = False
        #: Memory of the peer, and whether our first FPDU has it name some.
        self._live = terms.live
        self._names = False
        self.wants_echo = False
        #: Octets of each segment that was handed over.
        self.sent: list[bytes] = []
        #: RDMA Reads that have to be answered; those that may be under way, and that were sent.
        self.reads = reads_of(self._plan, "read-request") if case.is_conformant else 0
        self._depth, self._reads_sent = 1, 0
        #: No more are under way than was agreed on: the case is not about that.
        self._keeps_depth = bool(self.reads or reads_of(self._plan, "read"))

    @property
    def seen(self) -> SeenPeer:
        """What came so far."""
        return self._watcher.seen

    def run(self) -> SeenPeer:
        """Give it; returns what came, whatever the peer did."""
        seen = self.seen
        if self._recorded is not None:
            self._recorded.open(time.time())
        try:
            self._give()
        except (Unsupported, ConversationError) as error:
            seen.unsupported = str(error)
        else:
            self._watch()
        seen.seconds = self._clock() - self._start
        if isinstance(self._carrier, RawTCP):
            seen.beyond_hole = self._carrier.beyond_hole
        self._leave()
        return seen

    @property
    def is_unanswered(self) -> bool:
        """Whether an RDMA Read of ours that has to be answered was not."""
        seen = self.seen
        return (self.wants_echo and not seen.has_echoed) or seen.responses < self.reads

    # --- what is sent ---

    def _give(self) -> None:
        steps = self._script()
        at = 0
        learns = self._terms.rping
        while at < len(steps) and not self._is_gone and not self.seen.untaken:
            step = steps[at]
            at += 1
            if isinstance(step, Await):
                if not self._await(step):
                    self.seen.is_cut, self.seen.waits_for = True, step.what
                    return
                if step.what == "startup" and not self._is_fitted:
                    steps = self._fitted()
                    at = steps.index(step) + 1
                    self._settle()
                elif step.what == "fpdu" and learns:
                    if self._learn():
                        learns, steps = False, self._fitted()
                    self._check_memory()
            elif isinstance(step, (Send, Shaped)):
                if self._keeps_depth and step.packet.in_operation:
                    self._await_responses(requests_in(step.packet))
                self._send(step)
                if learns and self._names and step.packet.in_operation:
                    learns = False
                    if self._until(self._learn, self._terms.timeout) or self._live is not None:
                        steps = self._fitted()
                    self._check_memory()
            elif isinstance(step, Forge):
                self._forge(step)
            else:
                self._carrier.finish(step)
                self._record_end(self._by, step.how)
                self._has_finished = True
                self._is_gone = step.how == "rst"
        self.seen.is_cut = at < len(steps) or bool(self.seen.untaken)

    def _send(self, step: Send | Shaped) -> None:
        if not self._is_fitted and not self._has_spoken and not self._watcher_has_begun(step):
            self._watcher.begin(self._own_frame(), self._seconds)
        try:
            if isinstance(step, Shaped):
                assert isinstance(self._carrier, RawTCP)
                self._carrier.send(step)
            else:
                self._carrier.send(step)
        except NotTaken as error:
            self.seen.untaken = error.left
            if self._recorded is not None:
                self._recorded.data(_client(self._by), step.octets[: -error.left], time.time())
            return
        except OSError:
            self._lose()
            return
        self.sent.append(step.octets)
        self._has_spoken = self._has_spoken or step.packet.in_operation
        if self._recorded is not None:
            self._recorded.data(_client(self._by), step.octets, time.time())

    def _watcher_has_begun(self, step: Send | Shaped) -> bool:
        return self._watcher.own is not None or step.packet.in_operation

    def _own_frame(self) -> StartupFrame | None:
        """Our startup frame as the peer reads it."""
        plan = self._plan
        if plan.setup.get("profile") == "culley-02":
            return None
        frame = Setup(**plan.setup).startup(self._by)
        for who, change in plan.startup:
            frame = change(frame) if who == self._by else frame
        octets = frame.encode()
        for who, alter in plan.octets:
            octets = alter(octets) if who == self._by else octets
        with suppress(FramingError):
            return decode_startup_frame(octets) or frame
        return frame

    def _forge(self, step: Forge) -> None:
        assert isinstance(self._carrier, RawTCP)
        try:
            self._carrier.forge(step)
        except OSError:
            self._lose()
            return
        self.sent.append(step.packet.payload)

    def _script(self) -> list[Step | RawStep]:
        """The steps of the plan, as the carrier can take them."""
        packets = self._plan.sent()
        is_raw = isinstance(self._carrier, RawTCP)
        steps: list[Step | RawStep] = [*script_of(packets, self._by)]
        if is_raw:
            steps = [*raw_script_of(packets, self._by, self._plan.wire)]
        return steps if self._case.case.ends_by_itself else [step for step in steps if not isinstance(step, Finish)]

    def _fitted(self) -> list[Step | RawStep]:
        """The steps again, now that the peer's startup frame is known."""
        frame = self.seen.frame
        assert frame is not None
        plan, terms = plan_of(self._case.case, self._terms.clean, self._left), self._terms
        if self._has_spoken:
            # What went before the Reply was laid as the case has it, and the rest has to go on so.
            asked = Setup(**plan.setup)
            if bool(frame.m) != asked.has_markers(self._by):
                raise Unsupported("the case sends FPDUs before the Reply, which then asks for Markers differently")
        else:
            fit(plan, frame)
        self._depth = self._agreed_depth(plan, frame)
        self._names = terms.rping and name_our_buffer(plan)
        counts = self._case.case.makes("twice", "left-out")
        may_learn = terms.rping and (self._names or self._by == "responder")
        if self._live is not None or not may_learn or not needs_memory(plan):
            aim(plan, self._live, sends=counts or not terms.rping)
        self._add_echo(plan)
        self._plan, self._is_fitted = plan, True
        if self._by == "responder":
            self._watcher.begin(self._own_frame(), self._seconds)
        try:
            return self._script()
        except IndexError:
            raise Unsupported("what the case changes does not occur on a connection that this peer agrees to") from None

    def _agreed_depth(self, plan: Exchange, frame: StartupFrame) -> int:
        """Return how many RDMA Reads may be under way (RFC 6581 §9.1); one, where that was not agreed on."""
        ours, theirs = Setup(**plan.setup).enhanced_of(self._by), frame.enhanced
        depths = (ours.ord, theirs.ird) if ours is not None and theirs is not None else (1,)
        is_rtr = ours is not None and ours.a and not self.reads
        if self._keeps_depth and not min(depths) and not is_rtr:
            raise Unsupported("no RDMA Reads are agreed on (--ird, --ord)")
        return 1 if NOT_NEGOTIATED in depths else max(1, min(depths))

    def _await_responses(self, requests: int) -> None:
        """Have no more RDMA Reads under way than was agreed on: wait for Responses before so many more."""
        seen, self._reads_sent = self.seen, self._reads_sent + requests
        least = self._reads_sent - self._depth
        if not requests or seen.responses >= least:
            return
        self._until(lambda: seen.responses >= least or seen.terminate is not None, self._terms.timeout)
        # A peer that does not answer one in time is not waited for again.
        self._keeps_depth = seen.responses >= least

    def _learn(self) -> bool:
        """Whether the peer has named memory of its own."""
        self._live = learned(one.ulpdu for one in self.seen.fpdus) or self._live
        return self._live is not None and self._live is not self._terms.live

    def _check_memory(self) -> None:
        """Raise Unsupported if a case about memory of the peer would go on without any."""
        if self._live is None and needs_memory(self._plan):
            raise Unsupported("the peer names no memory of its own")

    def _add_echo(self, plan: Exchange) -> None:
        """Have the peer show that it is in step, where it should be, or that it has not noticed an error."""
        case, frame = self._case, self.seen.frame
        if not self._terms.echoes or case.case.peer.reaction in _NO_ECHO or case.case.ends_by_itself:
            return
        if plan.steps == ["start"] or plan.setup.get("reject") or (frame is not None and frame.r):
            return
        if asks_or_ends(plan):
            return
        depths = frame.enhanced if frame is not None else None
        if depths is not None and not depths.ird:
            return
        plan.steps.append(_ECHO)
        self.wants_echo = True

    # --- what comes ---

    @property
    def _seconds(self) -> float:
        return self._clock() - self._start

    def _await(self, step: Await) -> bool:
        seen = self.seen

        def came() -> bool:
            return seen.frame is not None if step.what == "startup" else bool(seen.fpdus)

        return self._until(came, self._terms.timeout) and came()

    def _settle(self) -> None:
        """As Initiator, let the peer finish its own startup."""
        if self._by == "initiator" and self._terms.settle:
            self._until(lambda: False, self._terms.settle)

    def _watch(self) -> None:
        """Look until what has to come has come, or there is no time left."""
        seen, timeout = self.seen, self._terms.timeout
        if self._is_gone:
            seen.unacknowledged = None
            return

        def is_done() -> bool:
            if seen.terminate is not None:
                return True
            if (self.wants_echo or self.reads) and not seen.is_cut:
                return not self.is_unanswered
            return self._case.is_over_with_startup and seen.frame is not None

        # What a slow peer is still saying is waited for; one that says nothing, or has said enough, is not.
        until = self._clock() + _SLOW * timeout
        while not self._until(is_done, timeout) and self._is_talking and self._clock() < until:
            pass
        is_watched = self._case.is_watched
        if names_memory(self._plan) or (is_watched and seen.has_echoed):
            self._until(lambda: seen.terminate is not None, min(timeout, _LINGER))
        if self.is_unanswered and not is_watched and seen.end is None and not self._is_talking:
            self._watcher.stall()
        if seen.error is not None:
            self._until(lambda: False, min(timeout, _LINGER), after_error=True)
        if seen.end is None and seen.terminate is None:
            seen.unacknowledged = self._carrier.unacknowledged()
        if seen.terminate is not None and seen.end is None:
            self._until(lambda: False, min(timeout, _LINGER))

    def _until(self, is_done: Callable[[], bool], seconds: float, *, after_error: bool = False) -> bool:
        """Take what comes until it is done, the peer ends it, or the time is over; whether it is done."""
        until, most = self._clock() + seconds, self.seen.total + _MOST_AFTER
        self._is_talking = False
        while not is_done():
            left = until - self._clock()
            if after_error and self.seen.total > most:
                return False
            if left <= 0 or self.seen.end is not None or (self.seen.error is not None and not after_error):
                return False
            try:
                octets = self._carrier.receive(left)
            except OSError:
                self._lose()
                return is_done()
            if octets is None:
                continue
            if not octets:
                self._end("fin")
                continue
            self._is_talking = self.seen.error is None
            self._watcher.take(octets, self._seconds)
            if self._recorded is not None:
                frame = self._recorded.data(_client(peer_of(self._by)), octets, time.time())
                self.seen.frames.append(frame)
        return True

    def _lose(self) -> None:
        """The connection was reset, or TCP gave it up; what came before it is read."""
        self._is_gone = True
        until, most = self._clock() + _LINGER, self.seen.total + _MOST_AFTER
        with suppress(OSError):
            while self._clock() < until and self.seen.total < most and (octets := self._carrier.receive(0.001)):
                self._watcher.take(octets, self._seconds)
        self._end("rst")

    def _end(self, how: str) -> None:
        seen = self.seen
        if seen.end is None:
            seen.end = "rst" if how == "rst" else "fin"
            seen.end_after = self._seconds
            if seen.end == "fin":
                self._watcher.end("FIN")
            self._record_end(peer_of(self._by), seen.end)

    def _record_end(self, by: Role, how: str) -> None:
        if self._recorded is not None:
            self._recorded.close(_client(by), "rst" if how == "rst" else "fin", time.time())

    def _leave(self) -> None:
        """Close our side, and give the peer a moment to close its own, so that it is free for the next one."""
        if self.seen.end == "fin" and not self._has_finished:
            # It shows in the recording that nothing of ours was under way.
            self._record_end(self._by, "fin")
        if self.seen.end is None and not self._is_gone:
            self._carrier.finish(Finish("fin"))
            self._record_end(self._by, "fin")
            end = self.seen.end
            until = self._clock() + min(self._terms.timeout, _LINGER)
            with suppress(OSError, MPAError):
                while (left := until - self._clock()) > 0 and self._carrier.receive(left) != b"":
                    pass
            self.seen.end = end
        self._carrier.close()


def reads_of(plan: Exchange, verb: str) -> int:
    """How many RDMA Reads the side asks for by this word: with "read" the plan has the Response too."""
    words = [step.split() for step in plan.steps if isinstance(step, str)]
    return sum(len(line) > 1 and line[0] in ("{by}", plan.by) and line[1] == verb for line in words)


def requests_in(packet: TcpPacket) -> int:
    """How many RDMA Read Requests begin in a segment; those of a retransmission began before."""
    half = packet.half
    if packet.is_again:
        return 0
    first, end = (at - (half.origin or 0) for at in (packet.start, packet.end))
    known = zip(half.laid, half.opcodes, strict=False)
    return sum(opcode == READ_REQUEST and first <= laid.offset < end for laid, opcode in known)


def asks_or_ends(plan: Exchange) -> bool:
    """Whether the side asks for RDMA Reads of its own, or says its last: then nothing can follow."""
    from scapy_mpa.craft.ulpdus import ATOMIC_REQUEST, TERMINATE
    from scapy_mpa.framing.ddp import opcode_of

    opcodes = {opcode_of(step) for step in plan.steps if isinstance(step, bytes)}
    said = {step.split()[1] for step in plan.steps if isinstance(step, str) and len(step.split()) > 1}
    return bool(opcodes & {READ_REQUEST, ATOMIC_REQUEST, TERMINATE} or said & {"atomic", "terminate", "read-request"})


def _client(role: Role) -> Side:
    return "client" if role == "initiator" else "server"
