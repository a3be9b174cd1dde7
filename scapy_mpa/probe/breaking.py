"""An endpoint that is wrong on purpose: a live one that commits a case of the catalogue, and is right otherwise.

Everything follows from the case.  What it changes in a startup frame is changed in the endpoint's own; a change of the
FPDU with some number is made to the endpoint's own FPDU with that number, or to the next one that it fits; where the
case says something else than the valid connection does, the endpoint says that.  How a startup frame or FPDU is cut in
segments is kept too.  What a case is about that no endpoint can do by itself (the order of segments of both sides, say)
is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from scapy_mpa.catalogue.baseline import BASELINES
from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.table import named
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.sent import FPDUChange, SentFPDU
from scapy_mpa.craft.setup import Setup
from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.craft.turns import Say
from scapy_mpa.craft.ulpdus import READ_RESPONSE
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import opcode_of
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.markers import Origin
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.senders import Bases, spoken
from scapy_mpa.framing.startup import StartupFrame, decode_startup_frame
from scapy_mpa.live.script import Item, Named, speech, step_items
from scapy_mpa.live.wrong import LaysFPDUs
from scapy_mpa.probe.aim import Live, is_named, moved
from scapy_mpa.probe.answering import WrongAnswers
from scapy_mpa.probe.fitting import Clean, Unsupported, fit, plan_of
from scapy_mpa.probe.reach import reach_of
from scapy_mpa.probe.script import Finish, Send, script_of
from scapy_mpa.ulp.header import NamedMemory

#: Changes of the order of what both sides send, or of octets that are in no frame and no FPDU.
_OF_ORDER = ("earlier", "reorder", "inserted", "merged", "shifted", "silence")
_FIELDS = ("m", "c", "r", "s", "rev")
#: What is longer is cut by any TCP.
_SEGMENT = 1400


class Breaking:
    """Makes each connection of a role err in one way.

    Args:
        name: of the case.
        role: whose endpoint it is.

    Raises MPAError for a case that this role cannot commit.
    """

    def __init__(self, name: str, role: Role) -> None:
        self.case = named(name)
        if self.case.by != role:
            command = "connect" if self.case.by == "initiator" else "listen"
            raise MPAError(f"{name} is a mistake of the {self.case.by.capitalize()}: use `{command} --break {name}`")
        why = refusal(self.case)
        if why:
            raise MPAError(f"{name} cannot be sent by an endpoint: {why}")
        self.plan = self.case.plan()
        self._setup = Setup(**self.plan.setup)
        self._inner = _cuts(self.plan)

    def __call__(self) -> Broken:
        """For one connection."""
        return Broken(self.case, self._inner)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the endpoint needs for the case to show: M, C and the specification of the valid
        connection.
        """
        side, setup = ROLES.index(self.case.by), self._setup
        valid = Setup(**BASELINES[self.case.baseline].setup)
        found: dict[str, Any] = {"m": setup.m[side], "c": setup.c[side]}
        if setup.profile in ("culley-02", "rddp-01"):
            found["profile"] = setup.profile
        enhanced = valid.enhanced_of("initiator")
        if enhanced is not None and side == 0:
            found["enhanced"] = enhanced
        return found

    def items(self) -> list[Item] | None:
        """Return what the endpoint sends: the case's items, None if the case sends what the valid connection does."""
        if tuple(self.plan.steps) == self.plan.valid and self.case.by == "responder":
            return None
        conversation, is_answering = speech(), WrongAnswers.are_of(self.case)
        items: list[Item] = []
        for step in self.plan.steps:
            if isinstance(step, bytes):
                if is_answering and opcode_of(step) == READ_RESPONSE:
                    continue
                items.append(Named(partial(_at_named, step)) if is_named(step) else Message(RAW, step))
            elif isinstance(step, tuple):
                items += [Message(RAW, step[1])] if step[0] == self.case.by else []
            elif isinstance(step, Say):
                items += [step.message] if step.role == self.case.by else []
            else:
                text = step.format(by=self.case.by, peer=peer_of(self.case.by))
                if text.split()[0] == self.case.by:
                    items += step_items(text, self.case.by, conversation)
        return items


def _at_named(step: bytes, named: NamedMemory) -> Message:
    """Return what the case sends beyond, or to, memory of its peer."""
    return Message(RAW, moved(step, Live(named.stag, named.to, named.length, is_kept=False)))


def refusal(case: Case) -> str:
    """Why no endpoint commits a case, "" if one can."""
    reach = reach_of(case)
    if reach.carriage != "tcp":
        return reach.why
    if any(change.name in _OF_ORDER for change in case.changes):
        return "it depends on the order in which both sides send"
    plan = case.plan()
    own = [step.split() for step in plan.steps if isinstance(step, str)]
    if any(len(line) > 1 and line[0] in ("{by}", case.by) and line[1] == "stream" for line in own):
        return "it needs streaming data"
    return ""


def _cuts(plan: Exchange) -> dict[int, tuple[int, ...]]:
    """Return where a startup frame (0) and FPDUs (from 1) of a side are split into segments, if they are, by number."""
    if plan.setup.get("segmentation") is not None:
        return {}
    packets = plan.sent()
    (half,) = {packet.half for packet in packets if packet.half.role == plan.by}
    ends = {step.packet.end for step in script_of(packets, plan.by) if isinstance(step, Send)}
    units = [half.startup] if half.startup is not None else [(0, 0)]
    units += [(half.origin + one.offset, half.origin + one.end) for one in half.laid] if half.origin is not None else []
    found: dict[int, tuple[int, ...]] = {}
    for number, (first, last) in enumerate(units):
        inner = tuple(sorted(at - first for at in ends if first < at < last))
        if inner and last - first <= _SEGMENT:
            found[number] = inner
    return found


