"""The fuzzer on the wire: what one side of its cases says, given to a live peer, with a clean connection after each.

A case is the messages of one role, startup frame first, as ``scapy-mpa fuzz`` draws and mutates them, laid with the
Markers that the peer asks for and with CRCs.  Of a peer nothing is known but what it answers: an answer that was not
seen before stands for a state that was not reached before (as AFLNet has it), and such cases are worth keeping.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from scapy_mpa.craft.changes.change import OF_MESSAGES
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.talk import Side
from scapy_mpa.errors import FramingError, MPAError
from scapy_mpa.framing.ddp import opcode_of
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.framing.startup import EnhancedData, StartupFrame, decode_startup_frame
from scapy_mpa.fuzz.case import Done, said
from scapy_mpa.fuzz.coverage import Coverage
from scapy_mpa.fuzz.recipe import Agreed, Recipe
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.live.recording import RecordedConnection, Recording
from scapy_mpa.probe.aim import Live, learned, name_our_buffer, name_their_buffer
from scapy_mpa.probe.carrier import Carrier, NotReached, NotTaken
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.judge import seen_words
from scapy_mpa.probe.monitor import Monitor
from scapy_mpa.probe.run import CannotStart, ProbeRun, RunSettings
from scapy_mpa.probe.script import BareOctets, Finish
from scapy_mpa.probe.seen import SeenPeer, Watcher
from scapy_mpa.probe.target import Target, brings_back
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

#: What distinguishes an answer from others: how the startup ended, opcodes, numbers of a Terminate, the end.
Answer: TypeAlias = "tuple[str, tuple[int | None, ...], tuple[int, ...], str]"
#: Opcodes that count, and octets of a case.
_OPCODES, _MOST_OCTETS = 8, 1 << 20


class WireMessage(NamedTuple):
    """A message of a case: what it is, and its octets."""

    name: str
    octets: bytes


Messages: TypeAlias = tuple[WireMessage, ...]
#: Has messages name memory of the peer.
Lay: TypeAlias = "Callable[[Messages, Live], Messages]"


@dataclass(frozen=True)
class WireCase:
    """What one side says."""

    recipe: Recipe
    messages: Messages
    done: tuple[Done, ...] = ()

    @property
    def number(self) -> int:
        """Of the case, among those of its seed."""
        return self.recipe.case


@dataclass(frozen=True)
class WireResult:
    """What a peer did.

    ``is_new``: no case before had that answer; ``is_gone``: it does not answer any more; ``is_given``: there was a
    connection for the case; ``trouble``: what a monitor says of it; ``cause``: what has it be gone, if that is known
    from elsewhere than its changes.
    """

    case: WireCase
    seen: SeenPeer
    is_new: bool
    is_gone: bool
    capture: bytes
    is_given: bool = True
    trouble: str = ""
    cause: str = ""

    @property
    def hit(self) -> str:
        """What is wrong with the peer, by its cause: what the monitor says, or what was changed; "" if nothing is."""
        if self.trouble:
            return self.trouble
        names = sorted({one.cause for one in self.case.done}) or ["nothing was changed"]
        return self.cause or (f"gone: {' + '.join(names)}" if self.is_gone else "")

    @property
    def verdict(self) -> str:
        """What became of the peer, in a word."""
        if self.is_gone:
            return "peer gone"
        return "fail" if self.trouble else "survived" if self.is_given else "not given"

    def as_dict(self) -> dict[str, Any]:
        """The line that reports it."""
        recipe = self.case.recipe
        return {
            "seed": recipe.seed,
            "case": recipe.case,
            "baseline": recipe.source,
            "mutations": [one.as_dict() for one in self.case.done],
            "messages": len(self.case.messages),
            "octets": sum(len(one.octets) for one in self.case.messages),
            "answer": printable(seen_words(self.seen)),
            "new": self.is_new,
            "verdict": self.verdict,
            "hit": self.hit or None,
            "seconds": round(self.seen.seconds, 6),
        }


def message_areas() -> tuple[str, ...]:
    """The areas of changes of messages; what changes packets is not for the kernel's TCP."""
    return tuple(dict.fromkeys(one.area for one in CHANGES.values() if one.area and one.level in OF_MESSAGES))


