"""Runs cases one after another: each on a connection of its own, a clean connection before the first and after each."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import ACCEPT
from scapy_mpa.craft.changes.said import answers, says
from scapy_mpa.craft.changes.startup import setup
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.setup import Setup
from scapy_mpa.craft.ulpdus import ATOMIC_REQUEST, READ_REQUEST, SEND, TERMINATE
from scapy_mpa.errors import FramingError, MPAError
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH, is_tagged, opcode_of
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import StartupFrame, decode_startup_frame
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import ULPDUReceived
from scapy_mpa.live.incoming import IncomingHalf
from scapy_mpa.live.recording import RecordedConnection, Recording
from scapy_mpa.probe.carrier import Carrier, NotReached
from scapy_mpa.probe.case import CONFORMANT, ProbeCase
from scapy_mpa.probe.deviations import Deviations, are_known, name_of
from scapy_mpa.probe.exchange import CaseExchange, Terms
from scapy_mpa.probe.findings import INVALIDATING, STRUCTURE, VAGUE, wrong_with
from scapy_mpa.probe.fitting import Unsupported, fit, plan_of
from scapy_mpa.probe.judge import BAD, VERDICTS, Fault, Judge, ProbeJudgement, Spoken, not_answered, seen_words
from scapy_mpa.probe.monitor import Monitor
from scapy_mpa.probe.rawcarrier import RawTCP
from scapy_mpa.probe.reach import Carriage
from scapy_mpa.probe.seen import SeenPeer
from scapy_mpa.probe.target import Target, brings_back
from scapy_mpa.receiver.window import Layout

_WRITE_OF_NOTHING = "{by} write '' stag=0"
#: Times that a clean connection is tried before a peer is called gone, and seconds before it is tried so again.
_TRIES, _POLL = 2, 0.1
#: What is said on a valid connection to compare with, and what that is called.
_CONTROLS = {_WRITE_OF_NOTHING: "an RDMA Write of nothing", "{by} send 30": "a Send of 30 octets"}
#: A peer may crash this often after such a connection; then no more are made.
_DEADLY = 2
#: The rule of a sender that deviates throughout.
_DIALECT = "deviating-sender"
#: This many valid Requests without an answer show that no other will be.
_ENOUGH = 3


def clean_case(role_of_peer: Role, *, speaks: bool) -> ProbeCase:
    """A clean connection: startup, and an RDMA Write of nothing if it ``speaks``."""
    by = peer_of(role_of_peer)
    steps = ("initiator write '' stag=0",) if by == "initiator" else ("initiator send", _WRITE_OF_NOTHING)
    changes = (says(*steps) if speaks else says("start"), answers(None))
    case = Case("clean-connection", "A clean connection", "plain", changes, (), ACCEPT, by=by)
    return ProbeCase(case, CONFORMANT)


@dataclass(frozen=True)
class RunSettings:
    """How a run is made.

    Attributes:
        terms: of each case.
        strict: what SHOULD be counts.
        repeat: how often each case is given.
        interval: seconds from one connection to the next at least.
        expected: failures that are known: names of cases, rules and deviations.
        keeps: a capture of each case that fails is kept.
        recovery: seconds until a clean connection has to work after a case.
        required: areas in which what could not be tested counts against the peer.
        monitor: says after each case whether the peer is in trouble; None: nobody does.
        until: when no further case is begun, on the monotonic clock; None: never.
    """

    terms: Terms
    strict: bool = False
    repeat: int = 1
    interval: float = 0.0
    expected: frozenset[str] = frozenset()
    keeps: bool = False
    recovery: float = 0.0
    required: frozenset[str] = frozenset()
    monitor: Monitor | None = None
    until: float | None = None


@dataclass(frozen=True)
class Result:
    """The outcome of a case.

    Attributes:
        case: that was given.
        seen: what came.
        judgement: the verdict.
        capture: its recording, if that is kept.
        is_known: it was expected to fail, and does.
        is_control: it is no case but a valid connection to compare with, after which the peer was gone.
        is_first: it is the first that shows the deviation for which it fails.
    """

    case: ProbeCase
    seen: SeenPeer
    judgement: ProbeJudgement
    capture: bytes = field(default=b"", repr=False)
    is_known: bool = False
    is_control: bool = False
    is_first: bool = True

    @property
    def counts_against(self) -> bool:
        """True if the run fails for it."""
        return self.judgement.verdict in BAD and not self.is_known


class CannotStart(MPAError):
    """The clean connection before the first case did not even reach the peer."""


class _NoConnection(MPAError):
    """There was no connection for a case."""


class PeerGone(MPAError):
    """The peer is gone, and does not come back: no further case can be given."""


class ProbeRun:
    """A run.

    Args:
        target: the peer.
        settings: see there.

    Attributes:
        frame: the peer's startup frame on the first clean connection, None if there was none.
        remark: what is odd about the first clean connection, "" if nothing is.
        is_silent: nothing came on it: the peer does not speak MPA, or not Rev 1, or needs more in a Request.
        lost: names of the cases after which the peer was gone.
        deviations: what the peer does wrong, each with its cases.
    """

    def __init__(self, target: Target, settings: RunSettings) -> None:
        self._target = target
        self._settings = settings
        self._terms = settings.terms
        self._standard: tuple[bool, bool] = (False, False)
        self._controls: dict[tuple[str, str], SeenPeer] = {}
        self._deaths: Counter[tuple[str, str]] = Counter()
        self._last = 0.0
        self._has_begun = False
        self._first = SeenPeer()
        self._previous = ""
        #: True if the peer closes on any Private Data, None as long as that was not tried.
        self._refuses_data: bool | None = None
        #: The peer's startup frame by ours, where it was seen once.
        self._frames: dict[bytes, StartupFrame] = {}
        #: The first case whose valid Request was not answered, by that.
        self._unanswered: dict[bytes, str] = {}
        self.deviations = Deviations()
        self.frame: StartupFrame | None = None
        self.remark = ""
        self.is_silent = False
        self.lost: list[str] = []

    def results(self, cases: Sequence[ProbeCase]) -> Iterator[Result]:
        """Give all of them, in order; raises CannotStart, and PeerGone after the last result that there is."""
        if not self._has_begun:
            self.begin()
        for case in cases:
            if self._settings.until is not None and time.monotonic() >= self._settings.until:
                return
            for lost in self.compare(case):
                yield lost
                self._bring_back(lost.case.name)
            if why := self._not_offered(case):
                judgement = ProbeJudgement("unsupported", why)
                yield self._known(Result(case, SeenPeer(unsupported=why), judgement))
                continue
            try:
                result, is_well = self._give(case)
            except _NoConnection as error:
                # Nothing was sent: it is the one before that the peer did not survive.
                self.lost.append(self._previous)
                judgement = ProbeJudgement("unsupported", f"there was no connection for it: {error}", is_of_case=False)
                yield Result(case, SeenPeer(), judgement)
                self._bring_back(self._previous)
                continue
            self._previous = case.name
            result = self._monitored(result)
            if is_well and self._is_well_after(result, is_last=case is cases[-1]):
                yield self._known(result)
            else:
                yield self._known(self._gone(case, result))
                self._bring_back(case.name)

    def _monitored(self, result: Result) -> Result:
        """The result; it fails if the monitor says something new."""
        monitor = self._settings.monitor
        if monitor is None or not (words := monitor.trouble(result.case.name)):
            return result
        before = result.judgement
        judgement = self.deviations.count(result.case, ProbeJudgement("fail", words, is_of_case=False, saw="monitor"))
        shown, counted = (*judgement.deviations, *before.deviations), (*judgement.counted, *before.counted)
        return replace(result, judgement=replace(judgement, deviations=shown, counted=counted), is_first=True)

    def _bring_back(self, name: str) -> None:
        """Have the peer started again, which was gone after a connection; raises PeerGone."""
        if not brings_back(self._target, self.is_well):
            after = f", after {name}" if name else ""
            raise PeerGone(f"peer gone: it no longer answers a clean connection{after}")

    # --- clean connections ---

    def begin(self) -> None:
        """The first clean connection: it says how the others have to be.  Raises CannotStart."""
        role = self._target.role
        self._has_begun = True
        try:
            seen = self._clean(echoes=True)
        except NotReached as error:
            if not brings_back(self._target, self._answers):
                raise CannotStart(f"the clean connection before the first case: {error}") from None
            seen = self._clean(echoes=True)
        self._first = seen
        self._terms = self._terms._replace(echoes=seen.has_echoed)
        self._standard = self._state(seen)
        self.frame = seen.frame
        if seen.frame is None or seen.frame.r or seen.end is not None or seen.error is not None:
            self.remark = f"the clean connection before the first case: {seen_words(seen)}"
            self.is_silent = not seen.total
            if self.is_silent and role == "initiator":
                raise CannotStart(self.remark)
        if seen.waits_for == "startup" and seen.frame is not None:
            raise CannotStart(f"the peer's {seen.frame.kind.capitalize()} took longer than --timeout allows")

    @property
    def terms(self) -> Terms:
        """How cases are given; after the first clean connection with what that has shown."""
        return self._terms

    def silence(self) -> str:
        """Return what became of an unanswered clean connection; "" if it was answered. Raises NotReached."""
        seen = self._clean(echoes=False, waits=True)
        return "" if seen.total else seen_words(seen)

    def _clean(self, *, echoes: bool, speaks: bool = True, waits: bool = False) -> SeenPeer:
        case = clean_case(self._target.role, speaks=speaks)
        return self._exchange(case, self._terms._replace(echoes=echoes), waits=waits)[0]

    def _state(self, seen: SeenPeer) -> tuple[bool, bool]:
        return seen.frame is not None and not seen.frame.r, seen.has_echoed

    def _answers(self) -> bool:
        try:
            self._clean(echoes=True)
        except NotReached:
            return False
        return True

    def is_well(self) -> bool:
        """Return True if a clean connection is as the first one was."""
        answered, echoed = self._standard
        for _ in range(_TRIES):
            try:
                seen = self._clean(echoes=echoed, speaks=echoed or self._target.role == "initiator")
            except NotReached:
                continue
            # Whoever ends it, or says something wrong, is there anyway.
            speaks = not echoed or seen.has_echoed or seen.end is not None or seen.error is not None
            if self._state(seen)[0] >= answered and speaks:
                return True
        return False

    def _is_well_after(self, result: Result, *, is_last: bool) -> bool:
        """The same, after a case; that an Initiator is, its next Request shows as well."""
        if self._target.role == "initiator" and not is_last and result.judgement.verdict in ("pass", "allowed"):
            return True
        return self.recovers()

    def recovers(self) -> bool:
        """True if the peer is well again in time: a server that serves one connection may have to be started again."""
        until = time.monotonic() + self._settings.recovery
        while not self.is_well():
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL, left))
        return True

    def _gone(self, case: ProbeCase, result: Result) -> Result:
        """The peer is gone after a case; if it can be brought back, the case is repeated, to be sure."""
        self.lost.append(case.name)
        why = "the peer no longer answers a clean connection"
        if brings_back(self._target, self.is_well):
            self._give_once(case)
            if self.recovers():
                why += "; after a restart, it survived the case"
            else:
                why += "; after a restart, the case had the same effect"
        gone = ProbeJudgement("peer gone", why, is_of_case=False)
        return replace(result, judgement=replace(gone, deviations=(name := name_of(case, gone),), counted=(name,)))

    def _known(self, result: Result) -> Result:
        """Reckon with failures that are known; one of them that passes is a failure too."""
        judgement, expected = result.judgement, self._settings.expected
        if judgement.verdict in BAD and (are_known(judgement.counted, expected) or result.case.name in expected):
            return replace(result, is_known=True)
        if result.case.name in expected and judgement.verdict in ("pass", "allowed"):
            reason = f"it was expected to fail, but the verdict is {judgement.verdict}"
            return replace(result, judgement=self._counted(result.case, reason, "expected"))
        if judgement.verdict == "unsupported" and result.case.area in self._settings.required:
            reason = f"it had to be tested, but could not be: {judgement.reason}"
            return replace(result, judgement=self._counted(result.case, reason, "untested"))
        return result

    def _counted(self, case: ProbeCase, reason: str, saw: str) -> ProbeJudgement:
        """A failure that is not in the peer's octets."""
        return self.deviations.count(case, ProbeJudgement("fail", reason, is_of_case=False, saw=saw))

    # --- one case ---

    def _give(self, case: ProbeCase) -> tuple[Result, bool]:
        """The worst result of a case, and whether the peer was well after all repetitions but the last."""
        is_gone = False
        worst: Result | None = None
        verdicts: list[str] = []
        for number in range(self._settings.repeat):
            result = self._give_once(case)
            verdicts.append(result.judgement.verdict)
            is_gone = number + 1 < self._settings.repeat and not self._is_well_after(result, is_last=False)
            if is_gone or worst is None or _rank(result) > _rank(worst):
                worst = result
            if is_gone:
                break
        assert worst is not None
        if len(set(verdicts)) > 1:
            count = verdicts.count(worst.judgement.verdict)
            reason = f"{worst.judgement.reason} ({count} of {len(verdicts)} times)"
            worst = replace(worst, judgement=replace(worst.judgement, reason=reason.strip()))
        return worst, not is_gone

    def _give_once(self, case: ProbeCase) -> Result:
        """Give it; what is not answered is tried again on a fresh connection before it counts."""
        result = self._given(case)
        judgement = result.judgement
        is_missing = judgement.verdict == "no answer" or (judgement.verdict == "fail" and result.seen.has_stalled)
        is_first = is_missing and self.deviations.is_first(name_of(case, judgement), case)
        if is_first or (judgement.saw == "quiet" and self._first.fpdus):
            result = self._given(case)
        judgement = self.deviations.count(case, result.judgement)
        is_first = not judgement.counted or any(self.deviations.is_first(name, case) for name in judgement.counted)
        return replace(result, judgement=judgement, is_first=is_first)

    def _of_one_cause(
        self, judgement: ProbeJudgement, others: tuple[Fault, ...]
    ) -> tuple[ProbeJudgement, tuple[Fault, ...]]:
        """Leave what tells most of FPDUs that are not valid: one cause may look like several from place to place."""
        known, is_invalid = self.deviations.found, judgement.saw == "invalid" and judgement.verdict in BAD
        ours = judgement.rule if is_invalid else ""
        told = {one.rule for one in others if one.rule in STRUCTURE} | ({ours} & STRUCTURE)
        if _DIALECT in known:
            # How its FPDUs look to a reader that does not know its deviation is not another deviation.
            told = {rule for rule in told if rule in known}
        else:
            told = told - VAGUE or told
        others = tuple(one for one in others if one.rule not in STRUCTURE or (one.rule in told and one.rule != ours))
        if is_invalid and ours not in told and (told or _DIALECT in known):
            judgement = replace(judgement, verdict="unsupported")
        return judgement, others

    def _given(self, case: ProbeCase) -> Result:
        """Give it once; nothing of the result is counted."""
        try:
            seen, is_unanswered, capture = self._exchange(case, self._terms, waits=True)
        except NotReached as error:
            raise _NoConnection(str(error)) from None
        if seen.frame is not None and not seen.frame.r:
            self._frames.setdefault(self._own_startup(case), seen.frame)
        said, strict = said_by(case, self._terms), self._settings.strict
        judge = Judge(case, seen, said, *self.controls_of(case), is_unanswered=is_unanswered)
        judgement = judge.judgement(strict=strict)
        if judgement.saw == "shut" and said.private_data and self._refuses_private_data():
            refused = said._replace(refused_data=True)
            judge = Judge(case, seen, refused, *self.controls_of(case), is_unanswered=is_unanswered)
            judgement = judge.judgement(strict=strict)
        others = wrong_with(case, seen, capture, strict=strict, is_heard=said.is_heard)
        judgement, others = self._of_one_cause(judgement, others)
        if judgement.verdict in BAD and judgement.saw in ("mute", "shut", "rejected") and case.is_conformant:
            self._unanswered.setdefault(self._own_startup(case), case.name)
            if others and judgement.saw != "rejected":
                # Something came; what is wrong with it is why it is no startup frame.
                words = "what the peer sends is not a startup frame"
                judgement = replace(judgement, verdict="unsupported", reason=words)
        kept = capture if self._settings.keeps else b""
        return Result(case, seen.shortened(), replace(judgement, faults=(*judgement.faults, *others)), kept)

    def _refuses_private_data(self) -> bool:
        """Return True if the peer closes on one octet of Private Data, for which no buffer is too small."""
        if self._refuses_data is None:
            said = setup(private_data=(b"\0", b"")), says(_WRITE_OF_NOTHING.format(by="initiator")), answers(None)
            valid = Case("valid-private-data", "One octet of Private Data", "plain", said, (), ACCEPT)
            try:
                seen = self._exchange(ProbeCase(valid, CONFORMANT), self._terms, waits=True)[0]
            except NotReached:
                return False
            self._refuses_data = seen.frame is None and seen.end is not None
        return self._refuses_data

    def _not_offered(self, case: ProbeCase) -> str:
        """Why the peer offers nothing to test this by, which what it has sent before shows; "" if that is not so."""
        if case.case.baseline == "culley-02":
            return "the peer begins with startup frames" if self.frame is not None else ""
        own = self._own_startup(case)
        if self._unanswered.get(own, case.name) != case.name:
            return f"the peer refuses this Request; as in {self._unanswered[own]}"
        if len(self._unanswered) >= _ENOUGH and self.frame is None:
            return f"the peer does not answer valid Requests; as in {next(iter(self._unanswered.values()))}"
        control = self._controls.get((case.case.baseline, _WRITE_OF_NOTHING))
        is_answered = control is None or (control.frame is not None and not control.frame.r)
        if not is_answered and case.begins_full_operation and not case.is_conformant:
            return "the peer does not speak Rev 0" if case.case.baseline == "rddp-01" else not_answered(control)
        frame = self._frames.get(own)
        if frame is None:
            return ""
        try:
            fit(plan_of(case.case, self._terms.clean), frame)
        except Unsupported as error:
            return str(error)
        return ""

    def _own_startup(self, case: ProbeCase) -> bytes:
        """Our octets before Full Operation, on which a Responder decides; an Initiator decides on its own."""
        if self._target.role == "initiator":
            return b""
        packets = plan_of(case.case, self._terms.clean).sent()
        return b"".join(one.payload for one in packets if one.half.role == case.case.by and not one.in_operation)

    def controls_of(self, case: ProbeCase) -> list[SeenPeer | None]:
        """Return what became of valid connections: without a message that an upper layer sees, and with one."""
        found = [self._controls.get((case.case.baseline, step)) for step in _CONTROLS]
        return found if self._target.role == "responder" else [self._first, found[1]]

    def compare(self, case: ProbeCase) -> Iterator[Result]:
        """Make the valid connections that a case is compared with; what the peer does not survive of them.

        An Initiator is only asked what its upper layer makes of a Send, where a case of DDP and RDMAP has one.
        """
        if self._not_offered(case):
            return
        name = case.case.baseline
        is_initiator = self._target.role == "initiator"
        for step, words in _CONTROLS.items():
            key = name, step
            if is_initiator and (step == _WRITE_OF_NOTHING or case.area != "ddp"):
                continue
            while key not in self._controls and self._deaths[key] < _DEADLY:
                valid = self._control_case(name, step)
                # An Initiator may answer a Read before it closes.
                terms = self._terms._replace(echoes=False) if is_initiator else self._terms
                try:
                    seen = self._exchange(valid, terms, waits=True)[0]
                except NotReached:
                    break
                if self.recovers():
                    self._controls[key] = seen
                    break
                self._deaths[key] += 1
                self.lost.append(valid.name)
                judgement = ProbeJudgement("peer gone", f"after a valid connection ({name}, with {words})", saw="gone")
                yield Result(valid, seen.shortened(), self.deviations.count(valid, judgement), is_control=True)

    def _control_case(self, name: str, step: str) -> ProbeCase:
        """The valid connection that cases begin with, and on which this is said."""
        by = peer_of(self._target.role)
        # The first FPDU of the peer-to-peer model has to be the ready-to-receive message (RFC 6581 §9.2); a
        # Responder must have received one.
        said: tuple[str, ...] = (step,)
        if name == "peer-to-peer" and step != _WRITE_OF_NOTHING:
            said = (_WRITE_OF_NOTHING, step)
        elif by == "responder":
            said = ("initiator send 30", step.format(by=by))
        changes = says(*said), answers(None)
        return ProbeCase(
            Case(f"valid-control-{name}", "Nothing is wrong", name, changes, (), ACCEPT, by=by), CONFORMANT
        )

    def _exchange(self, case: ProbeCase, terms: Terms, *, waits: bool = False) -> tuple[SeenPeer, bool, bytes]:
        """Give it; what was seen, whether a Read of ours was not answered, and the capture.

        Raises NotReached, if it ``waits`` when the peer has had time to recover.
        """
        self._wait()
        carrier = self.connection(case) if waits else self._target.connection(case)
        file = io.BytesIO()
        recording = Recording(file)
        try:
            exchange = CaseExchange(carrier, case, terms, recording_of(recording, carrier, case))
            seen = exchange.run()
        finally:
            carrier.close()
            self._target.done()
        return seen, exchange.is_unanswered, file.getvalue()

    def connection(self, case: ProbeCase | None = None) -> Carrier:
        """A connection, as soon as there is one: a server that serves a single one is just being started again."""
        until = time.monotonic() + (self._settings.recovery if self._target.role == "responder" else 0)
        while True:
            try:
                return self._target.connection(case)
            except NotReached:
                if time.monotonic() >= until:
                    raise
                time.sleep(_POLL)

    def _wait(self) -> None:
        """Not more connections than were asked for in a second."""
        left = self._last + self._settings.interval - time.monotonic()
        if left > 0:
            time.sleep(left)
        self._last = time.monotonic()