def _spoken(plan: Exchange) -> int:
    """Return how many FPDUs the side sends."""
    halves = {packet.half for packet in plan.sent() if packet.half.role == plan.by}
    return sum(len(half.laid) for half in halves)


class Broken:
    """The errors of one endpoint on one connection (``live.wrong.Wrong``).

    Args:
        case: that is committed.
        cuts: where units are cut in segments.
    """

    def __init__(self, case: Case, cuts: dict[int, tuple[int, ...]]) -> None:
        self._case = case
        self._cuts = dict(cuts)
        self._answers = WrongAnswers(case) if WrongAnswers.are_of(case) else None
        self._plan = case.plan()
        self._number = 0
        self._startup_length: int | None = None
        self._due = {
            number: changes for (role, number), changes in self._plan.fpdus.items() if role == case.by and number
        }
        self._always = self._plan.fpdus.get((case.by, 0), [])
        self._end = next((step.how for step in script_of(self._plan.sent(), case.by) if isinstance(step, Finish)), "")
        if not case.ends_by_itself:
            self._end = ""
        #: FPDUs of its own, answers left out; after which of them it ends the connection, where none is changed.
        self._own = 0
        self._last = _spoken(self._plan) if tuple(self._plan.steps) != self._plan.valid else 1
        self.ends = ""
        # What is said where peers agree on the peer-to-peer model has a ready-to-receive message, or lacks it.
        self.readies = case.baseline != "peer-to-peer"

    # --- startup ---

    def startup(self, octets: bytes, peer: StartupFrame | None) -> bytes:
        """The startup frame as the case changes it."""
        by, plan = self._case.by, self._plan
        frame = decode_startup_frame(octets)
        if frame is None:
            return octets
        frame = self._negotiated(frame, peer)
        for role, change in plan.startup:
            frame = change(frame) if role == by else frame
        octets = frame.encode()
        for role, alter in plan.octets:
            octets = alter(octets) if role == by else octets
        self._startup_length = len(octets)
        if not self._due and not self._says:
            self.ends = self._end
        return octets

    @property
    def _says(self) -> bool:
        return self._plan.steps != ["start"]

    def _negotiated(self, frame: StartupFrame, peer: StartupFrame | None) -> StartupFrame:
        """The frame with the fields that the case negotiates otherwise than its valid connection."""
        right, wrong = (
            self._frame(replace(self._case, changes=()), peer),
            self._frame(self._case, peer, only_setup=True),
        )
        if right is None or wrong is None:
            return frame
        changed = {name: getattr(wrong, name) for name in _FIELDS if getattr(wrong, name) != getattr(right, name)}
        private = frame.private_data
        if wrong.enhanced != right.enhanced:
            private = b"" if wrong.enhanced is None else wrong.enhanced.encode()
            private += frame.ulp_data
        elif wrong.private_data != right.private_data:
            private = wrong.private_data
        return frame._replace(**changed, private_data=private, pd_length=len(private))

    def _frame(self, case: Case, peer: StartupFrame | None, *, only_setup: bool = False) -> StartupFrame | None:
        """Return what a case negotiates with this peer; None if it cannot."""
        plan = plan_of(case, Clean())
        if only_setup:
            plan.startup, plan.octets = [], []
        if peer is not None:
            try:
                fit(plan, peer)
            except Unsupported:
                return None
        return Setup(**plan.setup).startup(case.by)

    # --- FPDUs ---

    def stream(self, *, markers: bool, crc: bool, origin: Origin) -> LaysFPDUs:
        """Return what lays FPDUs as the case does."""
        side = ROLES.index(self._case.by)
        setup = Setup(**self._plan.setup)
        told = setup.markers[side]
        markers = markers if told is None else bool(told)
        if setup.deviation[side]:
            start = self._startup_length or 0
            found = spoken(
                setup.deviation[side].split("+"), Dialect(markers, crc, origin), Bases(start + 1, self._startup_length)
            )
            if found is not None:
                return HalfStream(found.dialect)

        def alter(place: LaidFPDU, ulpdu: bytes, octets: bytes) -> bytes:
            return self._altered(SentFPDU(place.offset if markers else None, ulpdu, octets, crc, origin, None))

        return HalfStream(Dialect(markers, crc, origin), alter)

    def _altered(self, sent: SentFPDU) -> bytes:
        """The next FPDU, with the change that is due, if it has a place for it."""
        self._number += 1
        self._own += opcode_of(sent.ulpdu) != READ_RESPONSE
        if self._answers is not None and (answer := self._answers.octets(sent)) is not None:
            return answer
        number = min((one for one in self._due if one <= self._number), default=None)
        changes = self._always if number is None else self._due[number]
        try:
            octets = _changed(sent, changes)
        except IndexError:
            return sent.octets
        if number is not None and octets != sent.octets:
            del self._due[number]
            if not self._due:
                self.ends = self._end
        elif not self._due and self._own >= self._last:
            self.ends = self._end
        return octets

    # --- segments ---

    def pieces(self, octets: bytes) -> list[bytes]:
        """A startup frame or an FPDU, cut as the case cuts it."""
        inner = self._cuts.pop(self._number, ())
        places = [0, *(at for at in inner if at < len(octets)), len(octets)]
        return [octets[first:last] for first, last in pairwise(places) if last > first]


def _changed(sent: SentFPDU, changes: Iterable[FPDUChange]) -> bytes:
    for change in changes:
        sent = replace(sent, octets=change(sent))
    return sent.octets


def breakable(role: Role) -> list[str]:
    """The names of the cases that an endpoint in this role can commit."""
    from scapy_mpa.catalogue.table import CASES

    return [name for name, case in CASES.items() if case.by == role and not refusal(case)]