def wire_case(recipe: Recipe, by: Role, markers: bool, rping: bool = False) -> WireCase:
    """Return the case of a recipe as one side says it, without the changes that change nothing of that.

    Args:
        recipe: of the case, with changes of messages alone.
        by: the side.
        markers: its peer asks for Markers.
        rping: the upper layer of the peer is rping: an Initiator opens as rping's client does.
    """
    made = _laid(recipe, by, markers, rping)
    index = 0
    while index < len(made.recipe.mutations):
        kept = made.recipe.mutations[:index] + made.recipe.mutations[index + 1 :]
        without = _laid(made.recipe._replace(mutations=kept), by, markers, rping)
        if without.messages == made.messages:
            made = without
        else:
            index += 1
    return made


def _laid(recipe: Recipe, by: Role, markers: bool, rping: bool, live: Live | None = None) -> WireCase:
    """The same with all changes; ``live``: memory that the peer has named on this connection."""
    agreed = Agreed((markers, False) if by == "initiator" else (False, markers), True)
    recipe = recipe._replace(agreed=agreed, by=by)

    def prepare(exchange: Exchange) -> None:
        if name_our_buffer(exchange):
            exchange.startup.append((by, _asks_for_reads))
        name_their_buffer(exchange, live)

    exchange, done = said(recipe, prepare if rping else None)
    told, octets = [], 0
    for unit in exchange.units(by):
        if octets + len(unit.octets) <= _MOST_OCTETS:
            told.append(WireMessage(unit.name, unit.octets))
            octets += len(unit.octets)
    return WireCase(recipe, tuple(told), tuple(done))


def _asks_for_reads(frame: StartupFrame) -> StartupFrame:
    """Have a plain Request agree on an RDMA Read, as rping's client does: without, its server may not read."""
    if frame.enhanced is not None or frame.rev != 1:
        return frame
    data = EnhancedData(ird=1, ord=1).encode() + frame.private_data
    return frame._replace(s=1, rev=2, private_data=data, pd_length=len(data))