def recording_of(recording: Recording, carrier: Carrier, case: ProbeCase) -> RecordedConnection:
    """The connection of a recording for that of a carrier."""
    if isinstance(carrier, RawTCP):
        return carrier.recorded(recording)
    ours, theirs = carrier.addresses
    client, server = (ours, theirs) if case.case.by == "initiator" else (theirs, ours)
    return recording.connection(client, server, carrier.mss)


def _rank(result: Result) -> int:
    return VERDICTS.index(result.judgement.verdict)


def said_by(case: ProbeCase, terms: Terms) -> Spoken:
    """Return what a case sends that the peer may be unable to handle, whatever is wrong with the case."""
    plan = plan_of(case.case, terms.clean)
    setup, frame = Setup(**plan.setup), _own_frame(plan)
    heard = _heard(plan, setup)
    words = [step.split() for step in plan.steps if isinstance(step, str)]
    own = {line[1] for line in words if len(line) > 1 and line[0] in ("{by}", plan.by)}
    steps = [*heard, *(step for step in plan.steps if isinstance(step, bytes))]
    opcodes = {opcode_of(step) for step in steps}
    # Of a message of no octets neither STag nor TO is checked.
    whole = {line[1] for line in words if len(line) > 2 and line[1] in own and line[2] not in ("''", "0")}
    named = {opcode_of(step) for step in steps if _names_octets(step)}
    return Spoken(
        tagged=any(is_tagged(step) and len(step) > TAGGED_HEADER_LENGTH for step in steps)
        or "write" in whole
        or bool(opcodes & INVALIDATING),
        asks=bool(opcodes & {READ_REQUEST, ATOMIC_REQUEST}) or bool(own & {"read", "read-request", "atomic"}),
        requests=bool(named & {READ_REQUEST, ATOMIC_REQUEST}) or bool(whole & {"read", "read-request", "atomic"}),
        sends=SEND in opcodes or "send" in own,
        terminate=TERMINATE in opcodes or "terminate" in own,
        streaming="stream" in own and not plan.setup.get("reject"),
        rev_0=setup.specification.startup_frames and setup.startup(plan.by).rev == 0,
        is_heard=bool(heard),
        is_basic=setup.profile == "rfc5044" and "rev" not in plan.setup,
        rping=terms.rping,
        rejection=bool(plan.setup.get("reject")),
        private_data=bool((frame is not None and frame.ulp_data) or setup.private_data[ROLES.index(plan.by)]),
        depths=frame is not None and frame.enhanced not in (None, terms.clean.enhanced),
    )


