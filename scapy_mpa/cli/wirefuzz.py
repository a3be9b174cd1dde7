"""``scapy-mpa fuzz --to`` and ``--listen``: the fuzzer against a live peer."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.output import STANDARD_OUTPUT, check_folder_of, check_junit, written
from scapy_mpa.cli.settling import GONE
from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.draw import MOST_CASES
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.framing.role import Role
    from scapy_mpa.fuzz.run import Fuzzer
    from scapy_mpa.probe.fuzzing import WireCase, WireFuzzer, WireResult

#: Seconds for an Initiator to connect, and for a peer to come back.
_PATIENCE = 10.0
#: This many cases may be left out for each that is given.
_MOST_LEFT_OUT = 20


@dataclass(frozen=True)
class OnTheWire:
    """Whom cases are given to, and how.

    ``to`` and ``listens`` name the peer; times are seconds; ``replays``: it is one case, named by its number;
    ``script`` is where that is written as a program.
    """

    to: str | None
    listens: str | None
    command: str | None
    restart: str | None
    timeout: float
    settle: float
    boot: float
    recovery: float
    duration: float | None
    minimizes: bool
    replays: bool = False
    script: str | None = None
    monitor: str | None = None
    rping: bool = False
    junit: str | None = None
    expected: str | None = None

    @property
    def is_wanted(self) -> bool:
        """True if there is a live peer."""
        return self.to is not None or self.listens is not None

    def complaint(self) -> str | None:
        """Return which options cannot be combined, None if all can."""
        if self.script is not None and not self.replays:
            return "--script writes one case: name it with --replay"
        if not self.is_wanted:
            others = {"--run": self.command, "--restart": self.restart, "--duration": self.duration}
            others |= {"--monitor": self.monitor, "--junit": self.junit, "--expected": self.expected}
            strange = [name for name, value in others.items() if value is not None]
            strange += ["--minimize"] * self.minimizes
            strange += ["--boot"] * bool(self.boot)
            strange += ["--ulp"] * (self.rping and self.script is None)
            return f"{strange[0]} is only for a live peer: name the peer with --to or --listen" if strange else None
        if self.to is not None and self.listens is not None:
            return "--to names a Responder and --listen waits for an Initiator: give only one of them"
        if self.minimizes and self.restart is None:
            return "--minimize kills the peer repeatedly: it needs --restart to bring it back"
        return None


def fuzz_peer(wire: OnTheWire, fuzzer: Fuzzer, numbers: range, folder: str | None) -> int:
    """Give cases to the peer, a JSON line each; returns the exit status."""
    from scapy_mpa.cli.probe import target_of
    from scapy_mpa.framing.startup import EnhancedData
    from scapy_mpa.probe.exchange import Terms
    from scapy_mpa.probe.fitting import Clean
    from scapy_mpa.probe.fuzzing import WireFuzzer
    from scapy_mpa.probe.monitor import Monitor

    if wire.script is not None:
        check_folder_of(wire.script)
    if wire.junit is not None:
        check_junit(wire.junit)
    with ExitStack() as stack:
        where = (wire.to,) if wire.to is not None else ()
        target, _ = target_of(
            stack, where, wire.listens, wire.command, wire.restart, wire.timeout, _PATIENCE, boot=wire.boot
        )
        monitor = Monitor(wire.monitor, _PATIENCE) if wire.monitor is not None else None
        # As rping's client does: without, its server on siw may not read, and ends the clean connections.
        clean = Clean(enhanced=EnhancedData(ird=1, ord=1)) if wire.rping else Clean()
        terms = Terms(wire.timeout, clean, rping=wire.rping, settle=wire.settle)
        run = WireFuzzer(target, fuzzer, terms, recovery=wire.recovery, monitor=monitor)
        remark = run.begin()
        if remark:
            print_line(f"scapy-mpa: {printable(remark)}", err=True)
        return _Giving(run, wire, folder).all(numbers)


def write_program(wire: OnTheWire, fuzzer: Fuzzer, number: int) -> int:
    """Write a case as a program that sends it to a Responder which asks for no Markers; returns the exit status."""
    from scapy_mpa.probe.fuzzing import wire_case

    case = wire_case(fuzzer.recipe(number), "initiator", markers=False, rping=wire.rping)
    if not case.done and fuzzer.most:
        raise _unchanged(number, "initiator")
    _write_program(wire, case, "initiator")
    return 0


def _unchanged(number: int, by: Role) -> MPAError:
    """Return the error for a requested case that does not differ from the connection it starts from."""
    return MPAError(f"case {number} changes nothing in what the {by.capitalize()} sends: --replay with another number")


def _write_program(wire: OnTheWire, case: WireCase, by: Role) -> None:
    """Write a case as a program, where that was asked for."""
    from scapy_mpa.probe.reproducer import SentOctets, message_acts, reproducer

    if wire.script is None:
        return
    recipe = case.recipe
    acts = message_acts((SentOctets(one.octets, one.name) for one in case.messages if one.octets), by)
    title = f"Case {recipe.case} of seed {recipe.seed}, from {recipe.source}."
    text = reproducer(title, [f"{one.name}: {one.what}." for one in case.done], by, acts, wire.timeout)
    with written(wire.script) as file:
        file.write(text.encode())
    if wire.script != STANDARD_OUTPUT:
        # Standard output has the lines.
        print_line(f"{printable(wire.script)}: sends case {recipe.case} to HOST PORT", err=wire.is_wanted)


def _on_from(numbers: range) -> range:
    """These numbers, and those after them for cases that are left out."""
    return range(numbers.start, min(numbers.stop + _MOST_LEFT_OUT * len(numbers), MOST_CASES))


class _Giving:
    """Gives cases and reports them."""

    def __init__(self, run: WireFuzzer, wire: OnTheWire, folder: str | None) -> None:
        self._run = run
        self._wire = wire
        self._folder = folder
        self._count = self._new = self._lost = self._unchanged = self._not_given = 0
        from scapy_mpa.probe.choice import lines_of

        self._known = lines_of(wire.expected) if wire.expected is not None else frozenset()
        self._results: list[WireResult] = []
        #: Hits that are not known, each with how often it occurred.
        self._hits: Counter[str] = Counter()

    def all(self, numbers: range) -> int:
        """So many, from the first on, as long as there is time and the peer is there.

        Cases in which nothing changes that this side says are left out, and others given for them.
        """
        until = time.monotonic() + self._wire.duration if self._wire.duration is not None else None
        for number in numbers if self._wire.replays else _on_from(numbers):
            if self._count == len(numbers) or (until is not None and time.monotonic() >= until):
                break
            case = self._run.case(number)
            if not case.done and not self._run.is_valid_wanted:
                if self._wire.replays:
                    raise _unchanged(number, self._run.by)
                self._unchanged += 1
                continue
            result = self._run.give(case)
            _write_program(self._wire, result.case, self._run.by)
            self._not_given += not result.is_given
            self._tell(result)
            is_back = not result.is_gone or self._run.come_back()
            if is_back and result.is_gone and self._wire.minimizes:
                result, is_back = self._minimized(result)
            self._count_hit(result)
            if not is_back:
                break
        said = f"{plural(self._count, 'case')}, {self._new} with new answers"
        said += f", {self._lost} after which the peer was gone"
        if self._not_given:
            said += f", {self._not_given} not sent because there was no connection"
        if self._unchanged:
            said += f"; {plural(self._unchanged, 'case')} left out because they change nothing in what this side sends"
        if self._hits:
            said += f"; {plural(len(self._hits), 'hit')}: {', '.join(map(printable, self._hits))}"
        print_line(f"scapy-mpa: {said}", err=True)
        if self._wire.junit is not None:
            from scapy_mpa.probe.told import junit_of_hits

            with written(self._wire.junit) as file:
                file.write(junit_of_hits(self._results, self._known))
        is_gone = any(one.is_gone and one.hit not in self._known for one in self._results)
        return GONE if is_gone else int(bool(self._hits))

    def _tell(self, result: WireResult) -> None:
        self._count += 1
        self._new += result.is_new
        self._lost += result.is_gone
        self._line(result.as_dict())
        if self._folder is not None and (result.is_new or result.hit):
            name = f"case-{result.case.number:06}{'-gone' if result.is_gone else '-hit' if result.hit else ''}.pcapng"
            with written(os.path.join(self._folder, name)) as file:
                file.write(result.capture)

    def _count_hit(self, result: WireResult) -> None:
        """Count what is wrong with the peer under its cause."""
        if result.hit and result.hit not in self._known:
            self._hits[result.hit] += 1
        self._results.append(replace(result, capture=b""))

    def _minimized(self, result: WireResult) -> tuple[WireResult, bool]:
        """The result with what of its case kills the peer; whether the peer is there again."""
        try:
            smaller, again = self._run.smaller(result.case)
            _write_program(self._wire, smaller, self._run.by)
        except MPAError as error:
            print_line(f"scapy-mpa: {printable(str(error))}", err=True)
            return result, False
        result = replace(result, case=smaller)
        self._line(
            {
                "minimized": smaller.number,
                "again": again,
                "mutations": [name for name, _ in smaller.recipe.mutations],
                "messages": [{"name": one.name, "octets": one.octets.hex()} for one in smaller.messages],
                "hit": result.hit,
            }
        )
        return result, True

    @staticmethod
    def _line(values: dict[str, object]) -> None:
        click.echo(json.dumps(values))
        sys.stdout.flush()