class WireFuzzer:
    """Gives cases to a peer.

    Args:
        target: the peer.
        fuzzer: draws the cases.
        terms: how they are given.
        recovery: seconds until a clean connection has to work after a case.
        monitor: says after each case whether the peer is in trouble; None: nobody does.
        coverage: counts what the peer executes on the connection of each case; None: nobody does.
    """

    def __init__(
        self,
        target: Target,
        fuzzer: Fuzzer,
        terms: Terms,
        *,
        recovery: float = 0.0,
        monitor: Monitor | None = None,
        coverage: Coverage | None = None,
    ) -> None:
        self._monitor = monitor
        self._coverage = coverage
        self._target = target
        self._fuzzer = fuzzer
        self._terms = terms
        self._health = ProbeRun(target, RunSettings(terms, recovery=recovery))
        #: The side that is played.
        self.by: Role = peer_of(target.role)
        self._answers: set[Answer] = set()
        self._laid_before: set[int] = set()

    @property
    def is_valid_wanted(self) -> bool:
        """Whether cases are to be given as they were recorded."""
        return not self._fuzzer.most

    def begin(self) -> str:
        """The first clean connection; what is odd about it.  Raises CannotStart."""
        self._health.begin()
        if self._health.is_silent:
            raise CannotStart(self._health.remark)
        return self._health.remark

    def case(self, number: int) -> WireCase:
        """A case of the fuzzer, laid for this peer, with the changes of what it is given."""
        return self.case_of(self._fuzzer.recipe(number))

    def case_of(self, recipe: Recipe) -> WireCase:
        """The same of a recipe."""
        return wire_case(recipe, self.by, self._markers, self._terms.rping)

    def first_laid(self, recipe: Recipe) -> WireCase | None:
        """The same with all changes of the recipe; None if its messages are those of a case before."""
        case = self._made(recipe)
        key = hash(case.messages)
        is_new = key not in self._laid_before
        self._laid_before.add(key)
        return case if is_new else None

    @property
    def _markers(self) -> bool:
        """The peer asks for Markers."""
        frame = self._health.frame
        return bool(frame.m) if frame is not None else False

    def _made(self, recipe: Recipe, live: Live | None = None) -> WireCase:
        return _laid(recipe, self.by, self._markers, self._terms.rping, live)

    def give(self, case: WireCase) -> WireResult:
        """Give a case, and see whether the peer survives it."""
        file = io.BytesIO()
        try:
            case, seen = self._say(case, Recording(file))
        except NotReached:
            is_gone = not self._health.recovers()
            return WireResult(case, SeenPeer(), is_new=False, is_gone=is_gone, capture=b"", is_given=False)
        answer = answer_of(seen)
        is_new = answer not in self._answers
        self._answers.add(answer)
        is_gone = not self._health.recovers()
        trouble = self._monitor.trouble(str(case.number)) if self._monitor is not None else ""
        if self._coverage is not None and not is_gone and not trouble:
            self._coverage.keep()
        return WireResult(case, seen, is_new, is_gone, file.getvalue(), trouble=trouble)

    def come_back(self) -> bool:
        """Have the peer started anew; whether that can be done, and it is well."""
        return brings_back(self._target, self._health.is_well)

    def smaller(self, case: WireCase) -> tuple[WireCase, bool]:
        """The case without the messages and changes that the peer goes without; whether it goes again at all.

        The peer is there before and after.  Raises MPAError if it does not come back in between.
        """
        if not self._kills(case):
            return case, False
        index = 0
        while index < len(case.recipe.mutations):
            kept = case.recipe.mutations[:index] + case.recipe.mutations[index + 1 :]
            tried = self._made(case.recipe._replace(mutations=kept))
            if tried.messages and self._kills(tried):
                case = tried
            else:
                index += 1
        for size in _halves(len(case.messages)):
            at = 0
            while at < len(case.messages):
                tried = replace(case, messages=case.messages[:at] + case.messages[at + size :])
                if tried.messages and self._kills(tried):
                    case = tried
                else:
                    at += size
        return case, True

    def _kills(self, case: WireCase) -> bool:
        """Whether the peer goes of it; it is brought back."""
        is_gone = self.give(case).is_gone
        if is_gone and not self.come_back():
            raise MPAError("the peer does not come back, so the case that kills it cannot be minimized")
        return is_gone

    # --- one connection ---

    def _say(self, case: WireCase, recording: Recording) -> tuple[WireCase, SeenPeer]:
        """Give it; returns the case as it was said, and what came."""

        def lay(messages: Messages, live: Live) -> Messages:
            named = {one.name: one for one in self._made(case.recipe, live).messages}
            return tuple(named.get(one.name, one) for one in messages)

        if self._coverage is not None:
            self._coverage.clear()
        carrier = self._health.connection()
        talk = _Talk(carrier, self.by, self._terms, recording)
        try:
            messages, seen = talk.say(case.messages, lay if self._terms.rping else None)
        finally:
            carrier.close()
            if self._coverage is not None:
                self._coverage.collect()
            self._target.done()
        return replace(case, messages=messages), seen


def _halves(count: int) -> Iterator[int]:
    """How many messages are left out at a time: half of them, a quarter and so on."""
    size = count // 2
    while size:
        yield size
        size //= 2
    if count == 1:
        yield 1


def answer_of(seen: SeenPeer) -> Answer:
    """What distinguishes an answer from others."""
    frame = "none" if seen.frame is None else "rejected" if seen.frame.r else "accepted"
    if seen.error is not None:
        frame = f"{frame}, {seen.error.rule or 'not valid'}"
    opcodes: list[int | None] = []
    for one in seen.fpdus:
        opcode = opcode_of(one.ulpdu)
        if not opcodes or opcodes[-1] != opcode:
            opcodes.append(opcode)
    said = seen.terminate
    numbers = (said.layer, said.etype, said.code) if said is not None else ()
    return frame, tuple(opcodes[:_OPCODES]), numbers, seen.end or ""