def _own_frame(plan: Exchange) -> StartupFrame | None:
    """The startup frame of a side, None if it is no whole one."""
    for unit in plan.units(plan.by)[:1]:
        with suppress(FramingError):
            return decode_startup_frame(unit.octets)
    return None


def _names_octets(ulpdu: bytes) -> bool:
    """Return True if a request names octets of memory: an RDMA Read of none does not."""
    reads = read_requests(ulpdu[UNTAGGED_HEADER_LENGTH:]) if opcode_of(ulpdu) == READ_REQUEST else ()
    return not reads or bool(reads[0].size)


def _heard(plan: Exchange, setup: Setup) -> list[bytes]:
    """The ULPDUs of a side up to its first FPDU that is not valid, as its receiver reads them."""
    markers = not setup.specification.markers_negotiated or bool(setup.m[1 - ROLES.index(plan.by)])
    half = IncomingHalf(Layout(markers, setup.crc), setup.specification, plan.by)
    octets = b"".join(packet.payload for packet in plan.sent() if packet.half.role == plan.by and packet.in_operation)
    try:
        events = half.take(octets)
    except RemoteProtocolError as error:
        events = [*error.events]
    return [event.ulpdu for event in events if isinstance(event, ULPDUReceived)]


def peers(cases: Sequence[ProbeCase], role: str, carriages: Container[Carriage] = ("tcp",)) -> list[ProbeCase]:
    """Return those that a peer in this role can be given by what carries them: the kernel's TCP by default."""
    return [case for case in cases if case.reach.role == role and case.reach.carriage in carriages]