class _Talk:
    """Says messages on one connection."""

    def __init__(self, carrier: Carrier, by: Role, terms: Terms, recording: Recording) -> None:
        self._carrier = carrier
        self._by: Role = by
        self._timeout, self._settle = terms.timeout, terms.settle
        ours, theirs = carrier.addresses
        client, server = (ours, theirs) if by == "initiator" else (theirs, ours)
        self._recorded: RecordedConnection = recording.connection(client, server, carrier.mss)
        self._watcher = Watcher(by)
        self._start = time.monotonic()
        self._is_gone = False

    def say(self, messages: Messages, lay: Lay | None) -> tuple[Messages, SeenPeer]:
        """Say them, the first one as startup frame; returns what was said and what came.

        ``lay``: has those that follow name the memory that the peer names on this connection, as rping does; None: it
        names none.
        """
        seen = self._watcher.seen
        self._recorded.open(time.time())
        if self._by == "responder":
            self._wait(lambda: seen.frame is not None)
        for number in range(len(messages)):
            message = messages[number]
            if self._is_gone or not message.octets:
                continue
            self._send(message.octets)
            if number == 0:
                own = None
                with suppress(FramingError):
                    own = decode_startup_frame(message.octets)
                self._watcher.begin(own, self._seconds)
                self._wait(lambda: seen.frame is not None if self._by == "initiator" else bool(seen.fpdus))
                if self._by == "initiator" and self._settle:
                    self._wait(lambda: False, self._settle)
            # rping's server names memory when it has read the first Send, its client in its own.
            if lay is not None and number == (self._by == "initiator") and seen.frame is not None:
                self._wait(lambda: self._learned() is not None)
                if (live := self._learned()) is not None:
                    messages = (*messages[: number + 1], *lay(messages[number + 1 :], live))
        self._wait(lambda: seen.terminate is not None)
        if seen.end is None and (seen.untaken or not self._is_gone):
            self._carrier.finish(Finish("fin"))
            self._recorded.close(self._side(self._by), "fin", time.time())
        seen.seconds = self._seconds
        return messages, seen

    def _learned(self) -> Live | None:
        return learned(one.ulpdu for one in self._watcher.seen.fpdus)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._start

    @staticmethod
    def _side(role: Role) -> Side:
        return "client" if role == "initiator" else "server"

    def _send(self, octets: bytes) -> None:
        try:
            self._carrier.send(BareOctets(octets))
        except NotTaken as error:
            self._watcher.seen.untaken = error.left
            self._is_gone = True
            self._recorded.data(self._side(self._by), octets[: -error.left], time.time())
            return
        except OSError:
            self._lose()
            return
        self._recorded.data(self._side(self._by), octets, time.time())

    def _wait(self, is_done: Any, seconds: float | None = None) -> None:
        until = time.monotonic() + (self._timeout if seconds is None else seconds)
        seen = self._watcher.seen
        while not is_done() and seen.end is None and seen.error is None and (left := until - time.monotonic()) > 0:
            try:
                octets = self._carrier.receive(left)
            except OSError:
                self._lose()
                return
            if octets:
                self._watcher.take(octets, self._seconds)
                self._recorded.data(self._side(peer_of(self._by)), octets, time.time())
            elif octets is not None:
                self._end("fin")

    def _lose(self) -> None:
        self._is_gone = True
        self._end("rst")

    def _end(self, how: str) -> None:
        seen = self._watcher.seen
        if seen.end is None:
            seen.end = "rst" if how == "rst" else "fin"
            seen.end_after = self._seconds
            self._recorded.close(self._side(peer_of(self._by)), seen.end, time.time())
